/* backend.h: the seam between plans and the code that computes.
 *
 * A backend is a const table. It offers, for each op, a list of implementations, best first. The life of a kernel:
 *
 *     prepare   once per plan and node: decides everything (algorithm, layouts, scratch) or refuses with LS_UNSUPPORTED
 *               and a reason, which `lockstep plan` prints
 *     bind      once per thread: the addresses are known and never change, so descriptors can be made now
 *     launch    once per shard and step: computes, or enqueues what computes; allocates nothing, decides nothing
 *
 * A kernel is immutable after prepare and shared by all threads; what bind makes belongs to one thread.
 *
 * Determinism: launch must give the same bits for the same inputs on every call, whichever thread makes it. One launch
 * runs on the calling thread only.
 *
 * Memory: bound addresses are in the device's memory. It is the host's unless the backend has a `memory` of its own;
 * then nobody but its kernels and its copy touches what lies there.
 */
#ifndef LS_BACKEND_H
#define LS_BACKEND_H

#include "base/status.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ls_bound;

/* What changes from step to step or shard to shard and is not a tensor: plain values, which a device may copy as they
 * are. */
struct ls_step_ctx {
    uint64_t seed;
    int64_t step;            /* global step, from 0: keys dropout, and Adam's bias correction uses step + 1 */
    int n_valid;             /* samples of this shard that count; the rest is padding (evaluation only) */
    int first;               /* KEEP: position of the shard's first sample in the batch */
    int shard_size, batch_n; /* LINEAR_SUM: samples per shard (the last takes the rest) and in this batch */
    float grad_scale;        /* 1 / (samples in the global batch): the loss is the mean over the batch */
    float share;             /* n_valid / (samples in the global batch) */
    float lr;
    float clip_scale; /* 1, or less when the gradient's norm exceeds the limit */
    /* REDUCE, LINEAR_SUM, SGD, ADAMW and RUNNING_STATS work on part `part` of `n_parts` of their elements
     * (ls_part_range), so that large tensors can be spread over threads. All other ops see 0 of 1. */
    int part, n_parts;
    bool is_only; /* REDUCE: the sum is zero, and nothing else will be added before an update reads it */
};

/* What LINEAR_SUM gets besides, in the host's memory. */
struct ls_join {
    const unsigned char *mine; /* per shard, whether its rows are here; NULL: all are */
    /* (optional) an SGD or ADAMW of the weights and its step: each piece of sums is applied as soon as it is made, and
     * out[0] is not touched. Only after `fits` has agreed to every shard. */
    const struct ls_bound *update;
    const struct ls_step_ctx *update_ctx;
};

/* The elements [*begin, *end) of `count` that belong to a part; parts begin at multiples of 16. */
void ls_part_range(int64_t count, int part, int n_parts, int64_t *begin, int64_t *end);

struct ls_kernel;
struct ls_device; /* a backend's own state: engine, interned layouts */

struct ls_prep {
    struct ls_device *device;
    const struct ls_graph *graph;
    const struct ls_node *node;
    /* The layouts the inputs have now. LS_LAYOUT_ANY: a parameter nobody has decided on yet; the kernel's wish decides.
     * An absent optional input is all zero. */
    struct ls_layout in[LS_MAX_IN];
    /* ANY, or the layout the plan would like for an output (the gradient of a parameter: the parameter's). The kernel
     * may make another; the plan then reorders. */
    struct ls_layout out[LS_MAX_OUT];
    const struct ls_kernel *forward; /* kernel of node->forward, or NULL */
    /* A table or `lockstep tune` asks for this very implementation: refuse only what cannot be computed, not what is
     * likely to be slow. */
    bool is_asked_for;
};

/* Made by prepare with ls_kernel_create; implementations embed it as the first member of their own struct. */
struct ls_kernel {
    const struct ls_impl *impl;
    char name[64];                    /* for people: "ref", "dnnl:jit:avx512_core" */
    struct ls_layout in[LS_MAX_IN];   /* what launch needs its inputs to be */
    struct ls_layout wide[LS_MAX_IN]; /* where in[] is narrow and may be a parameter: the layout in[].wide_id */
    struct ls_layout out[LS_MAX_OUT]; /* what it makes; .bytes is the size of a workspace */
    size_t scratch_bytes;
    int n_parts;    /* (optional, default: by the number of elements) parts an op that has them is best cut into */
    bool may_alias; /* out[0] may lie where in[alias_in] lies, if that input is not needed any more */
    int alias_in;
    bool is_view; /* out[0] IS in[0] in memory (reshape); launch is never called */
    /* Launched ops after it may overtake it: what it reads, and its scratch, stays as it is until the LS_ASIDE-th such
     * op behind it in the plan is launched, or the plan ends. */
    bool is_aside;
};
enum { LS_ASIDE = 2 };

