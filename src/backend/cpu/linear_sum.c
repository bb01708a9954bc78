/* linear_sum.c: the gradient of a large linear layer, summed over the shards in one pass (graph/ops/keep.c has the
 * idea).
 *
 * In:  src f32 [batch,ic], diff_dst f32 [batch,oc]        Out: weights i64, as the weights lie; bias? i64 [oc]
 *
 * The product of two matrices over the batch, cut at the shards. One of them, v, gives vectors, the other, b, single
 * numbers: v is diff_dst where the weights lie in blocks of 16 outputs, src where they lie plain. Both are packed into
 * panels, for rows of a large layer lie a power of two apart and would fall onto each other in the cache. A part is
 * a unit of about UNIT_B x UNIT_V weights. The tile (ls__linear_tiles.h) holds 3 x 32 sums in registers over all
 * shards, so that each of them is read and written once per step. Scratch: struct job.
 *
 * With join->update the sums of a unit stay in the scratch, which a cache holds, and are applied to the weights there
 * and then: of memory only weights and momentum are touched, a third of the bytes. The same additions, the same bits.
 */
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/linear_blocked.h"
#include "backend/cpu/linear_tiles.h"
#include "base/simd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { UNIT_V = 256, UNIT_B = 128, UNIT_TILES = UNIT_B / SUM_ROWS + 2 }; /* columns of a unit, at most */
enum { UNIT_SUMS = UNIT_V * UNIT_TILES * SUM_ROWS };
enum { MAX_WIDTH = 32, BIAS_AT_ONCE = 64 };

struct side {
    int input;   /* which input of the node */
    int n;       /* its columns */
    int n_units; /* units its columns are cut into, as even as panels allow */
    float scale;
    ptrdiff_t step; /* from one column of b, or one block of 16 of v, to the next, in the sums */
};

struct sum_kernel {
    struct ls_kernel base;
    const struct linear_tiles *tiles;
    int batch;
    struct side v, b;
    bool is_blocked;
    char name[64];
};

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* Columns [*begin, *end) of unit u, in multiples of `panel` but for the last. */
static void unit_range(const struct side *s, int u, int panel, int *begin, int *end)
{
    int n_panels = (s->n + panel - 1) / panel;
    *begin = min(s->n, n_panels * u / s->n_units * panel);
    *end = min(s->n, n_panels * (u + 1) / s->n_units * panel);
}

static ptrdiff_t b_step(const struct sum_kernel *k)
{
    return round_up(k->batch * SUM_ROWS + 1, 16);
}

/* A job: one launch, with its places in the scratch. */
struct job {
    const struct sum_kernel *k;
    const struct ls_bound *bound;
    int batch_n;
    struct linear_rows *shards; /* [batch] those that are here */
    int n_shards;
    float *v; /* [batch][sum_width] */
    float *b; /* [UNIT_TILES][b_step], each [batch][SUM_ROWS] and a gap */
    ptrdiff_t b_step;
    uint32_t largest;
    /* where sums go: (b column j, v column 16 c + l) to to[(j - b_from) * step_b + (c - v_from / 16) * step_v + l] */
    int64_t *to;
    ptrdiff_t to_step_b, to_step_v;
    int b_from, v_from;
    const struct ls_bound *update; /* (optional) of the weights */
    const struct ls_step_ctx *update_ctx;
    int64_t *own; /* [UNIT_SUMS] their sums */
};

/* Rows of shards that are not here hold anything, NaN too: no sum may see them. */
static void begin(struct job *job, const struct ls_bound *bound, const struct ls_step_ctx *ctx,
                  const struct ls_join *join)
{
    const struct sum_kernel *k = (const struct sum_kernel *)bound->kernel;
    *job = (struct job){.k = k, .bound = bound, .batch_n = ctx->batch_n, .shards = bound->scratch};
    job->v = (float *)bound->scratch + round_up(2 * k->batch, 16);
    job->b = job->v + (ptrdiff_t)k->batch * k->tiles->sum_width;
    job->b_step = b_step(k);
    job->to = bound->out[0];
    job->to_step_b = k->b.step;
    job->to_step_v = k->v.step;
    job->update = join->update;
    job->update_ctx = join->update_ctx;
    job->own = (int64_t *)(job->b + UNIT_TILES * job->b_step);
    for (int first = 0; first < ctx->batch_n; first += ctx->shard_size)
        if (!join->mine || join->mine[first / ctx->shard_size])
            job->shards[job->n_shards++] = (struct linear_rows){first, min(ctx->shard_size, ctx->batch_n - first)};
}

