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

#ifdef __CUDACC__
#define LS_CUDA_BOTH __host__ __device__ /* kernels call it, and so does the host's compiler, in tests */
#else
#define LS_CUDA_BOTH
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The first failure since settle last looked. */
enum { LS_CUDA_FAULT_ELSEWHERE = -1 }; /* on another card of the group: updates change nothing here either */
struct ls_cuda_fault {
    int32_t detail;  /* its own: a label */
    int32_t id;      /* of the kernel, 0: none, or ELSEWHERE; of several in a step the lowest, whichever came first */
    int32_t is_over; /* the step that failed is over: what others find does not count */
    int32_t unused;
};

/* What the card sends at the end of a step, in the host's memory. */
struct ls_cuda_seen {
    struct ls_cuda_fault fault;
    uint32_t number; /* of the message; written last */
    unsigned char bytes[256];
};
cudaError_t ls__cuda_run_show(cudaStream_t stream, struct ls_cuda_seen *seen, const void *data, int bytes,
                              const struct ls_cuda_fault *fault, uint32_t number);

struct ls_cuda_nchw {
    int64_t mb, c, hw;
};

enum ls_cuda_type { LS_CUDA_F32, LS_CUDA_BF16 };

/* What recorded launches read: it changes from step to step. */
struct ls_cuda_adamw {
    float keep, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction2, eps;
};
enum { LS_CUDA_MAX_RATES = 4 };
struct ls_cuda_now {
    uint64_t seed;
    int64_t step;
    float lr;
    struct ls_cuda_adamw rates[LS_CUDA_MAX_RATES];
};
/* What a step begins with. Behind a fault it stays as it is: the host may be steps ahead, and asks which one failed. */
struct ls_cuda_next_now {
    struct ls_cuda_now *now; /* NULL: nothing changes */
    struct ls_cuda_fault *fault;
    struct ls_cuda_now values;
};
cudaError_t ls__cuda_run_now(cudaStream_t stream, struct ls_cuda_next_now next);

/* sums.cu: words[0] is raised by one if something has failed here; and the other way round, after the sum */
cudaError_t ls__cuda_run_tell(cudaStream_t stream, int64_t *words, const struct ls_cuda_fault *fault);
cudaError_t ls__cuda_run_heed(cudaStream_t stream, const int64_t *words, struct ls_cuda_fault *fault);

/* elementwise.cu */
/* bias may be NULL: relu alone; src may be dst */
cudaError_t ls__cuda_run_bias(cudaStream_t stream, const float *src, const float *bias, float *dst,
                              struct ls_cuda_nchw n, bool relu);

/* same.cu: ops for which the order of the elements is nothing, in either type */
cudaError_t ls__cuda_run_relu(cudaStream_t stream, enum ls_cuda_type type, const void *src, void *dst, int64_t n);
cudaError_t ls__cuda_run_relu_bwd(cudaStream_t stream, enum ls_cuda_type type, const void *dst, const void *diff_dst,
                                  void *diff_src, int64_t n);
cudaError_t ls__cuda_run_add(cudaStream_t stream, enum ls_cuda_type type, const void *a, const void *b, void *dst,
                             int64_t n, bool relu);

/* activation.cu: as enum ls_activation numbers them; x: src, or dst for tanh and sigmoid */
enum ls_cuda_function {
    LS_CUDA_GELU,
    LS_CUDA_GELU_TANH,
    LS_CUDA_SILU,
    LS_CUDA_HARDSWISH,
    LS_CUDA_TANH,
    LS_CUDA_SIGMOID,
    LS_CUDA_LEAKY_RELU,
    LS_CUDA_RELU6
};
cudaError_t ls__cuda_run_activation(cudaStream_t stream, enum ls_cuda_type type, enum ls_cuda_function f,
                                    const void *src, void *dst, int64_t n, float alpha);
cudaError_t ls__cuda_run_activation_bwd(cudaStream_t stream, enum ls_cuda_type type, enum ls_cuda_function f,
                                        const void *x, const void *diff_dst, void *diff_src, int64_t n, float alpha);

/* norm.cu: group norm and layer norm. What a set is: the pixels of c / groups channels of a sample, with a gamma for
 * each channel; the channels of a pixel; a whole sample, with a gamma for each element. */
enum ls_cuda_set { LS_CUDA_SET_GROUP, LS_CUDA_SET_PIXEL, LS_CUDA_SET_SAMPLE };
struct ls_cuda_sets {
    enum ls_cuda_set kind;
    bool is_last;
    int64_t n, count; /* sets, elements of each */
    int64_t mb, c, hw, groups, n_params;
    float eps;
};
cudaError_t ls__cuda_run_norm(cudaStream_t stream, enum ls_cuda_type type, const void *src, const float *gamma,
                              const float *beta, void *dst, struct ls_cuda_sets n);
