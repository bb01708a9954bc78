/* runner.c: prepares, binds, launches, and checks the laws of runner.h around every launch. */
#include "runner.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILL_NAN = 0xFF };

enum ls_status pick_kernel(const struct ls_backend *backend, const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_impl *const *lists[2] = {backend->impls, ls_backend_ref.impls};
    *out = NULL;
    for (int i = 0; i < (backend->memory ? 1 : 2); i++)
        for (const struct ls_impl *const *impl = lists[i]; *impl; impl++) {
            if ((*impl)->op != prep->node->op) continue;
            enum ls_status status = (*impl)->prepare(prep, out);
            if (status != LS_UNSUPPORTED) return status;
        }
    return LS_UNSUPPORTED;
}

/* A launch of one kernel with all its buffers. */
struct job {
    struct ls_kernel *kernel;
    struct ls_node node;
    struct ls_bound bound;
    bool is_bound;
    struct mirror mirror; /* of what is bound */
    struct buffer in[LS_MAX_IN], out[LS_MAX_OUT], again[LS_MAX_OUT], copies[LS_MAX_IN], scratch, samples;
};

static void job_unbind(struct job *j)
{
    if (j->is_bound && j->kernel->impl->unbind) j->kernel->impl->unbind(&j->bound);
    j->is_bound = false;
    mirror_release(&j->mirror);
}

static void job_release(struct job *j)
{
    job_unbind(j);
    for (int i = 0; i < LS_MAX_IN; i++) {
        buffer_release(&j->in[i]);
        buffer_release(&j->copies[i]);
    }
    for (int i = 0; i < LS_MAX_OUT; i++) {
        buffer_release(&j->out[i]);
        buffer_release(&j->again[i]);
    }
    buffer_release(&j->scratch);
    buffer_release(&j->samples);
}

static bool has_in(const struct job *j, int i)
{
    return i < j->node.n_in && j->node.in[i] >= 0;
}

static bool has_out(const struct job *j, int i)
{
    return i < j->node.n_out && j->node.out[i] >= 0;
}

/* Gives the kernel its addresses: `out`, in place over input `alias` if that is >= 0. */
static enum ls_status job_place(struct job *j, struct buffer out[LS_MAX_OUT], int alias)
{
    struct ls_bound *b = &j->bound;
    void *samples = NULL;
    for (int i = 0; i < LS_MAX_IN; i++)
        if (has_in(j, i)) TRY(mirror_add(&j->mirror, &j->in[i], &b->in[i]));
    for (int i = 0; i < LS_MAX_OUT; i++)
        if (has_out(j, i)) TRY(mirror_add(&j->mirror, &out[i], &b->out[i]));
    TRY(mirror_add(&j->mirror, &j->scratch, &b->scratch));
    TRY(mirror_add(&j->mirror, &j->samples, &samples));
    b->samples = samples;
    if (alias >= 0) b->in[alias] = b->out[0];
    return mirror_send(&j->mirror);
}

/* Binds to `out` (in place over input `alias` if that is >= 0) and launches once. Sums start at zero. */
static enum ls_status job_launch(struct job *j, const struct runner *r, struct buffer out[LS_MAX_OUT], int alias)
{
    job_unbind(j);
    j->bound = (struct ls_bound){.kernel = j->kernel};
    j->mirror = (struct mirror){.backend = r->backend, .device = r->device};
    TRY(buffer_create(&j->scratch, j->kernel->scratch_bytes, FILL_NAN));
    TRY(buffer_create(&j->samples, sizeof(uint32_t) * PROBLEM_MAX_MB, 0));
    memcpy(j->samples.data, r->samples, j->samples.bytes);
    for (int i = 0; i < LS_MAX_OUT; i++)
        if (has_out(j, i))
            TRY(buffer_create(&out[i], j->kernel->out[i].bytes, j->node.op == LS_OP_REDUCE ? 0 : FILL_NAN));
    if (alias >= 0) memcpy(out[0].data, j->in[alias].data, out[0].bytes);
    TRY(job_place(j, out, alias));
    if (j->kernel->impl->bind) TRY(j->kernel->impl->bind(&j->bound));
    j->is_bound = true;
    TRY(j->kernel->impl->launch(&j->bound, r->ctx));
    return mirror_fetch(&j->mirror);
}

