/* dump_gradients.c: what Lockstep computes from given weights and a given batch, written out for compare.py.
 *
 *     dump_gradients batch IN OUT KEY=VALUE...   one network, one batch
 *         IN   weights and running statistics under PyTorch's names, "input" u8 [n,c,h,w], "labels" u8 [n]
 *         OUT  "loss" and "logits" (the latter as in evaluation), "gradient.NAME" of every parameter, and after
 *              steps=N training steps on the same batch "after.NAME" of every parameter and running statistic
 *     dump_gradients data SPEC OUT               the test split of a data set: "input", "labels", "mean", "std"
 *     dump_gradients schedule KEY=VALUE...       one learning rate per line
 *
 * Dropout is taken out of the model, as its random numbers are not PyTorch's. All files are safetensors.
 */
#include "base/mem.h"
#include "base/parse.h"
#include "checkpoint/checkpoint.h"
#include "exec/exec.h"
#include "model/model.h"
#include "optim/optim.h"
#include "session/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- settings: KEY=VALUE --- */

struct settings {
    const char *model, *device, *optimizer, *kind, *milestones;
    double classes, shards, label_smoothing, mean, std, gradients;
    double steps, lr, momentum, nesterov, weight_decay, beta1, beta2, eps, clip_norm;
    double min_lr, gamma, step_epochs, warmup_epochs, steps_per_epoch, total_steps;
};

struct key {
    const char *name;
    size_t offset;
    bool is_text;
};

#define TEXT(name)                                                                                                     \
    {                                                                                                                  \
#name, offsetof(struct settings, name), true                                                                   \
    }
#define NUMBER(name)                                                                                                   \
    {                                                                                                                  \
#name, offsetof(struct settings, name), false                                                                  \
    }

static const struct key keys[] = {
    TEXT(model),           TEXT(device),   TEXT(optimizer),     TEXT(kind),          TEXT(milestones),
    NUMBER(classes),       NUMBER(shards), NUMBER(mean),        NUMBER(std),         NUMBER(label_smoothing),
    NUMBER(gradients),     NUMBER(steps),  NUMBER(lr),          NUMBER(momentum),    NUMBER(nesterov),
    NUMBER(weight_decay),  NUMBER(beta1),  NUMBER(beta2),       NUMBER(eps),         NUMBER(clip_norm),
    NUMBER(min_lr),        NUMBER(gamma),  NUMBER(step_epochs), NUMBER(total_steps), NUMBER(steps_per_epoch),
    NUMBER(warmup_epochs),
};

static enum ls_status read_setting(struct settings *s, const char *word)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        size_t len = strlen(keys[i].name);
        if (strncmp(word, keys[i].name, len) != 0 || word[len] != '=') continue;
        void *field = (char *)s + keys[i].offset;
        if (keys[i].is_text) {
            *(const char **)field = word + len + 1;
            return LS_OK;
        }
        if (ls__parse_f64(word + len + 1, field)) return LS_OK;
    }
    return ls_fail(LS_USAGE, "'%s': no such setting, or not a number", word);
}

static enum ls_status read_settings(struct settings *s, int n, char **words)
{
    *s = (struct settings){.device = "cpu", .optimizer = "sgd", .classes = 10, .shards = 1, .std = 1, .gradients = 1};
    for (int i = 0; i < n; i++) TRY(read_setting(s, words[i]));
    return LS_OK;
}

/* --- a network ready to run --- */

struct net {
    struct settings set;
    struct ls_ckpt *in;
    struct ls_model *model;
    const struct ls_backend *backend;
    struct ls_device *device;
    struct ls_store *store;
    struct ls_exec *exec;
    int n;
    int64_t shard_size;
    struct ls_transform transform;
    struct ls_batch batch;
    const uint8_t **pixels;
    uint32_t *samples;
    uint16_t *labels;
    struct ls_ckpt_tensor *out; /* names and data owned */
    int n_out, room;
};

