/* test_ledger.c: the ledger of work against a slow, obvious model: a table of who has what. Random schedules of
 * hand-outs, pushes (right, partial, late, repeated, of others), deaths and second hand-outs; the bound of staleness.
 */
#include "elastic/ledger.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ITEMS = 24, MAX_WORKERS = 6 };

struct model {
    int n_items;
    bool has[MAX_WORKERS][MAX_ITEMS], is_second[MAX_WORKERS][MAX_ITEMS];
    int64_t since[MAX_WORKERS][MAX_ITEMS]; /* when it was taken, of a count of hand-outs */
    int64_t version_of[MAX_WORKERS][MAX_ITEMS];
    int n_done[MAX_ITEMS]; /* times */
    int64_t version, n_taken, bound;
};

static unsigned random_below(uint64_t *at, unsigned n)
{
    return ls__rng(42, LS_RNG_DATA, 0, 0, (*at)++).v[0] % n;
}

static int n_holders(const struct model *m, int item)
{
    int n = 0;
    for (int w = 0; w < MAX_WORKERS; w++) n += m->has[w][item];
    return n;
}

static int n_open(const struct model *m)
{
    int n = 0;
    for (int i = 0; i < m->n_items; i++) n += n_holders(m, i) > 0;
    return n;
}

static int n_of(const struct model *m, int w)
{
    int n = 0;
    for (int i = 0; i < m->n_items; i++) n += m->has[w][i];
    return n;
}

static int n_free(const struct model *m)
{
    int n = 0;
    for (int i = 0; i < m->n_items; i++) n += !m->n_done[i] && n_holders(m, i) == 0;
    return n;
}

/* Could anything that is open become staler than the bound, in the worst order? */
static bool may_exceed(const struct model *m)
{
    for (int w = 0; w < MAX_WORKERS; w++)
        for (int i = 0; i < m->n_items; i++)
            if (m->has[w][i] && m->version - m->version_of[w][i] + n_open(m) - 1 > m->bound) return true;
    return false;
}

static int model_take(struct model *m, int w, int most, int64_t version, int *items)
{
    int n = 0;
    for (int i = 0; i < m->n_items && n < most; i++) {
        if (m->n_done[i] || n_holders(m, i) > 0) continue;
        m->has[w][i] = true;
        m->is_second[w][i] = false;
        m->version_of[w][i] = version;
        if (m->bound >= 0 && may_exceed(m)) {
            m->has[w][i] = false;
            break;
        }
        m->since[w][i] = m->n_taken++;
        items[n++] = i;
    }
    return n;
}

static int model_take_second(struct model *m, int w, int n_seconds, int64_t version, int *items)
{
    int n_helpers = 0, who = -1, n = 0;
    int64_t first = INT64_MAX;
    for (int v = 0; v < MAX_WORKERS; v++) {
        bool helps = false;
        for (int i = 0; i < m->n_items; i++) {
            helps |= m->has[v][i] && m->is_second[v][i];
            if (v == w || !m->has[v][i] || m->is_second[v][i] || n_holders(m, i) > 1 || m->since[v][i] >= first)
                continue;
            first = m->since[v][i];
            who = v;
        }
        n_helpers += helps;
    }
    if (n_free(m) > 0 || n_of(m, w) > 0 || n_helpers >= n_seconds || who < 0) return 0;
    for (int i = 0; i < m->n_items; i++) {
        if (!m->has[who][i] || m->is_second[who][i] || n_holders(m, i) > 1) continue;
        m->has[w][i] = m->is_second[w][i] = true;
        m->version_of[w][i] = version;
        m->since[w][i] = m->n_taken++;
        items[n++] = i;
    }
    return n;
}

static void model_drop(struct model *m, int w)
{
    memset(m->has[w], 0, sizeof m->has[w]);
}

static bool model_complete(struct model *m, int w, const int *items, int n, int64_t *staleness)
{
    bool is_named[MAX_ITEMS] = {false}, is_right = n > 0;
    for (int k = 0; k < n; k++) {
        is_right = is_right && items[k] >= 0 && items[k] < m->n_items && !is_named[items[k]] && m->has[w][items[k]];
        if (is_right) is_named[items[k]] = true;
    }
    is_right = is_right && n == n_of(m, w);
    *staleness = 0;
    for (int k = 0; k < n && is_right; k++) {
        if (m->version - m->version_of[w][items[k]] > *staleness) *staleness = m->version - m->version_of[w][items[k]];
        m->n_done[items[k]]++;
    }
    for (int k = 0; k < n && is_right; k++)
        for (int v = 0; v < MAX_WORKERS; v++) m->has[v][items[k]] = false;
    if (is_right)
        m->version++;
    else
        model_drop(m, w);
    return is_right;
}

