/* small.h: networks so small that launching a kernel per op would take longer than computing it, as C sees them.
 *
 * Two kernels for a whole list of ops:
 *
 *   samples (small.cu)  takes each sample through all ops, its values in the shared memory of a block, or of a cluster
 *                       of blocks that each have all of them; what later kernels read is written to memory too
 *   across (across.cu)  then what is added up over samples: gradients of weights and the loss
 *
 * All is float32 in plain layouts. Each element is computed by one thread (or by lanes whose number follows from the
 * shape), in an order that follows from the shape; how many threads and blocks there are changes no bit.
 */
#ifndef LS_BACKEND_CUDA_SMALL_H
#define LS_BACKEND_CUDA_SMALL_H

#include "backend/cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* i / by for i * by < 2^32 */
struct ls_cuda_divisor {
    uint32_t by, factor;
};

/* A value of the shard. In shared memory the rows of an image that is convolved have `gap` zeros before and behind
 * them, as many as its padding or more; those between two rows belong to both. */
struct ls_cuda_small_value {
    float *data; /* [mb][n]; NULL: absent */
    int n;       /* words of a sample */
    int at;      /* the place of its first word in shared memory, in words */
    int gap;
    struct ls_cuda_divisor row; /* words of a row, where there is a gap */
    int n_readers;              /* ops that read it, if all of them are of this list; 0: others may */
    bool is_written;            /* to memory too */
};

enum ls_cuda_small_kind {
    LS_CUDA_SMALL_CONV,         /* in[0], weights, bias?, out; also the gradient by data */
    LS_CUDA_SMALL_CONV_WEIGHTS, /* in[0]: src, in[1]: diff_dst, partial */
    LS_CUDA_SMALL_MAX,          /* in[0], out, chosen? */
    LS_CUDA_SMALL_MAX_BWD,      /* in[0]: diff_dst, in[1]: chosen, out */
    LS_CUDA_SMALL_MEAN,         /* in[0], out */
    LS_CUDA_SMALL_MEAN_BWD,     /* in[0]: diff_dst, out */
    LS_CUDA_SMALL_RELU,         /* in[0], out */
    LS_CUDA_SMALL_RELU_BWD,     /* in[0]: dst, in[1]: diff_dst, out */
    LS_CUDA_SMALL_ADD,          /* in[0], in[1], out */
    LS_CUDA_SMALL_LINEAR,       /* in[0], weights, bias?, out */
    LS_CUDA_SMALL_LINEAR_BWD,   /* in[0]: diff_dst, weights, out */
    LS_CUDA_SMALL_LOSS,         /* in[0]: logits, in[1]: labels, out?: diff_logits */
};

enum { LS_CUDA_SMALL_CHUNK = 5 }; /* neighbours of a row that a thread of CONV has */

/* Stride 1; weights in shared memory: [oc / block][ic][ky][kx][block]. */
struct ls_cuda_small_conv {
    int ic, ih, iw, oc, oh, ow, k, pad; /* k: 3 or 5 */
    bool is_turned;                     /* the gradient by data: weights are [ic][oc][k][k], turned by half a turn */
    int split; /* lanes that share a sum, a power of two: CONV: its channels, CONV_WEIGHTS: the image's rows */
    int block; /* channels of a thread: CONV: any choice gives the same bits */
    struct ls_cuda_divisor chunks, rows, channels; /* chunks of a row, oh, ic */
    struct ls_cuda_divisor planes;                 /* the inner channels of weights as they lie in memory */
};

struct ls_cuda_small_pool {
    struct ls_cuda_pool p;                          /* planes: channels */
    struct ls_cuda_divisor plane, row;              /* of what is made */
    struct ls_cuda_divisor window_row, window_rows; /* ow, oh */
    bool is_of_four;                                /* windows are 2 x 2 pixels of the image */
    bool is_covered;                                /* and each pixel is in one */
};

struct ls_cuda_small_linear {
    int ic, oc;
    int n_near; /* the first rows of weights, which are in shared memory, [n_near][ic] */
};

