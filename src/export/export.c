/* export.c: see export.h. From a checkpoint's metadata comes the model, from the model its graph for evaluation, from
 * the graph the names of the tensors, and those from the checkpoint. Nothing is computed but folds.
 */
#include "export/export.h"

#include "base/json.h"
#include "base/mem.h"
#include "export/lower.h"
#include "model/model.h"
#include "session/pictured.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One call of ls__export. */
struct job {
    const struct export_options *o;
    struct export_result *r;
    struct ls_ckpt *ckpt;
    struct pictured pictured;
    struct ls_model *model;
    struct ls_graph *g;
    struct onnx_network net;
    char *classes; /* as a JSON list; NULL: no names */
};

/* --- ONNX --- */

static enum ls_status name_classes(struct job *job)
{
    const struct ls_classes *names = &job->pictured.classes;
    if (!names->names) return LS_OK;
    json_t *list = json_array();
    char number[LS_CLASS_TEXT];
    for (int i = 0; i < names->n; i++) json_array_append_new(list, ls__json_text(ls__classes_show(names, i, number)));
    return ls__json_dump(list, LS_JSON_LINE, "class names", &job->classes);
}

static enum ls_status join(struct onnx_network *net, const float *numbers, int n, const char **text)
{
    char all[96] = "";
    for (int i = 0; i < n; i++) {
        size_t at = strlen(all);
        char number[24];
        for (int digits = 6; digits <= 9; digits++) { /* the shortest that is read back as the same */
            snprintf(number, sizeof number, "%.*g", digits, (double)numbers[i]);
            if (strtof(number, NULL) == numbers[i]) break;
        }
        snprintf(all + at, sizeof all - at, "%s%s", i ? "," : "", number);
    }
    return ls__onnx_name(net, text, "%s", all);
}

/* What a program needs to know that feeds it. */
static enum ls_status add_metadata(struct job *job)
{
    static const char *const forms[] = {
        [EXPORT_NORMALIZED] = "RGB or grey, pixels x in 0..255 as (x / 255 - mean) / std, float32",
        [EXPORT_UNIT] = "RGB or grey, pixels x in 0..255 as x / 255, float32",
        [EXPORT_BYTES] = "RGB or grey, pixels in 0..255, uint8",
    };
    struct onnx_network *net = &job->net;
    const char *mean, *std, *hash = ls_ckpt_meta(job->ckpt, "weights_hash");
    TRY(name_classes(job));
    TRY(join(net, job->pictured.mean, job->pictured.c, &mean));
    TRY(join(net, job->pictured.std, job->pictured.c, &std));
    ls__onnx_add_meta(net, "input", forms[job->o->pixels]);
    ls__onnx_add_meta(net, "mean", mean);
    ls__onnx_add_meta(net, "std", std);
    ls__onnx_add_meta(net, "class_names", job->classes);
    ls__onnx_add_meta(net, "weights_hash", hash);
    return LS_OK;
}

/* One number per channel, beside images. */
static enum ls_status channel_tensor(struct job *job, const char *name, const float *values)
{
    float *data;
    const struct ls_shape shape = LS_SHAPE4(1, job->pictured.c, 1, 1);
    TRY(ls__onnx_make_tensor(&job->net, name, &shape, &data));
    memcpy(data, values, (size_t)job->pictured.c * sizeof *data);
    return LS_OK;
}

static enum ls_status add_step(struct job *job, const char *op, const char *operand, const char *output,
                               const char **value)
{
    struct onnx_node *node;
    TRY(ls__onnx_add_node(&job->net, op, output, &node));
    ls__onnx_add_input(node, *value);
    if (operand) ls__onnx_add_input(node, operand);
    if (!operand) ls__onnx_add_int(node, "to", 1); /* float32 */
    *value = node->output = output;
    return LS_OK;
}

/* From pixels to what the first layer expects. */
static enum ls_status add_normalize(struct job *job, const char **value)
{
    static const float full[3] = {255, 255, 255};
    *value = job->net.input;
    if (job->o->pixels == EXPORT_BYTES) {
        TRY(channel_tensor(job, "pixels.full", full));
        TRY(add_step(job, "Cast", NULL, "pixels.float", value));
        TRY(add_step(job, "Div", "pixels.full", "pixels.unit", value));
    }
    if (job->o->pixels == EXPORT_NORMALIZED) return LS_OK;
    TRY(channel_tensor(job, "pixels.mean", job->pictured.mean));
    TRY(channel_tensor(job, "pixels.std", job->pictured.std));
    TRY(add_step(job, "Sub", "pixels.mean", "pixels.centred", value));
    return add_step(job, "Div", "pixels.std", "pixels.normalized", value);
}

static enum ls_status write_onnx(struct job *job)
{
    struct onnx_network *net = &job->net;
    const struct pictured *p = &job->pictured;
    const char *first;
    *net = (struct onnx_network){.name = ls_model_name(job->model),
                                 .input = "images",
                                 .input_dtype = job->o->pixels == EXPORT_BYTES ? LS_U8 : LS_F32,
                                 .c = p->c,
                                 .h = p->h,
                                 .w = p->w,
                                 .output = "logits",
                                 .n_classes = p->n_classes,
                                 .step = p->step};
    TRY(add_metadata(job));
    TRY(add_normalize(job, &first));
    TRY(ls__lower(job->g, job->ckpt, job->r->checkpoint, job->o->fold, first, net));
    job->r->n_nodes = net->n_nodes;
    return ls__onnx_write(net, job->o->onnx, &job->r->onnx_bytes);
}

