/* clocks.c: how far the clocks of the machines are apart, by Cristian's way.
 *
 * CLOCK_MONOTONIC counts from when a machine was started, so two machines' have nothing in common. The leader of each
 * machine asks machine 0's what its clock says, several times; of these the quickest answer counts: what the other
 * clock said, it said between question and answer, so half the round trip is the most that it can be wrong by. The
 * machines ask one after the other: a question that waits behind another's would only be a slow one.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

#include <stdlib.h>

enum { QUESTIONS = 16 };

static enum ls_status answer(struct ls_comm *c, int who)
{
    for (int i = 0; i < QUESTIONS; i++) {
        int64_t word;
        TRY(ls__link_receive(c, &word, sizeof word, who, TAG_PROBE, c->timeout));
        word = ls__now_ns();
        TRY(ls__link_send(c, &word, sizeof word, who, TAG_PROBE, c->timeout));
    }
    return LS_OK;
}

static enum ls_status ask(struct ls_comm *c, int who, struct ls_comm_clock *out)
{
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < QUESTIONS; i++) {
        int64_t asked = ls__now_ns(), theirs = 0;
        TRY(ls__link_send(c, &asked, sizeof asked, who, TAG_PROBE, c->timeout));
        TRY(ls__link_receive(c, &theirs, sizeof theirs, who, TAG_PROBE, c->timeout));
        int64_t trip = ls__now_ns() - asked;
        if (trip >= shortest) continue;
        shortest = trip;
        *out = (struct ls_comm_clock){.offset_ns = theirs - (asked + trip / 2), .error_ns = trip / 2};
    }
    return LS_OK;
}

static enum ls_status compare(struct ls_comm *c, void *arg)
{
    if (c->place.machine > 0) return ask(c, c->leaders[0], arg);
    for (int m = 1; m < c->place.n_machines; m++) TRY(answer(c, c->leaders[m]));
    return LS_OK;
}

enum ls_status ls_comm_clock(struct ls_comm *c, struct ls_comm_clock *clock)
{
    *clock = (struct ls_comm_clock){0};
    if (c->place.n_machines == 1) return LS_OK;
    if (c->place.local_rank == 0) TRY(ls__comm_thread_call(c, compare, clock));
    struct ls_comm_clock *all; /* by rank; a machine's is its leader's */
    const size_t n = (size_t)c->place.n_ranks;
    TRY(ls__calloc(&all, n, sizeof *all));
    enum ls_status status = ls_comm_gather(c, clock, sizeof *clock, all);
    if (status == LS_OK) status = ls_comm_broadcast(c, 0, all, n * sizeof *all);
    *clock = all[c->leaders[c->place.machine]];
    free(all);
    return status;
}
