/* cpu.c: the device of the CPU backend and the list of its implementations, best first. */
#include "backend/cpu/cpu.h"

#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/isa.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function of the OpenMP runtime oneDNN was linked with (libgomp, libiomp5, libomp), found by name: linking one of
 * them here could bring a second runtime into the program, and the setting would go to the wrong one. */
static bool find_omp(const char *name, void *function, size_t size)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &address, size);
    return address != NULL;
}

/* A shard is computed by one thread, so a primitive must be made for one and run by one. The setting is the calling
 * thread's own; oneDNN reads it when a primitive is made and when it runs. */
static void thread_begin(void)
{
    void (*set_num_threads)(int);
    if (find_omp("omp_set_num_threads", &set_num_threads, sizeof set_num_threads)) set_num_threads(1);
}

/* Only OpenMP can be told, thread by thread, to use one thread; a sequential library needs no telling. */
static enum ls_status check_runtime(void)
{
    int (*get_max_threads)(void);
    const dnnl_version_t *v = dnnl_version();
    if (v->cpu_runtime == DNNL_RUNTIME_SEQ) return LS_OK;
    if (v->cpu_runtime == DNNL_RUNTIME_OMP &&
        find_omp("omp_get_max_threads", &get_max_threads, sizeof get_max_threads) && get_max_threads() == 1)
        return LS_OK;
    return ls_fail(LS_UNSUPPORTED,
                   "this oneDNN (%d.%d.%d) runs on %s; device cpu needs one built for OpenMP or without threads. Use "
                   "another oneDNN (docs/howto/onednn-versions.md) or --device ref",
                   v->major, v->minor, v->patch,
                   v->cpu_runtime == DNNL_RUNTIME_OMP          ? "an OpenMP that does not obey"
                   : v->cpu_runtime == DNNL_RUNTIME_TBB        ? "TBB"
                   : v->cpu_runtime == DNNL_RUNTIME_THREADPOOL ? "a thread pool"
                                                               : "SYCL");
}

static enum ls_status device_open(struct ls_device **out)
{
    *out = NULL;
    thread_begin();
    TRY(check_runtime());
    TRY(ls__calloc(out, 1, sizeof **out));
    dnnl_set_primitive_cache_capacity(0); /* kernels live in plans; a second copy would only cost memory */
    enum ls_status status = ls__dnn_check(dnnl_engine_create(&(*out)->engine, dnnl_cpu, 0), "engine");
    if (status != LS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

static void device_close(struct ls_device **device)
{
    struct ls_device *d = *device;
    if (!d) return;
    for (int i = 0; i < d->n_layouts; i++) ls__dnn_md_free(&d->layouts[i]);
    free(d->layouts);
    dnnl_engine_destroy(d->engine);
    free(d);
    *device = NULL;
}

static void describe(const struct ls_device *device, char *text, size_t size)
{
    char isa[24];
    const dnnl_version_t *v = dnnl_version();
    ls__cpu_isa_name(isa, sizeof isa);
    snprintf(text, size, "oneDNN %d.%d.%d, %s", v->major, v->minor, v->patch, isa);
}

static void identify(const struct ls_device *device, struct ls_backend_id *id)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(id->software, sizeof id->software, "onednn-%d.%d.%d", v->major, v->minor, v->patch);
    ls__cpu_isa_level(id->isa, sizeof id->isa);
}

/* What is not listed here is done by ref: reshape, keep. */
static const struct ls_impl *const impls[] = {
    &ls__cpu_linear_blocked,
    &ls__cpu_linear_bwd_data_blocked,
    &ls__cpu_linear_dot,
    &ls__cpu_linear_sum,
    &ls__cpu_conv2d_lanes,
    &ls__cpu_conv2d_bwd_data_lanes,
    &ls__cpu_conv2d_bwd_weights_lanes,
    &ls__cpu_maxpool_lanes,
    &ls__cpu_maxpool_bwd_lanes,
    &ls__cpu_conv2d_winograd,
    &ls__cpu_conv2d_bwd_data_winograd,
    &ls__cpu_conv2d_bwd_weights_winograd,
    &ls__cpu_conv2d_wino,
    &ls__cpu_conv2d_bwd_data_wino,
    &ls__cpu_conv2d_bwd_weights_wino,
    &ls__cpu_conv2d,
    &ls__cpu_conv2d_bwd_data,
    &ls__cpu_conv2d_bwd_weights,
    &ls__cpu_conv2d_dnnl2,
    &ls__cpu_conv2d_bwd_data_dnnl2,
    &ls__cpu_conv2d_bwd_weights_dnnl2,
    &ls__cpu_conv2d_dnnl3,
    &ls__cpu_conv2d_bwd_data_dnnl3,
    &ls__cpu_conv2d_bwd_weights_dnnl3,
    &ls__cpu_conv2d_dnnl4,
    &ls__cpu_conv2d_bwd_data_dnnl4,
    &ls__cpu_conv2d_bwd_weights_dnnl4,
    &ls__cpu_linear,
    &ls__cpu_linear_bwd_data,
    &ls__cpu_linear_bwd_weights,
    &ls__cpu_maxpool,
    &ls__cpu_maxpool_bwd,
    &ls__cpu_avgpool,
    &ls__cpu_avgpool_bwd,
    &ls__cpu_batchnorm,
    &ls__cpu_batchnorm_eval,
    &ls__cpu_batchnorm_bwd,
    &ls__cpu_relu,
    &ls__cpu_relu_bwd,
    &ls__cpu_activation,
    &ls__cpu_activation_bwd,
    &ls__cpu_groupnorm,
    &ls__cpu_groupnorm_bwd,
    &ls__cpu_layernorm,
    &ls__cpu_layernorm_bwd,
    &ls__cpu_add,
    &ls__cpu_bias,
    &ls__cpu_bias_bwd,
    &ls__cpu_dropout,
    &ls__cpu_dropout_bwd,
    &ls__cpu_lrn,
    &ls__cpu_lrn_bwd,
    &ls__cpu_concat,
    &ls__cpu_concat_bwd,
    &ls__cpu_softmax_ce,
    &ls__cpu_reorder,
    &ls__cpu_reduce,
    &ls__cpu_sgd,
    &ls__cpu_adamw,
    &ls__cpu_running_stats,
    NULL,
};

const struct ls_backend ls_backend_cpu = {
    .name = "cpu",
    .device_open = device_open,
    .device_close = device_close,
    .describe = describe,
    .identify = identify,
    .limit_isa = ls__cpu_isa_limit,
    .thread_begin = thread_begin,
    .impls = impls,
};
