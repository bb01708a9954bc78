/* tune.c: a tuning table in memory (tune.h): made, searched, changed, hashed. Its text is read in tune_read.c. */
#include "plan/tune.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* --- life --- */

enum ls_status ls__tune_rehash(struct ls_tune *t)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__buf_addf(&b, "%s %s\n", t->id.isa, t->id.software);
    for (int i = 0; i < t->n_lines; i++) ls__buf_addf(&b, "%s = %s\n", t->lines[i].key, t->lines[i].impl);
    enum ls_status status = ls__buf_check(&b);
    snprintf(t->hash, sizeof t->hash, "%016llx", (unsigned long long)XXH3_64bits(b.text, b.len));
    ls__buf_release(&b);
    return status;
}

/* "onednn-2.6.3" -> "onednn-2.6" */
static size_t library_length(const char *library)
{
    const char *dot = strchr(library, '.');
    return dot ? (size_t)(dot - library) + 1 + strcspn(dot + 1, ".") : strlen(library);
}

enum ls_status ls__tune_create(struct ls_tune **out, const char *origin, const struct ls_backend_id *id)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->id = *id;
    (*out)->id.software[library_length(id->software)] = '\0';
    enum ls_status status = ls__strdup(&(*out)->origin, origin);
    if (status == LS_OK) status = ls__tune_rehash(*out);
    if (status != LS_OK) ls__tune_destroy(out);
    return status;
}

void ls__tune_destroy(struct ls_tune **tune)
{
    struct ls_tune *t = *tune;
    if (!t) return;
    free(t->origin);
    free(t->lines);
    free(t);
    *tune = NULL;
}

bool ls__tune_fits(const struct ls_tune *t, const struct ls_backend_id *id)
{
    size_t len = library_length(id->software);
    return strcmp(t->id.isa, id->isa) == 0 && strlen(t->id.software) == len &&
           memcmp(t->id.software, id->software, len) == 0;
}

/* --- lines --- */

static int find(const struct ls_tune *t, const char *key)
{
    for (int i = 0; i < t->n_lines; i++)
        if (strcmp(t->lines[i].key, key) == 0) return i;
    return -1;
}

const char *ls__tune_find(const struct ls_tune *t, const char *key)
{
    int i = find(t, key);
    return i < 0 ? NULL : t->lines[i].impl;
}

enum ls_status ls__tune_add(struct ls_tune *t, const char *key, const char *impl)
{
    TRY(ls__grow(&t->lines, (size_t)t->n_lines, (size_t)t->n_lines + 1, sizeof *t->lines));
    struct ls_tune_line *line = &t->lines[t->n_lines++];
    snprintf(line->key, sizeof line->key, "%s", key);
    snprintf(line->impl, sizeof line->impl, "%s", impl);
    return LS_OK;
}

enum ls_status ls__tune_set(struct ls_tune *t, const char *key, const char *impl)
{
    int i = find(t, key);
    if (i >= 0 && impl)
        snprintf(t->lines[i].impl, sizeof t->lines[i].impl, "%s", impl);
    else if (i >= 0)
        memmove(&t->lines[i], &t->lines[i + 1], (size_t)(--t->n_lines - i) * sizeof *t->lines);
    else if (impl)
        TRY(ls__tune_add(t, key, impl));
    return ls__tune_rehash(t);
}

void ls__tune_key(const struct ls_graph *g, const struct ls_node *n, char key[LS_TUNE_KEY_BYTES])
{
    char shape[LS_SHAPE_TEXT];
    const struct ls_attrs *a = &n->attrs;
    size_t at = (size_t)snprintf(key, LS_TUNE_KEY_BYTES, "%s", ls_op_name(n->op));
    for (int i = 0; i < n->n_in && i < 2; i++)
        if (n->in[i] >= 0)
            at += (size_t)snprintf(key + at, LS_TUNE_KEY_BYTES - at, " %s",
                                   ls_shape_text(&g->values[n->in[i]].shape, shape));
    if (n->n_out > 0 && n->out[0] >= 0)
        at += (size_t)snprintf(key + at, LS_TUNE_KEY_BYTES - at, " > %s",
                               ls_shape_text(&g->values[n->out[0]].shape, shape));
    if (a->kh > 0)
        snprintf(key + at, LS_TUNE_KEY_BYTES - at, " k%dx%d s%dx%d p%dx%d d%dx%d g%d", a->kh, a->kw, a->sh, a->sw,
                 a->ph, a->pw, a->dh, a->dw, a->groups);
}

/* --- where they come from --- */

enum ls_status ls__tune_load(struct ls_tune **out, const char *path)
{
    char *text;
    size_t len;
    *out = NULL;
    enum ls_status status = ls__file_read(path, LS_TUNE_FILE_BYTES, &text, &len);
    if (status != LS_OK) return ls_fail_in(status == LS_NOMEM ? LS_NOMEM : LS_DATA, "tuning table");
    status = ls__tune_parse(out, path, text, len);
    free(text);
    return status;
}

enum ls_status ls__tune_built_in(struct ls_tune **out, const struct ls_backend_id *id)
{
    *out = NULL;
    for (int i = 0; ls__tune_texts[i].name; i++) {
        char origin[96];
        snprintf(origin, sizeof origin, "built-in %s", ls__tune_texts[i].name);
        TRY(ls__tune_parse(out, origin, ls__tune_texts[i].text, strlen(ls__tune_texts[i].text)));
        if (ls__tune_fits(*out, id)) return LS_OK;
        ls__tune_destroy(out);
    }
    return LS_OK;
}
