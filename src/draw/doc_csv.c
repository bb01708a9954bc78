/* doc_csv.c: curves from a table: the first column is x, every other one a curve. Separated by ',', ';' or tabs; a
 * first line that is not numbers holds the names; lines that begin with '#' and empty ones are left out; a cell that is
 * not a number is a gap.
 *
 * Columns of one magnitude share a panel, else each has its own.
 */
#include "draw/doc.h"

#include "base/mem.h"
#include "base/parse.h"
#include "draw/text.h"

#include <math.h>
#include <string.h>

enum { MAX_COLUMNS = 64, CELL_BYTES = 128 };

struct table {
    char separator;
    size_t n_columns, n_rows;
    double *values[MAX_COLUMNS]; /* [n_rows] */
    char names[MAX_COLUMNS][CELL_BYTES];
};

static const char *end_of_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

static bool is_data(const char *line, const char *end)
{
    while (line < end && (*line == ' ' || *line == '\r')) line++;
    return line < end && *line != '#';
}

/* The next cell of [*at, end), without blanks and quotes around it; false at the end of the line. */
static bool next_cell(const char **at, const char *end, char separator, char cell[CELL_BYTES])
{
    if (!*at) return false;
    const char *from = *at, *stop = memchr(from, separator, (size_t)(end - from));
    *at = stop ? stop + 1 : NULL;
    if (!stop) stop = end;
    while (from < stop && strchr(" \t\r\"", *from)) from++;
    while (stop > from && strchr(" \t\r\"", stop[-1])) stop--;
    size_t len = (size_t)(stop - from) < CELL_BYTES - 1 ? (size_t)(stop - from) : CELL_BYTES - 1;
    memcpy(cell, from, len);
    cell[len] = '\0';
    return true;
}

static char separator_of(const char *line, const char *end)
{
    static const char separators[] = ",;\t";
    for (int i = 0; i < 3; i++)
        if (memchr(line, separators[i], (size_t)(end - line))) return separators[i];
    return ',';
}

/* The head, if the first line is one. */
static bool read_names(struct table *t, const char *line, const char *end)
{
    char cell[CELL_BYTES];
    double number;
    bool is_head = false;
    t->separator = separator_of(line, end);
    for (const char *at = line; t->n_columns < MAX_COLUMNS && next_cell(&at, end, t->separator, cell); t->n_columns++) {
        is_head |= cell[0] && !ls__parse_f64(cell, &number);
        memcpy(t->names[t->n_columns], cell, CELL_BYTES);
    }
    for (size_t c = 0; !is_head && c < t->n_columns; c++) t->names[c][0] = '\0';
    return is_head;
}

static enum ls_status read_table(struct ls_draw_doc *doc, struct table *t, const char *name, const char *text,
                                 const char *end)
{
    bool is_first = true;
    size_t n_lines = 1;
    for (const char *at = text; at < end; at++) n_lines += *at == '\n';
    for (const char *line = text, *next; line < end; line = next + 1) {
        char cell[CELL_BYTES];
        next = end_of_line(line, end);
        if (!is_data(line, next)) continue;
        if (is_first) {
            is_first = false;
            bool is_head = read_names(t, line, next);
            for (size_t c = 0; c < t->n_columns; c++)
                TRY(ls__arena_alloc(&doc->memory, &t->values[c], n_lines, sizeof(double)));
            if (is_head) continue;
        }
        const char *at = line;
        for (size_t c = 0; c < t->n_columns; c++)
            if (!next_cell(&at, next, t->separator, cell) || !ls__parse_f64(cell, &t->values[c][t->n_rows]))
                t->values[c][t->n_rows] = NAN;
        t->n_rows++;
    }
    if (t->n_columns < 2 || t->n_rows == 0)
        return ls_fail(LS_DATA,
                       "%s: expected at least two columns, x and a curve, with commas between and a line of numbers",
                       name);
    return LS_OK;
}

static double largest_of(const double *values, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i])) most = fmax(most, fabs(values[i]));
    return most;
}

static bool is_one_magnitude(const struct table *t)
{
    double least = INFINITY, most = 0;
    for (size_t c = 1; c < t->n_columns; c++) {
        double largest = largest_of(t->values[c], t->n_rows);
        if (largest == 0) continue;
        least = fmin(least, largest);
        most = fmax(most, largest);
    }
    return most <= 10 * least;
}

enum ls_status ls__doc_read_csv(struct ls_draw_doc *doc, const char *name, const char *text, size_t len)
{
    struct table *t = NULL;
    struct ls_draw_series *series = NULL;
    struct ls_draw_panel *panels = NULL;
    TRY(ls__arena_alloc(&doc->memory, &t, 1, sizeof *t));
    TRY(read_table(doc, t, name, text, text + len));
    int n = (int)t->n_columns - 1;
    bool is_one = is_one_magnitude(t);
    TRY(ls__arena_alloc(&doc->memory, &series, (size_t)n, sizeof *series));
    TRY(ls__arena_alloc(&doc->memory, &panels, (size_t)n, sizeof *panels));
    for (int i = 0; i < n; i++) {
        series[i] = (struct ls_draw_series){.n = t->n_rows, .x = t->values[0], .y = t->values[i + 1], .colour = i + 1};
        if (is_one && n > 1) series[i].label = t->names[i + 1];
        if (is_one && i > 0) continue;
        panels[i] = (struct ls_draw_panel){.series = &series[i],
                                           .n_series = is_one ? n : 1,
                                           .x = {.label = t->names[0]},
                                           .title = is_one && n > 1 ? NULL : t->names[i + 1],
                                           .height = is_one || n < 3 ? 0 : 190};
    }
    doc->picture = (struct ls_draw_picture){.panels = panels, .n_panels = is_one ? 1 : n};
    return LS_OK;
}
