/* parameters.c: see parameters.h. */
#include "elastic/parameters.h"

#include <string.h>

static bool is_sent(const struct ls_stored *e)
{
    return e->source < 0 && (e->kind == LS_VALUE_PARAM || e->kind == LS_VALUE_BUFFER);
}

size_t ls__parameters_bytes(const struct session *s)
{
    size_t bytes = 0;
    for (int i = 0; i < s->store->n_entries; i++)
        if (is_sent(&s->store->entries[i])) bytes += s->store->entries[i].layout.bytes;
    return bytes;
}

struct copy {
    struct session *s;
    uint8_t *out;
    const uint8_t *in;
};

/* Items are the entries of the store. */
static enum ls_status copy_entry(void *arg, int item, int thread)
{
    const struct copy *c = arg;
    const struct ls_stored *all = c->s->store->entries, *e = &all[item];
    size_t at = 0;
    if (!is_sent(e)) return LS_OK;
    for (int i = 0; i < item; i++)
        if (is_sent(&all[i])) at += all[i].layout.bytes;
    if (c->out)
        memcpy(c->out + at, e->data, e->layout.bytes);
    else if (c->in)
        memcpy(e->data, c->in + at, e->layout.bytes);
    return LS_OK;
}

static enum ls_status copy_all(struct copy *c)
{
    enum { WORTH_THREADS = 1 << 20 };
    const int n = c->s->store->n_entries;
    if (ls__parameters_bytes(c->s) >= WORTH_THREADS) return ls_exec_run(c->s->exec, n, copy_entry, c);
    for (int i = 0; i < n; i++) TRY(copy_entry(c, i, 0));
    return LS_OK;
}

enum ls_status ls__parameters_get(struct session *s, uint8_t *out)
{
    return copy_all(&(struct copy){.s = s, .out = out});
}

enum ls_status ls__parameters_set(struct session *s, const uint8_t *in)
{
    TRY(copy_all(&(struct copy){.s = s, .in = in}));
    ls_exec_note_change(s->exec);
    return LS_OK;
}
