/* expand.c: runs the statements once and leaves a flat list of layers.
 *
 * A scope is one use of a block (or the file itself): it holds the block's arguments and its labels, which nobody else
 * sees, and the prefix of its names. `current` is the tensor that the next layer reads. Work is bounded by
 * LS_MODEL_EXPANDED statements and LS_MODEL_DEPTH scopes, so no text makes this run long.
 */
#include "base/mem.h"
#include "base/parse.h"
#include "model/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct block {
    const char *name;
    int line;        /* of the definition */
    int first, last; /* its statements, [first,last) */
    int n_params;
    char params[LS_MODEL_BLOCK_PARAMS][LS_WORD_BYTES];
    const char *defaults[LS_MODEL_BLOCK_PARAMS]; /* NULL = must be given */
};

struct label {
    char name[LS_WORD_BYTES];
    int tensor, line;
};

struct scope {
    const struct scope *up;
    const struct block *block; /* NULL for the file */
    int depth;
    char prefix[LS_WORD_BYTES + 1]; /* "" or "layer1.0." */
    char args[LS_MODEL_BLOCK_PARAMS][LS_WORD_BYTES];
    struct label *labels;
    int n_labels, cap_labels;
    int numbers[LS_N_WORDS]; /* unnamed layers so far, for "relu3" */
};

struct expansion {
    struct ls_model *model;
    const struct ls_text *text;
    struct block *blocks;
    int n_blocks, cap_blocks;
    int current; /* tensor */
    int n_run;   /* statements */
};

static const char *word_of(const struct expansion *e, const struct ls_statement *s, int i)
{
    return e->text->words[s->first + i];
}

/* --- pass 1: find the blocks --- */

static struct block *find_block(const struct expansion *e, const char *name)
{
    for (int i = 0; i < e->n_blocks; i++)
        if (strcmp(e->blocks[i].name, name) == 0) return &e->blocks[i];
    return NULL;
}

static int find_param(const struct block *b, const char *name, size_t len)
{
    for (int i = 0; i < b->n_params; i++)
        if (strlen(b->params[i]) == len && memcmp(b->params[i], name, len) == 0) return i;
    return -1;
}

static bool is_param_name(const char *text, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return len > 0 && strspn(text, letters) >= len && !(text[0] >= '0' && text[0] <= '9');
}

static enum ls_status read_params(const struct expansion *e, const struct ls_statement *s, struct block *b)
{
    const char *origin = e->model->origin;
    for (int i = 2; i < s->n_words; i++) {
        const char *word = word_of(e, s, i);
        size_t len = strcspn(word, "=");
        if (!is_param_name(word, len))
            return ls__text_fail(origin, s->line, "block %s: \"%s\" is not a parameter (letters, digits and '_')",
                                 b->name, word);
        if (find_param(b, word, len) >= 0)
            return ls__text_fail(origin, s->line, "block %s: parameter %.*s is given twice", b->name, (int)len, word);
        if (b->n_params == LS_MODEL_BLOCK_PARAMS)
            return ls__text_fail(origin, s->line, "block %s has more than %d parameters", b->name,
                                 LS_MODEL_BLOCK_PARAMS);
        memcpy(b->params[b->n_params], word, len); /* zeroed, and len <= LS_MODEL_NAME */
        b->defaults[b->n_params++] = word[len] ? word + len + 1 : NULL;
    }
    return LS_OK;
}

