/* late.c: names the rank the others wait for: dead, stopped, silent or behind. */
#include "base/clock.h"
#include "comm/comm_internal.h"

#include <stdio.h>
#include <string.h>

char ls__process_state(pid_t pid)
{
    char path[32], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *after = strrchr(text, ')'); /* the name before it may hold anything */
    return after && after[1] == ' ' ? after[2] : 0;
}

bool ls__late_is_dead(char state)
{
    return state == 0 || state == 'Z' || state == 'X';
}

static int rank_at(const struct ls_comm *c, int machine, int local_rank)
{
    for (int r = 0; r < c->place.n_ranks; r++)
        if (c->peers[r].machine == machine && c->peers[r].local_rank == local_rank) return r;
    return -1;
}

/* The local_rank to name: a dead one, else a stopped one, else one that is behind; -1: none. */
static int late_rank(struct ls_comm *c, bool is_over_time, char *its_state)
{
    const struct board *b = c->board;
    const unsigned met = atomic_load(&b->ranks[c->place.local_rank].n_barriers);
    int late = -1;
    *its_state = 0;
    for (int i = 0; i < b->n_local; i++) {
        int pid = atomic_load(&b->ranks[i].pid);
        if (i == c->place.local_rank || pid == 0) continue; /* 0: not there yet */
        if (atomic_load(&b->ranks[i].has_left)) continue;   /* what it sent last may still be on its way */
        char state = ls__process_state(pid);
        bool is_behind = atomic_load(&b->ranks[i].n_barriers) < met;
        if (ls__late_is_dead(state)) {
            *its_state = state;
            return i;
        }
        if (!is_over_time || !is_behind || (late >= 0 && state != 'T')) continue;
        late = i;
        *its_state = state;
    }
    return late;
}

bool ls__late_is_any_dead(const struct ls_comm *c)
{
    for (int i = 0; i < c->board->n_local; i++) {
        int pid = atomic_load(&c->board->ranks[i].pid);
        if (i != c->place.local_rank && pid != 0 && ls__late_is_dead(ls__process_state(pid))) return true;
    }
    return false;
}

/* Where it is, by its own word. */
static void at_step(const struct board_rank *s, char out[96])
{
    char what[WHAT_BYTES];
    ls__board_rank_what(s, what);
    snprintf(out, 96, "step %lld, %s", (long long)atomic_load(&s->step), what);
}

enum ls_status ls__late_machine(struct ls_comm *c, double seconds)
{
    char state, at[96];
    TRY(ls__ending_check(c)); /* first: who has left because of it is not to blame */
    int local_rank = late_rank(c, seconds > 0, &state);
    if (local_rank < 0) return LS_OK;
    TRY(ls__ending_check(c)); /* it may have left while we looked */
    const struct board_rank *s = &c->board->ranks[local_rank];
    int rank = rank_at(c, c->place.machine, local_rank), pid = atomic_load(&s->pid);
    at_step(s, at);
    if (ls__late_is_dead(state))
        return ls__ending_found(c, ENDING_SURE,
                                ls_fail(LS_REMOTE, "rank %d on %s (pid %d) died at %s", rank, c->place.host, pid, at));
    return ls__ending_found(c, ENDING_SURE,
                            ls_fail(LS_TIMEOUT, "rank %d on %s (pid %d%s) did not get on for %.3g s: it is at %s", rank,
                                    c->place.host, pid, state == 'T' ? ", stopped" : "", seconds, at));
}

void ls__late_where(const struct ls_comm *c, int rank, char *out, size_t size)
{
    const struct peer *p = c->peers ? &c->peers[rank] : NULL;
    char at[96];
    *out = '\0';
    if (p && c->board && p->machine == c->place.machine) {
        const struct board_rank *s = &c->board->ranks[p->local_rank];
        const bool is_stopped = ls__process_state(atomic_load(&s->pid)) == 'T';
        at_step(s, at);
        snprintf(out, size, ": it is %sat %s", is_stopped ? "stopped " : "", at);
    } else if (p && c->heard && rank == c->leaders[p->machine]) {
        const struct heartbeat *last = &c->heard[p->machine].last;
        snprintf(out, size, ": it was last heard of at step %lld, %s", (long long)last->step, last->what);
    }
}

