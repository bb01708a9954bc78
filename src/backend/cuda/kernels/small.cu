/* small.cu: a list of ops for every sample, in one kernel. A team of threads takes one sample through all of them and
 * meets after each; small.h says more. */
#include "backend/cuda/kernels/pool.cuh"
#include "backend/cuda/kernels/small_conv.cuh"
#include "backend/cuda/kernels/small_linear.cuh"
#include "backend/cuda/kernels/softmax.cuh"

enum { MOST_THREADS = 512 };

struct place {
    int plane, y, x;
};

/* Element i of planes of rows. */
static __device__ __forceinline__ struct place place_of(const struct ls_cuda_small_pool &p, int i)
{
    struct place at;
    at.plane = (int)divided_by(p.plane, i);
    const int rest = i - at.plane * (int)p.plane.by;
    at.y = (int)divided_by(p.row, rest);
    at.x = rest - at.y * (int)p.row.by;
    return at;
}

/* As pool.cu does. */
static __device__ __forceinline__ float max_of_window(const struct ls_cuda_pool &p, const float *from, int pitch,
                                                      const struct place &at, int *chosen)
{
    const float *plane = from + at.plane * p.ih * pitch;
    int best = -1;
    float most = -INFINITY;
#pragma unroll 1
    for (int ky = 0; ky < p.kh; ky++)
#pragma unroll 1
        for (int kx = 0; kx < p.kw; kx++) {
            const int y = at.y * p.sh - p.ph + ky * p.dh, x = at.x * p.sw - p.pw + kx * p.dw;
            if (y < 0 || y >= p.ih || x < 0 || x >= p.iw) continue;
            const float v = plane[y * pitch + x];
            if (isnan(most) || (best >= 0 && !(v > most) && !isnan(v))) continue; /* the first NaN stays */
            best = y * p.iw + x;
            most = v;
        }
    *chosen = best;
    return most;
}

/* The same of 2 x 2 pixels that all lie in the image. */
static __device__ __forceinline__ float max_of_four(const struct ls_cuda_pool &p, const float *from, int pitch,
                                                    const struct place &at, int *chosen)
{
    const int first = at.y * p.sh * p.iw + at.x * p.sw;
    const float *v = from + (at.plane * p.ih + at.y * p.sh) * pitch + at.x * p.sw;
    const float others[3] = {v[1], v[pitch], v[pitch + 1]};
    const int places[3] = {first + 1, first + p.iw, first + p.iw + 1};
    float most = v[0];
    *chosen = first;
#pragma unroll
    for (int i = 0; i < 3; i++)
        if (!isnan(most) && (others[i] > most || isnan(others[i]))) {
            most = others[i];
            *chosen = places[i];
        }
    return most;
}

static __device__ void max_of_windows(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_pool w = op.of.pool;
    const struct result to = result_of(t, op);
    const struct sink chosen = sink_of(t, op.chosen);
    const float *from = shared_of(op.in[0]);
    const bool has_chosen = op.chosen.data != NULL;
    const int n = op.out.n, pitch = w.p.iw + op.in[0].gap;
#pragma unroll 2
    for (int i = t.first; i < n; i += t.n) {
        int best;
        const struct place at = place_of(w, i);
        const float most =
            w.is_of_four ? max_of_four(w.p, from, pitch, at, &best) : max_of_window(w.p, from, pitch, at, &best);
        put_result(t, to, i, most);
        if (has_chosen) put(t, chosen, i, i, __int_as_float(best));
    }
}

/* A thread has a window and its four pixels. */
static __device__ void max_gradient_of_four(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_pool w = op.of.pool;
    const struct ls_cuda_small_value in = op.in[0];
    const struct result to = result_of(t, op);
    const float *diff = shared_of(in), *chosen = shared_of(op.in[1]);
    const int iw = w.p.iw, pitch = iw + to.out.gap, mask_pitch = iw + to.mask.gap;
#pragma unroll 2
    for (int i = t.first; i < in.n; i += t.n) {
        const int line = (int)divided_by(w.window_row, i), plane = (int)divided_by(w.window_rows, line);
        const int row = 2 * line, x = 2 * (i - line * w.p.ow);                           /* rows of all planes */
        const int best = __float_as_int(chosen[i]) + plane * w.p.ih * iw - row * iw - x; /* 0, 1, iw or iw + 1 */
        const int below = best >= iw, right = best - below * iw;
        const float d = 0.0f + diff[spread(in, i)];
        const bool is_in = !to.mask.data || pool[to.mask.at + (row + below) * mask_pitch + x + right] > 0.0f;
#pragma unroll
        for (int k = 0; k < 4; k++)
            put(t, to.to, (row + k / 2) * iw + x + k % 2, (row + k / 2) * pitch + x + k % 2,
                is_in && k == 2 * below + right ? d : 0.0f);
    }
}