static enum ls_status begin_block(struct expansion *e, int at)
{
    const struct ls_statement *s = &e->text->statements[at];
    const char *origin = e->model->origin;
    if (s->n_words < 2)
        return ls__text_fail(origin, s->line, "block without a name; usage: %s", ls__word_defs[s->kind].usage);
    const char *name = word_of(e, s, 1);
    if (!ls__name_is_good(name)) return ls__text_fail(origin, s->line, "block: \"%s\" is not a name", name);
    const struct block *other = find_block(e, name);
    if (other) return ls__text_fail(origin, s->line, "block %s is defined twice (first at line %d)", name, other->line);
    if (e->n_blocks == LS_MODEL_BLOCKS) return ls__text_fail(origin, s->line, "more than %d blocks", LS_MODEL_BLOCKS);
    if (e->n_blocks == e->cap_blocks) {
        int cap = e->cap_blocks ? 2 * e->cap_blocks : 8;
        TRY(ls__grow(&e->blocks, (size_t)e->cap_blocks, (size_t)cap, sizeof *e->blocks));
        e->cap_blocks = cap;
    }
    struct block *b = &e->blocks[e->n_blocks++];
    *b = (struct block){.name = name, .line = s->line, .first = at + 1};
    return read_params(e, s, b);
}

static enum ls_status find_blocks(struct expansion *e)
{
    const char *origin = e->model->origin;
    struct block *open = NULL;
    for (int i = 0; i < e->text->n_statements; i++) {
        const struct ls_statement *s = &e->text->statements[i];
        if (s->kind == LS_WORD_BLOCK) {
            if (open)
                return ls__text_fail(origin, s->line, "block inside block %s (line %d): blocks stand side by side%s",
                                     open->name, open->line, "; is an `end` missing?");
            TRY(begin_block(e, i));
            open = &e->blocks[e->n_blocks - 1];
        } else if (s->kind == LS_WORD_END) {
            if (!open) return ls__text_fail(origin, s->line, "end without a block");
            if (s->n_words > 1) return ls__text_fail(origin, s->line, "end takes no arguments");
            open->last = i;
            open = NULL;
        } else if (open && (s->kind == LS_WORD_MODEL || s->kind == LS_WORD_INPUT)) {
            return ls__text_fail(origin, s->line, "%s inside block %s; is an `end` missing?",
                                 ls__word_defs[s->kind].word, open->name);
        }
    }
    if (open) return ls__text_fail(origin, open->line, "block %s has no `end`", open->name);
    return LS_OK;
}

/* --- words with "$x" replaced --- */

static enum ls_status find_arg(const struct expansion *e, const struct scope *scope, int line, const char *name,
                               size_t len, const char **value)
{
    const char *origin = e->model->origin;
    if (!scope->block) return ls__text_fail(origin, line, "$%.*s outside a block", (int)len, name);
    int i = find_param(scope->block, name, len);
    if (i < 0)
        return ls__text_fail(origin, line, "block %s has no parameter \"%.*s\"", scope->block->name, (int)len, name);
    *value = scope->args[i];
    return LS_OK;
}

static enum ls_status replace(const struct expansion *e, const struct scope *scope, int line, const char *word,
                              char out[LS_WORD_BYTES])
{
    size_t at = 0;
    for (const char *p = word; *p;) {
        const char *piece = p;
        size_t len = 1;
        if (*p == '$') {
            size_t n = 0;
            while (is_param_name(p + 1, n + 1) && p[1 + n]) n++;
            TRY(find_arg(e, scope, line, p + 1, n, &piece));
            len = strlen(piece);
            p += n;
        }
        p++;
        if (at + len > LS_MODEL_NAME)
            return ls__text_fail(e->model->origin, line, "%s becomes longer than %d characters", word, LS_MODEL_NAME);
        memcpy(out + at, piece, len);
        at += len;
    }
    out[at] = '\0';
    return LS_OK;
}

static enum ls_status replace_all(const struct expansion *e, const struct scope *scope, const struct ls_statement *s,
                                  struct ls_line *out)
{
    out->line = s->line;
    out->kind = s->kind;
    out->n_words = s->n_words;
    for (int i = 0; i < s->n_words; i++) TRY(replace(e, scope, s->line, word_of(e, s, i), out->words[i]));
    return LS_OK;
}

/* --- labels --- */

static struct label *find_label(const struct scope *scope, const char *name)
{
    for (int i = 0; i < scope->n_labels; i++)
        if (strcmp(scope->labels[i].name, name) == 0) return &scope->labels[i];
    return NULL;
}

