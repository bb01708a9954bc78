/* dnn.c: oneDNN primitives as kernels: descriptors from our shapes, arguments bound once, status codes turned into
 * ours. */
#include "backend/cpu/dnn.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum ls_status ls__dnn_check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success) return LS_OK;
    if (status == dnnl_unimplemented) return ls_fail(LS_UNSUPPORTED, "oneDNN has no %s for this problem", what);
    if (status == dnnl_out_of_memory) return ls_fail(LS_NOMEM, "oneDNN is out of memory (%s)", what);
    return ls_fail(LS_INTERNAL, "oneDNN failed (%s): status %d", what, (int)status);
}

/* Dimensions as oneDNN wants them; returns how many. */
static int dims_of(const struct ls_value *v, int groups, dnnl_dims_t dims)
{
    int n = v->shape.n_dims, at = 0;
    if (groups > 1 && n == 4) {
        dims[at++] = groups;
        dims[at++] = v->shape.dims[0] / groups;
        for (int i = 1; i < 4; i++) dims[at++] = v->shape.dims[i];
        return at;
    }
    for (int i = 0; i < n; i++) dims[at++] = v->shape.dims[i];
    return at;
}

static const dnnl_format_tag_t plain_tags[] = {dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};

enum ls_status ls__dnn_plain_md(const struct ls_value *v, int groups, struct dnn_md_box *box)
{
    dnnl_dims_t dims;
    int n = dims_of(v, groups, dims);
    return ls__dnn_check(ls__dnn_md_make(box, n, dims, plain_tags[n]), "plain descriptor");
}

enum ls_status ls__dnn_any_md(const struct ls_value *v, int groups, struct dnn_md_box *box)
{
    dnnl_dims_t dims;
    int n = dims_of(v, groups, dims);
    return ls__dnn_check(ls__dnn_md_make(box, n, dims, dnnl_format_tag_any), "descriptor");
}

enum ls_status ls__dnn_layout_md(const struct ls_device *device, const struct ls_layout *layout,
                                 const struct ls_value *v, int groups, struct dnn_md_box *box)
{
    if (layout->id == LS_LAYOUT_PLAIN) return ls__dnn_plain_md(v, groups, box);
    if (layout->id == LS_LAYOUT_ANY) return ls__dnn_any_md(v, groups, box);
    return ls__dnn_check(ls__dnn_md_clone(box, ls__dnn_md_of(&device->layouts[layout->id - 1])), "descriptor");
}

enum ls_status ls__dnn_layout_from(struct ls_device *device, dnn_md md, const struct ls_value *v, int groups,
                                   struct ls_layout *out)
{
    struct dnn_md_box plain = {0};
    TRY(ls__dnn_plain_md(v, groups, &plain));
    bool is_plain = ls__dnn_md_equal(md, ls__dnn_md_of(&plain));
    ls__dnn_md_free(&plain);
    if (is_plain) {
        *out = ls_layout_plain(&v->shape, v->dtype);
        return LS_OK;
    }
    *out = (struct ls_layout){.bytes = ls__dnn_md_bytes(md)};
    ls__dnn_md_tag(md, out->tag, sizeof out->tag);
    for (int i = 0; i < device->n_layouts; i++)
        if (ls__dnn_md_equal(md, ls__dnn_md_of(&device->layouts[i]))) {
            out->id = i + 1;
            return LS_OK;
        }
    TRY(ls__grow(&device->layouts, (size_t)device->n_layouts, (size_t)device->n_layouts + 1, sizeof *device->layouts));
    TRY(ls__dnn_check(ls__dnn_md_clone(&device->layouts[device->n_layouts], md), "descriptor"));
    out->id = ++device->n_layouts;
    return LS_OK;
}

static enum ls_status make_attr(bool relu, dnnl_primitive_attr_t *attr)
{
    *attr = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attr);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success) status = ls__dnn_attr_deterministic(*attr);
    if (status == dnnl_success && relu) {
        dnnl_post_ops_t ops = NULL;
        status = dnnl_post_ops_create(&ops);
        if (status == dnnl_success) status = ls__dnn_append_relu(ops);
        if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*attr, ops);
        if (ops) dnnl_post_ops_destroy(ops);
    }
    return ls__dnn_check(status, "attributes");
}

