/* cmd_models.c: `lockstep models`: what the models cost, from their graphs; `lockstep models NAME`: layer by layer. */
#include "base/parse.h"
#include "cli/cmd.h"
#include "model/model.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    row->adapts = !row->c || !row->h || !row->w || !ls_model_input_is_fixed(model);
    if (row->c == 1 || (!row->c && !row->h && !row->w)) {
        dims[0] = 1;
        dims[1] = dims[2] = 28;
    }
    if (o->input && ls__parse_dims(o->input, dims) != 3)
        return ls_fail(LS_USAGE, "--input %s: expected CxHxW", o->input);
    const bool is_free = o->input && !ls_model_input_is_fixed(model);
    if (!row->c || is_free) row->c = (int)dims[0];
    if (!row->h || is_free) row->h = (int)dims[1];
    if (!row->w || is_free) row->w = (int)dims[2];
    row->n_classes = o->classes ? (int)o->classes : row->h >= 224 ? 1000 : 10;
    row->name = ls_model_name(model);
    return ls_model_summarize(model, row->c, row->h, row->w, row->n_classes, &row->summary);
}

/* --- which images a model takes, tried out --- */

static const int usual_sizes[] = {28, 32, 64, 96, 128, 224, 299};
enum { N_SIZES = sizeof usual_sizes / sizeof *usual_sizes };

static bool takes(const struct ls_model *model, int c, int size, int n_classes)
{
    const struct ls_model_options options = {.mb = 2, .c = c, .h = size, .w = size, .n_classes = n_classes};
    struct ls_graph *g = NULL;
    const bool is_good = ls_model_build(model, &options, &g) == LS_OK;
    ls_graph_destroy(&g);
    return is_good;
}

static void print_sizes(const struct ls_model *model, const struct row *row)
{
    int n = 0;
    printf("takes images of ");
    for (int c = 1; c <= 3; c += 2)
        for (int i = 0; i < N_SIZES; i++) {
            if (!takes(model, c, usual_sizes[i], row->n_classes)) continue;
            if (n > 0) printf(",%s", n % 5 ? " " : "\n                ");
            printf("%dx%dx%d", c, usual_sizes[i], usual_sizes[i]);
            n++;
        }
    printf("%s%s\n", n ? "" : "its own size only", row->adapts && n ? " and others" : "");
}

static json_t *sizes_json(const struct ls_model *model, const struct row *row)
{
    json_t *list = json_array();
    for (int c = 1; c <= 3; c += 2)
        for (int i = 0; i < N_SIZES; i++)
            if (takes(model, c, usual_sizes[i], row->n_classes))
                json_array_append_new(list, json_pack("[iii]", c, usual_sizes[i], usual_sizes[i]));
    return list;
}

/* --- the layers of one --- */

enum { NAME_COLUMNS = 24 };

/* A long name keeps its end, which tells it from its neighbours. */
static void print_name(const char *name)
{
    const size_t len = strlen(name);
    if (len <= NAME_COLUMNS)
        printf("%-*s", NAME_COLUMNS, name);
    else
        printf("..%s", name + len - (NAME_COLUMNS - 2));
}

/* One image's part of a shape. */
static const char *image_text(const struct ls_shape *s, char out[LS_SHAPE_TEXT])
{
    struct ls_shape image = {.n_dims = s->n_dims - 1};
    memcpy(image.dims, s->dims + 1, sizeof image.dims[0] * (size_t)image.n_dims);
    return ls_shape_text(&image, out);
}

static void print_layer(const struct ls_model_row *r)
{
    char shape[LS_SHAPE_TEXT], parameters[LS_TEXT_BYTES] = "-", flops[LS_TEXT_BYTES] = "-", memory[LS_TEXT_BYTES] = "-";
    if (r->parameters) snprintf(parameters, sizeof parameters, "%" PRId64, r->parameters);
    if (r->flops > 0) ls__count_text(r->flops, flops);
    if (r->activation_bytes) ls__bytes_text((double)r->activation_bytes, memory);
    print_name(r->name);
    printf(" %-14.14s %-12s %10s %7s %8s\n", r->type, image_text(&r->out, shape), parameters, flops, memory);
}

static struct ls_model_row total_of(const struct ls_model_row *rows, int n_rows)
{
    struct ls_model_row all = {.name = "total"};
    for (int i = 0; i < n_rows; i++) {
        all.parameters += rows[i].parameters;
        all.buffers += rows[i].buffers;
        all.flops += rows[i].flops;
        all.activation_bytes += rows[i].activation_bytes;
    }
    return all;
}