/* The model without its `dropout` statements. */
static enum ls_status load_model(struct net *w)
{
    struct ls_model *whole;
    char *text;
    size_t len, kept = 0;
    TRY(ls_model_load(&whole, w->set.model));
    const char *from = ls_model_text(whole, &len);
    enum ls_status status = ls__calloc(&text, len + 1, 1);
    for (size_t at = 0; status == LS_OK && at < len;) {
        const char *end = memchr(from + at, '\n', len - at);
        size_t line = end ? (size_t)(end - (from + at)) + 1 : len - at;
        size_t blanks = strspn(from + at, " \t");
        if (strncmp(from + at + blanks, "dropout ", 8) != 0) {
            memcpy(text + kept, from + at, line);
            kept += line;
        }
        at += line;
    }
    if (status == LS_OK) {
        status = ls_model_parse(&w->model, w->set.model, text, kept);
        free(text);
    }
    ls_model_destroy(&whole);
    return status;
}

static enum ls_status load_batch(struct net *w)
{
    const struct ls_ckpt_tensor *input = ls_ckpt_find(w->in, "input"), *labels = ls_ckpt_find(w->in, "labels");
    if (!input || input->dtype != LS_U8 || input->shape.n_dims != 4 || input->shape.dims[1] > 3)
        return ls_fail(LS_DATA, "expected \"input\", u8 [n,c,h,w] with up to 3 channels");
    if (!labels || labels->dtype != LS_U8 || ls_shape_count(&labels->shape) != input->shape.dims[0])
        return ls_fail(LS_DATA, "expected \"labels\", u8 [n]");
    const int64_t *dims = input->shape.dims;
    const size_t image = (size_t)(dims[1] * dims[2] * dims[3]);
    w->n = (int)dims[0];
    TRY(ls__calloc(&w->pixels, (size_t)w->n, sizeof *w->pixels));
    TRY(ls__calloc(&w->samples, (size_t)w->n, sizeof *w->samples));
    TRY(ls__calloc(&w->labels, (size_t)w->n, sizeof *w->labels));
    for (int i = 0; i < w->n; i++) {
        w->labels[i] = ((const uint8_t *)labels->data)[i];
        w->pixels[i] = (const uint8_t *)input->data + (size_t)i * image;
        w->samples[i] = (uint32_t)i;
    }
    w->batch = (struct ls_batch){.n = w->n, .samples = w->samples, .labels = w->labels, .pixels = w->pixels};
    w->transform = (struct ls_transform){.c = (int)dims[1], .h = (int)dims[2], .w = (int)dims[3]};
    for (int c = 0; c < 3; c++) {
        w->transform.mean[c] = (float)w->set.mean;
        w->transform.std[c] = (float)w->set.std;
    }
    return LS_OK;
}

static enum ls_status add_plan(struct net *w, int64_t mb, bool is_training)
{
    const struct settings *s = &w->set;
    const struct ls_passes passes = {.build = {.mb = mb,
                                               .c = w->transform.c,
                                               .h = w->transform.h,
                                               .w = w->transform.w,
                                               .n_classes = (int)s->classes,
                                               .is_training = is_training},
                                     /* as training does: large linear layers sum once per step */
                                     .batch_size = w->backend->is_reduce_last ? 0 : w->n,
                                     .has_norm_add = w->backend->has_norm_add,
                                     .label_smoothing = s->label_smoothing,
                                     .optim = {.is_adamw = strcmp(s->optimizer, "adamw") == 0,
                                               .nesterov = s->nesterov != 0,
                                               .momentum = s->momentum,
                                               .weight_decay = s->weight_decay,
                                               .beta1 = s->beta1,
                                               .beta2 = s->beta2,
                                               .eps = s->eps}};
    struct ls_graph *g;
    struct ls_plan *plan;
    if (mb == 0 || ls_exec_plan(w->exec, mb, is_training)) return LS_OK;
    TRY(ls__passes_run(&passes, w->model, &g));
    TRY(ls_plan_create(&plan, &g, w->backend, w->device, w->store));
    return ls_exec_add_plan(w->exec, &plan);
}

static bool is_weight(const struct ls_stored *e)
{
    return e->source < 0 && (e->kind == LS_VALUE_PARAM || e->kind == LS_VALUE_BUFFER);
}

static enum ls_status set_weights(struct net *w)
{
    TRY(ls_exec_init_store(w->exec, 0)); /* optimizer state is zero */
    for (int i = 0; i < w->store->n_entries; i++) {
        const struct ls_stored *e = &w->store->entries[i];
        if (!is_weight(e)) continue;
        const struct ls_ckpt_tensor *t = ls_ckpt_find(w->in, e->name);
        char have[LS_SHAPE_TEXT] = "nothing", want[LS_SHAPE_TEXT];
        if (t) ls_shape_text(&t->shape, have);
        if (!t || t->dtype != LS_F32 || !ls_shape_is_equal(&t->shape, &e->shape))
            return ls_fail(LS_DATA, "%s: expected f32 %s, found %s", e->name, ls_shape_text(&e->shape, want), have);
        TRY(ls_exec_set(w->exec, i, t->data));
    }
    return LS_OK;
}