/* --- safetensors --- */

/* PyTorch's counter of batches, beside a running mean; NULL: the checkpoint has none. */
static const struct ls_ckpt_tensor *counter_of(const struct job *job, const char *buffer)
{
    static const char mean[] = ".running_mean";
    char name[512];
    size_t len = strlen(buffer), n = sizeof mean - 1;
    if (len <= n || strcmp(buffer + len - n, mean) != 0 || len >= sizeof name) return NULL;
    snprintf(name, sizeof name, "%.*s.num_batches_tracked", (int)(len - n), buffer);
    return ls_ckpt_find(job->ckpt, name);
}

/* Parameters and buffers in the order of the model; list has room for two of each value. */
static enum ls_status list_tensors(const struct job *job, struct ls_ckpt_tensor *list, int *n)
{
    const struct lowering values = {.g = job->g, .ckpt = job->ckpt, .path = job->r->checkpoint};
    for (int i = 0; i < job->g->n_values; i++) {
        const struct ls_value *v = &job->g->values[i];
        const float *data;
        if (v->kind != LS_VALUE_PARAM && v->kind != LS_VALUE_BUFFER) continue;
        TRY(ls__lower_values(&values, i, &data));
        list[(*n)++] = (struct ls_ckpt_tensor){.name = v->name, .dtype = LS_F32, .shape = v->shape, .data = data};
        const struct ls_ckpt_tensor *counter = counter_of(job, v->name);
        if (counter) list[(*n)++] = *counter;
    }
    return LS_OK;
}

static enum ls_status write_safetensors(struct job *job)
{
    const char *hash = ls_ckpt_meta(job->ckpt, "weights_hash");
    const struct ls_ckpt_meta meta[] = {
        {"format", "pt"}, {"model", ls_model_name(job->model)}, {"weights_hash", hash ? hash : ""}};
    struct ls_ckpt_tensor *list;
    struct stat st;
    TRY(ls__calloc(&list, 2 * (size_t)job->g->n_values, sizeof *list));
    enum ls_status status = list_tensors(job, list, &job->r->n_tensors);
    if (status == LS_OK) {
        status = ls_ckpt_write(job->o->safetensors, list, job->r->n_tensors, meta, sizeof meta / sizeof meta[0]);
        if (status == LS_CHECKPOINT) status = ls_fail_in(LS_IO, "export");
    }
    if (status == LS_OK && stat(job->o->safetensors, &st) == 0) job->r->safetensors_bytes = st.st_size;
    free(list);
    return status;
}

/* --- all of it --- */

static enum ls_status check_target(const struct export_options *o, const char *path)
{
    struct stat st;
    if (!path || lstat(path, &st) != 0) return LS_OK;
    if (S_ISDIR(st.st_mode)) return ls_fail(LS_USAGE, "%s is a folder; name a file", path);
    return o->force ? LS_OK : ls_fail(LS_USAGE, "%s is there already; name another file, or --force replaces it", path);
}

static enum ls_status load_model(struct job *job)
{
    const char *model = ls_ckpt_meta(job->ckpt, "model"), *text = ls_ckpt_meta(job->ckpt, "model_text");
    const struct pictured *p = &job->pictured;
    if (!model) return ls_fail(LS_CHECKPOINT, "%s does not say which model it holds", job->r->checkpoint);
    TRY(ls__pictured_open(&job->pictured, job->ckpt, job->r->checkpoint));
    TRY(text ? ls_model_parse(&job->model, job->r->checkpoint, text, strlen(text)) : ls_model_load(&job->model, model));
    const struct ls_model_options build = {.mb = 1, .c = p->c, .h = p->h, .w = p->w, .n_classes = p->n_classes};
    return ls_model_build(job->model, &build, &job->g);
}

static void fill_result(struct job *job)
{
    struct export_result *r = job->r;
    const struct pictured *p = &job->pictured;
    snprintf(r->model, sizeof r->model, "%s", ls_model_name(job->model));
    r->step = p->step;
    r->c = p->c;
    r->h = p->h;
    r->w = p->w;
    r->n_classes = p->n_classes;
    for (int i = 0; i < job->g->n_values; i++)
        if (job->g->values[i].kind == LS_VALUE_PARAM) r->parameters += ls_shape_count(&job->g->values[i].shape);
}

static enum ls_status run(struct job *job)
{
    const struct export_options *o = job->o;
    TRY(check_target(o, o->onnx));
    TRY(check_target(o, o->safetensors));
    if (o->onnx) TRY(ls__onnx_can_write());
    TRY(ls_ckpt_open_best(&job->ckpt, o->what, job->r->checkpoint));
    TRY(load_model(job));
    fill_result(job);
    if (o->onnx) TRY(write_onnx(job));
    return o->safetensors ? write_safetensors(job) : LS_OK;
}

enum ls_status ls__export(const struct export_options *o, struct export_result *r)
{
    struct job job = {.o = o, .r = r};
    *r = (struct export_result){.step = 0};
    enum ls_status status = run(&job);
    ls__onnx_release(&job.net);
    free(job.classes);
    ls_graph_destroy(&job.g);
    ls_model_destroy(&job.model);
    ls__pictured_close(&job.pictured);
    ls_ckpt_close(&job.ckpt);
    return status;
}