struct ls_cuda_norm_bwd {
    const void *src, *diff_dst;
    const float *gamma;
    void *diff_src;
    float *diff_gamma, *diff_beta; /* may be NULL */
    double *moments;               /* scratch, [n][2] */
};
cudaError_t ls__cuda_run_norm_bwd(cudaStream_t stream, enum ls_cuda_type type, struct ls_cuda_norm_bwd a,
                                  struct ls_cuda_sets n);

/* last.cu, last_norm.cu: rows of c channels, channels last, in either type. Sums in float32 per thread, then in double.
 */
struct ls_cuda_rows {
    int64_t rows;
    int c;
};
cudaError_t ls__cuda_run_last_bias(cudaStream_t stream, enum ls_cuda_type type, const void *src, const float *bias,
                                   void *dst, struct ls_cuda_rows n, bool relu);
/* bytes of `partial`, and numbers of `tickets` (zero before and after) */
size_t ls__cuda_last_partial_bytes(struct ls_cuda_rows n);
int ls__cuda_last_n_tickets(struct ls_cuda_rows n);
cudaError_t ls__cuda_run_last_sums(cudaStream_t stream, enum ls_cuda_type type, const void *x, float *sums /* [c] */,
                                   float *partial, unsigned *tickets, struct ls_cuda_rows n);
/* stats f32 [3][c]: mean, 1 / std, gamma / std */
struct ls_cuda_last_norm {
    const void *src;
    const float *gamma, *beta;
    float *mean, *var; /* given, or made */
    bool is_given;     /* the next two are then not needed */
    float *stats;
    float *partial;
    const void *other; /* added before the relu, or NULL */
    void *dst;
    uint8_t *mask; /* with a relu, made: where dst is positive, a bit per element; or NULL */
    float eps;
    bool relu;
};
size_t ls__cuda_last_mask_bytes(enum ls_cuda_type type, struct ls_cuda_rows n);
cudaError_t ls__cuda_run_last_norm(cudaStream_t stream, enum ls_cuda_type type, struct ls_cuda_last_norm a,
                                   struct ls_cuda_rows n);
struct ls_cuda_last_norm_bwd {
    const void *src, *diff_dst, *diff_more; /* diff_more: NULL, or added to diff_dst; only with diff_other */
    const float *stats;
    const uint8_t *mask;           /* forward's; NULL: no relu */
    float *partial;                /* scratch */
    void *diff_src, *diff_other;   /* diff_other: NULL, or the gradient behind the relu */
    float *diff_gamma, *diff_beta; /* may be NULL */
};
cudaError_t ls__cuda_run_last_norm_bwd(cudaStream_t stream, enum ls_cuda_type type, struct ls_cuda_last_norm_bwd a,
                                       struct ls_cuda_rows n);

/* reorder.cu: between any two of the layouts */
struct ls_cuda_place {
    enum ls_cuda_type type;
    int64_t mb, c, hw, stored_c; /* stored_c > c: padded with zeros */
    bool is_last;
};
/* blocks.cu: stride x stride pixels become channels, so that a convolution with a large stride and few channels is one
 * with stride 1 and many. Image [mb, blocks_h, blocks_w, stored_c] with channel (dy * s + dx) * c + c0 of block y, x
 * being pixel y * s + dy - pad; weights [oc, blocks, blocks, stored_c] likewise, taps beyond the kernel zero. */
struct ls_cuda_blocks {
    int s, pad, k;             /* stride, padding, kernel */
    int n, blocks_h, blocks_w; /* blocks of the kernel; of the image */
    int c, ih, iw, stored_c;
};
cudaError_t ls__cuda_run_blocks_image(cudaStream_t stream, const void *src, struct ls_cuda_place from, void *dst,
                                      enum ls_cuda_type type, struct ls_cuda_blocks b);
cudaError_t ls__cuda_run_blocks_weights(cudaStream_t stream, const void *src, struct ls_cuda_place from, void *dst,
                                        enum ls_cuda_type type, struct ls_cuda_blocks b);
/* the gradient of the weights back: dst f32 [oc,k,k,c] */
cudaError_t ls__cuda_run_blocks_back(cudaStream_t stream, enum ls_cuda_type type, const void *src, float *dst,
                                     int64_t oc, struct ls_cuda_blocks b);
cudaError_t ls__cuda_run_reorder(cudaStream_t stream, const void *src, struct ls_cuda_place from, void *dst,
                                 struct ls_cuda_place to);
