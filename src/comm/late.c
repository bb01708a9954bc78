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

static int rank_at(const struct ls_comm *c, int node, int seat)
{
    for (int r = 0; r < c->place.n_ranks; r++)
        if (c->peers[r].node == node && c->peers[r].seat == seat) return r;
    return -1;
}

enum ls_status ls__late_node(struct ls_comm *c, double seconds)
{
    const struct board *b = c->board;
    const struct seat *mine = &b->seats[c->place.seat];
    for (int i = 0; i < b->n_seats; i++) {
        const struct seat *s = &b->seats[i];
        if (i == c->place.seat) continue;
        char state = ls__process_state(atomic_load(&s->pid));
        bool is_dead = state == 0 || state == 'Z' || state == 'X';
        bool is_behind = atomic_load(&s->n_met) < atomic_load(&mine->n_met);
        if (!is_dead && (!is_behind || seconds <= 0)) continue;
        c->has_failed = true;
        if (is_dead)
            return ls_fail(LS_REMOTE, "rank %d on %s (pid %d) died at step %lld, %s", rank_at(c, c->place.node, i),
                           c->place.host, atomic_load(&s->pid), (long long)atomic_load(&s->step), s->what);
        return ls_fail(LS_TIMEOUT, "rank %d on %s (pid %d%s) did not get on for %.3g s: it is at step %lld, %s",
                       rank_at(c, c->place.node, i), c->place.host, atomic_load(&s->pid),
                       state == 'T' ? ", stopped" : "", seconds, (long long)atomic_load(&s->step), s->what);
    }
    return LS_OK;
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
    c->has_failed = true;
    double quiet = (double)(now - c->heard[silent].heard_ns) * 1e-9;
    bool is_silent = quiet > seconds / 2;
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
