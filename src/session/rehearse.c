/* rehearse.c: see rehearse.h. */
#include "session/rehearse.h"

#include "base/median.h"

enum { MAX_ROUNDS = 20 };

int ls__rehearse_count(const struct ls_exec_rehearsal *first, double seconds)
{
    const double took = first->pre_seconds + first->shard_seconds + first->join_seconds;
    const int n = took > seconds / MAX_ROUNDS ? (int)(seconds / took) : MAX_ROUNDS;
    return n >= 3 ? n : took < 1 ? 3 : 1;
}

enum ls_status ls__rehearse(struct session *s, const struct ls_exec_step *step, int n, struct ls_exec_rehearsal *r)
{
    double pre[MAX_ROUNDS] = {0}, shard[MAX_ROUNDS] = {0}, join[MAX_ROUNDS] = {0};
    if (n > MAX_ROUNDS) n = MAX_ROUNDS;
    for (int i = 0; i < n; i++) {
        if (i == n - 1) TRY(ls_exec_end_rehearsal(s->exec)); /* the last one's sums are weighed */
        s->store->version++; /* copies of parameters are made anew, as after an update */
        TRY(ls_exec_rehearse(s->exec, step, r));
        pre[i] = r->pre_seconds;
        shard[i] = r->shard_seconds;
        join[i] = r->join_seconds;
    }
    r->pre_seconds = ls__median(pre, n);
    r->shard_seconds = ls__median(shard, n);
    r->join_seconds = ls__median(join, n);
    return LS_OK;
}
