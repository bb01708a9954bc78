/* shelf.h: what a keeper has for workers: it holds the parts of pushes that come, until the chief says which count, and
 * gives its part of the newest parameters to whoever pulls it. A thread of its own listens, so parts come in while the
 * keeper updates.
 *
 *     TRY(ls__shelf_open(&shelf, address, key));                    workers may connect; nobody is answered yet
 *     ls__shelf_begin(shelf, session, n_sums);                      the chief's session: what names another is dropped
 *     TRY(ls__shelf_publish(shelf, &parameters, version, step));    ... of which the parts for this step are held
 *     if (ls__shelf_take(shelf, worker, number, &part)) ...         one of them
 *
 * Publishing drops what is held for earlier steps: nobody counted it.
 */
#ifndef LS_ELASTIC_SHELF_H
#define LS_ELASTIC_SHELF_H

#include "elastic/copies.h"
#include "elastic/sums.h"
#include "elastic/talk.h"
#include "wire/keys.h"

struct ls_shelf;

enum ls_status ls__shelf_open(struct ls_shelf **out, const char *address, const struct ls_wire_key *key) LS_MUST_CHECK;
void ls__shelf_close(struct ls_shelf **shelf);
const char *ls__shelf_address(const struct ls_shelf *s);

/* Forgets all of an earlier session. n_sums: of the keeper's range; bytes: of a copy of its parameters. */
enum ls_status ls__shelf_begin(struct ls_shelf *s, uint64_t session, int64_t n_sums, size_t bytes) LS_MUST_CHECK;
enum ls_status ls__shelf_publish(struct ls_shelf *s, const struct ls_parameters *parameters, int64_t version,
                                 int64_t step) LS_MUST_CHECK;

struct ls_shelf_part {
    enum ls_sums_form form;
    struct ls_wire_message message; /* whole sums of the range; the caller's */
};
/* False: there is none of that number. */
bool ls__shelf_take(struct ls_shelf *s, uint32_t worker, uint32_t number, struct ls_shelf_part *part);

/* Bytes from and to workers so far. */
void ls__shelf_stats(struct ls_shelf *s, uint64_t *sent, uint64_t *received);

#endif
