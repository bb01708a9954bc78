/* task.h: what a server trains, opened here: its options with this machine's own, the session, and the comparison of
 * all that decides the bits. For workers and keepers.
 */
#ifndef LS_ELASTIC_TASK_H
#define LS_ELASTIC_TASK_H

#include "elastic/contact.h"
#include "elastic/worker.h"
#include "session/session.h"

struct json_t;

/* Zeroed: nothing is open. */
struct ls_task {
    struct ls_contact_task told;
    struct json_t *options; /* texts of train lie in it */
    struct ls_train_options train;
    struct session s;
    bool is_open;
    struct ls_sum_split split;  /* of its sums among the servers */
    struct ls_sum_split pieces; /* of the first range on its way to its server; one where there are several servers */
};

/* Whether what is open is the same: a server that was started again gives it again. */
bool ls__task_is(const struct ls_task *t, const struct ls_contact_task *told);
/* Closes what is open and opens *told, which is taken over. LS_USAGE where this machine would compute something else:
 * the message says what differs. */
enum ls_status ls__task_open(struct ls_task *t, struct ls_contact_task *told,
                             const struct ls_worker_options *o) LS_MUST_CHECK;
void ls__task_close(struct ls_task *t); /* forgiving */

#endif
