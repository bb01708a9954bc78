/* kernels.h: what nvcc compiles, as C sees it: launchers that enqueue on a stream and return what the launch said.
 *
 * Compiled without contraction (-fmad=false): a * b + c is rounded twice, as on the CPU, so that elementwise kernels,
 * updates and augmentation give ref's bits. Where a fused multiply-add is wanted, fmaf says so.
 *
 * Grids and orders of summation follow from the shapes alone, never from the number of multiprocessors.
 */
#ifndef LS_BACKEND_CUDA_KERNELS_H
#define LS_BACKEND_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first failure since settle last looked. */
struct ls_cuda_fault {
    int32_t id;     /* of the kernel, 0: none */
    int32_t detail; /* its own: a label */
};

struct ls_cuda_nchw {
    int64_t mb, c, hw;
};

/* elementwise.cu */
cudaError_t ls__cuda_run_relu(cudaStream_t stream, const float *src, float *dst, int64_t n);
cudaError_t ls__cuda_run_relu_bwd(cudaStream_t stream, const float *dst, const float *diff_dst, float *diff_src,
                                  int64_t n);
cudaError_t ls__cuda_run_add(cudaStream_t stream, const float *a, const float *b, float *dst, int64_t n, bool relu);
/* bias may be NULL: relu alone; src may be dst */
cudaError_t ls__cuda_run_bias(cudaStream_t stream, const float *src, const float *bias, float *dst,
                              struct ls_cuda_nchw n, bool relu);
struct ls_cuda_dropout {
    uint64_t seed;
    int64_t step, mb, n; /* samples, elements of one */
    int layer, n_valid;
    float p;
};
cudaError_t ls__cuda_run_dropout(cudaStream_t stream, const float *src, const uint32_t *samples /* or NULL */,
                                 float *dst, struct ls_cuda_dropout d);

/* channels.cu: sums over the samples and pixels of each channel, in double, in pieces whose number follows from the
 * shape. partial: [2][c][pieces] doubles. */
int64_t ls__cuda_channel_pieces(struct ls_cuda_nchw n);
cudaError_t ls__cuda_run_channel_sums(cudaStream_t stream, const float *x, float *sums /* [c] */, double *partial,
                                      struct ls_cuda_nchw n);
/* stats [3][c]: mean, variance and gamma / std in double; the first two again as floats, for the running ones */
cudaError_t ls__cuda_run_batchnorm_stats(cudaStream_t stream, const float *src, const float *gamma, float *mean,
                                         float *var, double *stats, double *partial, struct ls_cuda_nchw n, float eps);
/* the same from given statistics */
cudaError_t ls__cuda_run_batchnorm_given(cudaStream_t stream, const float *gamma, const float *mean, const float *var,
                                         double *stats, int64_t c, float eps);
cudaError_t ls__cuda_run_batchnorm_apply(cudaStream_t stream, const float *src, const double *stats, const float *beta,
                                         float *dst, struct ls_cuda_nchw n, bool relu);
struct ls_cuda_batchnorm_bwd {
    const float *src, *dst /* NULL: no relu */, *diff_dst;
    const double *stats;
    float *diff_src, *diff_gamma, *diff_beta; /* the last two may be NULL */
    double *partial, *slopes;                 /* scratch; slopes: [2][c] */
    float eps;
};
cudaError_t ls__cuda_run_batchnorm_bwd(cudaStream_t stream, struct ls_cuda_batchnorm_bwd a, struct ls_cuda_nchw n);

/* pool.cu */
struct ls_cuda_pool {
    int64_t planes;
    int ih, iw, oh, ow, kh, kw, sh, sw, ph, pw;
};
cudaError_t ls__cuda_run_maxpool(cudaStream_t stream, const float *src, float *dst, int32_t *chosen /* or NULL */,
                                 struct ls_cuda_pool p);
cudaError_t ls__cuda_run_maxpool_bwd(cudaStream_t stream, const float *diff_dst, const int32_t *chosen, float *diff_src,
                                     struct ls_cuda_pool p);
cudaError_t ls__cuda_run_avgpool(cudaStream_t stream, const float *src, float *dst, struct ls_cuda_pool p);
cudaError_t ls__cuda_run_avgpool_bwd(cudaStream_t stream, const float *diff_dst, float *diff_src,
                                     struct ls_cuda_pool p);