struct ls_bound {
    const struct ls_kernel *kernel;
    void *in[LS_MAX_IN], *out[LS_MAX_OUT]; /* NULL = absent */
    void *scratch;                         /* scratch_bytes, 64-byte aligned, contents undefined */
    const uint32_t *samples;               /* [n_valid] sample numbers of the shard: key dropout; NULL: 0, 1, ... */
    void *extra;                           /* what bind made */
    bool is_followed;                      /* bind of a copy says: updates of in[0] write out[0] too */
};

struct ls_impl {
    const char *name; /* "ref", "dnnl" */
    enum ls_op op;
    /* required. On success *out is a kernel; LS_UNSUPPORTED = "not this problem", anything else ends planning. */
    enum ls_status (*prepare)(const struct ls_prep *prep, struct ls_kernel **out);
    /* (optional, default: nothing to do) fills b->extra. */
    enum ls_status (*bind)(struct ls_bound *b);
    void (*unbind)(struct ls_bound *b);
    /* required unless every kernel is a view, or for LINEAR_SUM. REDUCE returns LS_NONFINITE when an element is not
     * finite or outside the fixed-point range; the sums are then worthless and the step is abandoned. Where launch only
     * enqueues, ls_device_memory.settle returns it, and updates enqueued after it change nothing. */
    enum ls_status (*launch)(const struct ls_bound *b, const struct ls_step_ctx *ctx);
    /* (optional: no --compress; only with ls_backend.memory) REDUCE: launch, but a gradient is rounded to `bits` bits
     * before it is summed and what that took away kept in remainder, as exec/compress.c says; [elements of in[0]] in
     * the device's memory. */
    enum ls_status (*launch_coarse)(const struct ls_bound *b, const struct ls_step_ctx *ctx, float *remainder,
                                    int bits);
    /* required for LINEAR_SUM, instead of launch */
    enum ls_status (*launch_join)(const struct ls_bound *b, const struct ls_step_ctx *ctx, const struct ls_join *join);
    /* (optional) LINEAR_SUM: whether the sums of shard ctx->part are surely finite and within the range, so that
     * launch_join cannot fail; one that has it takes join->update. */
    bool (*fits)(const struct ls_bound *b, const struct ls_step_ctx *ctx);
    /* (optional) SGD, ADAMW, RUNNING_STATS: launch for the elements [begin, begin + n), whose sums may be elsewhere;
     * zeroes them. A device with memory of its own takes them where they are, for ranges of sums (exec/ranges.c). */
    void (*update)(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums);
    /* (optional, default: free) ends what prepare made beyond the struct itself; the struct is freed by the caller. */
    void (*release)(struct ls_kernel *kernel);
};

/* bytes -> floats: augmentation (training only, keyed by (seed, epoch, sample)) and normalisation in one pass. */
struct ls_transform {
    int c, h, w;
    float mean[3], std[3]; /* identity: 0 and 1 */
    int crop_pad;          /* zero-pad by this much, then a random crop of the original size; 0 = off */
    bool flip;             /* mirror left-right with probability 1/2 */
    int cutout;            /* a square of this size set to the mean; 0 = off */
    /* backend/augment.h; all 0 = off */
    float resized_crop; /* a random part of the image at its full size; the smallest share of its area */
    float brightness, contrast, saturation, hue;
    float erasing;       /* the probability that a random rectangle is set to the mean */
    float mixup, cutmix; /* of pairs of the shard: alpha of the share's beta distribution */
};
static inline bool ls_transform_is_mixing(const struct ls_transform *t)
{
    return t->mixup > 0 || t->cutmix > 0;
}
/* The first of these that is on, as it is typed ("--hue"), or NULL: for a backend whose `load` has none of them. */
const char *ls_transform_beyond_crops(const struct ls_transform *t);
void ls_transform_apply(const struct ls_transform *t, bool is_training, uint64_t seed, int64_t epoch, int64_t sample,
                        const uint8_t *in /* [c,h,w] */, float *out /* [c,h,w] */);