static enum ls_status check_same(const struct job *j, const char *how)
{
    for (int i = 0; i < LS_MAX_OUT; i++)
        if (has_out(j, i) && memcmp(j->out[i].data, j->again[i].data, j->out[i].bytes) != 0)
            return ls_fail(LS_ERROR, "%s: output %d has other bits %s", ls_op_name(j->node.op), i, how);
    return LS_OK;
}

static enum ls_status check_memory(const struct job *j)
{
    for (int i = 0; i < LS_MAX_IN; i++) {
        if (!has_in(j, i)) continue;
        TRY(buffer_check(&j->in[i], "input"));
        if (memcmp(j->in[i].data, j->copies[i].data, j->in[i].bytes) != 0)
            return ls_fail(LS_ERROR, "%s changes its input %d", ls_op_name(j->node.op), i);
    }
    for (int i = 0; i < LS_MAX_OUT; i++) {
        if (!has_out(j, i)) continue;
        TRY(buffer_check(&j->out[i], "output"));
        TRY(buffer_check(&j->again[i], "output"));
    }
    return buffer_check(&j->scratch, "scratch");
}

static enum ls_status job_run(struct job *j, const struct runner *r)
{
    for (int i = 0; i < LS_MAX_IN; i++)
        if (has_in(j, i)) TRY(buffer_copy(&j->copies[i], &j->in[i]));
    if (j->kernel->is_view) return buffer_copy(&j->out[0], &j->in[0]);
    TRY(job_launch(j, r, j->out, -1));
    TRY(job_launch(j, r, j->again, -1));
    TRY(check_same(j, "the second time"));
    TRY(check_memory(j));
    const int alias = j->kernel->alias_in;
    if (!j->kernel->may_alias || j->in[alias].bytes != j->out[0].bytes) return LS_OK;
    TRY(job_launch(j, r, j->again, alias));
    TRY(check_same(j, "in place"));
    return check_memory(j);
}

static enum ls_status job_time(struct runner *r, struct job *j)
{
    int n = 0;
    const int64_t start = ls__now_ns();
    do {
        TRY(j->kernel->impl->launch(&j->bound, r->ctx));
        n++;
    } while (ls__seconds_since(start) < 0.05);
    if (r->backend->memory) TRY(r->backend->memory->settle(r->device));
    const double seconds = ls__seconds_since(start) / n, flops = ls_node_flops(r->g, &j->node);
    printf("    %-5s %-20s %-32s %10.4f ms %9.2f GFLOP/s\n", r->backend->name, ls_op_name(j->node.op), j->kernel->name,
           seconds * 1e3, flops / seconds * 1e-9);
    return LS_OK;
}

/* `src` with layout `from` -> *dst with layout `to`. */
static enum ls_status reorder(struct runner *r, int value, const struct buffer *src, const struct ls_layout *from,
                              const struct ls_layout *to, struct buffer *dst)
{
    const struct ls_attrs none = {0};
    struct job j = {0};
    if (from->id == to->id) return buffer_copy(dst, src);
    TRY(ls_graph_add_node(r->g, LS_OP_REORDER, "reorder", &none, &value, 1, NULL));
    j.node = r->g->nodes[r->g->n_nodes - 1];
    const struct ls_prep prep = {.device = r->device, .graph = r->g, .node = &j.node, .in = {*from}, .out = {*to}};
    enum ls_status status = pick_kernel(r->backend, &prep, &j.kernel);
    if (status == LS_UNSUPPORTED)
        status = ls_fail(LS_ERROR, "no reorder from %s to %s: %s", from->tag, to->tag, ls_error_message());
    if (status == LS_OK) status = buffer_copy(&j.in[0], src);
    if (status == LS_OK) status = job_run(&j, r);
    if (status == LS_OK) status = buffer_copy(dst, &j.out[0]);
    job_release(&j);
    ls_kernel_destroy(&j.kernel);
    return status;
}

static struct ls_layout plain_of(const struct runner *r, int value)
{
    return ls_layout_plain(&r->g->values[value].shape, r->g->values[value].dtype);
}

/* The parameter whose gradient output `i` is: backward nodes give diff_weights first, batchnorm_bwd second. */
static int param_of(const struct runner *r, const struct ls_node *n, int i)
{
    if (n->forward < 0) return -1;
    const struct ls_node *f = &r->g->nodes[n->forward];
    switch (n->op) {
    case LS_OP_CONV2D_BWD_WEIGHTS:
    case LS_OP_LINEAR_BWD_WEIGHTS:
        return f->in[i + 1];
    case LS_OP_BATCHNORM_BWD:
        return i > 0 ? f->in[i] : -1;
    default:
        return -1;
    }
}