static int cmp(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void assert_same_items(int *a, int n, int *b, int m)
{
    assert_int_equal(n, m);
    qsort(a, (size_t)n, sizeof *a, cmp);
    qsort(b, (size_t)m, sizeof *b, cmp);
    for (int i = 0; i < n; i++) assert_int_equal(a[i], b[i]);
}

/* What a worker believes to have: what it was given since its last push. Deaths and wins of others are no news to it.
 */
struct belief {
    int items[4 * MAX_ITEMS];
    int n;
};

struct schedule {
    struct model m;
    struct ls_ledger *l;
    struct belief beliefs[MAX_WORKERS];
    uint64_t at;
    int n_seconds;
    int64_t n_refused, n_helped, stalest;
};

static void take(struct schedule *s, int w, bool is_second)
{
    int have[MAX_ITEMS], want[MAX_ITEMS], most = 1 + (int)random_below(&s->at, 4);
    int64_t version = s->m.version - (int64_t)random_below(&s->at, 3); /* parameters that are a little old */
    if (version < 0) version = 0;
    int n = is_second ? ls__ledger_take_second(s->l, w, s->n_seconds, version, have)
                      : ls__ledger_take(s->l, w, most, version, have);
    int k = is_second ? model_take_second(&s->m, w, s->n_seconds, version, want)
                      : model_take(&s->m, w, most, version, want);
    assert_same_items(have, n, want, k);
    struct belief *b = &s->beliefs[w];
    for (int i = 0; i < n && b->n < 4 * MAX_ITEMS; i++) b->items[b->n++] = have[i];
    s->n_helped += is_second && n > 0;
}

static void push(struct schedule *s, int w)
{
    struct belief *b = &s->beliefs[w];
    int64_t have, want;
    switch (random_below(&s->at, 12)) { /* dishonest ones */
    case 0:
        if (b->n > 0) b->n--;
        break;
    case 1:
        if (b->n > 0) b->items[b->n++] = b->items[0];
        break;
    case 2:
        b->items[b->n++] = (int)random_below(&s->at, MAX_ITEMS + 4) - 2;
        break;
    default:
        break;
    }
    bool is_accepted = ls__ledger_complete(s->l, w, b->items, b->n, &have);
    assert_int_equal(is_accepted, model_complete(&s->m, w, b->items, b->n, &want));
    if (is_accepted) assert_int_equal(have, want);
    if (is_accepted && have > s->stalest) s->stalest = have;
    s->n_refused += !is_accepted && b->n > 0;
    b->n = 0;
}

static void assert_same(const struct schedule *s)
{
    assert_int_equal(ls__ledger_n_free(s->l), n_free(&s->m));
    assert_int_equal(ls__ledger_n_open(s->l, -1), n_open(&s->m));
    for (int w = 0; w < MAX_WORKERS; w++) assert_int_equal(ls__ledger_n_open(s->l, w), n_of(&s->m, w));
    assert_int_equal(ls__ledger_is_done(s->l), n_free(&s->m) == 0 && n_open(&s->m) == 0);
    assert_int_equal(ls__ledger_version(s->l), s->m.version);
    for (int i = 0; i < s->m.n_items; i++) assert_in_range(s->m.n_done[i], 0, 1);
}

static void round_of_work(struct schedule *s)
{
    unsigned char done[MAX_ITEMS];
    memset(s->m.has, 0, sizeof s->m.has);
    s->m.n_items = 1 + (int)random_below(&s->at, MAX_ITEMS);
    for (int i = 0; i < s->m.n_items; i++) s->m.n_done[i] = done[i] = random_below(&s->at, 5) == 0;
    assert_int_equal(ls__ledger_begin(s->l, s->m.n_items, done), LS_OK);
    for (int i = 0; !ls__ledger_is_done(s->l); i++) {
        assert_in_range(i, 0, 100000); /* it ends */
        int w = (int)random_below(&s->at, MAX_WORKERS);
        unsigned what = random_below(&s->at, 20);
        if (what == 0) { /* a death; it believes on and may push later */
            ls__ledger_drop(s->l, w);
            model_drop(&s->m, w);
            if (random_below(&s->at, 2)) s->beliefs[w].n = 0;
        } else if (what < 8)
            push(s, w);
        else
            take(s, w, what >= 17);
        assert_same(s);
    }
    for (int i = 0; i < s->m.n_items; i++) assert_int_equal(s->m.n_done[i], 1);
}

static void run(struct schedule *s, uint64_t first, int64_t bound, int n_seconds)
{
    *s = (struct schedule){.at = first << 32, .n_seconds = n_seconds, .m = {.bound = bound}};
    assert_int_equal(ls__ledger_create(&s->l, bound), LS_OK);
    for (int r = 0; r < 20; r++) round_of_work(s);
    ls__ledger_destroy(&s->l);
}

static void test_random_schedules(void **state)
{
    int64_t n_refused = 0, n_helped = 0, stalest = 0;
    for (uint64_t k = 0; k < 100; k++) {
        struct schedule s;
        run(&s, k, -1, (int)(k % 3));
        n_refused += s.n_refused;
        n_helped += s.n_helped;
        if (s.stalest > stalest) stalest = s.stalest;
    }
    print_message("%lld pushes refused, %lld helpers, staleness up to %lld\n", (long long)n_refused,
                  (long long)n_helped, (long long)stalest);
    assert_true(n_refused > 1000 && n_helped > 100 && stalest > 3);
}

/* A worker that takes one item at a time, as async does: the bound holds in every schedule, is reached, and never stops
 * the work. */
static void test_bound_of_staleness(void **state)
{
    for (int64_t bound = 0; bound <= 4; bound++) {
        int64_t stalest = 0;
        for (uint64_t k = 0; k < 60; k++) {
            struct schedule s = {.at = (1000 + k) << 32, .m = {.bound = bound}};
            assert_int_equal(ls__ledger_create(&s.l, bound), LS_OK);
            for (int r = 0; r < 10; r++) {
                assert_int_equal(ls__ledger_begin(s.l, MAX_ITEMS, NULL), LS_OK);
                for (int i = 0; !ls__ledger_is_done(s.l); i++) {
                    int item, w = (int)random_below(&s.at, MAX_WORKERS);
                    struct belief *b = &s.beliefs[w];
                    int64_t staleness = 0;
                    assert_in_range(i, 0, 100000);
                    if (b->n == 1 && random_below(&s.at, 10) == 0) {
                        ls__ledger_drop(s.l, w);
                        b->n = 0;
                    } else if (b->n == 1) {
                        assert_true(ls__ledger_complete(s.l, w, b->items, 1, &staleness));
                        b->n = 0;
                    } else if (ls__ledger_take(s.l, w, 1, ls__ledger_version(s.l), &item) == 1) {
                        *b = (struct belief){.items = {item}, .n = 1};
                    } else {
                        assert_true(ls__ledger_n_open(s.l, -1) > 0 || ls__ledger_n_free(s.l) == 0);
                    }
                    assert_true(staleness <= bound);
                    if (staleness > stalest) stalest = staleness;
                }
            }
            ls__ledger_destroy(&s.l);
        }
        assert_int_equal(stalest, bound);
    }
}

/* ssp:0 hands out one batch at a time, in order, whoever dies: the order of one process. */
static void test_bound_of_nothing_is_in_order(void **state)
{
    struct ls_ledger *l;
    int item;
    assert_int_equal(ls__ledger_create(&l, 0), LS_OK);
    assert_int_equal(ls__ledger_begin(l, 5, NULL), LS_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ls__ledger_take(l, 1, 1, ls__ledger_version(l), &item), 1);
        assert_int_equal(item, i);
        assert_int_equal(ls__ledger_take(l, 2, 1, ls__ledger_version(l), &item), 0);
        assert_int_equal(ls__ledger_drop(l, 1), 1);
        assert_int_equal(ls__ledger_take(l, 2, 1, ls__ledger_version(l), &item), 1);
        assert_int_equal(item, i);
        assert_false(ls__ledger_complete(l, 1, &item, 1, NULL));
        assert_true(ls__ledger_complete(l, 2, &item, 1, NULL));
        assert_false(ls__ledger_complete(l, 2, &item, 1, NULL)); /* again */
    }
    assert_true(ls__ledger_is_done(l));
    ls__ledger_destroy(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedules),
        cmocka_unit_test(test_bound_of_staleness),
        cmocka_unit_test(test_bound_of_nothing_is_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
