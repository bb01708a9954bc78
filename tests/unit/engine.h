/* engine.h: what the tests of the engine share: a check that prints the message, and a rig: a model text made ready to
 * run on a backend, with a batch of random images.
 *
 *     struct rig r;
 *     rig_open(&r, "ref", TEXT, &(struct rig_options){.threads = 2});
 *     rig_plan(&r, 4, true);                  a training plan for shards of 4
 *     ... ls_exec_train(r.exec, &step, &stats) with rig_step(&r, ...)
 *     rig_close(&r);
 */
#ifndef LS_TESTS_ENGINE_H
#define LS_TESTS_ENGINE_H

#include "backend/backend.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "model/model.h"
#include "optim/optim.h"
#include "plan/plan.h"
#include "session/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "expect.h"

#define UNUSED __attribute__((unused))

/* A failure with this status, whose message has `piece` in it. */
UNUSED static void check_fails(enum ls_status status, enum ls_status want, const char *piece)
{
    if (status != want || !strstr(ls_error_message(), piece))
        print_error("want %s with '%s', have %s: %s\n", ls_status_name(want), piece, ls_status_name(status),
                    status == LS_OK ? "" : ls_error_message());
    assert_int_equal(status, want);
    assert_non_null(strstr(ls_error_message(), piece));
}

enum { RIG_MAX_BATCH = 64 };

struct rig_options {
    int threads;   /* 0: 1 */
    int c, hw;     /* 0: 2 x 8 x 8 */
    int n_classes; /* 0: 4 */
    struct ls_optim optim;
    float label_smoothing;
    int64_t batch_size; /* 0: not told to the graph, so that every gradient is summed per shard */
    bool has_norm_add;  /* adds are folded into batch norms */
};

struct rig {
    struct rig_options o;
    const struct ls_backend *backend;
    struct ls_model *model;
    struct ls_device *device;
    struct ls_store *store;
    struct ls_exec *exec;
    struct ls_transform transform;
    struct ls_batch batch;
    uint32_t samples[RIG_MAX_BATCH];
    uint16_t labels[RIG_MAX_BATCH];
    const uint8_t *pixels[RIG_MAX_BATCH];
    uint8_t *images;
};

/* n samples, of which sample i has number first + i and looks the same in every batch. */
UNUSED static void rig_batch(struct rig *r, uint32_t first, int n)
{
    int image = r->o.c * r->o.hw * r->o.hw;
    for (int i = 0; i < n; i++) {
        r->samples[i] = first + (uint32_t)i;
        r->labels[i] = (uint16_t)((first + (uint32_t)i) % (uint32_t)r->o.n_classes);
        r->pixels[i] = r->images + (size_t)i * (size_t)image;
        for (int k = 0; k < image; k++)
            r->images[i * image + k] = (uint8_t)ls__rng(7, LS_RNG_DATA, r->samples[i], (uint32_t)k, 0).v[0];
    }
    r->batch = (struct ls_batch){.n = n, .samples = r->samples, .labels = r->labels, .pixels = r->pixels};
}

UNUSED static void rig_open(struct rig *r, const char *backend, const char *text, const struct rig_options *options)
{
    *r = (struct rig){.o = *options};
    if (!r->o.threads) r->o.threads = 1;
    if (!r->o.c) r->o.c = 2;
    if (!r->o.hw) r->o.hw = 8;
    if (!r->o.n_classes) r->o.n_classes = 4;
    r->backend = ls_backend_find(backend);
    assert_non_null(r->backend);
    r->transform = (struct ls_transform){
        .c = r->o.c, .h = r->o.hw, .w = r->o.hw, .mean = {0.5f, 0.5f, 0.5f}, .std = {0.25f, 0.25f, 0.25f}};
    r->images = calloc((size_t)RIG_MAX_BATCH, (size_t)(r->o.c * r->o.hw * r->o.hw));
    assert_non_null(r->images);
    check_ok(ls_model_parse(&r->model, "rig.net", text, strlen(text)));
    check_ok(r->backend->device_open(&r->device));
    check_ok(ls_store_create(&r->store));
    check_ok(ls_exec_create(&r->exec, r->backend, r->device, r->store, r->o.threads));
    rig_batch(r, 0, 16);
}

/* The graph of a step, through all passes. */
UNUSED static struct ls_graph *rig_graph(const struct rig *r, int64_t mb, bool is_training)
{
    struct ls_graph *g;
    const struct ls_passes passes = {.build = {.mb = mb,
                                               .c = r->o.c,
                                               .h = r->o.hw,
                                               .w = r->o.hw,
                                               .n_classes = r->o.n_classes,
                                               .is_training = is_training},
                                     .batch_size = r->o.batch_size,
                                     .has_norm_add = r->o.has_norm_add,
                                     .label_smoothing = (double)r->o.label_smoothing,
                                     .optim = r->o.optim};
    check_ok(ls__passes_run(&passes, r->model, &g));
    return g;
}

UNUSED static void rig_plan(struct rig *r, int64_t mb, bool is_training)
{
    struct ls_graph *g = rig_graph(r, mb, is_training);
    struct ls_plan *p;
    check_ok(ls_plan_create(&p, &g, r->backend, r->device, r->store));
    check_ok(ls_exec_add_plan(r->exec, &p));
}

UNUSED static struct ls_exec_step rig_step(const struct rig *r, int64_t shard_size, int64_t step, double lr)
{
    return (struct ls_exec_step){
        .batch = &r->batch, .transform = &r->transform, .shard_size = shard_size, .seed = 11, .step = step, .lr = lr};
}

UNUSED static void rig_close(struct rig *r)
{
    ls_exec_destroy(&r->exec);
    ls_store_destroy(&r->store);
    r->backend->device_close(&r->device);
    ls_model_destroy(&r->model);
    free(r->images);
}

/* Number of elements of a stored value, and its plain copy (free it). */
UNUSED static int64_t rig_count(const struct rig *r, int entry)
{
    return ls_shape_count(&r->store->entries[entry].shape);
}

UNUSED static int rig_find(const struct rig *r, const char *name)
{
    int entry = ls_store_find(r->store, name);
    if (entry < 0) print_error("the store has no '%s'\n", name);
    assert_true(entry >= 0);
    return entry;
}

UNUSED static float *rig_get(const struct rig *r, const char *name)
{
    int entry = rig_find(r, name);
    float *out = calloc((size_t)rig_count(r, entry), sizeof *out);
    assert_non_null(out);
    check_ok(ls_exec_get(r->exec, entry, out));
    return out;
}

/* All stored values (sums and copies apart) one after the other, plain; *n floats. */
UNUSED static float *rig_weights(const struct rig *r, size_t *n)
{
    float *all = NULL;
    *n = 0;
    for (int i = 0; i < r->store->n_entries; i++) {
        const struct ls_stored *e = &r->store->entries[i];
        if (e->kind == LS_VALUE_SUM || e->source >= 0) continue;
        size_t count = (size_t)rig_count(r, i);
        all = realloc(all, (*n + count) * sizeof *all);
        assert_non_null(all);
        check_ok(ls_exec_get(r->exec, i, all + *n));
        *n += count;
    }
    return all;
}

/* Backends to go through: `for (RIG_EACH(backend))` sets the const char *backend in turn. */
#define RIG_EACH(variable)                                                                                             \
    const struct ls_backend *const *each_ = ls_backends;                                                               \
    *each_ && ((variable) = (*each_)->name);                                                                           \
    each_++

#endif