/* The layout this backend's convolution likes for images of a shape: what its neighbours hand to the op under test. */
static enum ls_status find_native(struct runner *r, const struct ls_shape *shape, struct ls_layout *out)
{
    const struct ls_attrs attrs = {.kh = 1, .kw = 1, .sh = 1, .sw = 1, .dh = 1, .dw = 1, .groups = 1};
    const struct ls_shape weights = LS_SHAPE4(shape->dims[1], shape->dims[1], 1, 1);
    struct ls_kernel *kernel;
    int in[2];
    TRY(ls_graph_add_value(r->g, NULL, LS_VALUE_TEMP, LS_F32, shape, &in[0]));
    TRY(ls_graph_add_value(r->g, NULL, LS_VALUE_PARAM, LS_F32, &weights, &in[1]));
    TRY(ls_graph_add_node(r->g, LS_OP_CONV2D, "neighbour", &attrs, in, 2, NULL));
    const struct ls_node node = r->g->nodes[r->g->n_nodes - 1];
    const struct ls_prep prep = {.device = r->device,
                                 .graph = r->g,
                                 .node = &node,
                                 .in = {ls_layout_plain(shape, LS_F32), ls_layout_any()},
                                 .out = {ls_layout_any()}};
    TRY(pick_kernel(r->backend, &prep, &kernel));
    *out = kernel->out[0];
    ls_kernel_destroy(&kernel);
    return LS_OK;
}

/* What the input is offered as. Sums stay plain: they take the layout of a parameter, which no reorder of floats
 * undoes. */
static enum ls_status offer(struct runner *r, enum ls_op op, int value, struct ls_layout *out)
{
    const struct ls_value v = r->g->values[value]; /* a copy: the graph grows */
    *out = v.kind == LS_VALUE_PARAM ? r->layouts[value] : plain_of(r, value);
    const bool is_image = v.kind == LS_VALUE_TEMP && v.shape.n_dims == 4 && !v.is_workspace && op != LS_OP_REDUCE;
    return r->is_native && is_image ? find_native(r, &v.shape, out) : LS_OK;
}

static enum ls_status fill_prep(struct runner *r, struct ls_prep *prep)
{
    const struct ls_node *n = prep->node;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0) TRY(offer(r, n->op, n->in[i], &prep->in[i]));
    for (int i = 0; i < n->n_out; i++) {
        const int param = param_of(r, n, i);
        prep->out[i] = param >= 0 ? r->layouts[param] : ls_layout_any();
        if (n->op == LS_OP_REORDER) prep->out[i] = plain_of(r, n->out[i]); /* a reorder is told where to go */
    }
    prep->forward = n->forward >= 0 ? r->kernels[n->forward] : NULL;
    return LS_OK;
}

static enum ls_status load_inputs(struct runner *r, struct job *j)
{
    for (int i = 0; i < LS_MAX_IN; i++) {
        if (!has_in(j, i)) continue;
        const int v = j->node.in[i];
        const bool is_workspace = r->g->values[v].is_workspace;
        const struct buffer *src = r->truth && !is_workspace ? &r->truth->values[v] : &r->values[v];
        const struct ls_layout plain = plain_of(r, v);
        if (r->g->values[v].kind == LS_VALUE_PARAM) r->layouts[v] = j->kernel->in[i];
        if (is_workspace)
            TRY(buffer_copy(&j->in[i], src));
        else
            TRY(reorder(r, v, src, &plain, &j->kernel->in[i], &j->in[i]));
    }
    return LS_OK;
}

/* Channels a layout adds to fill its blocks must hold zeros, for the next op reads them: going to plain and back must
 * give the same bytes. */
static enum ls_status check_padding(struct runner *r, const struct job *j, int i)
{
    const int v = j->node.out[i];
    const struct ls_layout plain = plain_of(r, v);
    struct buffer back = {0};
    enum ls_status status = reorder(r, v, &r->values[v], &plain, &j->kernel->out[i], &back);
    if (status == LS_OK && memcmp(back.data, j->out[i].data, back.bytes) != 0)
        status = ls_fail(LS_ERROR, "output %d: the padding of layout %s is not zero", i, j->kernel->out[i].tag);
    buffer_release(&back);
    return status;
}