static void add_tile(struct job *job, struct linear_sum_tile t)
{
    for (int s = 0; s < job->n_shards; s += SUM_SHARDS) {
        t.shards = job->shards + s;
        t.n_shards = min(SUM_SHARDS, job->n_shards - s);
        uint32_t largest = job->k->tiles->sum(&t);
        job->largest = largest > job->largest ? largest : job->largest;
    }
}

/* A tile that reaches beyond the weights: n_b x n_v of it exist. */
static void add_rest(struct job *job, struct linear_sum_tile t, int n_b, int n_v)
{
    int64_t sums[SUM_ROWS][MAX_WIDTH] = {{0}}, *to = t.to;
    t.to = sums[0];
    t.step_b = MAX_WIDTH;
    t.step_v = 16;
    add_tile(job, t);
    for (int j = 0; j < n_b; j++)
        for (int i = 0; i < n_v; i++) to[j * job->to_step_b + i / 16 * job->to_step_v + i % 16] += sums[j][i];
}

/* What the update of a tile will touch, asked for while tiles are computed: it lies in short runs far apart, which no
 * hardware foresees. */
static void fetch(const struct job *job, int j, int n_b, int v_at, int n_v)
{
    const struct sum_kernel *k = job->k;
    for (int a = 0; a < LS_MAX_IN; a++) {
        const float *x = a == 1 ? NULL : job->update->in[a]; /* 1: the sums, which stay untouched */
        for (int c = 0; x && c < n_v; c += 16)
            for (int i = 0; i < n_b; i++)
                __builtin_prefetch(x + (v_at + c) / 16 * k->v.step + (j + i) * k->b.step, 1, 2);
    }
}

/* All tiles of the panel of v that is packed, at column v_at, with the packed panels of b, columns [b_at, b_end). */
static void run_panel(struct job *job, int v_at, int b_at, int b_end)
{
    const struct sum_kernel *k = job->k;
    const int left = (k->is_blocked ? round_up(k->v.n, 16) : k->v.n) - v_at;
    const int n_v = min(left, k->tiles->sum_width);
    for (int j = b_at; j < b_end; j += SUM_ROWS) {
        const int n_b = min(SUM_ROWS, b_end - j);
        const struct linear_sum_tile t = {.v = job->v,
                                          .b = job->b + (j - b_at) / SUM_ROWS * job->b_step,
                                          .to = job->to + (j - job->b_from) * job->to_step_b +
                                                (v_at - job->v_from) / 16 * job->to_step_v,
                                          .step_b = job->to_step_b,
                                          .step_v = job->to_step_v};
        if (job->update) fetch(job, j, n_b, v_at, n_v);
        if (n_v == k->tiles->sum_width && n_b == SUM_ROWS)
            add_tile(job, t);
        else
            add_rest(job, t, n_b, n_v);
    }
}

/* Sums of a unit, columns [b_at, b_end) and [v_at, v_end), go into the scratch, in the order of the weights. */
static void keep_to_itself(struct job *job, int v_at, int v_end, int b_at, int b_end)
{
    const int width = round_up(v_end - v_at, 16), height = b_end - b_at;
    job->to = job->own;
    job->v_from = v_at;
    job->b_from = b_at;
    job->to_step_b = job->k->is_blocked ? 16 : width;
    job->to_step_v = job->k->is_blocked ? 16 * (ptrdiff_t)height : 16;
    memset(job->own, 0, (size_t)width * (size_t)height * sizeof *job->own);
}