enum ls_status ls__dnn_samples_last(struct ls_device *device, const struct ls_value *v, struct ls_layout *out)
{
    struct dnn_md_box box = {0};
    dnnl_dims_t dims;
    int n = dims_of(v, 1, dims);
    if (n != 4) return ls_fail(LS_UNSUPPORTED, "not an image");
    TRY(ls__dnn_check(ls__dnn_md_make(&box, n, dims, dnnl_bcda), "descriptor"));
    enum ls_status status = ls__dnn_layout_from(device, ls__dnn_md_of(&box), v, 1, out);
    ls__dnn_md_free(&box);
    return status;
}

const struct ls_value *ls__dnn_value_in(const struct ls_prep *prep, int index)
{
    const struct ls_node *n = prep->node;
    return index < n->n_in && n->in[index] >= 0 ? &prep->graph->values[n->in[index]] : NULL;
}

const struct ls_value *ls__dnn_value_out(const struct ls_prep *prep, int index)
{
    const struct ls_node *n = prep->node;
    return index < n->n_out && n->out[index] >= 0 ? &prep->graph->values[n->out[index]] : NULL;
}

static enum ls_status add_arg(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_arg arg,
                              const struct ls_value *v, int groups)
{
    if (!v) return LS_OK;
    struct ls_layout *layout = arg.is_out ? &k->base.out[arg.index] : &k->base.in[arg.index];
    if (k->n_args == DNN_MAX_ARGS) return ls_fail(LS_INTERNAL, "too many arguments");
    dnn_md md = dnnl_primitive_desc_query_md(k->pd, dnnl_query_exec_arg_md, arg.arg);
    bool is_known = md && ls__dnn_md_bytes(md) > 0;
    if (!is_known && v->is_workspace) { /* not wanted */
        layout->bytes = 0;
        return LS_OK;
    }
    struct dnn_arg *a = &k->args[k->n_args++];
    *a = arg;
    if (!is_known)
        return ls__dnn_plain_md(v, 1, &a->md); /* 2.6 does not tell of batch norm's scale and shift: plain vectors */
    TRY(ls__dnn_check(ls__dnn_md_clone(&a->md, md), "descriptor"));
    if (v->is_workspace) {
        *layout = (struct ls_layout){.id = LS_LAYOUT_PLAIN, .bytes = ls__dnn_md_bytes(md), .tag = "workspace"};
        return LS_OK;
    }
    return ls__dnn_layout_from(prep->device, md, v, groups, layout);
}

enum ls_status ls__dnn_add_in(const struct ls_prep *prep, struct dnn_kernel *k, int arg, int index, int groups)
{
    return add_arg(prep, k, (struct dnn_arg){.arg = arg, .index = index}, ls__dnn_value_in(prep, index), groups);
}

enum ls_status ls__dnn_add_out(const struct ls_prep *prep, struct dnn_kernel *k, int arg, int index, int groups)
{
    return add_arg(prep, k, (struct dnn_arg){.arg = arg, .is_out = true, .index = index},
                   ls__dnn_value_out(prep, index), groups);
}

/* oneDNN 2.6 writes its machine code into memory without asking whether it got any: ask first. */
static enum ls_status check_room(void)
{
    enum { ROOM_BYTES = 8 << 20 };
    void *p = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return ls_fail(LS_NOMEM, "out of memory: no room for the code of a oneDNN kernel");
    munmap(p, ROOM_BYTES);
    return LS_OK;
}

/* From primitive descriptor to primitive. */
static enum ls_status finish(struct dnn_kernel *k)
{
    const char *info = NULL;
    TRY(check_room());
    TRY(ls__dnn_check(dnnl_primitive_create(&k->primitive, k->pd), "primitive"));
    dnn_md scratch = dnnl_primitive_desc_query_md(k->pd, dnnl_query_scratchpad_md, 0);
    if (scratch && ls__dnn_md_bytes(scratch) > 0) {
        k->base.scratch_bytes = ls__dnn_md_bytes(scratch);
        TRY(ls__dnn_check(ls__dnn_md_clone(&k->scratch, scratch), "scratchpad"));
    }
    if (dnnl_primitive_desc_query(k->pd, dnnl_query_impl_info_str, 0, &info) == dnnl_success && info)
        snprintf(k->base.name, sizeof k->base.name, "dnnl:%s", info);
    return LS_OK;
}

