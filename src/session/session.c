/* session.c: opens what session.h lists, in the order in which one needs the other, and says what does not fit
 * together. */
#include "session/session.h"

#include "base/clock.h"
#include "base/control.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/pool.h"
#include "session/passes.h"
#include "session/workers.h"
#include "settings/validation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_BATCH = 128,
    MAX_BATCH = 1 << 20,
    MAX_THREADS = 1024,
    MAX_SHARDS_BY_DEFAULT = 32,
    SHARD_SAMPLES = 16,
    MIN_SHARDS = 4,
    MIN_EVAL_SAMPLES = 16
};

int64_t ls__session_default_shards(int64_t batch_size)
{
    int64_t n = batch_size / SHARD_SAMPLES;
    if (n > MAX_SHARDS_BY_DEFAULT) n = MAX_SHARDS_BY_DEFAULT;
    if (n < MIN_SHARDS) n = MIN_SHARDS;
    return n < batch_size ? n : batch_size;
}

static enum ls_status open_split(struct ls_dataset **out, const struct session_options *o, enum ls_split split,
                                 const struct ls_images *images, const struct ls_data_options *options)
{
    if (images) return ls__data_from_images(out, o->data, split, images, options);
    if (o->train_images || o->test_images)
        return ls_fail(LS_USAGE, "images from memory for %s only; give %s, too%s",
                       split == LS_TEST ? "training" : "testing", split == LS_TEST ? "test_images" : "train_images",
                       split == LS_TEST ? ", or no_eval" : "");
    return ls_data_open(out, o->data, split, options);
}

/* Of named sets the format sees to it. */
static enum ls_status check_splits(const struct ls_dataset *a, const struct ls_dataset *b)
{
    if (!a || !b || (a->c == b->c && a->h == b->h && a->w == b->w && a->n_classes == b->n_classes)) return LS_OK;
    return ls_fail(LS_DATA, "%s: training images are %dx%dx%d of %d classes, test images %dx%dx%d of %d", a->name, a->c,
                   a->h, a->w, a->n_classes, b->c, b->h, b->w, b->n_classes);
}

/* Part of the training data, or pictures of their own. */
static enum ls_status open_validation(struct session *s, const struct session_options *o,
                                      const struct ls_data_options *data)
{
    struct ls_validation v;
    if (!ls__validation_parse(o->validation, &v))
        return ls_fail(LS_USAGE, "--validation %s: expected %s", o->validation, LS_VALIDATION_EXPECTED);
    if (v.folder) {
        TRY(ls__data_open_like(&s->validation, v.folder, s->train, data));
        if (s->test && strcmp(s->test->checksum, s->validation->checksum) == 0)
            return ls_fail(LS_USAGE,
                           "--validation %s holds the test data: what is chosen by it has no test any more; put other "
                           "pictures there, or give --no-eval",
                           v.folder);
        return LS_OK;
    }
    int64_t n = v.n > 0 ? v.n : llround(v.share * (double)s->train->n);
    struct ls_dataset *rest, *held;
    enum ls_status status = ls__dataset_hold_out(s->train, n, o->seed, &rest, &held);
    if (status != LS_OK) return ls_fail_in(status, "--validation %s", o->validation);
    s->whole = s->train;
    s->train = rest;
    s->validation = held;
    return LS_OK;
}