/* Keeping a label again moves it. */
static enum ls_status keep(const struct expansion *e, struct scope *scope, const struct ls_line *line)
{
    const char *name = line->words[1];
    struct label *l = find_label(scope, name);
    if (!ls__name_is_good(name)) return ls__text_fail(e->model->origin, line->line, "keep: \"%s\" is not a name", name);
    if (!l) {
        if (scope->n_labels == LS_MODEL_LABELS)
            return ls__text_fail(e->model->origin, line->line, "more than %d labels", LS_MODEL_LABELS);
        if (scope->n_labels == scope->cap_labels) {
            int cap = scope->cap_labels ? 2 * scope->cap_labels : 8;
            TRY(ls__grow(&scope->labels, (size_t)scope->cap_labels, (size_t)cap, sizeof *scope->labels));
            scope->cap_labels = cap;
        }
        l = &scope->labels[scope->n_labels++];
        snprintf(l->name, sizeof l->name, "%s", name);
    }
    l->tensor = e->current;
    l->line = line->line;
    return LS_OK;
}

static enum ls_status need_label(const struct expansion *e, const struct scope *scope, const struct ls_line *line,
                                 const char *name, const struct label **out)
{
    *out = find_label(scope, name);
    if (*out) return LS_OK;
    const char *block = scope->block ? scope->block->name : NULL;
    return ls__text_fail(e->model->origin, line->line, "%s %s: nothing is kept as \"%s\"%s%s%s; write `keep %s` first",
                         line->words[0], name, name, block ? " in block " : "", block ? block : "",
                         block ? " (labels are the block's own)" : "", name);
}

/* --- statements --- */

static enum ls_status add_layer(struct expansion *e, struct scope *scope, const struct ls_line *line)
{
    struct ls_model *m = e->model;
    if (m->n_layers == LS_MODEL_LAYERS)
        return ls__text_fail(m->origin, line->line, "more than %d layers", LS_MODEL_LAYERS);
    if (m->n_layers == m->cap_layers) {
        int cap = m->cap_layers ? 2 * m->cap_layers : 32;
        TRY(ls__grow(&m->layers, (size_t)m->cap_layers, (size_t)cap, sizeof *m->layers));
        m->cap_layers = cap;
    }
    struct ls_layer *l = &m->layers[m->n_layers++]; /* counted at once, so that a half-read one is released */
    *l = (struct ls_layer){.src = e->current};
    TRY(ls__layer_read(m->origin, line, scope->prefix, ++scope->numbers[line->kind], l));
    bool has_refs = line->kind == LS_WORD_ADD || line->kind == LS_WORD_CONCAT;
    for (int i = 1; has_refs && i < line->n_words; i++) {
        const struct label *label;
        TRY(need_label(e, scope, line, line->words[i], &label));
        struct ls_ref *ref = &l->refs[l->n_refs];
        TRY(ls__strdup(&ref->label, label->name));
        ref->tensor = label->tensor;
        ref->line = label->line;
        l->n_refs++;
    }
    e->current = m->n_layers;
    return LS_OK;
}

static enum ls_status run_range(struct expansion *e, struct scope *scope, int first, int last);

static enum ls_status check_recursion(const struct expansion *e, const struct scope *scope, const struct block *b,
                                      const struct ls_line *line)
{
    const bool is_deepest = scope->depth == LS_MODEL_DEPTH;
    for (const struct scope *s = scope; s; s = s->up)
        if (s->block == b) return ls__text_fail(e->model->origin, line->line, "block %s uses itself", b->name);
    if (is_deepest)
        return ls__text_fail(e->model->origin, line->line, "blocks are used more than %d deep", LS_MODEL_DEPTH);
    return LS_OK;
}

