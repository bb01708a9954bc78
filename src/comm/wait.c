/* wait.c: how the communication thread waits for messages: on a core of its own if one is free, else out of the way.
 *
 * MPI cannot be slept on, so who waits for a message looks again and again. Without a pause that costs a core, with
 * one up to a pause per message, and a sum is a chain of messages. A core is free
 *
 *     always                             if all threads that compute on this computer, and all communication threads,
 *                                        have one: threads + talkers <= cores
 *     while a thread waits for the sum   if those that compute have one each: threads <= cores. The waiting one sleeps
 * in the kernel, and the communication thread looks in its place
 *
 * Where cores are taken and somebody waits, whoever else can run goes first (sched_yield) between two looks; where
 * nobody waits, and after a while in any case, the communication thread naps, for a small part of what it has waited
 * already. Threads and cores are those of all ranks that may run on the CPUs of this one, whether they count as
 * machines of their own or not; what other programs run on the computer is not known.
 * docs/decisions/0016-waiting.md has the measurements.
 */
#include "comm/comm_internal.h"

#include "base/clock.h"

#include <sched.h>
#include <string.h>
#include <time.h>

enum { MASK_WORDS = sizeof((struct peer *)0)->cpus / sizeof(uint64_t) };
enum { FREE_NS = 2000000, CROWDED_NS = 100000, LEAST_NAP_NS = 20000, MOST_NAP_NS = 2000000, NAP_SHARE = 16 };

static bool is_neighbour(const struct peer *a, const struct peer *b)
{
    bool is_common = false;
    for (int i = 0; i < MASK_WORDS; i++) is_common |= (a->cpus[i] & b->cpus[i]) != 0;
    return is_common && strcmp(a->computer, b->computer) == 0;
}

void ls__wait_count(struct ls_comm *c, const int32_t *n_threads)
{
    const struct peer *me = &c->peers[c->place.rank];
    uint64_t cpus[MASK_WORDS] = {0};
    int64_t n_cores = 0, n_computing = 0, n_talking = 0;
    for (int r = 0; r < c->place.n_ranks; r++) {
        const struct peer *p = &c->peers[r];
        if (!is_neighbour(p, me)) continue;
        n_computing += n_threads ? n_threads[r] : 1;
        n_talking += p->local_rank == 0;
        for (int i = 0; i < MASK_WORDS; i++) cpus[i] |= p->cpus[i];
    }
    for (int i = 0; i < MASK_WORDS; i++) n_cores += __builtin_popcountll(cpus[i]);
    atomic_store(&c->spare.has_core, n_computing + n_talking <= n_cores);
    atomic_store(&c->spare.has_waits, n_computing <= n_cores);
    atomic_store(&c->spare.n_turns, (int)(n_cores > 0 ? (n_computing + n_cores - 1) / n_cores : 1));
}

void ls__wait_a_little(struct ls_comm *c, int64_t waited_ns, bool is_awaited)
{
    bool is_free = atomic_load_explicit(&c->spare.has_core, memory_order_relaxed) ||
                   (is_awaited && atomic_load_explicit(&c->spare.has_waits, memory_order_relaxed));
    if (is_free && waited_ns < FREE_NS) return;
    if (is_awaited && waited_ns < CROWDED_NS * atomic_load_explicit(&c->spare.n_turns, memory_order_relaxed)) {
        sched_yield();
        return;
    }
    int64_t ns = waited_ns / NAP_SHARE;
    ns = ns < LEAST_NAP_NS ? LEAST_NAP_NS : ns > MOST_NAP_NS ? MOST_NAP_NS : ns;
    nanosleep(&(struct timespec){0, ns}, NULL);
}