/* The samples of a shard, on their way into its arena. */
struct ls_load {
    const struct ls_transform *transform;
    bool is_training;
    uint64_t seed;
    int64_t epoch;
    int n, mb;                    /* samples, and what the plan is for: the rest becomes zeros with label -1 */
    const uint32_t *samples;      /* [n] in the host's memory, as the next two */
    const uint16_t *labels;       /* [n] */
    const uint8_t *const *pixels; /* [n] -> [c,h,w] bytes; unused with kept */
    const uint8_t *kept;          /* the whole set [.,c,h,w] in the device's memory, by sample number; or NULL */
    float *dst;                   /* [mb,c,h,w] in the device's memory, as the next two */
    int32_t *dst_labels;          /* [mb] */
    uint32_t *dst_samples;        /* [mb] */
    /* NULL unless the graph mixes: the label of what was mixed in, and the first label's share */
    int32_t *dst_mix_labels; /* [mb] */
    float *dst_mix_shares;   /* [mb] */
    int64_t fetched;         /* the number of the fetch that may have brought these samples; 0: there was none */
};

/* Memory of a device's own. All required. Copies are done when the function returns. */
enum ls_copy { LS_TO_DEVICE, LS_TO_HOST };
struct ls_copy_part {
    void *data, *host; /* in the device's memory; in the host's */
    size_t bytes;
};
struct ls_device_memory {
    enum ls_status (*alloc)(struct ls_device *device, size_t bytes, void **out); /* zeroed, 256-byte aligned */
    void (*free)(struct ls_device *device, void *data, size_t bytes);
    enum ls_status (*copy)(struct ls_device *device, void *dst, const void *src, size_t bytes, enum ls_copy direction);
    enum ls_status (*fill)(struct ls_device *device, void *data, int byte, size_t bytes);
    /* Waits for all that was enqueued. Returns the first failure since the last call, and forgets it. */
    enum ls_status (*settle)(struct ls_device *device);
    /* (optional, default: settle, then copy to the host) both with one wait, for some bytes at the end of a step */
    enum ls_status (*read)(struct ls_device *device, void *host, const void *data, size_t bytes);
    /* (optional, default: copy, after settle where it is to the host) all of them, with few waits */
    enum ls_status (*copy_all)(struct ls_device *device, const struct ls_copy_part *parts, int n,
                               enum ls_copy direction);
};

/* Launches that are recorded once and replayed with one call. Between begin and end launches are
 * kept instead of enqueued, with their addresses and values; what changes from step to step they read, when they are
 * replayed, from the last `now`. */
struct ls_device_recording {
    enum ls_status (*begin)(struct ls_device *device);
    enum ls_status (*end)(struct ls_device *device, void **recording); /* also after a launch failed */
    enum ls_status (*replay)(struct ls_device *device, void *recording);
    void (*free)(struct ls_device *device, void *recording);
    enum ls_status (*now)(struct ls_device *device, const struct ls_step_ctx *ctx); /* seed, step and lr */
    /* (optional: a step is enqueued when the one before is known to have gone well) After settle returned a failure:
     * the step that `now` told last before it. */
    int64_t (*failed_step)(struct ls_device *device);
};

/* Several processes, each with a device: what one of them needs to find the others. It outlives the group. */
struct ls_device_group {
    int rank, n_ranks;
    const char *host;
    /* `bytes` of every rank to all of them, in the order of ranks: all [n_ranks][bytes]. Collective. */
    enum ls_status (*exchange)(void *context, const void *mine, size_t bytes, void *all);
    /* In every loop that waits for others, with the seconds it has waited: fails when they will not come. */
    enum ls_status (*check)(void *context, double seconds);
    void *context;
};

/* Sums over the devices of a group, in the devices' memory, all or none of these. All but join and leave enqueue; a
 * wait of ls_device_memory that finds the others gone fails with what `check` says. */