enum ls_status ls__dnn_prepare(const struct ls_prep *prep, const struct ls_impl *impl, dnn_make *make, bool relu,
                               struct ls_kernel **out)
{
    struct dnn_kernel *k = NULL;
    struct dnn_md_box md[4] = {{.is_set = false}};
    dnnl_primitive_attr_t attr = NULL;
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    k->engine = prep->device->engine;
    enum ls_status status = make_attr(relu, &attr);
    if (status == LS_OK) status = make(prep, k, md, attr);
    if (status == LS_OK) status = finish(k);
    for (int i = 0; i < 4; i++) ls__dnn_md_free(&md[i]);
    if (attr) dnnl_primitive_attr_destroy(attr);
    *out = &k->base;
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

const_dnnl_primitive_desc_t ls__dnn_hint(const struct ls_prep *prep, const struct ls_impl *impl)
{
    if (!prep->forward || prep->forward->impl != impl) return NULL;
    return ((const struct dnn_kernel *)prep->forward)->pd;
}

void ls__dnn_release(struct ls_kernel *kernel)
{
    struct dnn_kernel *k = (struct dnn_kernel *)kernel;
    if (k->primitive) dnnl_primitive_destroy(k->primitive);
    if (k->pd) dnnl_primitive_desc_destroy(k->pd);
    for (int i = 0; i < k->n_args; i++) ls__dnn_md_free(&k->args[i].md);
    ls__dnn_md_free(&k->scratch);
}

/* What belongs to one thread: memory objects over its addresses, and a stream. */
struct bound_args {
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[DNN_MAX_ARGS + 1];
    int n_args;
};

static enum ls_status add_memory(struct bound_args *e, dnnl_engine_t engine, int arg, const struct dnn_md_box *md,
                                 void *data)
{
    dnnl_memory_t memory = NULL;
    TRY(ls__dnn_check(dnnl_memory_create(&memory, ls__dnn_md_of(md), engine, data), "memory object"));
    e->args[e->n_args++] = (dnnl_exec_arg_t){arg, memory};
    return LS_OK;
}

enum ls_status ls__dnn_bind(struct ls_bound *b)
{
    const struct dnn_kernel *k = (const struct dnn_kernel *)b->kernel;
    struct bound_args *e;
    TRY(ls__calloc(&e, 1, sizeof *e));
    b->extra = e;
    TRY(ls__dnn_check(dnnl_stream_create(&e->stream, k->engine, dnnl_stream_default_flags), "stream"));
    for (int i = 0; i < k->n_args; i++) {
        const struct dnn_arg *a = &k->args[i];
        TRY(add_memory(e, k->engine, a->arg, &a->md, a->is_out ? b->out[a->index] : b->in[a->index]));
    }
    if (k->scratch.is_set) TRY(add_memory(e, k->engine, DNNL_ARG_SCRATCHPAD, &k->scratch, b->scratch));
    return LS_OK;
}

void ls__dnn_unbind(struct ls_bound *b)
{
    struct bound_args *e = b->extra;
    if (!e) return;
    for (int i = 0; i < e->n_args; i++) dnnl_memory_destroy(e->args[i].memory);
    if (e->stream) dnnl_stream_destroy(e->stream);
    free(e);
    b->extra = NULL;
}

enum ls_status ls__dnn_launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct dnn_kernel *k = (const struct dnn_kernel *)b->kernel;
    const struct bound_args *e = b->extra;
    return ls__dnn_check(dnnl_primitive_execute(k->primitive, e->stream, e->n_args, e->args), k->base.name);
}

void ls__dnn_window_of(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst,
                       struct dnn_window *w)
{
    *w = (struct dnn_window){.strides = {a->sh, a->sw},
                             .kernel = {a->kh, a->kw},
                             .dilates = {a->dh > 1 ? a->dh - 1 : 0, a->dw > 1 ? a->dw - 1 : 0},
                             .padding_l = {a->ph, a->pw}};
    for (int i = 0; i < 2; i++) {
        int64_t extent = (w->kernel[i] - 1) * (w->dilates[i] + 1) + 1;
        w->padding_r[i] = (dst->dims[2 + i] - 1) * w->strides[i] + extent - src->dims[2 + i] - w->padding_l[i];
    }
}
