/* ledger.c: see ledger.h. Leases are a list in the order in which they were given; it is as short as there is work
 * under way, so everything but begin looks through it.
 */
#include "elastic/ledger.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum state { FREE, OPEN, DONE };

struct lease {
    int item, worker;
    int64_t version; /* of the parameters */
    bool is_second;
    bool is_named; /* by the push that is looked at */
};

struct ls_ledger {
    int64_t bound, version;
    unsigned char *states; /* [n_items] */
    int n_items, n_free, n_open;
    int first_free; /* no item before it is free */
    struct lease *leases;
    int n_leases; /* room for two of every item */
};

enum ls_status ls__ledger_create(struct ls_ledger **out, int64_t bound)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->bound = bound;
    return LS_OK;
}

void ls__ledger_destroy(struct ls_ledger **ledger)
{
    if (!*ledger) return;
    free((*ledger)->states);
    free((*ledger)->leases);
    free(*ledger);
    *ledger = NULL;
}

enum ls_status ls__ledger_begin(struct ls_ledger *l, int n_items, const unsigned char *done)
{
    if (l->n_leases > 0) return ls_fail(LS_INTERNAL, "a round begins while %d items are open", l->n_open);
    if (n_items > l->n_items || !l->states) {
        free(l->states);
        free(l->leases);
        l->states = NULL;
        l->leases = NULL;
        TRY(ls__calloc(&l->states, (size_t)n_items, 1));
        TRY(ls__calloc(&l->leases, 2 * (size_t)n_items, sizeof *l->leases));
    }
    l->n_items = n_items;
    l->n_free = l->first_free = 0;
    for (int i = 0; i < n_items; i++) {
        l->states[i] = done && done[i] ? DONE : FREE;
        l->n_free += l->states[i] == FREE;
    }
    return LS_OK;
}

/* Whether `more` items can go out with these parameters, and none under way can become staler than the bound. */
static bool is_within_bound(const struct ls_ledger *l, int more, int64_t version)
{
    const int64_t others = l->n_open + more - 1;
    if (l->bound < 0) return true;
    if (l->version - version + others > l->bound) return false;
    for (int i = 0; i < l->n_leases; i++)
        if (l->version - l->leases[i].version + others > l->bound) return false;
    return true;
}

static void lease(struct ls_ledger *l, int item, int worker, int64_t version, bool is_second)
{
    l->leases[l->n_leases++] =
        (struct lease){.item = item, .worker = worker, .version = version, .is_second = is_second};
}

int ls__ledger_take(struct ls_ledger *l, int worker, int most, int64_t version, int *items)
{
    int n = 0;
    for (; n < most && l->n_free > 0 && is_within_bound(l, 1, version); n++) {
        while (l->states[l->first_free] != FREE) l->first_free++;
        items[n] = l->first_free;
        l->states[l->first_free] = OPEN;
        l->n_free--;
        l->n_open++;
        lease(l, items[n], worker, version, false);
    }
    return n;
}

static bool is_out_twice(const struct ls_ledger *l, int item)
{
    for (int i = 0; i < l->n_leases; i++)
        if (l->leases[i].item == item && l->leases[i].is_second) return true;
    return false;
}

/* Workers that do what others do too. */
static int n_helpers(const struct ls_ledger *l)
{
    int n = 0;
    for (int i = 0; i < l->n_leases; i++) {
        bool is_first = l->leases[i].is_second;
        for (int k = 0; k < i && is_first; k++)
            is_first = !(l->leases[k].is_second && l->leases[k].worker == l->leases[i].worker);
        n += is_first;
    }
    return n;
}

/* Who has had something open for longest that nobody does a second time; -1: nobody. */
static int slowest(const struct ls_ledger *l, int but)
{
    for (int i = 0; i < l->n_leases; i++) {
        const struct lease *one = &l->leases[i];
        if (one->worker != but && !one->is_second && !is_out_twice(l, one->item)) return one->worker;
    }
    return -1;
}