static enum ls_status open_data(struct session *s, const struct session_options *o)
{
    struct ls_data_options data = {.data_dir = o->data_dir, .control = o->control};
    if (o->resize) {
        int64_t dims[3];
        int n = ls__parse_dims(o->resize, dims);
        if (n < 1 || n > 2) return ls_fail(LS_USAGE, "--resize %s: expected 224 or 224x224", o->resize);
        data.resize_h = (int)dims[0];
        data.resize_w = (int)dims[n - 1];
    }
    if (o->is_training) TRY(open_split(&s->train, o, LS_TRAIN, o->train_images, &data));
    if (o->with_test) TRY(open_split(&s->test, o, LS_TEST, o->test_images, &data));
    TRY(check_splits(s->train, s->test));
    if (o->validation) TRY(open_validation(s, o, &data));
    const struct ls_dataset *d = s->train ? s->train : s->test;
    s->transform = o->augmentation;
    s->transform.c = d->c, s->transform.h = d->h, s->transform.w = d->w;
    for (int i = 0; i < 3; i++) s->transform.std[i] = 1;
    if (o->normalize) {
        memcpy(s->transform.mean, d->mean, sizeof d->mean);
        memcpy(s->transform.std, d->std, sizeof d->std);
    }
    return LS_OK;
}

static struct ls_model_options build_options(const struct session *s, int64_t mb, bool is_training)
{
    const struct ls_dataset *d = s->train ? s->train : s->test ? s->test : s->validation;
    return (struct ls_model_options){
        .mb = mb, .c = d->c, .h = d->h, .w = d->w, .n_classes = d->n_classes, .is_training = is_training};
}

/* A plan for shards of mb samples. The first training plan decides the layouts of the parameters. */
static enum ls_status add_plan(struct session *s, const struct session_options *o, int64_t mb, bool is_training)
{
    /* Float sums and coarse ones are made shard by shard. */
    const bool is_by_shard =
        o->float_sums || o->compress || (o->sync && o->sync->is_by_shard) || s->backend->is_reduce_last;
    const struct ls_passes passes = {.build = build_options(s, mb, is_training),
                                     .batch_size = is_by_shard ? 0 : s->batch_size,
                                     .is_low_memory = o->low_memory,
                                     .has_norm_add = s->backend->has_norm_add,
                                     .sums_in_float = o->float_sums,
                                     .label_smoothing = o->label_smoothing,
                                     .is_mixing = ls_transform_is_mixing(&s->transform),
                                     .freeze = o->freeze,
                                     .lr_of = o->lr_of,
                                     .lr = o->lr,
                                     .optim = o->optim};
    struct ls_graph *g;
    struct ls_plan *plan;
    if (mb <= 0 || ls_exec_plan(s->exec, mb, is_training)) return LS_OK;
    TRY(ls__passes_run(&passes, s->model, &g));
    TRY(ls_plan_create_tuned(&plan, &g, s->backend, s->device, s->store, o->table ? o->table : s->tune));
    return ls_exec_add_plan(s->exec, &plan);
}

/* All shard sizes that can occur: full ones, what is left of a batch, and of an epoch's last batch. */
static enum ls_status add_plans(struct session *s, const struct session_options *o)
{
    if (o->is_training) {
        int64_t m = s->shard_size, last = s->train->n % s->batch_size;
        TRY(add_plan(s, o, m, true));
        TRY(add_plan(s, o, s->batch_size % m, true));
        TRY(add_plan(s, o, last % m, true));
    }
    return s->test || s->validation ? add_plan(s, o, s->eval_size, false) : LS_OK;
}

static void set_shards(struct session *s, int64_t shards)
{
    s->shard_size = (s->batch_size + shards - 1) / shards;
    s->shards = (s->batch_size + s->shard_size - 1) / s->shard_size;
    s->eval_size = s->shard_size < MIN_EVAL_SAMPLES ? MIN_EVAL_SAMPLES : s->shard_size;
}

/* Whether a shard of one sample occurs in an epoch. */
static bool leaves_one(const struct session *s)
{
    const int64_t m = s->shard_size, last = s->train->n % s->batch_size;
    return m == 1 || s->batch_size % m == 1 || last % m == 1;
}

static enum ls_status refuse_batch_of_one(const struct session *s)
{
    const int64_t n = s->train->n;
    int64_t better = s->batch_size + 1;
    while (better < n && n % better == 1) better++;
    return ls_fail_in(LS_USAGE, "%lld samples in batches of %lld leave a batch of 1 (-b %lld does not)", (long long)n,
                      (long long)s->batch_size, (long long)better);
}

