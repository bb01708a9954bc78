/* eval_files.c: the same for programs, as JSON and CSV; see eval_tables.h. */
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/eval_tables.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_MATRIX = 1000 }; /* classes */

static struct json_t *name_json(const struct predictions *p, int label)
{
    return ls__json_text(ls__classes_name(&p->classes, label));
}

/* value is taken over. */
static enum ls_status set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0 ? LS_OK : ls_fail(LS_NOMEM, "out of memory while writing JSON");
}

enum ls_status ls__eval_json_classes(const struct predictions *p, struct json_t *object)
{
    struct class_tally *tallies;
    json_t *list = json_array();
    TRY(set(object, "classes", list));
    TRY(ls__predictions_tally(p, &tallies));
    for (int i = 0; i < p->n_classes; i++) {
        const struct class_tally *t = &tallies[i];
        json_array_append_new(
            list,
            json_pack("{s:i, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "class", i, "name", name_json(p, i), "support",
                      (json_int_t)t->support, "predicted", (json_int_t)t->predicted, "right", (json_int_t)t->right,
                      "accuracy", ls__json_number(ls__tally_recall(t)), "recall", ls__json_number(ls__tally_recall(t)),
                      "precision", ls__json_number(ls__tally_precision(t)), "f1", ls__json_number(ls__tally_f1(t))));
    }
    free(tallies);
    return LS_OK;
}

static enum ls_status json_matrix(const struct predictions *p, json_t *rows)
{
    int64_t *matrix;
    TRY(ls__predictions_matrix(p, &matrix));
    for (int i = 0; i < p->n_classes; i++) {
        json_t *row = json_array();
        for (int k = 0; k < p->n_classes; k++)
            json_array_append_new(row, json_integer(matrix[(int64_t)i * p->n_classes + k]));
        json_array_append_new(rows, row);
    }
    free(matrix);
    return LS_OK;
}

enum ls_status ls__eval_json_confusion(const struct predictions *p, struct json_t *object)
{
    struct confused *pairs;
    size_t n;
    json_t *list = json_array(), *rows = json_array();
    TRY(set(object, "confused", list));
    TRY(set(object, "confusion", p->n_classes <= MAX_MATRIX ? rows : json_null()));
    if (p->n_classes > MAX_MATRIX)
        json_decref(rows); /* the pairs have it all */
    else
        TRY(json_matrix(p, rows));
    TRY(ls__predictions_confused(p, &pairs, &n));
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:i, s:i, s:o, s:o, s:I}", "truth", pairs[i].truth, "predicted",
                                              pairs[i].predicted, "truth_name", name_json(p, pairs[i].truth),
                                              "predicted_name", name_json(p, pairs[i].predicted), "images",
                                              (json_int_t)pairs[i].n));
    free(pairs);
    return LS_OK;
}

static void csv_head(const struct predictions *p, struct ls_buf *b)
{
    ls__buf_adds(b, p->files.n ? "index,file,label,predicted,probability,label_name,predicted_name"
                               : "index,label,predicted,probability,label_name,predicted_name");
    for (int k = 2; k <= p->k; k++) ls__buf_addf(b, ",predicted_%d,probability_%d,predicted_name_%d", k, k, k);
    ls__buf_adds(b, "\n");
}

enum ls_status ls__eval_write_csv(const struct predictions *p, const char *path)
{
    struct ls_buf b = LS_BUF_INIT;
    char number[LS_CLASS_TEXT];
    csv_head(p, &b);
    for (int64_t i = 0; i < p->n; i++) {
        const struct ls_guess *g = p->guesses + i * p->k;
        ls__csv_addf(&b, "%lld", (long long)i);
        if (p->files.n) ls__csv_add(&b, p->files.at[i]);
        ls__csv_addf(&b, "%d", p->labels[i]);
        ls__csv_addf(&b, "%d", g->label);
        ls__csv_addf(&b, "%.6f", (double)g->probability);
        ls__csv_add(&b, ls__classes_show(&p->classes, p->labels[i], number));
        ls__csv_add(&b, ls__classes_show(&p->classes, g->label, number));
        for (int k = 1; k < p->k; k++) {
            ls__csv_addf(&b, "%d", g[k].label);
            ls__csv_addf(&b, "%.6f", (double)g[k].probability);
            ls__csv_add(&b, ls__classes_show(&p->classes, g[k].label, number));
        }
        ls__buf_adds(&b, "\n");
    }
    return ls__print_file(&b, path);
}
