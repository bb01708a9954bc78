/* eval_draw.c: which classes are taken for which, as a picture; see eval_tables.h. */
#include "base/log.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/eval_tables.h"
#include "draw/draw.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_DRAWN = 256 }; /* classes; more would be dots that nobody can tell apart */

enum ls_status ls__eval_can_draw(const char *path)
{
    TRY(ls_draw_can_write(path));
    return ls__print_try(path);
}

/* The matrix as the drawing module takes it, and the classes' names. */
static enum ls_status prepare(const struct predictions *p, double **cells, const char ***names,
                              char (**numbers)[LS_CLASS_TEXT])
{
    int64_t *matrix;
    size_t n = (size_t)p->n_classes;
    TRY(ls__calloc(cells, n * n, sizeof **cells));
    TRY(ls__calloc(names, n, sizeof **names));
    TRY(ls__calloc(numbers, n, sizeof **numbers));
    TRY(ls__predictions_matrix(p, &matrix));
    for (size_t i = 0; i < n * n; i++) (*cells)[i] = (double)matrix[i];
    for (size_t i = 0; i < n; i++) (*names)[i] = ls__classes_show(&p->classes, (int)i, (*numbers)[i]);
    free(matrix);
    return LS_OK;
}

/* As wide as the table and its title want it: large cells for few classes. */
static double width_of(const struct predictions *p, const char *const *names, const char *title)
{
    double cell = p->n_classes <= 16 ? 46 : p->n_classes <= 64 ? 26 : 13, name = 0;
    for (int i = 0; i < p->n_classes; i++) name = fmax(name, fmin(7.0 * ls__columns_of(names[i]), 140));
    return fmax(120 + name + cell * p->n_classes, 60 + 10.0 * ls__columns_of(title));
}

enum ls_status ls__eval_draw_confusion(const struct predictions *p, const char *title, const char *path)
{
    double *cells = NULL;
    const char **names = NULL;
    char(*numbers)[LS_CLASS_TEXT] = NULL;
    if (p->n_classes > MAX_DRAWN) {
        ls__log(LS_LOG_WARN, "%s is not drawn: nobody could read %d classes; --json has the numbers", path,
                p->n_classes);
        return LS_OK;
    }
    enum ls_status status = prepare(p, &cells, &names, &numbers);
    const struct ls_draw_panel panel = {.kind = LS_DRAW_HEAT,
                                        .x = {.label = "taken for"},
                                        .y = {.label = "truth"},
                                        .names = names,
                                        .cells = cells,
                                        .n_rows = p->n_classes,
                                        .n_columns = p->n_classes,
                                        .is_by_row = true,
                                        .note = "Numbers are images; the shade is their share of the row."};
    struct ls_draw_picture picture = {.title = title, .panels = &panel, .n_panels = 1};
    if (status == LS_OK) picture.width = width_of(p, names, title);
    if (status == LS_OK) status = ls_draw_write(&picture, path);
    free(cells);
    free(names);
    free(numbers);
    return status;
}