enum ls_status ls__late_peers(struct ls_comm *c, double seconds)
{
    int64_t now = ls__now_ns();
    int silent = -1, behind = -1;
    TRY(ls__ending_check(c));
    for (int n = 0; c->heard && n < c->place.n_machines; n++) {
        if (n == c->place.machine) continue;
        if (silent < 0 || c->heard[n].heard_ns < c->heard[silent].heard_ns) silent = n;
        if (behind < 0 || c->heard[n].last.step < c->heard[behind].last.step) behind = n;
    }
    if (silent < 0) return ls_fail(LS_INTERNAL, "nobody to wait for");
    double quiet = (double)(now - c->heard[silent].heard_ns) * 1e-9;
    bool is_silent = quiet > seconds / 2;
    if (!is_silent && seconds < c->timeout + 1) return LS_OK;
    int machine = is_silent ? silent : behind, rank = c->leaders[machine];
    const struct heartbeat *last = &c->heard[machine].last;
    if (is_silent)
        return ls__ending_found(
            c, rank_at(c, machine, 1) < 0 ? ENDING_LIKELY : ENDING_GUESSED, /* its neighbours know better */
            ls_fail(LS_TIMEOUT,
                    "rank %d on %s has been silent for %.3g s, last at step %lld, %s: it is stopped or dead, or the "
                    "network is cut",
                    rank, c->peers[rank].host, quiet, (long long)last->step, last->what));
    return ls__ending_found(c, ENDING_GUESSED,
                            ls_fail(LS_TIMEOUT,
                                    "rank %d on %s lives but did not get on for %.3g s: it is at step %lld, %s", rank,
                                    c->peers[rank].host, seconds, (long long)last->step, last->what));
}

/* Who tells that a leader is lost: its neighbours, who saw it die but cannot say so here, for a machine speaks through
 * its leader; else the lowest leader that lives. */
static int teller_of(const struct ls_comm *c, int lost)
{
    int neighbour = rank_at(c, lost, 1), n = 0;
    if (neighbour >= 0) return neighbour;
    while (n != c->place.machine && !c->heard[n].has_answered) n++;
    return c->leaders[n];
}

static enum ls_status leader_lost(struct ls_comm *c, int machine)
{
    const struct heartbeat *last = &c->heard[machine].last;
    int rank = c->leaders[machine];
    struct ending e = {.by = teller_of(c, machine), .sureness = ENDING_LIKELY, .status = LS_REMOTE};
    snprintf(e.message, sizeof e.message, "rank %d on %s died or was cut off; it was last heard of at step %lld, %s",
             rank, c->peers[rank].host, (long long)last->step, last->what);
    ls__ending_post(c, &e);
    return ls__ending_check(c);
}

bool ls__late_is_gone(const struct ls_comm *c, int machine)
{
    const struct peer *me = &c->peers[c->place.rank], *p = &c->peers[c->leaders[machine]];
    if (machine == c->place.machine || p->pids == 0 || p->pids != me->pids) return false;
    return strcmp(p->computer, me->computer) == 0 && ls__late_is_dead(ls__process_state(p->pid));
}

/* While the launcher ends everyone who is gone may have been ended. */
static bool is_found_dead(struct ls_comm *c, int machine)
{
    if (!ls__late_is_gone(c, machine)) return false;
    return !c->thread.ended_ns && !(c->is_ended && c->is_ended(c->is_ended_context));
}

/* Of the two that find it the lower one tells, so that one is left if the other is ended meanwhile; but nothing that
 * was known before, such as why it left, is overridden. */
static void post_death(struct ls_comm *c, int machine)
{
    const int rank = c->leaders[machine];
    const struct heartbeat *last = &c->heard[machine].last;
    struct ending e = {.by = c->place.rank, .sureness = ENDING_SURE, .status = LS_REMOTE}, known;
    int len = snprintf(e.message, sizeof e.message, "rank %d on %s (pid %d) died;", rank, c->peers[rank].host,
                       (int)c->peers[rank].pid);
    if (ls__ending_read(c, &known) && strncmp(known.message, e.message, (size_t)len) != 0) return;
    snprintf(e.message + len, sizeof e.message - (size_t)len, " it was last heard of at step %lld, %s",
             (long long)last->step, last->what);
    ls__ending_post(c, &e);
}

