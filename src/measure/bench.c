/* bench.c: `lockstep bench`: training steps on random images held in memory. */
#include "measure/bench.h"
#include "base/clock.h"
#include "base/median.h"
#include "base/mem.h"
#include "lockstep/measure.h"
#include "measure/peak.h"
#include "session/session.h"
#include "session/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TIMED = 1 << 20, MAX_SECONDS = 86400, DEFAULT_BATCH = 128, LOOK_EVERY = 10 /* as training does */ };

/* Random images of the size the model asks for. Models that adapt get what they are mostly used on. */
static enum ls_status fake_spec(const char *model_name, int64_t batch, char *spec, size_t size)
{
    struct ls_model *model;
    int c, h, w;
    TRY(ls_model_load(&model, model_name));
    ls_model_input(model, &c, &h, &w);
    ls_model_destroy(&model);
    if (!c) c = !h ? 1 : 3;
    if (!h) h = c == 1 ? 28 : 32;
    if (!w) w = h;
    if (batch == 0) batch = DEFAULT_BATCH;
    int64_t n = batch * 4 < 512 ? 512 : batch * 4;
    snprintf(spec, size, "fake:%dx%dx%d:%d:%lld", c, h, w, h >= 224 ? 1000 : 10, (long long)n / batch * batch);
    return LS_OK;
}

static enum ls_status time_steps(const struct ls_bench_options *o, struct session *s, struct ls_bench_result *r,
                                 int64_t called_ns, double *times)
{
    struct ls_loader *loader;
    const struct ls_loader_options lo = {
        .batch_size = (int)s->batch_size, .seed = 1, .shuffle = true, .n_threads = 1, .kept = s->train_kept};
    TRY(ls_loader_create(&loader, s->train, &lo));
    enum ls_status status = LS_OK;
    int64_t start = 0, n = 0, n_open = 0, began = 0;
    for (int64_t i = 0; status == LS_OK && n < MAX_TIMED; i++) {
        struct ls_batch batch;
        struct ls_exec_stats stats;
        if (i == o->warmup) start = ls__now_ns();
        if (i == o->warmup && o->layers) status = ls_exec_profile(s->exec, true);
        if (status != LS_OK) break;
        if (n_open == 0 && n > 0 && (o->steps == 0 || n >= o->steps) && ls__seconds_since(start) >= o->seconds) break;
        if (n_open == 0) began = ls__now_ns();
        status = ls_loader_next(loader, &batch);
        if (status != LS_OK) break;
        const struct ls_exec_step step = {.batch = &batch,
                                          .transform = &s->transform,
                                          .shard_size = s->shard_size,
                                          .seed = 1,
                                          .step = i,
                                          .lr = 1e-4,
                                          .may_run_ahead = i >= o->warmup && n_open < LOOK_EVERY - 1};
        status = ls_exec_train(s->exec, &step, &stats);
        if (i == 0) r->first_step_ms = 1e3 * ls__seconds_since(called_ns);
        n_open++;
        if (stats.n == 0 && status == LS_OK) continue; /* the device is ahead of us */
        const double mean = ls__seconds_since(began) / (double)n_open;
        for (; n_open > 0; n_open--)
            if (i >= o->warmup && n < MAX_TIMED) times[n++] = mean;
    }
    ls_loader_destroy(&loader);
    r->steps = n;
    return status;
}

/* What each op took, in the order of the plan. */
static enum ls_status list_ops(struct session *s, struct ls_bench_result *r)
{
    const struct ls_plan *plan = ls_exec_plan(s->exec, s->shard_size, true);
    double shards = (double)s->shards, total = 0, steps = (double)r->steps;
    TRY(ls__calloc(&r->ops, (size_t)plan->n_ops, sizeof *r->ops));
    for (int i = 0; i < plan->n_ops; i++) total += ls_exec_op_seconds(s->exec, plan, i);
    for (int i = 0; i < plan->n_ops; i++) {
        const struct ls_plan_op *op = &plan->ops[i];
        double seconds = ls_exec_op_seconds(s->exec, plan, i);
        if (op->kernel->is_view) continue;
        struct ls_bench_op *out = &r->ops[r->n_ops++];
        snprintf(out->op, sizeof out->op, "%s", ls_op_name(op->node.op));
        snprintf(out->layer, sizeof out->layer, "%.63s", op->node.name);
        snprintf(out->kernel, sizeof out->kernel, "%s", op->kernel->name);
        out->ms = 1e3 * seconds / steps;
        out->gflops = seconds > 0 ? op->flops * (op->phase == LS_SHARD ? shards : 1) * steps / seconds * 1e-9 : 0;
        out->fraction = total > 0 ? seconds / total : 0;
    }
    return LS_OK;
}