struct ls_cuda_dropout {
    enum ls_cuda_type type;
    uint64_t seed;
    int64_t step, mb, n; /* samples, elements of one */
    int layer, n_valid;
    float p;
};
cudaError_t ls__cuda_run_dropout(cudaStream_t stream, const void *src, const uint32_t *samples /* or NULL */, void *dst,
                                 struct ls_cuda_dropout d, const struct ls_cuda_now *now);

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
    int dh, dw;                 /* maxima: dilation, 1 or more */
    bool skip_pad;              /* means: only what lies in the image counts */
    bool has_rows, has_columns; /* means: oh (ow) parts that cover the image, instead of windows */
};
cudaError_t ls__cuda_run_maxpool(cudaStream_t stream, const float *src, float *dst, int32_t *chosen /* or NULL */,
                                 struct ls_cuda_pool p);
cudaError_t ls__cuda_run_maxpool_bwd(cudaStream_t stream, const float *diff_dst, const int32_t *chosen, float *diff_src,
                                     struct ls_cuda_pool p);
cudaError_t ls__cuda_run_avgpool(cudaStream_t stream, const float *src, float *dst, struct ls_cuda_pool p);
cudaError_t ls__cuda_run_avgpool_bwd(cudaStream_t stream, const float *diff_dst, float *diff_src,
                                     struct ls_cuda_pool p);

/* last_pool.cu: the same with channels last, in either type; chosen: the place in the window, kh * kw <= 256 */
struct ls_cuda_last_pool {
    struct ls_cuda_pool p; /* planes: mb */
    int c;
};
cudaError_t ls__cuda_run_last_maxpool(cudaStream_t stream, enum ls_cuda_type type, const void *src, void *dst,
                                      uint8_t *chosen /* or NULL */, struct ls_cuda_last_pool a);
cudaError_t ls__cuda_run_last_maxpool_bwd(cudaStream_t stream, enum ls_cuda_type type, const void *diff_dst,
                                          const uint8_t *chosen, void *diff_src, struct ls_cuda_last_pool a);
cudaError_t ls__cuda_run_last_avgpool(cudaStream_t stream, enum ls_cuda_type type, const void *src, void *dst,
                                      struct ls_cuda_last_pool a);
cudaError_t ls__cuda_run_last_avgpool_bwd(cudaStream_t stream, enum ls_cuda_type type, const void *diff_dst,
                                          void *diff_src, struct ls_cuda_last_pool a);

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
/* others, shares: of mixed samples, or both NULL; rows: scratch, [2][mb] doubles */
cudaError_t ls__cuda_run_softmax_ce(cudaStream_t stream, const float *logits, const int32_t *labels,
                                    const int32_t *others, const float *shares, float *diff_logits /* or NULL */,
                                    float *stats, double *rows, struct ls_cuda_fault *fault, struct ls_cuda_softmax a);

/* jobs.cu: into fixed point (REDUCE), out of it (updates), and copies of parameters in bf16: many tensors at once. Only
 * the first may set fault->id; updates change nothing when it is set. */
enum ls_cuda_job_kind {
    LS_CUDA_JOB_REDUCE,  /* src, sum */
    LS_CUDA_JOB_CHECK,   /* src: whether REDUCE could add it; the sum is made by the update that reads it */
    LS_CUDA_JOB_SGD,     /* a: param, b: momentum or NULL, sum, copy or NULL */
    LS_CUDA_JOB_ADAMW,   /* a: param, b: m, c: v, sum, copy or NULL */
    LS_CUDA_JOB_RUNNING, /* a: running, sum */
    LS_CUDA_JOB_NARROW,  /* src f32, a: bf16 */
};
struct ls_cuda_reduce {
    double factor;       /* what src is multiplied by before rounding */
    double whole, limit; /* |src| * whole must stay below limit */
    bool is_float;       /* round every sum to float32 */
    bool is_only;        /* the sum is zero and gets nothing else */
    int fault_id;
};
struct ls_cuda_sgd {
    float decay, momentum, lr; /* lr: of the launch, by its factor */
    bool nesterov;
    double lr_factor; /* 0: none */
};
/* now NULL: the launch's own rate; else the recorded launch's in that step, with the bits of ls__update_lr. */
static inline LS_CUDA_BOTH float ls__cuda_sgd_lr(const struct ls_cuda_sgd *a, const struct ls_cuda_now *now)
{
    if (!now) return a->lr;
    return a->lr_factor == 0 ? now->lr : (float)((double)now->lr * a->lr_factor);
}
struct ls_cuda_job {
    enum ls_cuda_job_kind kind;
    enum ls_cuda_type type; /* of src */
    int rates;              /* ADAMW: number in now, or -1 */
    int64_t n;
    const void *src; /* of an update: to be added to its sum first, or NULL */
    int64_t *sum;
    float *a, *b, *c;
    void *copy;                   /* updates: the parameter in bf16, brought along */
    struct ls_cuda_reduce reduce; /* of src */
    double unit;                  /* updates: what a sum is multiplied by */
    float clip;
    union {
        struct ls_cuda_sgd sgd;
        struct ls_cuda_adamw adamw;
        float momentum; /* RUNNING */
    } of;
};
enum { LS_CUDA_MAX_JOBS = 192 }; /* a kernel takes 32,764 bytes of arguments */
struct ls_cuda_jobs {
    int n;
    unsigned first_block[LS_CUDA_MAX_JOBS]; /* set when they are enqueued; apart, for every block searches them */
    struct ls_cuda_job list[LS_CUDA_MAX_JOBS];
};
cudaError_t ls__cuda_run_jobs(cudaStream_t stream, struct ls_cuda_jobs *jobs, struct ls_cuda_fault *fault,
                              const struct ls_cuda_now *now);