void ls__late_neighbours(struct ls_comm *c)
{
    const int n = c->place.n_machines, around[2] = {(c->place.machine + 1) % n, (c->place.machine + n - 1) % n};
    for (int i = 0; i < 2; i++) {
        struct heard *h = &c->heard[around[i]];
        if (h->last.step == 0) continue; /* at the start a rank may have left with a word that has not come yet */
        if (h->is_broken || h->last.is_last || !is_found_dead(c, around[i])) continue;
        h->is_broken = true; /* Open MPI ends who sends to it, and this rank is to tell */
        if (!ls__travel_sends_to(c, around[i])) post_death(c, around[i]); /* else the machine on its other side tells */
    }
}

static bool is_silent(const struct ls_comm *c, int machine)
{
    return machine != c->place.machine && !c->heard[machine].has_answered;
}

/* Silent machines that exchange with it in pairs (doubling.c): Open MPI ends a rank that sends to a dead one. */
static int n_silent_partners(const struct ls_comm *c, int machine)
{
    int n = 0;
    for (int distance = 1; distance < c->place.n_machines; distance *= 2)
        n += (machine ^ distance) < c->place.n_machines && is_silent(c, machine ^ distance);
    return n;
}

/* Whether of two silent machines `a` is the likelier to have died first. Among a power of two of machines it is the one
 * that more of the silent ones send to; else, and of equals, in the ring the last of silent neighbours: the one before
 * it was ended because it sent to it. */
static bool is_likelier(const struct ls_comm *c, int a, int b)
{
    const int n = c->place.n_machines;
    const bool is_even = (n & (n - 1)) == 0;
    const int partners = is_even ? n_silent_partners(c, a) - n_silent_partners(c, b) : 0;
    const bool is_a_last = !is_silent(c, (a + 1) % n), is_b_last = !is_silent(c, (b + 1) % n);
    if (partners != 0) return partners > 0;
    if (is_a_last != is_b_last) return is_a_last;
    return c->heard[a].heard_ns < c->heard[b].heard_ns;
}

/* Every rank that lives is ended by the launcher too, or asked by one that is, and says so; one that died before never
 * does. While more than one is missing it may be slow, and to name it would be a guess. */
static enum ls_status by_silence(struct ls_comm *c)
{
    const double enough = 0.4, most = 0.8; /* seconds; mpirun gives us one */
    int first = -1, n_silent = 0;
    if (!c->heard || !c->thread.ended_ns) return LS_OK;
    double waited = ls__seconds_since(c->thread.ended_ns);
    if (waited < enough) return LS_OK;
    TRY(ls__ending_check(c));
    for (int n = 0; n < c->place.n_machines; n++) {
        if (!is_silent(c, n)) continue;
        n_silent++;
        if (first < 0 || is_likelier(c, n, first)) first = n;
    }
    if (first < 0 || (n_silent > 1 && waited < most)) return LS_OK;
    return leader_lost(c, first);
}

/* Before the ranks know each other's machines. */
static enum ls_status lost_at_start(struct ls_comm *c)
{
    for (int r = 0; r < c->place.n_ranks; r++)
        if (r != c->place.rank && c->transport->is_lost(r))
            return ls_fail(LS_REMOTE, "rank %d died or was cut off while the job was starting", r);
    return LS_OK;
}

/* Where the transport itself tells who is gone. The ranks of its machine, and its own last word, know more: they have a
 * moment. A rank that is no leader hears of it on its board. */
static enum ls_status by_transport(struct ls_comm *c)
{
    const double enough = 0.3;
    if (!c->transport->is_lost) return LS_OK;
    if (!c->board) return lost_at_start(c);
    for (int n = 0; c->heard && n < c->place.n_machines; n++) {
        if (n == c->place.machine || !c->transport->is_lost(c->leaders[n]) || c->heard[n].last.is_last) continue;
        if (!c->thread.lost_ns) c->thread.lost_ns = ls__now_ns();
        TRY(ls__ending_check(c));
        return ls__seconds_since(c->thread.lost_ns) < enough ? LS_OK : leader_lost(c, n);
    }
    return LS_OK;
}

enum ls_status ls__late_ended(struct ls_comm *c)
{
    TRY(by_transport(c));
    return by_silence(c);
}
