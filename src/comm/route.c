/* route.c: which way sums take between the machines of a job, and whether they are packed.
 *
 * The way follows from the size of a bucket and the number of machines, so that all machines choose alike. Packing
 * takes 2 to 3 ns per number and saves 3 to 4 of its 8 bytes: on a network that pays, in the memory of one computer
 * (devices that are machines of their own, containers) it does not.
 */
#include "comm/comm_internal.h"

#include <string.h>

/* Ways to sum over the machines, the preferred one first; the last suits everything. */
static const struct ls__sum_way *const ways[] = {&ls__sum_doubling, &ls__sum_ring};
enum { N_WAYS = sizeof ways / sizeof *ways };

const struct ls__sum_way *ls__sum_way(int64_t n, int n_machines, bool is_near, const struct ls__sum_way *forced)
{
    if (forced) return forced;
    for (int i = 0; i < N_WAYS - 1; i++)
        if (ways[i]->suits(n, n_machines, is_near)) return ways[i];
    return ways[N_WAYS - 1];
}

static const struct ls__sum_way *way_named(const char *name)
{
    for (int i = 0; name && i < N_WAYS; i++)
        if (strcmp(name, ways[i]->name) == 0) return ways[i];
    return NULL;
}

/* Of machine 0, which in no way does less than another. */
struct ls_comm_route ls_comm_route(int64_t n, int n_machines, bool is_near, const char *name)
{
    const struct ls__sum_way *way = ls__sum_way(n, n_machines, is_near, way_named(name));
    struct ls_comm_route r = {.way = way->name, .chunk = way->chunk(n, n_machines, is_near)};
    const int64_t one = r.chunk < n ? r.chunk : n;
    int64_t sent = 0;
    r.n_hops = way->n_hops(one, 0, n_machines);
    for (int i = 0; i < r.n_hops; i++) {
        const struct ls__sum_hop h = way->hop(one, 0, n_machines, i);
        const int64_t out = h.out_end - h.out_begin, in = h.in_end - h.in_begin;
        sent += out > in ? out : in;
    }
    r.volume = one > 0 ? (double)sent / (double)one : 0;
    return r;
}

bool ls_comm_is_near(const struct ls_comm *c)
{
    return c->is_raw;
}

/* LOCKSTEP_SUMS, for tests and measurements: one word, or two with a space between them. */
static enum ls_status take_wish(struct ls_comm *c, char *wish)
{
    char *rest = wish;
    for (char *word; (word = strsep(&rest, " ")) && *word;) {
        const struct ls__sum_way *found = way_named(word);
        bool is_raw = strcmp(word, "raw") == 0;
        if (!found && !is_raw && strcmp(word, "packed") != 0)
            return ls_fail(LS_USAGE, "LOCKSTEP_SUMS: '%s' is not one of ring, doubling, raw, packed", word);
        if (found)
            c->way = found;
        else
            c->is_raw = is_raw;
    }
    return LS_OK;
}

enum ls_status ls__route_choose(struct ls_comm *c)
{
    const struct peer *first = &c->peers[0];
    char wish[sizeof first->sums];
    c->is_raw = true;
    for (int m = 1; m < c->place.n_machines; m++) {
        const struct peer *p = &c->peers[c->leaders[m]];
        c->is_raw &= strcmp(p->computer, first->computer) == 0 && p->network == first->network && *p->computer;
    }
    memcpy(wish, first->sums, sizeof wish);
    wish[sizeof wish - 1] = '\0';
    return take_wish(c, wish);
}