/* coarse.cu: a REDUCE of gradients rounded to few bits, but no finer than 2^least_log2; remainder [job->n] */
struct ls_cuda_coarse {
    int bits, least_log2;
};
cudaError_t ls__cuda_run_coarse(cudaStream_t stream, const struct ls_cuda_job *job, float *remainder,
                                struct ls_cuda_coarse how, struct ls_cuda_fault *fault);

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

/* first.cu: 3x3, stride 1, padding 1, at most 4 channels of 8 that are stored, oc a multiple of 64; bf16, channels last
 */
struct ls_cuda_first {
    int n_pixels, h, w, oc; /* n_pixels: of all images */
    bool relu;
};
cudaError_t ls__cuda_run_first(cudaStream_t stream, const void *src, const void *weights,
                               const float *bias /* or NULL */, void *dst, struct ls_cuda_first f);
/* diff_weights: f32 [oc,3,3,8]; partial: scratch */
size_t ls__cuda_first_scratch(struct ls_cuda_first f);
cudaError_t ls__cuda_run_first_weights(cudaStream_t stream, const void *src, const void *diff_dst, float *diff_weights,
                                       float *diff_bias /* or NULL */, float *partial, struct ls_cuda_first f);

/* load.cu */
enum { LS_CUDA_FEW = 1024 };
struct ls_cuda_augment {
    int c, h, w, n, mb; /* n samples, padded to mb */
    float scale[3], offset[3];
    int crop_pad, cutout;
    bool is_moved, flip, is_kept;
    bool is_at_host; /* labels and samples are for the launch to take along: LS_CUDA_FEW of them at most */
    uint64_t seed;
    int64_t epoch;
    /* what the card can read */
    const uint8_t *pixels; /* [n,c,h,w]; is_kept: of all samples, by number */
    const int32_t *labels;
    const uint32_t *samples;
    float *dst;
    int32_t *dst_labels;
    uint32_t *dst_samples;
};
/* now, or NULL, becomes `values` besides */
cudaError_t ls__cuda_run_augment(cudaStream_t stream, struct ls_cuda_augment a, struct ls_cuda_next_now next);

/* more.cu: what backend/augment.h adds, as the host has drawn it for one sample. */
struct ls_cuda_box {
    int y0, y1, x0, x1;
};
enum { LS_CUDA_BRIGHTNESS, LS_CUDA_CONTRAST, LS_CUDA_SATURATION, LS_CUDA_HUE, LS_CUDA_N_COLOURS };
struct ls_cuda_drawn {
    int crop_y, crop_x, crop_h, crop_w; /* crop_h 0: no resized crop */
    int colours[LS_CUDA_N_COLOURS];     /* in this order, -1: not */
    float by[LS_CUDA_N_COLOURS];        /* in the order of the names */
    struct ls_cuda_box erased, mixed;   /* empty: none */
    bool is_cut;
    float share; /* of itself; 1: not mixed */
};
struct ls_cuda_more {
    struct ls_cuda_augment a; /* whose scale and offset make values from 0 to 1 where is_apart */
    bool is_apart;            /* normalised afterwards by these: */
    float scale[3], offset[3];
    const struct ls_cuda_drawn *drawn; /* [n], what the card can read */
    bool is_mixing;
    int32_t *dst_mix_labels; /* NULL: the graph does not mix */
    float *dst_mix_shares;
};
cudaError_t ls__cuda_run_more(cudaStream_t stream, struct ls_cuda_more m);

#ifdef __cplusplus
}
#endif

#endif