static void print_layers(const struct ls_model *model, const struct row *row, const struct ls_model_row *rows,
                         int n_rows, int64_t mb)
{
    char a[LS_TEXT_BYTES], b[LS_TEXT_BYTES], c[LS_TEXT_BYTES];
    const struct ls_model_row all = total_of(rows, n_rows);
    printf("%s, images of %dx%dx%d, %d classes, %" PRId64 " image%s at a time\n\n", row->name, row->c, row->h, row->w,
           row->n_classes, mb, mb == 1 ? "" : "s");
    printf("%-*s %-14s %-12s %10s %7s %8s\n", NAME_COLUMNS, "layer", "type", "result", "parameters", "ops", "memory");
    for (int i = 0; i < n_rows; i++) print_layer(&rows[i]);
    printf("\n%d layers, %" PRId64 " parameters (%s)", n_rows, all.parameters,
           ls__bytes_text((double)all.parameters * 4, a));
    if (all.buffers) printf(", %" PRId64 " running statistics", all.buffers);
    printf("\nforward: %s operations, %s of results; training takes about 3 times\n", ls__count_text(all.flops, b),
           ls__bytes_text((double)all.activation_bytes, c));
    printf("(a multiply-add is two operations; what memory is really used: lockstep plan)\n");
    print_sizes(model, row);
}

static json_t *layers_json(const struct ls_model_row *rows, int n_rows)
{
    json_t *list = json_array();
    for (int i = 0; i < n_rows; i++) {
        json_t *shape = json_array();
        for (int d = 0; d < rows[i].out.n_dims; d++) json_array_append_new(shape, json_integer(rows[i].out.dims[d]));
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:o, s:I, s:I, s:f, s:I}", "name", ls__json_text(rows[i].name),
                                        "type", rows[i].type, "output", shape, "parameters",
                                        (json_int_t)rows[i].parameters, "buffers", (json_int_t)rows[i].buffers, "flop",
                                        rows[i].flops, "activation_bytes", (json_int_t)rows[i].activation_bytes));
    }
    return list;
}

/* --- a line or an object per model --- */

static void print_head(void)
{
    printf("%-14s %10s %11s %9s  %-18s %7s\n", "model", "parameters", "GFLOP/image", "MB/image", "input", "classes");
}

static void print_row(const struct row *row)
{
    char count[LS_TEXT_BYTES], input[48];
    snprintf(input, sizeof input, "%dx%dx%d%s", row->c, row->h, row->w, row->adapts ? " (adapts)" : "");
    printf("%-14s %10s %11.4f %9.3f  %-18s %7d\n", row->name, ls__count_text((double)row->summary.parameters, count),
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

/* The layers of one model: into `object` if there is one, else printed. */
static enum ls_status show_layers(const struct ls_options *o, const struct ls_model *model, const struct row *row,
                                  json_t *object)
{
    const int64_t mb = ls__option_is_given(o, "batch-size") ? o->train.batch_size : 1;
    const struct ls_model_options options = {
        .mb = mb, .c = row->c, .h = row->h, .w = row->w, .n_classes = row->n_classes};
    struct ls_model_row *rows;
    int n_rows;
    TRY(ls_model_table(model, &options, &rows, &n_rows));
    if (object) {
        json_object_set_new(object, "batch_size", json_integer(mb));
        json_object_set_new(object, "takes", sizes_json(model, row));
        json_object_set_new(object, "table", layers_json(rows, n_rows));
    } else {
        print_layers(model, row, rows, n_rows, mb);
    }
    free(rows);
    return LS_OK;
}

/* Into `list` if there is one, else as a line of the table, or with layers. */
static enum ls_status show(const struct ls_options *o, const char *name, bool is_first, json_t *list)
{
    const bool has_layers = o->n_args > 0;
    struct ls_model *model = NULL;
    struct row row;
    json_t *object = NULL;
    enum ls_status status = ls_model_load(&model, name);
    if (status == LS_OK) status = describe(o, model, &row);
    if (status == LS_OK && list) object = row_json(&row);
    if (status == LS_OK && has_layers) status = show_layers(o, model, &row, object);
    if (status == LS_OK && list && json_array_append(list, object) != 0)
        status = ls_fail(LS_NOMEM, "out of memory while listing models");
    json_decref(object);
    if (status == LS_OK && !list && !has_layers && is_first) print_head();
    if (status == LS_OK && !list && !has_layers) print_row(&row);
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
    if (o->n_args == 0 && ls__option_is_given(o, "batch-size"))
        return ls_fail(LS_USAGE, "models --batch-size: name the model whose layers are to be shown");
    json_t *list = o->train.json ? json_array() : NULL;
    enum ls_status status = show_all(o, list);
    if (status == LS_OK && list) return ls__print_json(json_pack("{s:o}", "models", list));
    json_decref(list);
    if (status == LS_OK && o->n_args == 0)
        printf("(GFLOP and MB of activations: forward pass, per image; training takes about\n"
               "3 times. adapts: takes other sizes; `lockstep models NAME` says which, and\n"
               "shows the layers)\n");
    return status;
}