static enum ls_status bind_args(const struct expansion *e, const struct ls_line *line, struct scope *inner)
{
    const struct block *b = inner->block;
    const char *origin = e->model->origin;
    bool is_given[LS_MODEL_BLOCK_PARAMS] = {false};
    for (int i = 3; i < line->n_words; i++) {
        const char *word = line->words[i];
        size_t len = strcspn(word, "=");
        int param = find_param(b, word, len);
        if (param < 0)
            return ls__text_fail(origin, line->line, "use %s: it has no parameter \"%.*s\" (see line %d)", b->name,
                                 (int)len, word, b->line);
        if (is_given[param])
            return ls__text_fail(origin, line->line, "use %s: parameter %s is given twice", b->name, b->params[param]);
        is_given[param] = true;
        snprintf(inner->args[param], LS_WORD_BYTES, "%s", word + len + 1);
    }
    for (int i = 0; i < b->n_params; i++) {
        if (is_given[i]) continue;
        if (!b->defaults[i])
            return ls__text_fail(origin, line->line, "use %s: parameter %s is missing (%s=...)", b->name, b->params[i],
                                 b->params[i]);
        snprintf(inner->args[i], LS_WORD_BYTES, "%s", b->defaults[i]);
    }
    return LS_OK;
}

static enum ls_status use(struct expansion *e, struct scope *scope, const struct ls_line *line)
{
    const char *origin = e->model->origin, *name = line->words[1], *prefix = line->words[2];
    const struct block *b = find_block(e, name);
    if (!b) return ls__text_fail(origin, line->line, "use %s: there is no such block", name);
    TRY(check_recursion(e, scope, b, line));
    if (!ls__name_is_good(prefix))
        return ls__text_fail(origin, line->line, "use %s: \"%s\" is not a name", name, prefix);
    struct scope inner = {.up = scope, .block = b, .depth = scope->depth + 1};
    int len = snprintf(inner.prefix, sizeof inner.prefix, "%s%s.", scope->prefix, prefix);
    if (len > LS_MODEL_NAME)
        return ls__text_fail(origin, line->line, "use %s: the full name %s%s has more than %d characters", name,
                             scope->prefix, prefix, LS_MODEL_NAME);
    TRY(bind_args(e, line, &inner));
    enum ls_status status = run_range(e, &inner, b->first, b->last);
    free(inner.labels);
    return status;
}

static enum ls_status run(struct expansion *e, struct scope *scope, const struct ls_statement *s)
{
    struct ls_line line;
    int n_args;
    const struct label *label;
    if (++e->n_run > LS_MODEL_EXPANDED)
        return ls__text_fail(e->model->origin, s->line, "the blocks unroll to more than %d statements",
                             LS_MODEL_EXPANDED);
    TRY(replace_all(e, scope, s, &line));
    if (!e->model->input_line)
        return ls__text_fail(e->model->origin, s->line, "%s before `input`: say first what the model reads",
                             line.words[0]);
    TRY(ls__line_check(e->model->origin, &line, &n_args));
    switch (line.kind) {
    case LS_WORD_USE:
        return use(e, scope, &line);
    case LS_WORD_KEEP:
        return keep(e, scope, &line);
    case LS_WORD_FROM:
        TRY(need_label(e, scope, &line, line.words[1], &label));
        e->current = label->tensor;
        return LS_OK;
    default:
        return add_layer(e, scope, &line);
    }
}

static enum ls_status run_range(struct expansion *e, struct scope *scope, int first, int last)
{
    for (int i = first; i < last; i++) TRY(run(e, scope, &e->text->statements[i]));
    return LS_OK;
}

/* --- the file --- */

static enum ls_status read_model(struct expansion *e, const struct ls_statement *s)
{
    if (e->model->name) return ls__text_fail(e->model->origin, s->line, "a second `model`");
    if (s->n_words != 2 || !ls__name_is_good(word_of(e, s, 1)))
        return ls__text_fail(e->model->origin, s->line, "usage: %s", ls__word_defs[s->kind].usage);
    return ls__strdup(&e->model->name, word_of(e, s, 1));
}