/* Batch norm may need two samples in every shard; which sizes will occur is known before step 1. A number of shards
 * that nobody asked for gives way to the next smaller one that works; one that was asked for is refused. */
static enum ls_status avoid_shards_of_one(struct session *s, const struct session_options *o)
{
    const struct ls_model_options build = build_options(s, 1, true);
    const int64_t shards = s->shards;
    struct ls_graph *g = NULL;
    if (!leaves_one(s)) return LS_OK;
    enum ls_status status = ls_model_build(s->model, &build, &g);
    ls_graph_destroy(&g);
    if (status != LS_USAGE) return status;
    while (leaves_one(s) && s->shards > 1) set_shards(s, s->shards - 1);
    if (leaves_one(s)) return refuse_batch_of_one(s);
    if (o->shards > 0)
        return ls_fail_in(status,
                          "%lld samples in batches of %lld with --shards %lld leave a shard of 1 (--shards %lld "
                          "does not)",
                          (long long)s->train->n, (long long)s->batch_size, (long long)shards, (long long)s->shards);
    ls__log(LS_LOG_WARN, "%lld shards instead of %lld, which would leave a shard of 1 sample: %s", (long long)s->shards,
            (long long)shards, ls_error_message());
    return LS_OK;
}

static enum ls_status choose_sizes(struct session *s, const struct session_options *o)
{
    const struct ls_dataset *d = s->train ? s->train : s->test;
    s->batch_size = o->batch_size > 0 ? o->batch_size : DEFAULT_BATCH;
    if (s->batch_size > d->n) s->batch_size = d->n;
    int64_t shards = s->backend->default_shards;
    if (shards == 0) shards = ls__session_default_shards(s->batch_size);
    if (o->shards > 0) shards = o->shards;
    if (shards > LS_MAX_SHARDS) shards = LS_MAX_SHARDS;
    set_shards(s, shards < s->batch_size ? shards : s->batch_size);
    if (o->is_training) TRY(avoid_shards_of_one(s, o));
    if (s->shard_size < 2 && ls_transform_is_mixing(&s->transform))
        return ls_fail(LS_USAGE,
                       "--mixup and --cutmix mix pairs of a shard, but shards have 1 sample here; use a larger -b or "
                       "fewer --shards");
    return LS_OK;
}

/* In a job the machine's cores are shared out among its ranks. */
static enum ls_status choose_threads(struct session *s, const struct session_options *o)
{
    s->threads = o->threads > 0 ? (int)o->threads : ls__cpu_count();
    if (s->comm) TRY(ls__workers_share_cores(s->comm, o->threads, &s->threads));
    if (s->backend->max_threads > 0 && s->threads > s->backend->max_threads) s->threads = s->backend->max_threads;
    return LS_OK;
}

/* What the host cannot do in a device's own memory the device must. */
static enum ls_status check_device(const struct session *s, const struct session_options *o)
{
    if (!s->backend->memory || !o->compress) return LS_OK;
    for (int i = 0; s->backend->impls[i]; i++)
        if (s->backend->impls[i]->launch_coarse) return LS_OK;
    return ls_fail(LS_USAGE, "--compress does not work with --device %s, which cannot round gradients; leave it out",
                   s->backend->name);
}

/* A worker without a shard waits for the others in every step. The chief says so. */
static void warn_of_idle_workers(const struct session *s, const struct session_options *o)
{
    const int n = s->comm ? ls_comm_place(s->comm)->n_ranks : 1;
    char advice[160] = "";
    if (n <= s->shards || !o->is_training) return;
    if (n <= s->batch_size)
        snprintf(
            advice, sizeof advice,
            ", or --shards %d (more shards change the rounding and batch norm's groups, so the weights will differ)",
            n);
    ls__log(LS_LOG_WARN,
            "%d workers but only %lld shards in a batch of %lld: %lld of them without work in every step; use "
            "-w %lld%s",
            n, (long long)s->shards, (long long)s->batch_size, (long long)(n - s->shards), (long long)s->shards,
            advice);
}