struct ls_cuda_small_loss {
    struct ls_cuda_softmax a;
    const int32_t *others; /* the next too, or both are NULL */
    const float *shares;
    double *rows; /* [2][mb]: loss, right */
};

/* Of a multiple of 16 bytes, which are copied at once. */
struct __align__(16) ls_cuda_small_op
{
    enum ls_cuda_small_kind kind;
    bool relu;
    bool is_beside;      /* the op before: it reads nothing of what that one makes, so nobody waits between them */
    bool awaits_weights; /* the first to read rows of weights that are brought into shared memory */
    struct ls_cuda_small_value in[2], out, chosen;
    struct ls_cuda_small_value mask; /* (optional) the result counts where this is above zero: a RELU_BWD behind */
    const float *weights, *bias;
    int weights_at; /* in shared memory, where they are */
    float *partial; /* CONV_WEIGHTS: [mb][n_partial] of weights and biases */
    int n_partial;
    union {
        struct ls_cuda_small_conv conv;
        struct ls_cuda_small_pool pool;
        struct ls_cuda_small_linear linear;
        struct ls_cuda_small_loss loss;
    } of;
};

enum { LS_CUDA_SMALL_MAX_OPS = 48, LS_CUDA_SMALL_MAX_FETCHED = 32, LS_CUDA_SMALL_LARGEST_TEAM = 4 };
struct ls_cuda_small_ops {
    int mb, n, n_fetched;
    int fetched_at; /* where `fetched` is brought in shared memory; the list is at its beginning */
    int team;       /* blocks that share a sample */
    struct ls_cuda_fault *fault;
    struct ls_cuda_small_value fetched[LS_CUDA_SMALL_MAX_FETCHED]; /* read, but not made here */
    struct ls_cuda_small_op list[LS_CUDA_SMALL_MAX_OPS];
};
struct ls_cuda_small_shape {
    int mb, n, team, threads; /* as in the list; threads of a block */
    size_t shared_bytes;
};
/* list: in the card's memory, where it stays as long as the launch may be replayed */
cudaError_t ls__cuda_run_small(cudaStream_t stream, const struct ls_cuda_small_ops *list,
                               struct ls_cuda_small_shape shape);
/* Once per card: how much shared memory a block may ask for, of what the card gives a block; and whether this build's
 * code for the card has clusters. A card may have them and run code that was compiled for older ones. */
cudaError_t ls__cuda_allow_small(size_t *shared_bytes, bool *has_teams);

/* --- over samples --- */
enum ls_cuda_across_kind {
    LS_CUDA_ACROSS_PRODUCT, /* out [n_a][n_b] = sum over samples of a [mb][n_a] times b [mb][n_b] */
    LS_CUDA_ACROSS_SUM,     /* out [n_a] = sum over samples of a [mb][stride], of which n_a */
    LS_CUDA_ACROSS_LOSS,    /* out [2] = sums of rows [2][mb] */
};
struct ls_cuda_across_job {
    enum ls_cuda_across_kind kind;
    const float *a, *b;
    const double *rows;
    float *out;
    int n_a, n_b, stride;
    /* What a job of jobs.cu would do to the result in a kernel of its own: CHECK, or LOSS: REDUCE */
    bool is_checked;
    struct ls_cuda_reduce reduce;
    int64_t *sum; /* LOSS: [2], or NULL */
};
enum { LS_CUDA_ACROSS_MAX = 96 };
struct ls_cuda_across {
    int mb, n;
    struct ls_cuda_fault *fault;
    unsigned first_block[LS_CUDA_ACROSS_MAX]; /* of each job, set when they are enqueued; apart, for every block
                                                 searches it */
    struct ls_cuda_across_job list[LS_CUDA_ACROSS_MAX];
};
cudaError_t ls__cuda_run_across(cudaStream_t stream, struct ls_cuda_across *across);

#ifdef __cplusplus
}
#endif

#endif