static enum ls_status open_net(struct net *w, const char *in)
{
    if (!w->set.model) return ls_fail(LS_USAGE, "model= is missing");
    TRY(ls_backend_get(w->set.device, &w->backend));
    TRY(ls_ckpt_open(&w->in, in));
    TRY(load_model(w));
    TRY(load_batch(w));
    TRY(w->backend->device_open(&w->device));
    TRY(ls_store_create(&w->store));
    TRY(ls_exec_create(&w->exec, w->backend, w->device, w->store, 1));
    w->shard_size = (w->n + (int)w->set.shards - 1) / (int)w->set.shards;
    TRY(add_plan(w, w->shard_size, true));
    TRY(add_plan(w, w->n % w->shard_size, true));
    TRY(add_plan(w, w->n, false));
    return set_weights(w);
}

static void close_net(struct net *w)
{
    for (int i = 0; i < w->n_out; i++) {
        free((void *)w->out[i].name);
        free((void *)w->out[i].data);
    }
    free(w->out);
    free(w->pixels);
    free(w->samples);
    free(w->labels);
    ls_exec_destroy(&w->exec);
    ls_store_destroy(&w->store);
    if (w->backend && w->device) w->backend->device_close(&w->device);
    ls_model_destroy(&w->model);
    ls_ckpt_close(&w->in);
}

/* --- results --- */

/* A zeroed output tensor "PREFIX" "NAME"; *data belongs to the net. */
static enum ls_status add_output(struct net *w, const char *prefix, const char *name, struct ls_shape shape,
                                 float **data)
{
    char full[256];
    char *copy;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    if (w->n_out == w->room) {
        TRY(ls__grow(&w->out, (size_t)w->room, (size_t)w->room + 64, sizeof *w->out));
        w->room += 64;
    }
    TRY(ls__strdup(&copy, full));
    struct ls_ckpt_tensor *t = &w->out[w->n_out++];
    *t = (struct ls_ckpt_tensor){.name = copy, .dtype = LS_F32, .shape = shape};
    TRY(ls__calloc(data, (size_t)ls_shape_count(&shape), sizeof **data));
    t->data = *data;
    return LS_OK;
}

static struct ls_exec_step step_of(const struct net *w, int64_t step)
{
    return (struct ls_exec_step){.batch = &w->batch,
                                 .transform = &w->transform,
                                 .shard_size = w->shard_size,
                                 .step = step,
                                 .lr = w->set.lr,
                                 .clip_norm = w->set.clip_norm};
}

static enum ls_status dump_gradients(struct net *w)
{
    const struct ls_exec_step step = step_of(w, 0);
    struct ls_exec_stats stats;
    float *data;
    TRY(ls_exec_backward(w->exec, &step, &stats));
    TRY(add_output(w, "", "loss", LS_SHAPE1(1), &data));
    data[0] = (float)(stats.loss_sum / (double)stats.n);
    for (int i = 0; i < w->store->n_entries; i++) {
        const struct ls_stored *e = &w->store->entries[i];
        char name[256];
        if (e->kind != LS_VALUE_PARAM || e->source >= 0) continue;
        snprintf(name, sizeof name, "sum.%s", e->name);
        int sum = ls_store_find(w->store, name);
        if (sum < 0) return ls_fail(LS_INTERNAL, "parameter %s has no gradient", e->name);
        TRY(add_output(w, "gradient.", e->name, e->shape, &data));
        TRY(ls_exec_get_gradient(w->exec, sum, data));
    }
    return ls_exec_zero_sums(w->exec);
}

static enum ls_status dump_logits(struct net *w)
{
    struct ls_exec_step step = step_of(w, 0);
    struct ls_exec_stats stats;
    float *data;
    step.shard_size = w->n;
    TRY(ls_exec_evaluate(w->exec, &step, &stats));
    TRY(add_output(w, "", "logits", LS_SHAPE2(w->n, (int64_t)w->set.classes), &data));
    return ls_exec_logits(w->exec, w->n, data);
}

