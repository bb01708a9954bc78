/* doc_json.c: a picture from JSON, as docs/formats/plot.md tells. Strict: a key that is not known is an error, for a
 * misspelt option would be a picture that is silently another.
 */
#include "draw/doc.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* --- one value of an object, by its key --- */

enum kind { TEXT, NUMBER, FLAG, COUNT, CHOICE, NUMBERS, TEXTS };

struct field {
    const char *key;
    enum kind kind;
    size_t offset;
    const char *choices; /* of CHOICE: in the order of the enum, apart by '|' */
};

struct reader {
    struct ls_draw_doc *doc;
    const char *name; /* of the file */
};

static enum ls_status bad(const struct reader *r, const char *where, const char *expected)
{
    return ls_fail(LS_DATA, "%s: %s: expected %s", r->name, where, expected);
}

static enum ls_status read_numbers(const struct reader *r, const char *key, json_t *value, const double **out,
                                   size_t *n)
{
    double *numbers;
    if (!json_is_array(value)) return bad(r, key, "a list of numbers and nulls");
    *n = json_array_size(value);
    TRY(ls__arena_alloc(&r->doc->memory, &numbers, *n, sizeof *numbers));
    for (size_t i = 0; i < *n; i++) {
        json_t *v = json_array_get(value, i);
        if (!json_is_number(v) && !json_is_null(v)) return bad(r, key, "a list of numbers and nulls");
        numbers[i] = json_is_number(v) ? json_number_value(v) : NAN;
    }
    *out = numbers;
    return LS_OK;
}

static enum ls_status read_texts(const struct reader *r, const char *key, json_t *value, const char *const **out,
                                 size_t *n)
{
    const char **texts;
    if (!json_is_array(value)) return bad(r, key, "a list of texts");
    *n = json_array_size(value);
    TRY(ls__arena_alloc(&r->doc->memory, &texts, *n, sizeof *texts));
    for (size_t i = 0; i < *n; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (!text) return bad(r, key, "a list of texts");
        TRY(ls__arena_text(&r->doc->memory, &texts[i], text, strlen(text)));
    }
    *out = texts;
    return LS_OK;
}

static enum ls_status read_choice(const struct reader *r, const struct field *f, json_t *value, int *out)
{
    const char *text = json_string_value(value), *at = f->choices;
    size_t len = text ? strlen(text) : 0;
    for (int i = 0; text && *at; i++) {
        size_t n = strcspn(at, "|");
        if (n == len && memcmp(at, text, n) == 0) {
            *out = i;
            return LS_OK;
        }
        at += n + (at[n] == '|');
    }
    return bad(r, f->key, f->choices);
}

/* *n: of lists. */
static enum ls_status read_field(const struct reader *r, const struct field *f, json_t *value, char *object, size_t *n)
{
    void *at = object + f->offset;
    const char *text = json_string_value(value);
    switch (f->kind) {
    case TEXT:
        if (!text) return bad(r, f->key, "a text");
        return ls__arena_text(&r->doc->memory, at, text, strlen(text));
    case NUMBER:
        if (!json_is_number(value)) return bad(r, f->key, "a number");
        *(double *)at = json_number_value(value);
        return LS_OK;
    case FLAG:
        if (!json_is_boolean(value)) return bad(r, f->key, "true or false");
        *(bool *)at = json_is_true(value);
        return LS_OK;
    case COUNT:
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 1000)
            return bad(r, f->key, "a whole number from 0 to 1000");
        *(int *)at = (int)json_integer_value(value);
        return LS_OK;
    case CHOICE: {
        int choice = 0;
        TRY(read_choice(r, f, value, &choice));
        memcpy(at, &choice, sizeof choice); /* enums are ints */
        return LS_OK;
    }
    case NUMBERS:
        return read_numbers(r, f->key, value, at, n);
    case TEXTS:
        return read_texts(r, f->key, value, at, n);
    }
    return LS_OK;
}

typedef enum ls_status read_rest(const struct reader *r, void *object, const char *key, json_t *value, bool *is_known);

/* Every key of `from` is one of the fields, or `rest` takes it. Lists have *n elements, or set it when it is SIZE_MAX.
 */
static enum ls_status read_object(const struct reader *r, json_t *from, const char *what, const struct field *fields,
                                  size_t n_fields, void *object, size_t *n, read_rest *rest)
{
    const char *key;
    json_t *value;
    if (!json_is_object(from)) return bad(r, what, "an object");
    json_object_foreach(from, key, value)
    {
        size_t i = 0, len = *n;
        bool is_known = false;
        while (i < n_fields && strcmp(fields[i].key, key) != 0) i++;
        if (i < n_fields) {
            TRY(read_field(r, &fields[i], value, object, &len));
            if (fields[i].kind < NUMBERS) continue;
            if (*n != SIZE_MAX && len != *n) return bad(r, key, "as many values as the other lists beside it have");
            *n = len;
            continue;
        }
        if (rest) TRY(rest(r, object, key, value, &is_known));
        if (!is_known)
            return ls_fail(LS_DATA, "%s: %s has no '%.40s'; docs/formats/plot.md tells what there is", r->name, what,
                           key);
    }
    return LS_OK;
}