/* lrn.cu */
struct ls_cuda_lrn {
    int size;
    float alpha, beta, k;
};
cudaError_t ls__cuda_run_lrn(cudaStream_t stream, const float *src, float *dst, struct ls_cuda_nchw n,
                             struct ls_cuda_lrn a);
/* power, t: scratch of the size of src */
cudaError_t ls__cuda_run_lrn_bwd(cudaStream_t stream, const float *src, const float *diff_dst, float *diff_src,
                                 float *power, float *t, struct ls_cuda_nchw n, struct ls_cuda_lrn a);

/* softmax_ce.cu */
struct ls_cuda_softmax {
    int64_t mb, n;
    int n_valid;
    float smoothing, grad_scale;
    int fault_id;
};
/* rows: scratch, [2][mb] doubles */
cudaError_t ls__cuda_run_softmax_ce(cudaStream_t stream, const float *logits, const int32_t *labels,
                                    float *diff_logits /* or NULL */, float *stats, double *rows,
                                    struct ls_cuda_fault *fault, struct ls_cuda_softmax a);

/* sums.cu: into fixed point, and out of it. All but the first change nothing when fault->id is set. */
struct ls_cuda_reduce {
    double factor;       /* what src is multiplied by before rounding */
    double whole, limit; /* |src| * whole must stay below limit */
    bool is_float;       /* round every sum to float32 */
    int fault_id;
};
cudaError_t ls__cuda_run_reduce(cudaStream_t stream, const float *src, int64_t *sum, int64_t n,
                                struct ls_cuda_fault *fault, struct ls_cuda_reduce a);
struct ls_cuda_sgd {
    double unit;
    float clip, decay, momentum, lr;
    bool nesterov;
};
cudaError_t ls__cuda_run_sgd(cudaStream_t stream, float *param, int64_t *sum, float *momentum /* or NULL */, int64_t n,
                             const struct ls_cuda_fault *fault, struct ls_cuda_sgd a);
struct ls_cuda_adamw {
    double unit;
    float clip, keep, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction2, eps;
};
cudaError_t ls__cuda_run_adamw(cudaStream_t stream, float *param, int64_t *sum, float *m, float *v, int64_t n,
                               const struct ls_cuda_fault *fault, struct ls_cuda_adamw a);
cudaError_t ls__cuda_run_running_stats(cudaStream_t stream, float *running, int64_t *sum, int64_t n, double unit,
                                       float momentum, const struct ls_cuda_fault *fault);

/* linear_sum.cu */
enum { LS_CUDA_MAX_SHARDS = 4096 };
struct ls_cuda_linear_sum {
    int64_t ic, oc, first_oc, end_oc;
    int shard_size, batch_n;
    double factor, limit;
    int fault_id;
    uint32_t mine[LS_CUDA_MAX_SHARDS / 32]; /* one bit per shard */
};
cudaError_t ls__cuda_run_linear_sum(cudaStream_t stream, const float *src, const float *diff_dst, int64_t *weights,
                                    int64_t *bias /* or NULL */, struct ls_cuda_fault *fault,
                                    const struct ls_cuda_linear_sum *a);

/* conv2d.cu: direct convolution, sums in double */
struct ls_cuda_conv {
    int64_t mb, ic, ih, iw, oc, oh, ow;
    int kh, kw, sh, sw, ph, pw, dh, dw, groups;
};
cudaError_t ls__cuda_run_conv2d(cudaStream_t stream, const float *src, const float *weights, float *dst,
                                struct ls_cuda_conv p);
cudaError_t ls__cuda_run_conv2d_bwd_data(cudaStream_t stream, const float *diff_dst, const float *weights,
                                         float *diff_src, struct ls_cuda_conv p);
cudaError_t ls__cuda_run_conv2d_bwd_weights(cudaStream_t stream, const float *src, const float *diff_dst,
                                            float *diff_weights, struct ls_cuda_conv p);

/* load.cu */
struct ls_cuda_augment {
    int c, h, w, n, mb; /* n samples, padded to mb */
    float scale[3], offset[3];
    int crop_pad, cutout;
    bool is_moved, flip;
    uint64_t seed;
    int64_t epoch;
    /* in the card's memory */
    const uint8_t *pixels; /* [n,c,h,w] */
    const int32_t *labels;
    const uint32_t *samples;
    float *dst;
    int32_t *dst_labels;
    uint32_t *dst_samples;
};
cudaError_t ls__cuda_run_augment(cudaStream_t stream, struct ls_cuda_augment a);

#ifdef __cplusplus
}
#endif

#endif
