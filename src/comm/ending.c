/* ending.c: why the job ends, known to all ranks of all machines within a moment.
 *
 *     rank 3 fails: disk full                 rank 1 finds that rank 0 is gone
 *       ls_comm_end -> SURE                     late.c -> LIKELY
 *            \-> the machine's board <- every wait of the machine looks here (ls__ending_check)
 *                     \-> the leader's heartbeats -> the boards of the other machines -> their waits
 *
 * So a rank may leave at any point, between any two collectives, and nobody waits for it in vain: it goes through
 * ls_comm_end, which says why. What a rank says or knows of itself outweighs what others conclude from its silence; a
 * rank that leaves because of another one says so and is not taken for the cause. All end with the same status, and the
 * rank that found the cause is the one to tell it.
 */
#include "base/clock.h"
#include "comm/comm_internal.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void ls__lock_briefly(atomic_int *taken)
{
    int64_t start = 0;
    while (atomic_exchange_explicit(taken, 1, memory_order_acquire)) {
        sched_yield();
        if (!start) start = ls__now_ns();
        if (ls__seconds_since(start) > 1) return;
    }
}

/* --- on the board --- */

static bool is_better(const struct ls_comm *c, const struct ending *e, const struct ending *than)
{
    if (e->sureness != than->sureness) return e->sureness > than->sureness;
    /* of one machine the first: it may have told already */
    return c->peers[e->by].machine != c->peers[than->by].machine && e->by < than->by;
}

void ls__ending_post(struct ls_comm *c, const struct ending *e)
{
    struct board *b = c->board;
    if (!b || e->by < 0 || e->by >= c->place.n_ranks) return;
    ls__lock_briefly(&b->ending_lock);
    if (!atomic_load(&b->has_ending) || is_better(c, e, &b->ending)) {
        b->ending = *e;
        b->ending.message[COMM_MESSAGE - 1] = '\0';
        atomic_store(&b->has_ending, true);
    }
    atomic_store_explicit(&b->ending_lock, 0, memory_order_release);
    ls__futex_wake(&b->generation);
    ls__futex_wake(&b->summed_word);
}

bool ls__ending_read(const struct ls_comm *c, struct ending *e)
{
    struct board *b = c->board;
    if (!b || !atomic_load(&b->has_ending)) return false;
    ls__lock_briefly(&b->ending_lock);
    *e = b->ending;
    atomic_store_explicit(&b->ending_lock, 0, memory_order_release);
    return true;
}

enum ls_status ls__ending_check(struct ls_comm *c)
{
    struct ending e;
    if (!ls__ending_read(c, &e)) return LS_OK;
    c->has_failed = true;
    return ls_fail(LS_REMOTE, "%s", e.message);
}

enum ls_status ls__ending_found(struct ls_comm *c, enum sureness sureness, enum ls_status status)
{
    struct ending e = {.by = c->place.rank, .sureness = (int32_t)sureness, .status = (int32_t)status};
    snprintf(e.message, sizeof e.message, "%s", ls_error_message());
    c->has_failed = true;
    ls__ending_post(c, &e);
    return status;
}

/* --- the end --- */

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* This rank's own trouble, in words for all. The chief speaks for the job; so does a failure that its whole machine has
 * met with. */
static enum ls_status post_own(struct ls_comm *c, enum ls_status status)
{
    const struct board *b = c->board;
    bool is_all = c->place.n_machines == 1 && b->outcome.status == status;
    if (c->place.rank > 0 && !(is_all && strcmp(b->outcome.message, ls_error_message()) == 0))
        status = ls_fail_in(status, "rank %d on %s", c->place.rank, c->place.host);
    return ls__ending_found(c, ENDING_SURE, status);
}

/* Somebody else has failed, and will say why. */
static void await_ending(struct ls_comm *c)
{
    enum { MOST_MS = 2000, STEP_MS = 5 };
    for (int ms = 0; ms < MOST_MS && !atomic_load(&c->board->has_ending); ms += STEP_MS) pause_ms(STEP_MS);
}

