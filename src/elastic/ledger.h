/* ledger.h: who has which piece of work, and which pieces are done. Pure bookkeeping: no clock, no socket, no thread.
 *
 * A round has n items: the shards of a step (ps), or the batches of an epoch (async, ssp:K). An item is
 *
 *     free ---take---> open (leased to one worker, or to two: take_second) ---complete---> done
 *       ^-------------------- drop, or a completion that is refused ----------'
 *
 * A worker completes everything it has open with one push, or nothing. So sums of several items travel as one, and
 *
 *   1. an item is done once, by one accepted push;
 *   2. a push is accepted only if it names exactly the items that are leased to its worker at that moment: what was
 *      taken away meanwhile (its lease ran out, a second worker was faster) makes the whole push void;
 *   3. after a refused push the worker has nothing: what nobody else has is free again.
 *
 * Staleness: the number of completions between the parameters an item was computed with and its own completion. With a
 * bound K an item is handed out only if no open item, this one included, could exceed K however the others end:
 *
 *     completions since its parameters + other open items <= K
 *
 * Completions and hand-outs keep that sum from growing beyond K: a completion moves one from the right to the left, a
 * hand-out is checked.
 */
#ifndef LS_ELASTIC_LEDGER_H
#define LS_ELASTIC_LEDGER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ls_ledger;

/* bound: of staleness; -1: none. */
enum ls_status ls__ledger_create(struct ls_ledger **out, int64_t bound) LS_MUST_CHECK;
void ls__ledger_destroy(struct ls_ledger **ledger);

/* A new round of n items, all free but those whose byte in `done` is set (NULL: none). Nothing may be open. */
enum ls_status ls__ledger_begin(struct ls_ledger *l, int n_items, const unsigned char *done) LS_MUST_CHECK;

/* Up to `most` free items for a worker, lowest first. version: completions that its parameters know of, at most
 * ls__ledger_version. How many; 0 also where the bound forbids more. */
int ls__ledger_take(struct ls_ledger *l, int worker, int most, int64_t version, int *items);
/* For a worker with nothing open, when nothing is free: all that another one has open, of whom it was taken first, a
 * second time. At most `n_seconds` workers' items are out twice. items has room for the round. */
int ls__ledger_take_second(struct ls_ledger *l, int worker, int n_seconds, int64_t version, int *items);
/* A push. Whether it counts; *staleness (may be NULL): the highest of its items. */
bool ls__ledger_complete(struct ls_ledger *l, int worker, const int *items, int n, int64_t *staleness);
/* Whether a push of these would count now. */
bool ls__ledger_holds(struct ls_ledger *l, int worker, const int *items, int n);
/* The worker is gone, or its lease ran out. How many items are free by that. */
int ls__ledger_drop(struct ls_ledger *l, int worker);

int64_t ls__ledger_version(const struct ls_ledger *l); /* completed pushes since it was created */
int ls__ledger_n_free(const struct ls_ledger *l);
int ls__ledger_n_open(const struct ls_ledger *l, int worker); /* of one; -1: of all, an item out twice counts once */
bool ls__ledger_is_done(const struct ls_ledger *l);

#endif