/* More threads than shards would idle. They are not started, and the user hears how to use them. */
static void fit_threads(struct session *s, const struct session_options *o)
{
    if (s->threads <= s->shards || !o->is_training) return; /* an evaluation cuts as many as there are threads */
    ls__log(LS_LOG_WARN,
            "%d threads but only %lld shards in a batch of %lld: using %lld; --shards %d would use them all (more "
            "shards change the rounding and batch norm's groups, so the weights will differ)",
            s->threads, (long long)s->shards, (long long)s->batch_size, (long long)s->shards, s->threads);
    s->threads = (int)s->shards;
}

/* The user's table must be for what computes here: another one's measurements say nothing. */
static enum ls_status open_table(struct session *s, const struct session_options *o)
{
    struct ls_backend_id id;
    s->backend->identify(s->device, &id);
    if (o->table || (o->tune && strcmp(o->tune, "none") == 0)) return LS_OK;
    if (!o->tune) return ls__tune_built_in(&s->tune, &id);
    TRY(ls__tune_load(&s->tune, o->tune));
    if (ls__tune_fits(s->tune, &id)) return LS_OK;
    return ls_fail(LS_USAGE, "--tune %s is for %s with %s, this run has %s with %s; make another with `lockstep tune`",
                   o->tune, s->tune->id.software, s->tune->id.isa, id.software, id.isa);
}

static enum ls_status set_precision(struct session *s, const struct session_options *o)
{
    enum ls_precision precision;
    if (!ls_precision_parse(o->precision, &precision))
        return ls_fail(LS_USAGE, "--precision %s: expected f32, tf32 or bf16", o->precision);
    if (s->backend->set_precision) return s->backend->set_precision(s->device, precision);
    if (precision == LS_PRECISION_F32) return LS_OK;
    return ls_fail(LS_USAGE, "--precision %s: the device %s computes in f32 only; leave it out, or use --device cuda",
                   o->precision, s->backend->name);
}

/* One of several that the machine has, or the one there is. */
static enum ls_status take_device(struct session *s, const struct session_options *o)
{
    const int turn = s->comm ? ls_comm_place(s->comm)->turn : o->turn;
    if (s->backend->device_open_at) return s->backend->device_open_at(&s->device, turn, o->gpus > 0);
    if (o->gpus > 0)
        return ls_fail(LS_USAGE, "--gpus %lld is for cards, and --device is %s: add --device cuda, or use --workers",
                       (long long)o->gpus, s->backend->name);
    return s->backend->device_open(&s->device);
}

static enum ls_status open_device(struct session *s, const struct session_options *o)
{
    if (o->isa && strcmp(o->isa, "native") != 0 && s->backend->limit_isa) TRY(s->backend->limit_isa(o->isa));
    TRY(take_device(s, o));
    TRY(set_precision(s, o));
    return open_table(s, o);
}

/* The command line has checked this; a program that calls the library may not have. */
enum ls_status ls__session_check_sizes(const struct session_options *o)
{
    if (o->batch_size < 0 || o->batch_size > MAX_BATCH)
        return ls_fail(LS_USAGE, "batch size %lld, expected 1 to %d", (long long)o->batch_size, MAX_BATCH);
    if (o->shards < 0) return ls_fail(LS_USAGE, "%lld shards, expected 1 to %d", (long long)o->shards, LS_MAX_SHARDS);
    if (o->threads < 0 || o->threads > MAX_THREADS)
        return ls_fail(LS_USAGE, "%lld threads, expected 1 to %d", (long long)o->threads, MAX_THREADS);
    if (o->compress != 0 && o->compress != 8 && o->compress != 16)
        return ls_fail(LS_USAGE, "gradients of %lld bits, expected 8, 16 or 0", (long long)o->compress);
    return LS_OK;
}