enum { LS_MAX_READY = 16, LS_NOT_READY = -1 };
struct ls_device_sums {
    /* Collective. LS_UNSUPPORTED, on all ranks alike: these devices cannot, their sums go through the host. */
    enum ls_status (*join)(struct ls_device *device, const struct ls_device_group *group);
    void (*leave)(struct ls_device *device); /* also without having joined */
    /* (optional, default 0: all are added at once, behind the shards) After join, on all ranks alike: sums of so many
     * elements and more are worth being added while the last shard is still computed. */
    int64_t (*bucket)(const struct ls_device *device);
    /* With bucket. Between launches, and recorded with them: data[0,n) is made by what was launched so far. which: a
     * number below LS_MAX_READY, once in a step. */
    enum ls_status (*ready)(struct ls_device *device, int which, const int64_t *data, int64_t n);
    /* data[0,n), in place, becomes the sum over all ranks. which: of a `ready` of this step, behind which it may begin,
     * beside what was launched later; LS_NOT_READY: behind all that was launched. All ranks add the same ranges in the
     * same order; whether they were ready is each rank's own. */
    enum ls_status (*add)(struct ls_device *device, int64_t *data, int64_t n, int which);
    /* Behind all adds. The sum of all ranks' `mine` (of the host, read before it returns) to `words`. mine[0] counts as
     * one more where a launch on this device has failed; where words[0] is not zero, updates enqueued later change
     * nothing, also after settle, which tells only what failed here. */
    enum ls_status (*tell)(struct ls_device *device, int64_t *words, const int64_t *mine, int64_t n);
};

/* Moments of a step by the device's own clock, both or none of these: a host that only enqueues does not see what the
 * device does while it waits. */
enum ls_moment {
    LS_MOMENT_BEGIN,  /* of the shards */
    LS_MOMENT_SHARDS, /* they are done, the sums begin */
    LS_MOMENT_SUMS,   /* these are done, the updates begin */
    LS_MOMENT_END,
    LS_MOMENT_ADDING, /* the device's own: the first sum that was ready begins; or SHARDS, if none was */
    LS_N_MOMENTS
};
struct ls_device_clock {
    /* Enqueues; not while launches are recorded, and not ADDING. The moment: all that was launched before is done. */
    enum ls_status (*mark)(struct ls_device *device, enum ls_moment moment);
    /* The last mark of each, all marked and waited for by ls_device_memory since: ns after the first. */
    enum ls_status (*read)(struct ls_device *device, int64_t ns[LS_N_MOMENTS]);
};

/* What convolutions and matrix products multiply. Parameters, statistics, losses and sums are float32 or wider in all
 * of them. */
enum ls_precision { LS_PRECISION_F32, LS_PRECISION_TF32, LS_PRECISION_BF16 };
bool ls_precision_parse(const char *name, enum ls_precision *out); /* NULL is "f32" */

/* What a kernel's bits depend on besides its name; the key of tuning tables. */
struct ls_backend_id {
    char software[32]; /* "onednn-2.6.3", "lockstep" */
    char isa[24];      /* a level: "avx512", "avx2", "sse41"; "any": the same bits on every machine */
};