static enum ls_status dump_training(struct net *w)
{
    float *data;
    for (int64_t k = 0; k < (int64_t)w->set.steps; k++) {
        const struct ls_exec_step step = step_of(w, k);
        struct ls_exec_stats stats;
        TRY(ls_exec_train(w->exec, &step, &stats));
    }
    for (int i = 0; i < w->store->n_entries; i++) {
        const struct ls_stored *e = &w->store->entries[i];
        if (!is_weight(e)) continue;
        TRY(add_output(w, "after.", e->name, e->shape, &data));
        TRY(ls_exec_get(w->exec, i, data));
    }
    return LS_OK;
}

static enum ls_status run_batch(const char *in, const char *out, int n_words, char **words)
{
    struct net w = {0};
    TRY(read_settings(&w.set, n_words, words));
    enum ls_status status = open_net(&w, in);
    if (status == LS_OK && w.set.gradients != 0) status = dump_gradients(&w);
    if (status == LS_OK && w.set.gradients != 0) status = dump_logits(&w);
    if (status == LS_OK && w.set.steps > 0) status = dump_training(&w);
    if (status == LS_OK) status = ls_ckpt_write(out, w.out, w.n_out, NULL, 0);
    close_net(&w);
    return status;
}

/* --- the other modes --- */

/* pixels has room for all images and, behind them, a byte for each label. */
static enum ls_status write_data(const struct ls_dataset *d, uint8_t *pixels, const char *out)
{
    uint8_t *labels = pixels + d->n * d->c * d->h * d->w;
    const struct ls_ckpt_tensor tensors[] = {
        {"input", LS_U8, LS_SHAPE4(d->n, d->c, d->h, d->w), pixels},
        {"labels", LS_U8, LS_SHAPE1(d->n), labels},
        {"mean", LS_F32, LS_SHAPE1(d->c), d->mean},
        {"std", LS_F32, LS_SHAPE1(d->c), d->std},
    };
    for (int64_t i = 0; i < d->n; i++) {
        TRY(ls_dataset_read(d, i, pixels + i * d->c * d->h * d->w));
        labels[i] = (uint8_t)d->labels[i];
    }
    return ls_ckpt_write(out, tensors, sizeof tensors / sizeof tensors[0], NULL, 0);
}

static enum ls_status run_data(const char *spec, const char *out)
{
    struct ls_dataset *d;
    uint8_t *pixels;
    const struct ls_data_options options = {0};
    TRY(ls_data_open(&d, spec, LS_TEST, &options));
    enum ls_status status = ls__calloc(&pixels, (size_t)d->n, (size_t)d->c * (size_t)d->h * (size_t)d->w + 1);
    if (status == LS_OK) {
        status = write_data(d, pixels, out);
        free(pixels);
    }
    ls_dataset_close(&d);
    return status;
}

static enum ls_status run_schedule(int n_words, char **words)
{
    struct settings s;
    TRY(read_settings(&s, n_words, words));
    struct ls_schedule schedule = {.lr = s.lr,
                                   .min_lr = s.min_lr,
                                   .gamma = s.gamma,
                                   .step_epochs = (int64_t)s.step_epochs,
                                   .warmup_epochs = s.warmup_epochs,
                                   .steps_per_epoch = (int64_t)s.steps_per_epoch,
                                   .total_steps = (int64_t)s.total_steps};
    if (!s.kind) return ls_fail(LS_USAGE, "kind= is missing");
    TRY(ls_schedule_parse(&schedule, s.kind, s.milestones));
    for (int64_t step = 0; step < schedule.total_steps; step++) printf("%.17g\n", ls_schedule_lr(&schedule, step));
    return LS_OK;
}

int main(int argc, char **argv)
{
    enum ls_status status;
    if (argc >= 4 && strcmp(argv[1], "batch") == 0)
        status = run_batch(argv[2], argv[3], argc - 4, argv + 4);
    else if (argc == 4 && strcmp(argv[1], "data") == 0)
        status = run_data(argv[2], argv[3]);
    else if (argc >= 3 && strcmp(argv[1], "schedule") == 0)
        status = run_schedule(argc - 2, argv + 2);
    else
        status = ls_fail(LS_USAGE, "usage: dump_gradients batch IN OUT KEY=VALUE... | data SPEC OUT | schedule "
                                   "KEY=VALUE...");
    if (status != LS_OK) fprintf(stderr, "dump_gradients: %s\n", ls_error_message());
    return ls_status_exit_code(status);
}
