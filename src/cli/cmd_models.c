/* cmd_models.c: `lockstep models`: what the models cost, from their graphs. */
#include "base/parse.h"
#include "cli/cmd.h"
#include "model/model.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

struct row {
    const char *name; /* the model's own, borrowed */
    int c, h, w, n_classes;
    bool adapts; /* to the data's size */
    struct ls_model_summary summary;
};

/* The model's own input; where it adapts --input decides, else CIFAR's size, or MNIST's if all or the channel allow it.
 */
static enum ls_status describe(const struct ls_options *o, const struct ls_model *model, struct row *row)
{
    int64_t dims[3] = {3, 32, 32};
    ls_model_input(model, &row->c, &row->h, &row->w);
    row->adapts = !row->c || !row->h || !row->w;
    if (row->c == 1 || (!row->c && !row->h && !row->w)) {
        dims[0] = 1;
        dims[1] = dims[2] = 28;
    }
    if (o->input && ls__parse_dims(o->input, dims) != 3)
        return ls_fail(LS_USAGE, "--input %s: expected CxHxW", o->input);
    if (!row->c) row->c = (int)dims[0];
    if (!row->h) row->h = (int)dims[1];
    if (!row->w) row->w = (int)dims[2];
    row->n_classes = o->classes ? (int)o->classes : row->h >= 224 ? 1000 : 10;
    row->name = ls_model_name(model);
    return ls_model_summarize(model, row->c, row->h, row->w, row->n_classes, &row->summary);
}

static void print_head(void)
{
    printf("%-16s %10s %12s %12s  %-20s %7s\n", "model", "parameters", "GFLOP/image", "MB/image", "input", "classes");
}

static void print_row(const struct row *row)
{
    char count[LS_TEXT_BYTES], input[48];
    snprintf(input, sizeof input, "%dx%dx%d%s", row->c, row->h, row->w, row->adapts ? " (adapts)" : "");
    printf("%-16s %10s %12.4f %12.3f  %-20s %7d\n", row->name, ls__count_text((double)row->summary.parameters, count),
           row->summary.flops_per_image * 1e-9, (double)row->summary.activation_bytes_per_image * 1e-6, input,
           row->n_classes);
}

static json_t *row_json(const struct row *row)
{
    return json_pack("{s:o, s:I, s:f, s:I, s:i, s:[iii], s:b, s:i}", "name", ls__json_text(row->name), "parameters",
                     (json_int_t)row->summary.parameters, "gflop_per_image", row->summary.flops_per_image * 1e-9,
                     "activation_bytes_per_image", (json_int_t)row->summary.activation_bytes_per_image, "layers",
                     row->summary.n_layers, "input", row->c, row->h, row->w, "adapts", row->adapts, "classes",
                     row->n_classes);
}

/* Into `list` if there is one, else as a line of the table. */
static enum ls_status show(const struct ls_options *o, const char *name, bool is_first, json_t *list)
{
    struct ls_model *model = NULL;
    struct row row;
    enum ls_status status = ls_model_load(&model, name);
    if (status == LS_OK) status = describe(o, model, &row);
    if (status == LS_OK && list && json_array_append_new(list, row_json(&row)) != 0)
        status = ls_fail(LS_NOMEM, "out of memory while listing models");
    if (status == LS_OK && !list && is_first) print_head();
    if (status == LS_OK && !list) print_row(&row);
    ls_model_destroy(&model);
    return status;
}

static enum ls_status show_all(const struct ls_options *o, json_t *list)
{
    if (o->n_args > 0) return show(o, o->args[0], true, list);
    for (const struct ls_zoo_entry *entry = ls_zoo; entry->name; entry++)
        TRY(show(o, entry->name, entry == ls_zoo, list));
    return LS_OK;
}

enum ls_status ls__cmd_models(const struct ls_options *o)
{
    json_t *list = o->train.json ? json_array() : NULL;
    enum ls_status status = show_all(o, list);
    if (status == LS_OK && list) return ls__print_json(json_pack("{s:o}", "models", list));
    json_decref(list);
    if (status == LS_OK)
        printf("(GFLOP and MB of activations: forward pass, per image; training takes about 3 times)\n");
    return status;
}