struct ls_backend {
    const char *name; /* "ref", "cpu" */
    /* device: required */
    enum ls_status (*device_open)(struct ls_device **out);
    /* (optional, default: device_open) A machine may have several: that of the process whose turn it is, counted from 0
     * among those of the machine. is_own: it shares it with no other process, and fails where there are too few. */
    enum ls_status (*device_open_at)(struct ls_device **out, int turn, bool is_own);
    /* (optional, default: not told) How many of its kind this machine has; more processes than that share them. */
    int (*device_count)(const struct ls_device *device);
    void (*device_close)(struct ls_device **device);
    /* "oneDNN 2.6.3, avx512_core": part of the run's identity */
    void (*describe)(const struct ls_device *device, char *text, size_t size);
    void (*identify)(const struct ls_device *device, struct ls_backend_id *id);
    /* (optional, default: nothing to limit) use no instructions beyond level "avx2" or "avx512", in the whole process;
     * before the first device is opened. LS_UNSUPPORTED if the machine has less, or it is too late. */
    enum ls_status (*limit_isa)(const char *level);
    /* (optional) runs once in every thread that will launch */
    void (*thread_begin)(void);
    /* (optional, default: the host's memory) */
    const struct ls_device_memory *memory;
    /* (optional, default: by way of the host) only with memory */
    const struct ls_device_sums *sums;
    /* (optional, default: what it adds counts as computing, and shares do not follow its speed) only with sums */
    const struct ls_device_clock *clock;
    /* (optional, default: f32 only) before the first kernel is prepared */
    enum ls_status (*set_precision)(struct ls_device *device, enum ls_precision precision);
    /* (optional, default: nobody looks) which card of the machine it is, for NVIDIA's management library: its PCI
     * address, "00000000:3B:00.0"; "" where it is not known */
    void (*place)(const struct ls_device *device, char *text, size_t size);
    /* (optional, default: the CPU's, measured) what the device could compute with its precision at most */
    double (*peak_gflops)(const struct ls_device *device);
    /* (optional, default 0: as many as there are) threads that may launch */
    int max_threads;
    /* (optional, default 0: by the batch size) shards of a batch when nobody says how many. A function of the kind of
     * device, never of the machine. */
    int default_shards;
    /* (optional) a shard's REDUCE ops come after all its others, and large layers' gradients are made shard by shard: a
     * device that would rather add few large things than many small ones. */
    bool is_reduce_last;
    /* (optional) its BATCHNORM takes `other`: the graph then has no ADD behind a batch norm */
    bool has_norm_add;
    /* (optional, default: every launch is made every time) */
    const struct ls_device_recording *recording;
    /* (optional) load takes ls_load.kept */
    bool can_keep_images;
    /* (optional, default: ls_backend_load) a shard's bytes become the plan's inputs; may be enqueued, but the bytes are
     * read before it returns */
    enum ls_status (*load)(struct ls_device *device, const struct ls_load *load);
    /* (optional, default: bytes come with their load) Begins to bring the bytes of a load that is to come, beside what
     * is enqueued; `kept` and what is written are not set. They are read before it returns. number: greater than all
     * before. A load whose `fetched` it is finds them, unless others came between; then it brings them itself. */
    enum ls_status (*fetch)(struct ls_device *device, const struct ls_load *load, int64_t number);
    /* operators: best first, ended by a NULL. Looked through in order for each node. */
    const struct ls_impl *const *impls;
    /* (optional, default: never) whether the launches of this graph's shards are carried out in another order than the
     * plan's, as far as what they read allows it: then no two values share memory, and no op works in place. */
    bool (*keeps_apart)(const struct ls_device *device, const struct ls_graph *graph);
};

extern const struct ls_backend ls_backend_ref;
/* NULL-terminated list of what this build has, best first: {cpu,} ref. */
extern const struct ls_backend *const ls_backends[];
/* NULL if it is not in the list; the best one for NULL. */
const struct ls_backend *ls_backend_find(const char *name);
/* One of the list, or of a plug-in lockstep-NAME.so, which is loaded now. */
enum ls_status ls_backend_get(const char *name, const struct ls_backend **out) LS_MUST_CHECK;
bool ls_backend_exists(const char *name); /* without loading anything */

/* What a plug-in exports. It may use all functions of the library, which the program exports. */
enum { LS_BACKEND_ABI = 10 };
struct ls_backend_plugin {
    int abi; /* LS_BACKEND_ABI, first in every version */
    const struct ls_backend *backend;
};
#define LS_BACKEND_PLUGIN "ls_backend_plugin" /* the symbol */

enum ls_status ls_backend_load(struct ls_device *device, const struct ls_load *load) LS_MUST_CHECK;

/* A zeroed kernel of `size` bytes (>= sizeof(struct ls_kernel)) with impl and name set, all inputs and outputs plain
 * with the shapes of the node. *out is a pointer to the implementation's own struct pointer. */
enum ls_status ls_kernel_create(void *out, size_t size, const struct ls_prep *prep,
                                const struct ls_impl *impl) LS_MUST_CHECK;
void ls_kernel_destroy(struct ls_kernel **kernel);
/* What a kernel keeps of its node: attributes, shapes (in [LS_MAX_IN], out [LS_MAX_OUT], zero dims where absent) and a
 * name for messages. */
void ls_prep_describe(const struct ls_prep *prep, struct ls_attrs *attrs, struct ls_shape *in, struct ls_shape *out,
                      char *name, size_t name_bytes);

#ifdef __cplusplus
}
#endif

#endif