static enum ls_status store_outputs(struct runner *r, struct job *j)
{
    for (int i = 0; i < LS_MAX_OUT; i++) {
        if (!has_out(j, i)) continue;
        const int v = j->node.out[i];
        const struct ls_layout plain = plain_of(r, v);
        if (r->g->values[v].is_workspace)
            TRY(buffer_copy(&r->values[v], &j->out[i]));
        else
            TRY(reorder(r, v, &j->out[i], &j->kernel->out[i], &plain, &r->values[v]));
        if (j->kernel->out[i].id != LS_LAYOUT_PLAIN) TRY(check_padding(r, j, i));
    }
    return LS_OK;
}

static enum ls_status run_job(struct runner *r, struct job *j)
{
    TRY(load_inputs(r, j));
    TRY(job_run(j, r));
    if (r->is_perf && !j->kernel->is_view) TRY(job_time(r, j));
    return store_outputs(r, j);
}

/* The kernel of a node: the implementation that is asked for, else the first that takes it. */
static enum ls_status pick_asked(struct runner *r, const struct ls_prep *prep, struct ls_kernel **out)
{
    struct ls_prep asked = *prep;
    asked.is_asked_for = true;
    TRY(pick_kernel(r->backend, prep, out));
    for (const struct ls_impl *const *impl = r->backend->impls; r->asked && *impl; impl++) {
        struct ls_kernel *kernel = NULL;
        if ((*impl)->op != prep->node->op || strcmp((*impl)->name, r->asked) != 0 || (*out)->impl == *impl) continue;
        enum ls_status status = (*impl)->prepare(&asked, &kernel);
        if (status == LS_UNSUPPORTED) continue;
        ls_kernel_destroy(out);
        *out = kernel;
        r->n_asked++;
        return status;
    }
    return LS_OK;
}

static enum ls_status run_node(struct runner *r, int index)
{
    struct job j = {.node = r->g->nodes[index]};
    struct ls_prep prep = {.device = r->device, .graph = r->g, .node = &j.node};
    enum ls_status status = fill_prep(r, &prep);
    if (status == LS_OK) status = pick_asked(r, &prep, &r->kernels[index]);
    if (status == LS_UNSUPPORTED) status = ls_fail(LS_ERROR, "nobody takes it: %s", ls_error_message());
    j.kernel = r->kernels[index];
    if (status == LS_OK) status = run_job(r, &j);
    job_release(&j);
    return status == LS_OK ? LS_OK
                           : ls_fail_in(status, "%s on %s%s", ls_op_name(j.node.op), r->backend->name,
                                        r->is_native ? " (native layouts)" : "");
}

enum ls_status runner_open(struct runner *r, const struct ls_backend *backend, const struct problem *p)
{
    *r = (struct runner){.backend = backend,
                         .g = p->g,
                         .n_nodes = p->n_nodes,
                         .n_values = p->n_values,
                         .ctx = &p->ctx,
                         .samples = p->samples};
    TRY(backend->device_open(&r->device));
    if (backend->thread_begin) backend->thread_begin();
    TRY(ls__calloc(&r->values, (size_t)r->n_values, sizeof *r->values));
    TRY(ls__calloc(&r->layouts, (size_t)r->n_values, sizeof *r->layouts));
    TRY(ls__calloc(&r->kernels, (size_t)r->n_nodes, sizeof *r->kernels));
    for (int v = 0; v < r->n_values; v++) {
        r->layouts[v] = ls_layout_any();
        if (!p->data[v]) continue;
        TRY(buffer_create(&r->values[v], plain_of(r, v).bytes, 0));
        memcpy(r->values[v].data, p->data[v], r->values[v].bytes);
    }
    return LS_OK;
}

enum ls_status runner_run(struct runner *r)
{
    for (int i = 0; i < r->n_nodes; i++) TRY(run_node(r, i));
    return LS_OK;
}

void runner_close(struct runner *r)
{
    for (int v = 0; r->values && v < r->n_values; v++) buffer_release(&r->values[v]);
    for (int i = 0; r->kernels && i < r->n_nodes; i++) ls_kernel_destroy(&r->kernels[i]);
    free(r->values);
    free(r->layouts);
    free(r->kernels);
    if (r->device) r->backend->device_close(&r->device);
}