int ls__ledger_take_second(struct ls_ledger *l, int worker, int n_seconds, int64_t version, int *items)
{
    const int n_leases = l->n_leases;
    int n = 0;
    if (l->n_free > 0 || ls__ledger_n_open(l, worker) > 0 || n_helpers(l) >= n_seconds) return 0;
    const int who = slowest(l, worker);
    if (who < 0) return 0;
    for (int i = 0; i < n_leases; i++) {
        const struct lease *one = &l->leases[i];
        if (one->worker != who || one->is_second || is_out_twice(l, one->item)) continue;
        items[n++] = one->item;
        lease(l, one->item, worker, version, true);
    }
    return n;
}

/* Takes leases away: those of a worker (or -1), of an item (or -1). */
static void end_leases(struct ls_ledger *l, int worker, int item)
{
    int n = 0;
    for (int i = 0; i < l->n_leases; i++) {
        const struct lease *one = &l->leases[i];
        bool is_it = (worker < 0 || one->worker == worker) && (item < 0 || one->item == item);
        if (!is_it) l->leases[n++] = *one;
    }
    l->n_leases = n;
}

static bool is_leased(const struct ls_ledger *l, int item)
{
    for (int i = 0; i < l->n_leases; i++)
        if (l->leases[i].item == item) return true;
    return false;
}

int ls__ledger_drop(struct ls_ledger *l, int worker)
{
    int n_freed = 0;
    for (int i = 0; i < l->n_leases;) {
        const int item = l->leases[i].item;
        if (l->leases[i].worker != worker) {
            i++;
            continue;
        }
        end_leases(l, worker, item); /* the list moves up: the same place again */
        if (is_leased(l, item)) continue;
        l->states[item] = FREE;
        l->n_free++;
        l->n_open--;
        n_freed++;
        if (item < l->first_free) l->first_free = item;
    }
    return n_freed;
}

/* Whether the push names exactly what its worker has open. */
static bool is_whole(struct ls_ledger *l, int worker, const int *items, int n)
{
    int n_named = 0;
    for (int i = 0; i < l->n_leases; i++) l->leases[i].is_named = false;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < l->n_leases; i++) {
            struct lease *one = &l->leases[i];
            if (one->worker != worker || one->item != items[k] || one->is_named) continue;
            one->is_named = true;
            n_named++;
        }
    return n > 0 && n_named == n && n == ls__ledger_n_open(l, worker);
}

bool ls__ledger_holds(struct ls_ledger *l, int worker, const int *items, int n)
{
    return is_whole(l, worker, items, n);
}

bool ls__ledger_complete(struct ls_ledger *l, int worker, const int *items, int n, int64_t *staleness)
{
    if (!is_whole(l, worker, items, n)) {
        ls__ledger_drop(l, worker);
        return false;
    }
    int64_t stalest = 0;
    for (int i = 0; i < l->n_leases; i++)
        if (l->leases[i].worker == worker && l->version - l->leases[i].version > stalest)
            stalest = l->version - l->leases[i].version;
    for (int k = 0; k < n; k++) {
        end_leases(l, -1, items[k]);
        l->states[items[k]] = DONE;
        l->n_open--;
    }
    l->version++;
    if (staleness) *staleness = stalest;
    return true;
}

int64_t ls__ledger_version(const struct ls_ledger *l)
{
    return l->version;
}

int ls__ledger_n_free(const struct ls_ledger *l)
{
    return l->n_free;
}

int ls__ledger_n_open(const struct ls_ledger *l, int worker)
{
    int n = 0;
    if (worker < 0) return l->n_open;
    for (int i = 0; i < l->n_leases; i++) n += l->leases[i].worker == worker;
    return n;
}

bool ls__ledger_is_done(const struct ls_ledger *l)
{
    return l->n_free == 0 && l->n_open == 0;
}
