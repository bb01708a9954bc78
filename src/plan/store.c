/* store.c: the values that outlive a shard. See plan/plan.h. */
#include "base/mem.h"
#include "plan/plan_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ls_status ls_store_create(struct ls_store **out)
{
    return ls__calloc(out, 1, sizeof **out);
}

void ls_store_destroy(struct ls_store **store)
{
    struct ls_store *s = *store;
    if (!s) return;
    ls_store_release(s);
    for (int i = 0; i < s->n_entries; i++) free(s->entries[i].name);
    free(s->entries);
    free(s);
    *store = NULL;
}

int ls_store_find(const struct ls_store *s, const char *name)
{
    for (int i = 0; i < s->n_entries; i++)
        if (strcmp(s->entries[i].name, name) == 0) return i;
    return -1;
}

static enum ls_status add(struct ls_store *s, const char *name, const struct ls_stored *entry, int *index)
{
    TRY(ls__grow(&s->entries, (size_t)s->n_entries, (size_t)s->n_entries + 1, sizeof *s->entries));
    struct ls_stored *e = &s->entries[s->n_entries];
    *e = *entry;
    e->data = NULL;
    e->version = -1;
    TRY(ls__strdup(&e->name, name));
    *index = s->n_entries++;
    return LS_OK;
}

enum ls_status ls__store_intern(struct ls_store *s, const struct ls_value *v, int *entry)
{
    *entry = ls_store_find(s, v->name);
    if (*entry >= 0) {
        if (!ls_shape_is_equal(&s->entries[*entry].shape, &v->shape))
            return ls_fail(LS_INTERNAL, "%s has two shapes", v->name);
        return LS_OK;
    }
    const struct ls_stored made = {.kind = v->kind,
                                   .dtype = v->dtype,
                                   .shape = v->shape,
                                   .layout = ls_layout_any(),
                                   .init = v->init,
                                   .init_bound = v->init_bound,
                                   .source = -1};
    return add(s, v->name, &made, entry);
}

enum ls_status ls__store_derive(struct ls_store *s, int source, const struct ls_layout *layout, int *entry)
{
    char name[320];
    for (int i = 0; i < s->n_entries; i++)
        if (s->entries[i].source == source && s->entries[i].layout.id == layout->id) {
            *entry = i;
            return LS_OK;
        }
    struct ls_stored made = s->entries[source];
    snprintf(name, sizeof name, "%s@%s#%d", made.name, layout->tag, layout->id);
    made.kind = LS_VALUE_STATE;
    made.layout = *layout;
    made.source = source;
    return add(s, name, &made, entry);
}

enum ls_status ls_store_allocate(struct ls_store *s)
{
    for (int i = 0; i < s->n_entries; i++) {
        struct ls_stored *e = &s->entries[i];
        if (e->data) continue;
        if (e->layout.id == LS_LAYOUT_ANY) e->layout = ls_layout_plain(&e->shape, e->dtype);
        TRY(s->memory.give(s->memory.owner, e->layout.bytes, &e->data));
        s->bytes += e->layout.bytes;
    }
    return LS_OK;
}

void ls_store_release(struct ls_store *s)
{
    for (int i = 0; i < s->n_entries; i++) {
        struct ls_stored *e = &s->entries[i];
        if (e->data && !e->is_borrowed) s->memory.take_back(s->memory.owner, e->data, e->layout.bytes);
        e->data = NULL;
    }
}

bool ls_stored_is_saved(const struct ls_stored *e)
{
    return e->source < 0 && e->kind != LS_VALUE_SUM && e->kind != LS_VALUE_KEPT;
}