static __device__ void max_gradient(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_pool w = op.of.pool;
    const struct ls_cuda_pool p = w.p;
    const struct ls_cuda_small_value in = op.in[0];
    const float *diff = shared_of(in), *chosen = shared_of(op.in[1]);
    if (w.is_covered) return max_gradient_of_four(t, op);
    put_all<1>(t, op, [&](int i) {
        const struct place at = place_of(w, i);
        const int base = at.plane * p.oh * p.ow, self = at.y * p.iw + at.x;
        int y0, y1, x0, x1;
        float sum = 0.0f;
        max_holders(p, at.y, at.x, &y0, &y1, &x0, &x1);
#pragma unroll 1
        for (int y = y0; y < y1; y++)
#pragma unroll 1
            for (int x = x0; x < x1; x++) {
                const int window = base + y * p.ow + x;
                if (__float_as_int(chosen[window]) == self) sum += diff[spread(in, window)];
            }
        return sum;
    });
}

static __device__ void mean_of_windows(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_pool w = op.of.pool;
    const struct ls_cuda_pool p = w.p;
    const float *from = shared_of(op.in[0]);
    const int pitch = p.iw + op.in[0].gap;
    put_all<1>(t, op, [&](int i) {
        const struct place at = place_of(w, i);
        const struct span rows = rows_of(p, at.y), columns = columns_of(p, at.x);
        const float *plane = from + at.plane * p.ih * pitch;
        double sum = 0.0;
#pragma unroll 1
        for (int y = rows.begin; y < rows.end; y++)
#pragma unroll 1
            for (int x = columns.begin; x < columns.end; x++) sum += (double)plane[y * pitch + x];
        return (float)(sum / (double)((int64_t)rows.n * columns.n));
    });
}

static __device__ void mean_gradient(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_pool w = op.of.pool;
    const struct ls_cuda_pool p = w.p;
    const float *from = shared_of(op.in[0]);
    const int pitch = p.ow + op.in[0].gap;
    put_all<1>(t, op, [&](int i) {
        const struct place at = place_of(w, i);
        const float *plane = from + at.plane * p.oh * pitch;
        int y0, y1, x0, x1;
        float sum = 0.0f;
        mean_holders(p, at.y, at.x, &y0, &y1, &x0, &x1);
#pragma unroll 1
        for (int y = y0; y < y1; y++)
#pragma unroll 1
            for (int x = x0; x < x1; x++)
                sum += plane[y * pitch + x] / (float)((int64_t)rows_of(p, y).n * columns_of(p, x).n);
        return sum;
    });
}

static __device__ void elementwise(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_value va = op.in[0], vb = op.in[1];
    const float *a = shared_of(va), *b = shared_of(vb);
    const enum ls_cuda_small_kind kind = op.kind;
    const bool has_relu = op.relu, has_second = vb.data != NULL;
    put_all<2>(t, op, [&](int i) {
        const float x = a[spread(va, i)], y = has_second ? b[spread(vb, i)] : 0.0f;
        if (kind == LS_CUDA_SMALL_RELU_BWD) return x > 0.0f ? y : 0.0f;
        const float sum = kind == LS_CUDA_SMALL_ADD ? x + y : x;
        return has_relu ? relu1(sum) : sum;
    });
}

/* One warp; the others go on. */
static __device__ void loss(const struct team &t, const struct ls_cuda_small_op &op, struct ls_cuda_fault *fault)
{
    const struct ls_cuda_small_loss l = op.of.loss;
    const struct result to = result_of(t, op);
    const bool has_out = op.out.data != NULL;
    struct target target;
    if (t.first >= WARP) return;
    target.label = t.sample < l.a.n_valid ? __float_as_int(shared_of(op.in[1])[0]) : -1;
    target.other = l.others && target.label >= 0 ? __ldg(l.others + t.sample) : target.label;
    target.share = l.others && target.label >= 0 ? (double)__ldg(l.shares + t.sample) : 1.0;
    softmax_row(shared_of(op.in[0]), t.sample, target, l.rows, fault, l.a, t.first, [&](int c, float x) {
        if (has_out) put_result(t, to, c, x);
    });
}

static __device__ void run(const struct team &t, const struct ls_cuda_small_op &op, struct ls_cuda_fault *fault)
{
    switch (op.kind) {
    case LS_CUDA_SMALL_CONV:
        return op.of.conv.k == 5 ? conv<5>(t, op) : conv<3>(t, op);
    case LS_CUDA_SMALL_CONV_WEIGHTS:
        return op.of.conv.k == 5 ? conv_gradient<5>(t, op) : conv_gradient<3>(t, op);
    case LS_CUDA_SMALL_MAX:
        return max_of_windows(t, op);
    case LS_CUDA_SMALL_MAX_BWD:
        return max_gradient(t, op);
    case LS_CUDA_SMALL_MEAN:
        return mean_of_windows(t, op);
    case LS_CUDA_SMALL_MEAN_BWD:
        return mean_gradient(t, op);
    case LS_CUDA_SMALL_LINEAR:
        return op.of.linear.ic % WIDE == 0 && op.in[0].gap == 0 ? linear<WIDE>(t, op) : linear<1>(t, op);
    case LS_CUDA_SMALL_LINEAR_BWD:
        return op.of.linear.ic % WIDE == 0 ? linear_bwd<WIDE>(t, op) : linear_bwd<1>(t, op);
    case LS_CUDA_SMALL_LOSS:
        return loss(t, op, fault);
    default:
        return elementwise(t, op);
    }
}

