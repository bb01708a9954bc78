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

static bool is_dead(char state)
{
    return state == 0 || state == 'Z' || state == 'X';
}

static int rank_at(const struct ls_comm *c, int node, int seat)
{
    for (int r = 0; r < c->place.n_ranks; r++)
        if (c->peers[r].node == node && c->peers[r].seat == seat) return r;
    return -1;
}

/* The seat to name: a dead one, else a stopped one, else one that is behind; -1: none. */
static int late_seat(struct ls_comm *c, bool is_over_time, char *its_state)
{
    const struct board *b = c->board;
    const unsigned met = atomic_load(&b->seats[c->place.seat].n_met);
    int late = -1;
    *its_state = 0;
    for (int i = 0; i < b->n_seats; i++) {
        int pid = atomic_load(&b->seats[i].pid);
        if (i == c->place.seat || pid == 0) continue; /* 0: not seated yet */
        char state = ls__process_state(pid);
        bool is_behind = atomic_load(&b->seats[i].n_met) < met;
        if (is_dead(state)) {
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
    for (int i = 0; i < c->board->n_seats; i++) {
        int pid = atomic_load(&c->board->seats[i].pid);
        if (i != c->place.seat && pid != 0 && is_dead(ls__process_state(pid))) return true;
    }
    return false;
}

enum ls_status ls__late_node(struct ls_comm *c, double seconds)
{
    char state;
    int seat = late_seat(c, seconds > 0, &state);
    if (seat < 0) return LS_OK;
    const struct seat *s = &c->board->seats[seat];
    c->has_failed = true;
    c->telling = TELL_SELF;
    if (is_dead(state))
        return ls_fail(LS_REMOTE, "rank %d on %s (pid %d) died at step %lld, %s", rank_at(c, c->place.node, seat),
                       c->place.host, atomic_load(&s->pid), (long long)atomic_load(&s->step), s->what);
    return ls_fail(LS_TIMEOUT, "rank %d on %s (pid %d%s) did not get on for %.3g s: it is at step %lld, %s",
                   rank_at(c, c->place.node, seat), c->place.host, atomic_load(&s->pid),
                   state == 'T' ? ", stopped" : "", seconds, (long long)atomic_load(&s->step), s->what);
}

/* Another node says why the job ends; no rank of this one does. */
static void leave_it_to_others(struct ls_comm *c)
{
    c->telling = TELL_NOTHING;
    atomic_store(&c->board->is_told, 1);
}

/* Whether another leader has said that it ends: its node knows why. */
static bool is_any_leaving(const struct ls_comm *c)
{
    for (int n = 0; n < c->place.n_nodes; n++)
        if (c->heard[n].last.is_leaving) return true;
    return false;
}

enum ls_status ls__late_peers(struct ls_comm *c, double seconds)
{
    int64_t now = ls__now_ns();
    int silent = -1, behind = -1;
    for (int n = 0; c->heard && n < c->place.n_nodes; n++) {
        if (n == c->place.node) continue;
        if (silent < 0 || c->heard[n].heard_ns < c->heard[silent].heard_ns) silent = n;
        if (behind < 0 || c->heard[n].last.step < c->heard[behind].last.step) behind = n;
    }
    if (silent < 0) return ls_fail(LS_INTERNAL, "nobody to wait for");
    double quiet = (double)(now - c->heard[silent].heard_ns) * 1e-9;
    bool is_silent = quiet > seconds / 2;
    if (!is_silent && seconds < c->timeout + 1) return LS_OK;
    c->has_failed = true;
    if (is_any_leaving(c)) leave_it_to_others(c);
    const struct heard *h = &c->heard[is_silent ? silent : behind];
    int rank = c->leaders[is_silent ? silent : behind];
    if (is_silent)
        return ls_fail(LS_TIMEOUT,
                       "rank %d on %s has been silent for %.3g s, last at step %lld, %s: it is stopped or dead, or the "
                       "network is cut",
                       rank, c->peers[rank].host, quiet, (long long)h->last.step, h->last.what);
    return ls_fail(LS_TIMEOUT, "rank %d on %s lives but did not get on for %.3g s: it is at step %lld, %s", rank,
                   c->peers[rank].host, seconds, (long long)h->last.step, h->last.what);
}

enum ls_status ls__late_ended(struct ls_comm *c)
{
    enum { ANSWER_NS = 500000000 };
    int silent = -1;
    bool is_lowest = true;
    if (!c->heard || !c->ended_ns || ls__now_ns() - c->ended_ns < ANSWER_NS) return LS_OK;
    for (int n = 0; n < c->place.n_nodes; n++) {
        if (n == c->place.node) continue;
        bool is_there = c->heard[n].heard_ns > c->ended_ns;
        if (!is_there) silent = n;
        if (is_there && n < c->place.node) is_lowest = false;
    }
    if (silent < 0) return LS_OK;
    const struct heard *h = &c->heard[silent];
    int rank = c->leaders[silent];
    c->has_failed = true;
    /* if that rank has neighbours, they saw it die */
    c->telling = TELL_SELF;
    if (!is_lowest || is_any_leaving(c) || rank_at(c, silent, 1) >= 0) leave_it_to_others(c);
    return ls_fail(LS_REMOTE, "rank %d on %s died or was cut off; it was last heard of at step %lld, %s", rank,
                   c->peers[rank].host, (long long)h->last.step, h->last.what);
}
