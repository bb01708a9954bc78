/* cpu.c: the device of the CPU backend and the list of its implementations, best first. */
#include "backend/cpu/cpu.h"

#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* libgomp's, which oneDNN runs on; declared here because omp.h comes with one compiler only. */
extern void omp_set_num_threads(int n);

/* A shard is computed by one thread, so a primitive must be made for one and run by one. The setting is the calling
 * thread's own; oneDNN reads it when a primitive is made and when it runs. */
static void thread_begin(void)
{
    omp_set_num_threads(1);
}

static enum ls_status device_open(struct ls_device **out)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    thread_begin();
    dnnl_set_primitive_cache_capacity(0); /* kernels live in plans; a second copy would only cost memory */
    enum ls_status status = dnn_check(dnnl_engine_create(&(*out)->engine, dnnl_cpu, 0), "engine");
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
    for (int i = 0; i < d->n_layouts; i++) dnn_md_free(&d->layouts[i]);
    free(d->layouts);
    dnnl_engine_destroy(d->engine);
    free(d);
    *device = NULL;
}

static const char *isa_name(void)
{
    switch ((int)dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
        return "sse41";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
        return "avx2";
    case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
    default:
        return "other";
    }
}

static void describe(const struct ls_device *device, char *text, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d, %s", v->major, v->minor, v->patch, isa_name());
}

/* What is not listed here is done by ref: dropout, softmax, reductions and updates, whose loops are vectorised there.
 */
static const struct ls_impl *const impls[] = {
    &ls__cpu_conv2d_wino,
    &ls__cpu_conv2d_bwd_data_wino,
    &ls__cpu_conv2d_bwd_weights_wino,
    &ls__cpu_conv2d,
    &ls__cpu_conv2d_bwd_data,
    &ls__cpu_conv2d_bwd_weights,
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
    &ls__cpu_add,
    &ls__cpu_reorder,
    NULL,
};

const struct ls_backend ls_backend_cpu = {
    .name = "cpu",
    .device_open = device_open,
    .device_close = device_close,
    .describe = describe,
    .thread_begin = thread_begin,
    .impls = impls,
};
