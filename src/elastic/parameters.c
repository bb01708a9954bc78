/* parameters.c: see parameters.h. */
#include "elastic/parameters.h"

#include "base/mem.h"

#include <stdlib.h>

static bool is_computed_with(const struct ls_stored *e)
{
    return e->source < 0 && (e->kind == LS_VALUE_PARAM || e->kind == LS_VALUE_BUFFER);
}

/* Keeps what is wanted of the parts; returns how many. */
static int choose(const struct session *s, struct ls_stored_part *parts, int n, bool with_state)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (with_state || is_computed_with(&s->store->entries[parts[i].entry])) parts[kept++] = parts[i];
    return kept;
}

/* Marks what any update changes. */
static enum ls_status find_updated(const struct session *s, unsigned char *is_updated)
{
    struct ls_stored_part *all;
    int64_t n_sums;
    int n;
    ls_exec_sums(s->exec, &n_sums);
    TRY(ls_exec_updated(s->exec, (struct ls_sum_range){0, n_sums}, &all, &n));
    for (int i = 0; i < n; i++) is_updated[all[i].entry] = 1;
    free(all);
    return LS_OK;
}

static enum ls_status add_fixed(struct ls_parameters *p)
{
    const struct ls_store *store = p->s->store;
    unsigned char *is_updated;
    TRY(ls__calloc(&is_updated, (size_t)store->n_entries, 1));
    enum ls_status status = find_updated(p->s, is_updated);
    for (int i = 0; status == LS_OK && i < store->n_entries; i++) {
        const struct ls_stored *e = &store->entries[i];
        if (!is_computed_with(e) || is_updated[i]) continue;
        status = ls__grow(&p->parts, (size_t)p->n, (size_t)p->n + 1, sizeof *p->parts);
        if (status == LS_OK)
            p->parts[p->n++] = (struct ls_stored_part){i, 0, (int64_t)(e->layout.bytes / sizeof(float))};
    }
    free(is_updated);
    return status;
}

static enum ls_status build(struct ls_parameters *p, struct ls_sum_range sums, bool with_state)
{
    TRY(ls_exec_updated(p->s->exec, sums, &p->parts, &p->n));
    p->n = choose(p->s, p->parts, p->n, with_state);
    if (sums.begin == 0) TRY(add_fixed(p));
    TRY(ls__calloc(&p->at, (size_t)p->n + 1, sizeof *p->at));
    for (int i = 0; i < p->n; i++) {
        p->at[i] = p->bytes;
        p->bytes += (size_t)p->parts[i].n * sizeof(float);
    }
    return LS_OK;
}

enum ls_status ls__parameters_open(struct ls_parameters *p, struct session *s, struct ls_sum_range sums,
                                   bool with_state)
{
    *p = (struct ls_parameters){.s = s};
    enum ls_status status = build(p, sums, with_state);
    if (status != LS_OK) ls__parameters_release(p);
    return status;
}

void ls__parameters_release(struct ls_parameters *p)
{
    free(p->parts);
    free(p->at);
    *p = (struct ls_parameters){0};
}

struct copy {
    const struct ls_parameters *p;
    uint8_t *out;
    const uint8_t *in;
};

static enum ls_status copy_parts(const struct copy *c, int first, int n)
{
    struct ls_exec *exec = c->p->s->exec;
    const struct ls_stored_part *parts = c->p->parts + first;
    const size_t at = c->p->at[first];
    return c->out ? ls_exec_get_parts(exec, parts, n, c->out + at) : ls_exec_set_parts(exec, parts, n, c->in + at);
}

/* Items are the parts. */
static enum ls_status copy_part(void *arg, int item, int thread)
{
    return copy_parts(arg, item, 1);
}

static enum ls_status copy_all(struct copy *c)
{
    enum { WORTH_THREADS = 1 << 20 };
    if (c->p->n == 0) return LS_OK;
    struct ls_exec *exec = c->p->s->exec;
    if (c->p->bytes >= WORTH_THREADS && !ls_exec_is_far(exec)) return ls_exec_run(exec, c->p->n, copy_part, c);
    return copy_parts(c, 0, c->p->n);
}

enum ls_status ls__parameters_get(const struct ls_parameters *p, uint8_t *out)
{
    return copy_all(&(struct copy){.p = p, .out = out});
}

enum ls_status ls__parameters_set(const struct ls_parameters *p, const uint8_t *in)
{
    TRY(copy_all(&(struct copy){.p = p, .in = in}));
    ls_exec_note_change(p->s->exec);
    return LS_OK;
}