#define N(fields) (sizeof(fields) / sizeof(fields)[0])

/* --- axes --- */

static enum ls_status read_axis_rest(const struct reader *r, void *object, const char *key, json_t *value,
                                     bool *is_known)
{
    struct ls_draw_axis *axis = object;
    size_t n = 0;
    if (strcmp(key, "ticks") != 0) return LS_OK;
    *is_known = true;
    TRY(read_numbers(r, key, value, &axis->ticks, &n));
    axis->n_ticks = n < 64 ? (int)n : 64;
    return LS_OK;
}

static enum ls_status read_axis(const struct reader *r, json_t *from, const char *what, struct ls_draw_axis *axis)
{
    static const struct field fields[] = {
        {"label", TEXT, offsetof(struct ls_draw_axis, label), NULL},
        {"suffix", TEXT, offsetof(struct ls_draw_axis, suffix), NULL},
        {"scale", CHOICE, offsetof(struct ls_draw_axis, scale), "linear|log10|log2"},
        {"unit", CHOICE, offsetof(struct ls_draw_axis, unit), "number|percent|seconds|bytes"},
        {"zero", FLAG, offsetof(struct ls_draw_axis, has_zero), NULL},
        {"from", NUMBER, offsetof(struct ls_draw_axis, from), NULL},
        {"to", NUMBER, offsetof(struct ls_draw_axis, to), NULL},
        {"at_most", NUMBER, offsetof(struct ls_draw_axis, at_most), NULL},
    };
    size_t n = SIZE_MAX;
    TRY(read_object(r, from, what, fields, N(fields), axis, &n, read_axis_rest));
    bool has_from = json_object_get(from, "from"), has_to = json_object_get(from, "to");
    if (has_from != has_to || (has_from && !(axis->from < axis->to)))
        return bad(r, what, "both 'from' and 'to', the first below the second");
    if (has_from && axis->scale != LS_DRAW_LINEAR && axis->from <= 0)
        return bad(r, what, "'from' above 0 on a logarithmic axis");
    axis->is_given = has_from;
    return LS_OK;
}

/* --- the parts of a panel --- */

static enum ls_status read_series(const struct reader *r, json_t *from, struct ls_draw_series *s)
{
    static const struct field fields[] = {
        {"label", TEXT, offsetof(struct ls_draw_series, label), NULL},
        {"mode", CHOICE, offsetof(struct ls_draw_series, mode), "line|steps|points|ideal|thin"},
        {"x", NUMBERS, offsetof(struct ls_draw_series, x), NULL},
        {"y", NUMBERS, offsetof(struct ls_draw_series, y), NULL},
        {"low", NUMBERS, offsetof(struct ls_draw_series, low), NULL},
        {"high", NUMBERS, offsetof(struct ls_draw_series, high), NULL},
        {"target", NUMBERS, offsetof(struct ls_draw_series, target), NULL},
        {"texts", TEXTS, offsetof(struct ls_draw_series, texts), NULL},
        {"points", FLAG, offsetof(struct ls_draw_series, has_points), NULL},
        {"behind", COUNT, offsetof(struct ls_draw_series, behind), NULL},
        {"colour", COUNT, offsetof(struct ls_draw_series, colour), NULL},
    };
    size_t n = SIZE_MAX;
    TRY(read_object(r, from, "a series", fields, N(fields), s, &n, NULL));
    if (!s->y) return bad(r, "a series", "'y'");
    s->n = n;
    return LS_OK;
}

static enum ls_status read_mark(const struct reader *r, json_t *from, struct ls_draw_mark *mark)
{
    static const struct field fields[] = {
        {"kind", CHOICE, offsetof(struct ls_draw_mark, kind), "note|epoch|checkpoint"},
        {"x", NUMBER, offsetof(struct ls_draw_mark, x), NULL},
        {"text", TEXT, offsetof(struct ls_draw_mark, text), NULL},
    };
    size_t n = SIZE_MAX;
    return read_object(r, from, "a mark", fields, N(fields), mark, &n, NULL);
}

static enum ls_status read_level(const struct reader *r, json_t *from, struct ls_draw_level *level)
{
    static const struct field fields[] = {
        {"at", NUMBER, offsetof(struct ls_draw_level, at), NULL},
        {"text", TEXT, offsetof(struct ls_draw_level, text), NULL},
        {"shaded", FLAG, offsetof(struct ls_draw_level, is_shaded), NULL},
    };
    size_t n = SIZE_MAX;
    return read_object(r, from, "a level", fields, N(fields), level, &n, NULL);
}

static enum ls_status read_cells(const struct reader *r, json_t *from, struct ls_draw_panel *panel)
{
    double *cells = NULL;
    size_t rows = json_array_size(from), columns = json_array_size(json_array_get(from, 0));
    if (rows == 0 || columns == 0 || rows > 1024 || columns > 1024) return bad(r, "cells", "rows of 1 to 1024 numbers");
    TRY(ls__arena_alloc(&r->doc->memory, &cells, rows * columns, sizeof *cells));
    for (size_t i = 0; i < rows; i++) {
        const double *row = NULL;
        size_t n = 0;
        TRY(read_numbers(r, "cells", json_array_get(from, i), &row, &n));
        if (n != columns) return bad(r, "cells", "rows of the same length");
        memcpy(cells + i * columns, row, n * sizeof *row);
    }
    panel->cells = cells;
    panel->n_rows = (int)rows;
    panel->n_columns = (int)columns;
    return LS_OK;
}