static bool is_ended(const struct ls_comm *c)
{
    return c->is_ended && c->is_ended(c->is_ended_context);
}

static bool is_leader_dead(const struct ls_comm *c)
{
    return c->place.local_rank > 0 && ls__late_is_dead(ls__process_state(atomic_load(&c->board->ranks[0].pid)));
}

/* Other machines hear of it, and may know better. False: another rank has told meanwhile and left, by which the
 * launcher ends the rest. */
static bool settle(struct ls_comm *c)
{
    enum { STEP_MS = 10, ROUNDS = 3 };
    static const int least_ms[] = {[ENDING_GUESSED] = 1000, [ENDING_LIKELY] = 300, [ENDING_SURE] = 100},
                     most_ms[] = {[ENDING_GUESSED] = 1500, [ENDING_LIKELY] = 600, [ENDING_SURE] = 500};
    bool was_ended = is_ended(c);
    struct ending e;
    for (int ms = 0; ls__ending_read(c, &e) && e.sureness != ENDING_AGREED; ms += STEP_MS) {
        bool is_mute = c->place.n_machines == 1 || is_leader_dead(c); /* nobody else hears of it */
        bool is_out = is_mute || atomic_load(&c->board->n_spread) >= ROUNDS;
        if (is_mute && e.sureness == ENDING_SURE) return true;
        if (ms >= most_ms[e.sureness] || (is_out && ms >= least_ms[e.sureness])) return true;
        if (e.sureness < ENDING_SURE && !was_ended && is_ended(c)) return false;
        pause_ms(STEP_MS);
    }
    return true;
}

/* Some launchers kill all when the first one ends: the teller comes first. */
static void let_tell(struct ls_comm *c, int teller)
{
    enum { HERE_MS = 2000, THERE_MS = 500, STEP_MS = 5 };
    bool is_here = c->peers[teller].machine == c->place.machine;
    for (int ms = 0; ms < (is_here ? HERE_MS : THERE_MS) && !is_ended(c); ms += STEP_MS) {
        if (is_here && ls__late_is_dead(ls__process_state(c->peers[teller].pid))) return;
        pause_ms(STEP_MS);
    }
}

/* Whatever was going on when this rank left: all know why, and end alike. */
static enum ls_status end_in_failure(struct ls_comm *c, enum ls_status mine)
{
    struct ending e;
    bool is_others = mine == LS_REMOTE || mine == LS_TIMEOUT;
    c->has_failed = true;
    if (!is_others) mine = post_own(c, mine);
    if (is_others) await_ending(c);
    if (!atomic_load(&c->board->has_ending)) mine = ls__ending_found(c, ENDING_GUESSED, mine);
    bool is_heard = settle(c);
    if (!ls__ending_read(c, &e)) return mine;
    c->may_tell = is_heard && e.by == c->place.rank && !atomic_exchange(&c->board->is_told, true);
    if (!c->may_tell) let_tell(c, e.by);
    return ls_fail((enum ls_status)e.status, "%s", e.message);
}

enum ls_status ls_comm_end(struct ls_comm *c, enum ls_status mine)
{
    struct ls_kept own = ls__keep(mine);
    bool is_good = mine == LS_OK || mine == LS_INTERRUPTED;
    c->has_ended = true;
    c->may_tell = c->place.rank == 0;
    if (c->place.n_ranks == 1) return mine;
    enum ls_status all = is_good ? ls_comm_agree(c, LS_OK, "end") : mine;
    if (all != LS_OK) return end_in_failure(c, all);
    atomic_store(&c->board->ranks[c->place.local_rank].has_left, true);
    return ls__fail_again(&own);
}

/* Nodes that were started one by one have a terminal each. */
bool ls_comm_may_tell(const struct ls_comm *c)
{
    return c->may_tell || (c->transport && c->transport->is_lost);
}