/* The update of those weights, in runs that lie one behind the other. */
static void apply(const struct job *job, int v_end, int b_end)
{
    const struct sum_kernel *k = job->k;
    const int width = v_end - job->v_from, height = b_end - job->b_from;
    const int n_runs = k->is_blocked ? round_up(width, 16) / 16 : height;
    const int64_t n = k->is_blocked ? 16 * (int64_t)height : width;
    const ptrdiff_t far = k->is_blocked ? k->v.step : k->b.step; /* from one run to the next */
    const ptrdiff_t near = k->is_blocked ? job->to_step_v : job->to_step_b;
    const ptrdiff_t first = job->v_from / 16 * k->v.step + job->b_from * k->b.step;
    for (int i = 0; i < n_runs; i++)
        job->update->kernel->impl->update(job->update, job->update_ctx, first + i * far, n, job->own + i * near);
}

/* Units are counted with v running fastest, so that neighbours share the panels of b. */
static void run_units(struct job *job, int unit, int end)
{
    const struct sum_kernel *k = job->k;
    int packed = -1, v_at, v_end, b_at, b_end;
    for (; unit < end; unit++) {
        unit_range(&k->b, unit / k->v.n_units, SUM_ROWS, &b_at, &b_end);
        unit_range(&k->v, unit % k->v.n_units, k->tiles->sum_width, &v_at, &v_end);
        if (packed != b_at)
            k->tiles->pack_narrow(job->bound->in[k->b.input], job->batch_n, k->b.n, b_at, b_end - b_at, k->b.scale,
                                  job->b, job->b_step);
        packed = b_at;
        if (job->update) keep_to_itself(job, v_at, v_end, b_at, b_end);
        for (; v_at < v_end; v_at += k->tiles->sum_width) {
            k->tiles->pack(job->bound->in[k->v.input], job->batch_n, k->v.n, v_at, k->tiles->sum_width, k->v.scale,
                           job->v);
            run_panel(job, v_at, b_at, b_end);
        }
        if (job->update) apply(job, v_end, b_end);
    }
}

/* A few outputs' sums over the rows of each shard. */
static float add_bias(const struct job *job, const float *diff, int oc, int n, float scale, int64_t *sums)
{
    float most = 0;
    for (int s = 0; s < job->n_shards; s++) {
        float acc[BIAS_AT_ONCE] = {0};
        for (int r = 0; r < job->shards[s].n; r++)
            for (int i = 0; i < n; i++) acc[i] += diff[(ptrdiff_t)(job->shards[s].first + r) * oc + i] * scale;
        for (int i = 0; i < n; i++) {
            most = fabsf(acc[i]) <= most ? most : fabsf(acc[i]); /* a NaN stays */
            sums[i] = (int64_t)((uint64_t)sums[i] + (uint64_t)llrintf(acc[i]));
        }
    }
    return most;
}

static float run_bias(const struct job *job, const struct ls_step_ctx *ctx)
{
    const struct side *diff = job->k->is_blocked ? &job->k->v : &job->k->b;
    int64_t begin_at, end;
    float most = 0;
    ls_part_range(diff->n, ctx->part, ctx->n_parts, &begin_at, &end);
    for (int64_t o = begin_at; o < end; o += BIAS_AT_ONCE) {
        float one = add_bias(job, (const float *)job->bound->in[1] + o, diff->n, min(BIAS_AT_ONCE, (int)(end - o)),
                             diff->scale, (int64_t *)job->bound->out[1] + o);
        most = one <= most ? most : one;
    }
    return most;
}

static enum ls_status launch_join(const struct ls_bound *b, const struct ls_step_ctx *ctx, const struct ls_join *join)
{
    const struct sum_kernel *k = (const struct sum_kernel *)b->kernel;
    const int64_t n_units = (int64_t)k->v.n_units * k->b.n_units;
    const float limit = ldexpf(1, LS_FIXED_BITS);
    struct job job;
    float most;
    begin(&job, b, ctx, join);
    run_units(&job, (int)(n_units * ctx->part / ctx->n_parts), (int)(n_units * (ctx->part + 1) / ctx->n_parts));
    memcpy(&most, &job.largest, sizeof most);
    if (most < limit && (!b->out[1] || run_bias(&job, ctx) < limit)) return LS_OK; /* false for NaN */
    return ls_fail(LS_NONFINITE, "%s: gradient not finite or beyond the fixed-point range", k->name);
}