/* Of the ops that run once per step over the whole batch. */
static double join_flops(const struct ls_plan *plan)
{
    double flops = 0;
    for (int i = 0; i < plan->n_ops; i++)
        if (plan->ops[i].phase == LS_JOIN) flops += plan->ops[i].flops;
    return flops;
}

static enum ls_status measure(const struct ls_bench_options *o, struct session *s, int64_t called_ns,
                              struct ls_bench_result *r)
{
    double *times;
    TRY(ls_exec_init_store(s->exec, 1));
    TRY(ls__calloc(&times, MAX_TIMED, sizeof *times));
    enum ls_status status = time_steps(o, s, r, called_ns, times);
    if (status == LS_OK && o->layers) status = list_ops(s, r);
    if (status == LS_OK && r->steps > 0) {
        double median = ls__median(times, (int)r->steps);
        const struct ls_plan *plan = ls_exec_plan(s->exec, s->shard_size, true);
        r->ms_per_step = 1e3 * median;
        r->ms_per_step_best = 1e3 * times[0];
        r->images_per_second = (double)s->batch_size / median;
        r->gflops = (plan->shard_flops / (double)s->shard_size + join_flops(plan) / (double)s->batch_size) *
                    r->images_per_second * 1e-9;
    }
    free(times);
    return status;
}

enum ls_status ls__bench_open_session(struct session *s, const struct ls_bench_options *o, bool is_training,
                                      const struct ls_tune *table)
{
    char spec[96] = "";
    const struct session_options so = {.model = o->model,
                                       .data = spec,
                                       .device = o->device,
                                       .precision = o->precision,
                                       .isa = o->isa,
                                       .tune = o->tune,
                                       .table = table,
                                       .batch_size = o->batch_size,
                                       .shards = o->shards,
                                       .threads = o->threads,
                                       .is_training = is_training,
                                       .with_test = !is_training,
                                       .normalize = true,
                                       .compress = o->compress,
                                       .low_memory = o->low_memory,
                                       .optim = {.momentum = 0.9}};
    *s = (struct session){0};
    if (!o->model) return ls_fail(LS_USAGE, "no model was named");
    if (o->steps < 0 || o->warmup < 0 || !(o->seconds >= 0 && o->seconds <= MAX_SECONDS))
        return ls_fail(LS_USAGE, "%lld steps after %lld, %g s: expected numbers from 0 up, and a day at most",
                       (long long)o->steps, (long long)o->warmup, o->seconds);
    TRY(ls__session_check_sizes(&so));
    if (o->data)
        snprintf(spec, sizeof spec, "%s", o->data);
    else
        TRY(fake_spec(o->model, o->batch_size, spec, sizeof spec));
    return ls__session_open(s, &so);
}

enum ls_status ls_bench(const struct ls_bench_options *o, struct ls_bench_result *r)
{
    struct session s;
    struct ls_backend_id id = {.isa = "any"};
    if (!o || !r) return ls_fail(LS_USAGE, "ls_bench without options or without room for the result");
    *r = (struct ls_bench_result){.steps = 0};
    int64_t called_ns = ls__now_ns();
    enum ls_status status = ls__bench_open_session(&s, o, true, NULL);
    if (status == LS_OK) status = measure(o, &s, called_ns, r);
    if (status == LS_OK) {
        snprintf(r->model, sizeof r->model, "%s", ls_model_name(s.model));
        r->batch_size = s.batch_size;
        r->shards = s.shards;
        r->threads = s.threads;
        r->peak_rss_bytes = ls__peak_rss_bytes();
        r->arena_bytes = (int64_t)ls_exec_arena_bytes(s.exec);
        r->store_bytes = (int64_t)s.store->bytes;
        s.backend->identify(s.device, &id);
        if (s.backend->peak_gflops) r->peak_gflops = s.backend->peak_gflops(s.device);
    }
    ls__session_close(&s);
    if (status == LS_OK && r->peak_gflops <= 0)
        status = ls__measure_peak_gflops((int)r->threads, id.isa, &r->peak_gflops);
    if (status == LS_OK) r->fraction_of_peak = r->gflops / r->peak_gflops;
    return status;
}

enum ls_status ls_plan_model(const struct ls_bench_options *o, bool is_training, char **text)
{
    struct session s;
    if (!o || !text) return ls_fail(LS_USAGE, "ls_plan_model without options or without room for the text");
    *text = NULL;
    enum ls_status status = ls__bench_open_session(&s, o, is_training, NULL);
    int64_t mb = is_training ? s.shard_size : s.eval_size;
    if (status == LS_OK) {
        const struct ls_plan *plan = ls_exec_plan(s.exec, mb, is_training);
        status = o->json ? ls_plan_json(plan, text) : ls_plan_text(plan, text);
    }
    ls__session_close(&s);
    return status;
}