/* A card without a shard would idle. */
static enum ls_status check_gpus(const struct session *s, const struct session_options *o)
{
    const int n = s->comm ? ls_comm_place(s->comm)->n_ranks : 1;
    if (o->gpus == 0 || s->shards >= n) return LS_OK;
    return ls_fail(LS_USAGE,
                   "%d cards need %d shards or more, a batch of %lld has %lld: add --shards %d (on any number of cards "
                   "the same --shards give the same weights)",
                   n, n, (long long)s->batch_size, (long long)s->shards, n);
}

/* What may be missing or different on another machine. */
static enum ls_status open_inputs(struct session *s, const struct session_options *o)
{
    TRY(ls__session_check_sizes(o));
    TRY(ls_backend_get(o->device, &s->backend));
    TRY(check_device(s, o));
    TRY(o->model_text ? ls_model_parse(&s->model, o->model, o->model_text, strlen(o->model_text))
                      : ls_model_load(&s->model, o->model));
    TRY(open_data(s, o));
    TRY(choose_sizes(s, o));
    TRY(check_gpus(s, o));
    return open_device(s, o);
}

enum ls_status ls__session_open(struct session *s, const struct session_options *o)
{
    *s = (struct session){.comm = o->comm, .control = o->control, .trace = o->trace};
    if (!s->trace) TRY(ls__trace_create(&s->own_trace, ls__now_ns()));
    if (!s->trace) s->trace = s->own_trace;
    s->lane = ls__trace_main(s->trace);
    enum ls_status status = open_inputs(s, o);
    TRY(s->comm ? ls__workers_agree_inputs(s->comm, status, s) : status);
    TRY(choose_threads(s, o));
    fit_threads(s, o);
    warn_of_idle_workers(s, o);
    TRY(ls_store_create(&s->store));
    TRY(ls_exec_create(&s->exec, s->backend, s->device, s->store, s->threads));
    TRY(ls_exec_measure(s->exec, s->trace, s->lane));
    ls_exec_compress(s->exec, (int)o->compress, (int)s->shards);
    if (s->comm) TRY(ls_exec_join_job(s->exec, s->comm, o->balance));
    TRY(add_plans(s, o));
    if (s->train && !o->computes_elsewhere) TRY(ls_exec_keep_images(s->exec, s->train, &s->train_kept));
    return s->test ? ls_exec_keep_images(s->exec, s->test, &s->test_kept) : LS_OK;
}

enum ls_status ls__session_replicate(const struct session *of, const struct session_options *o, struct session *replica)
{
    struct session_options own = *o;
    own.with_test = false;
    own.validation = NULL;
    *replica = *of;
    replica->test = replica->validation = NULL; /* it is never evaluated */
    replica->store = NULL;
    replica->exec = NULL;
    replica->comm = NULL;
    replica->own_trace = NULL;
    replica->threads = 1;
    TRY(ls_store_create(&replica->store));
    TRY(ls_exec_create(&replica->exec, replica->backend, replica->device, replica->store, 1));
    TRY(ls_exec_measure(replica->exec, replica->trace, NULL));
    return add_plans(replica, &own);
}

void ls__session_drop_replica(struct session *replica)
{
    ls_exec_destroy(&replica->exec);
    ls_store_destroy(&replica->store);
}

void ls__session_close(struct session *s)
{
    ls_exec_destroy(&s->exec);
    ls_store_destroy(&s->store);
    if (s->backend && s->device) s->backend->device_close(&s->device);
    ls__tune_destroy(&s->tune);
    ls_dataset_close(&s->train);
    ls_dataset_close(&s->validation);
    ls_dataset_close(&s->whole); /* after its parts */
    ls_dataset_close(&s->test);
    ls_model_destroy(&s->model);
    ls__trace_destroy(&s->own_trace);
}