/* The largest without its sign, as bits, so that infinity and NaN are at the top. */
LS_VECTORIZE
static uint32_t largest_of(const float *x, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

/* No sum of a shard is larger than its rows times the largest factors. */
static bool fits(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct sum_kernel *k = (const struct sum_kernel *)b->kernel;
    const struct side *src = k->v.input == 0 ? &k->v : &k->b, *diff = k->v.input == 0 ? &k->b : &k->v;
    const int first = ctx->part * ctx->shard_size, rows = min(ctx->shard_size, ctx->batch_n - first);
    const uint32_t bits[2] = {largest_of((const float *)b->in[0] + (int64_t)first * src->n, (int64_t)rows * src->n),
                              largest_of((const float *)b->in[1] + (int64_t)first * diff->n, (int64_t)rows * diff->n)};
    float most[2];
    memcpy(most, bits, sizeof most);
    double limit = ldexp(1, LS_FIXED_BITS - 1) / rows, scale = (double)diff->scale;
    return (double)most[0] * (double)most[1] * scale < limit && (double)most[1] * scale < limit; /* false for NaN */
}

static void set_sides(struct sum_kernel *k, const struct ls_shape *src, const struct ls_shape *diff, int scale_log2)
{
    const int ic = (int)src->dims[1], oc = (int)diff->dims[1];
    struct side inputs = {.input = 0, .n = ic, .scale = 1};
    /* 2^scale_log2 multiplies exactly, so that sums come out in fixed-point units. */
    struct side outputs = {.input = 1, .n = oc, .scale = ldexpf(1, scale_log2)};
    inputs.step = 16; /* a block of 16 inputs in a row; or one input within a block of 16 outputs */
    outputs.step = k->is_blocked ? (ptrdiff_t)round_up(ic, 16) * 16 : ic;
    k->v = k->is_blocked ? outputs : inputs;
    k->b = k->is_blocked ? inputs : outputs;
    k->v.n_units = (k->v.n + UNIT_V - 1) / UNIT_V;
    k->b.n_units = round_up((k->b.n + UNIT_B - 1) / UNIT_B, 2); /* two threads get equal shares of few units */
    k->base.n_parts = k->v.n_units * k->b.n_units;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_node *n = prep->node;
    const struct ls_value *sums = ls__dnn_value_out(prep, 0);
    struct sum_kernel *k;
    struct ls_layout blocked;
    if (!ls__linear_tiles()) return ls_fail(LS_UNSUPPORTED, "needs AVX2");
    TRY(ls__linear_blocked_layout(prep->device, sums, &blocked));
    if (prep->out[0].id > LS_LAYOUT_PLAIN && prep->out[0].id != blocked.id)
        return ls_fail(LS_UNSUPPORTED, "the weights lie as %s", prep->out[0].tag);
    TRY(ls_kernel_create(&k, sizeof *k, prep, &ls__cpu_linear_sum));
    k->tiles = ls__linear_tiles();
    k->batch = (int)ls__dnn_value_in(prep, 0)->shape.dims[0];
    k->is_blocked = prep->out[0].id == blocked.id;
    if (k->is_blocked) k->base.out[0] = prep->out[0];
    set_sides(k, &ls__dnn_value_in(prep, 0)->shape, &ls__dnn_value_in(prep, 1)->shape, n->attrs.scale_log2);
    snprintf(k->name, sizeof k->name, "%s", n->name);
    snprintf(k->base.name, sizeof k->base.name, "own:%s", k->tiles->name);
    k->base.scratch_bytes = ((size_t)round_up(2 * k->batch, 16) + (size_t)(k->batch * k->tiles->sum_width) +
                             UNIT_TILES * (size_t)b_step(k)) *
                                sizeof(float) +
                            UNIT_SUMS * sizeof(int64_t);
    *out = &k->base;
    return LS_OK;
}

const struct ls_impl ls__cpu_linear_sum = {
    .name = "own", .op = LS_OP_LINEAR_SUM, .prepare = prepare, .launch_join = launch_join, .fits = fits};