/* "any", or three of NUMBER or "*" joined by 'x'. */
static bool read_input_shape(const char *text, int dims[3])
{
    char copy[LS_WORD_BYTES];
    dims[0] = dims[1] = dims[2] = 0;
    if (strcmp(text, "any") == 0) return true;
    snprintf(copy, sizeof copy, "%s", text);
    char *at = copy;
    for (int i = 0; i < 3; i++) {
        int64_t v = 0;
        char *x = strchr(at, 'x');
        if (!x != (i == 2)) return false;
        if (x) *x = '\0';
        if (strcmp(at, "*") != 0 && !ls__parse_i64(at, 1, 65536, &v)) return false;
        dims[i] = (int)v;
        if (x) at = x + 1;
    }
    return true;
}

static enum ls_status read_input(struct expansion *e, const struct scope *file, const struct ls_statement *s)
{
    struct ls_model *m = e->model;
    struct ls_line line;
    int n_args;
    TRY(replace_all(e, file, s, &line));
    TRY(ls__line_check(m->origin, &line, &n_args));
    if (m->input_line) return ls__text_fail(m->origin, s->line, "a second `input` (first at line %d)", m->input_line);
    if (!read_input_shape(line.words[1], m->input))
        return ls__text_fail(m->origin, s->line, "input \"%s\"; expected `any` or CxHxW such as 3x32x32 or 3x*x*",
                             line.words[1]);
    m->is_input_fixed = true;
    if (line.n_words > 2) TRY(ls__line_flag(m->origin, &line, line.words[2], &m->is_input_fixed));
    m->input_line = s->line;
    return LS_OK;
}

static enum ls_status run_file(struct expansion *e, struct scope *file)
{
    const struct ls_text *t = e->text;
    for (int i = 0; i < t->n_statements; i++) {
        const struct ls_statement *s = &t->statements[i];
        if (i == 0 && s->kind != LS_WORD_MODEL)
            return ls__text_fail(e->model->origin, s->line, "a model text begins with `model NAME`, not with `%s`",
                                 ls__word_defs[s->kind].word);
        if (s->kind == LS_WORD_BLOCK) {
            while (t->statements[i].kind != LS_WORD_END) i++; /* find_blocks has seen it */
        } else if (s->kind == LS_WORD_MODEL) {
            TRY(read_model(e, s));
        } else if (s->kind == LS_WORD_INPUT) {
            TRY(read_input(e, file, s));
        } else {
            TRY(run(e, file, s));
        }
    }
    return LS_OK;
}

static int compare_layers(const void *a, const void *b)
{
    const struct ls_layer *x = *(struct ls_layer *const *)a, *y = *(struct ls_layer *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

static enum ls_status check_names(const struct ls_model *m)
{
    const struct ls_layer **named;
    size_t n = 0;
    enum ls_status status = LS_OK;
    TRY(ls__calloc(&named, (size_t)m->n_layers + 1, sizeof *named));
    for (int i = 0; i < m->n_layers; i++)
        if (ls__word_defs[m->layers[i].kind].is_named) named[n++] = &m->layers[i];
    qsort(named, n, sizeof *named, compare_layers);
    for (size_t i = 1; i < n && status == LS_OK; i++)
        if (strcmp(named[i - 1]->name, named[i]->name) == 0)
            status = ls__text_fail(m->origin, named[i]->line, "%s: the name is taken (%s, line %d)", named[i]->title,
                                   named[i - 1]->title, named[i - 1]->line);
    free(named);
    return status;
}

enum ls_status ls__expand(struct ls_model *model, const struct ls_text *text)
{
    struct expansion e = {.model = model, .text = text};
    struct scope file = {0};
    enum ls_status status = find_blocks(&e);
    if (status == LS_OK) status = run_file(&e, &file);
    free(file.labels);
    free(e.blocks);
    TRY(status);
    if (!model->name) return ls__text_fail(model->origin, 1, "empty; a model text begins with `model NAME`");
    if (model->n_layers == 0) return ls__text_fail(model->origin, text->n_lines, "the model has no layers");
    model->result = e.current;
    return check_names(model);
}