/* A list of objects of `size` bytes. */
#define READ_LIST(r, value, key, out, n_out, read)                                                                     \
    do {                                                                                                               \
        size_t n_ = json_array_size(value);                                                                            \
        if (!json_is_array(value) || n_ > 10000) return bad(r, key, "a list of at most 10000");                        \
        TRY(ls__arena_alloc(&(r)->doc->memory, &(out), n_, sizeof *(out)));                                            \
        for (size_t i_ = 0; i_ < n_; i_++) TRY(read(r, json_array_get(value, i_), (void *)&(out)[i_]));                \
        (n_out) = (int)n_;                                                                                             \
    } while (0)

static enum ls_status read_panel_rest(const struct reader *r, void *object, const char *key, json_t *value,
                                      bool *is_known)
{
    struct ls_draw_panel *panel = object;
    *is_known = true;
    if (strcmp(key, "x") == 0) return read_axis(r, value, "x", &panel->x);
    if (strcmp(key, "y") == 0) return read_axis(r, value, "y", &panel->y);
    if (strcmp(key, "cells") == 0) return read_cells(r, value, panel);
    if (strcmp(key, "series") == 0) {
        struct ls_draw_series *list;
        READ_LIST(r, value, key, list, panel->n_series, read_series);
        panel->series = list;
    } else if (strcmp(key, "marks") == 0) {
        struct ls_draw_mark *list;
        READ_LIST(r, value, key, list, panel->n_marks, read_mark);
        panel->marks = list;
    } else if (strcmp(key, "levels") == 0) {
        struct ls_draw_level *list;
        READ_LIST(r, value, key, list, panel->n_levels, read_level);
        panel->levels = list;
    } else {
        *is_known = false;
    }
    return LS_OK;
}

static enum ls_status read_panel(const struct reader *r, json_t *from, struct ls_draw_panel *panel)
{
    static const struct field fields[] = {
        {"kind", CHOICE, offsetof(struct ls_draw_panel, kind), "xy|bars|columns|heat"},
        {"title", TEXT, offsetof(struct ls_draw_panel, title), NULL},
        {"note", TEXT, offsetof(struct ls_draw_panel, note), NULL},
        {"names", TEXTS, offsetof(struct ls_draw_panel, names), NULL},
        {"stacked", FLAG, offsetof(struct ls_draw_panel, is_stacked), NULL},
        {"by_row", FLAG, offsetof(struct ls_draw_panel, is_by_row), NULL},
        {"legend", FLAG, offsetof(struct ls_draw_panel, has_legend), NULL},
        {"height", NUMBER, offsetof(struct ls_draw_panel, height), NULL},
        {"span", COUNT, offsetof(struct ls_draw_panel, n_span), NULL},
    };
    size_t n = SIZE_MAX;
    TRY(read_object(r, from, "a panel", fields, N(fields), panel, &n, read_panel_rest));
    if (!panel->names) return LS_OK;
    for (int i = 0; i < panel->n_series; i++)
        if (panel->series[i].n > n) return bad(r, "names", "a name for every value of the series");
    if (panel->cells && ((size_t)panel->n_rows > n || (size_t)panel->n_columns > n))
        return bad(r, "names", "a name for every row and column");
    return LS_OK;
}

static enum ls_status read_picture_rest(const struct reader *r, void *object, const char *key, json_t *value,
                                        bool *is_known)
{
    struct ls_draw_picture *picture = object;
    struct ls_draw_panel *list;
    if (strcmp(key, "panels") != 0) return LS_OK;
    *is_known = true;
    READ_LIST(r, value, key, list, picture->n_panels, read_panel);
    picture->panels = list;
    return LS_OK;
}

enum ls_status ls__doc_read_json(struct ls_draw_doc *doc, const char *name, const char *text, size_t len)
{
    static const struct field fields[] = {
        {"title", TEXT, offsetof(struct ls_draw_picture, title), NULL},
        {"note", TEXT, offsetof(struct ls_draw_picture, note), NULL},
        {"columns", COUNT, offsetof(struct ls_draw_picture, n_columns), NULL},
        {"width", NUMBER, offsetof(struct ls_draw_picture, width), NULL},
        {"zoom", NUMBER, offsetof(struct ls_draw_picture, zoom), NULL},
        {"theme", CHOICE, offsetof(struct ls_draw_picture, theme), "auto|light|dark"},
    };
    const struct reader r = {doc, name};
    json_error_t error;
    size_t n = SIZE_MAX;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!root) return ls_fail(LS_DATA, "%s:%d: not JSON: %.200s", name, error.line, error.text);
    enum ls_status status =
        read_object(&r, root, "the picture", fields, N(fields), &doc->picture, &n, read_picture_rest);
    json_decref(root);
    return status;
}