/* The sample's words of a value made before this kernel. Each block of the team has all. thread: this one's turn. */
static __device__ void fetch(const struct ls_cuda_small_value &v, int sample, int thread)
{
    constexpr int AT_ONCE = 6; /* every turn is a whole latency */
    const float *from = v.data + (int64_t)sample * v.n;
    const int n = v.n, step = blockDim.x;
    clear_gaps(v);
#pragma unroll 1
    for (int first = thread; first < n; first += AT_ONCE * step) {
        float x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) x[k] = __ldg(from + min(first + k * step, n - 1));
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (first + k * step < n) pool[v.at + spread(v, first + k * step)] = x[k];
    }
}

/* What is to be done, into shared memory: there its words are read many times faster than as arguments. */
static __device__ void bring_list(const struct ls_cuda_small_ops *list, int n)
{
    const float *from = reinterpret_cast<const float *>(list->list);
    const int fours = n * (int)(sizeof *list->list / sizeof(float4));
    for (int i = threadIdx.x; i < fours; i += blockDim.x) copy_four(pool + i * WIDE, from + i * WIDE);
    from = reinterpret_cast<const float *>(list->fetched);
    const int words = list->n_fetched * (int)(sizeof *list->fetched / sizeof(float));
    for (int i = threadIdx.x; i < words; i += blockDim.x) pool[list->fetched_at + i] = __ldg(from + i);
}

template <bool IS_TEAM>
static __global__ void __launch_bounds__(MOST_THREADS) run_samples(const struct ls_cuda_small_ops *ops, int n)
{
    __shared__ uint64_t arrival; /* of linear layers' weights */
    struct team t;
    t.size = IS_TEAM ? ops->team : 1;
    t.sample = IS_TEAM ? (int)blockIdx.x / t.size : (int)blockIdx.x;
    t.rank = IS_TEAM ? (int)blockIdx.x % t.size : 0;
    t.n = t.size * (int)blockDim.x;
    /* warp by warp in turn, so that where there is little to do all blocks do some of it */
    t.first = ((int)threadIdx.x / WARP * t.size + t.rank) * WARP + (int)threadIdx.x % WARP;
    if (IS_TEAM) find_others(t);
    struct ls_cuda_fault *const fault = ops->fault;
    const int n_fetched = ops->n_fetched;
    const struct ls_cuda_small_op *list = reinterpret_cast<const struct ls_cuda_small_op *>(pool);
    const struct ls_cuda_small_value *fetched =
        reinterpret_cast<const struct ls_cuda_small_value *>(pool + ops->fetched_at);
    bring_list(ops, n);
    await_copies();
    __syncthreads();
    bring_weights(list, n, &arrival);
    for (int i = 0; i < n_fetched; i++) /* from either end, so that no warp has the first words of all */
        fetch(fetched[i], t.sample, i % 2 ? (int)(blockDim.x - 1 - threadIdx.x) : (int)threadIdx.x);
    for (int i = 0; i < n; i++)
        if (list[i].kind == LS_CUDA_SMALL_CONV) stage_weights(list[i]);
    for (int i = 0; i < n; i++) {
        if (list[i].awaits_weights) await_bytes(&arrival); /* never the first: all have met since */
        if (!list[i].is_beside) meet(t);
        run(t, list[i], fault);
    }
    if (IS_TEAM) meet(t); /* nobody leaves while others write to its shared memory */
}

static cudaError_t allow(const void *kernel, size_t shared_bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
}

extern "C" cudaError_t ls__cuda_allow_small(size_t *shared_bytes, bool *has_teams)
{
    const void *one = (const void *)run_samples<false>, *team = (const void *)run_samples<true>;
    cudaFuncAttributes found = {};
    cudaError_t error = cudaFuncGetAttributes(&found, team);
    *shared_bytes = (*shared_bytes - found.sharedSizeBytes) / 16 * 16;
    if (error == cudaSuccess) error = allow(one, *shared_bytes);
    if (error == cudaSuccess) error = allow(team, *shared_bytes);
    *has_teams = found.ptxVersion >= 90;
    return error;
}

extern "C" cudaError_t ls__cuda_run_small(cudaStream_t stream, const struct ls_cuda_small_ops *list,
                                          struct ls_cuda_small_shape shape)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute cluster = {};
    config.gridDim = dim3((unsigned)(shape.mb * shape.team));
    config.blockDim = dim3((unsigned)shape.threads);
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = (unsigned)shape.team;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = shape.team > 1 ? 1 : 0;
    return cudaLaunchKernelEx(&config, shape.team > 1 ? run_samples<true> : run_samples<false>, list, shape.n);
}
