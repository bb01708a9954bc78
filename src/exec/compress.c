/* compress.c: gradients rounded coarsely before they leave a shard, so that sums need fewer bits on the wire.
 *
 * For every part of a gradient (some 32768 neighbours) a shard takes the power of two that lets its largest element fit
 * `bits` bits, and rounds all of them to multiples of it. What the rounding took away is kept with the shard and added
 * the next time (error feedback), so nothing is lost, only late. A multiple of a power of two is still a fixed-point
 * number: sums stay exact and the same for any number of workers.
 *
 * A device with memory of its own does it as part of the sum (ls_impl.launch_coarse), with parts of its own.
 *
 * The remainders belong to (shard, gradient), wherever the shard runs: they lie in the memory of the machine, or of its
 * device, and a machine keeps its shards (no balancing). A checkpoint holds them; at the end of an epoch they are
 * dropped, so that one that is written there stays small.
 */
#include "base/mem.h"
#include "base/simd.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>

enum { MIN_ELEMENTS = 1024 }; /* smaller gradients (biases, batch norm) cost nothing on the wire */

/* The sum's: a gradient may have fewer bits than a float. */
static int64_t elements(const struct ls_plan_op *op)
{
    return (int64_t)(op->kernel->out[0].bytes / sizeof(int64_t));
}

/* Gradients of parameters; not losses and running statistics, which are sums of another scale. */
static bool is_compressed(const struct ls_plan_op *op)
{
    return op->node.op == LS_OP_REDUCE && op->node.attrs.scale_log2 == LS_SCALE_GRAD && elements(op) >= MIN_ELEMENTS;
}

void ls_exec_compress(struct ls_exec *e, int bits, int n_shards)
{
    e->compress.bits = bits;
    e->compress.n_all = n_shards;
}

enum ls_status ls__compress_begin(struct ls_exec *e, const struct ls_plan *p)
{
    struct compress *c = &e->compress;
    void *data;
    if (!c->bits || c->offsets) return LS_OK;
    TRY(ls__calloc(&c->offsets, (size_t)e->store->n_entries, sizeof *c->offsets));
    for (int i = 0; i < e->store->n_entries; i++) c->offsets[i] = -1;
    for (int i = 0; i < p->n_ops; i++) {
        if (!is_compressed(&p->ops[i])) continue;
        c->offsets[p->slots[p->ops[i].node.out[0]].stored] = c->per_shard;
        c->per_shard += (elements(&p->ops[i]) + 15) / 16 * 16;
    }
    int n_shards = ls__share_first(e, c->n_all, e->machine + 1) - ls__share_first(e, c->n_all, e->machine);
    size_t bytes = (size_t)c->per_shard * (size_t)n_shards * sizeof(float);
    TRY(e->together->share(e, bytes, &data));
    c->bytes = bytes;
    c->remainders = data;
    c->n_shards = n_shards;
    return LS_OK;
}

void ls__compress_release(struct ls_exec *e)
{
    if (e->compress.remainders) e->together->unshare(e, e->compress.remainders, e->compress.bytes);
    free(e->compress.offsets);
}

LS_VECTORIZE
static float add_remainders(float *restrict g, const float *restrict remainder, int64_t n)
{
    float largest = 0;
    for (int64_t i = 0; i < n; i++) {
        g[i] += remainder[i];
        float a = g[i] < 0 ? -g[i] : g[i];
        largest = a > largest ? a : largest; /* a NaN is passed over here and refused by REDUCE */
    }
    return largest;
}

/* Adding and taking away 1.5 * 2^23 rounds to an integer, ties to even. */
LS_VECTORIZE
static void quantise(float *restrict g, float *restrict remainder, int64_t n, float unit, float inverse)
{
    const float round = 12582912.0f;
    for (int64_t i = 0; i < n; i++) {
        float q = (g[i] * inverse + round) - round;
        float kept = q * unit;
        remainder[i] = g[i] - kept;
        g[i] = kept;
    }
}

/* No unit is finer than that of the sums: what is below it would be lost there, here it stays in the remainder. This
 * also keeps both factors far from the ends of float, however small the gradients, down to denormals and zero. */
void ls__compress_part(float *g, float *remainder, int64_t n, int bits)
{
    int exponent;
    float largest = add_remainders(g, remainder, n);
    if (!isfinite(largest)) return; /* REDUCE will refuse it */
    frexpf(largest, &exponent);     /* largest < 2^exponent */
    int unit = exponent - (bits - 1) > -LS_SCALE_GRAD ? exponent - (bits - 1) : -LS_SCALE_GRAD;
    quantise(g, remainder, n, ldexpf(1, unit), ldexpf(1, -unit));
}

static float *remainder_of(const struct ls_exec *e, int entry, int shard)
{
    const struct compress *c = &e->compress;
    return c->remainders + (shard - ls__share_first(e, c->n_all, e->machine)) * c->per_shard + c->offsets[entry];
}

void ls__compress_gradient(struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op,
                           const struct ls_bound *b, int shard)
{
    const struct compress *c = &e->compress;
    if (!c->remainders || e->backend->memory || !is_compressed(op)) return;
    int64_t n = elements(op);
    int entry = p->slots[op->node.out[0]].stored;
    float *remainders = remainder_of(e, entry, shard);
    for (int part = 0; part < op->n_parts; part++) {
        int64_t begin, end;
        ls_part_range(n, part, op->n_parts, &begin, &end);
        ls__compress_part((float *)b->in[0] + begin, remainders + begin, end - begin, c->bits);
    }
}

float *ls__compress_by_device(const struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op, int shard)
{
    if (!e->compress.remainders || !e->backend->memory || !is_compressed(op)) return NULL;
    return remainder_of(e, p->slots[op->node.out[0]].stored, shard);
}

enum ls_status ls_exec_forget_remainders(struct ls_exec *e)
{
    struct compress *c = &e->compress;
    if (!c->offsets) return LS_OK;
    const bool is_mine = e->local_rank == 0 && c->bytes > 0;
    return e->together->barrier(e, is_mine ? ls__memory_zero(e, c->remainders, c->bytes) : LS_OK);
}

/* --- for checkpoints --- */

enum ls_status ls_exec_open_remainders(struct ls_exec *e, int *first, int *n)
{
    struct compress *c = &e->compress;
    *first = *n = 0;
    for (int i = 0; i < e->n_plans; i++)
        if (e->plans[i].plan->graph->is_training) TRY(ls__compress_begin(e, e->plans[i].plan));
    if (!c->offsets) return LS_OK;
    *first = ls__share_first(e, c->n_all, e->machine);
    *n = c->n_shards;
    return LS_OK;
}

bool ls_exec_has_remainder(const struct ls_exec *e, int entry)
{
    return e->compress.offsets && e->compress.offsets[entry] >= 0;
}

/* A remainder lies as the gradient does: as its sum, in floats. */
static struct ls_layout layout_of(const struct ls_stored *sum)
{
    struct ls_layout layout = sum->layout;
    layout.bytes = layout.bytes / sizeof(int64_t) * sizeof(float);
    return layout;
}

enum ls_status ls_exec_get_remainder(struct ls_exec *e, int entry, int shard, float *out)
{
    const struct ls_stored *s = &e->store->entries[entry];
    const struct ls_layout layout = layout_of(s);
    return ls__memory_to_plain(e, s, &layout, remainder_of(e, entry, shard), out);
}

enum ls_status ls_exec_set_remainder(struct ls_exec *e, int entry, int shard, const float *in)
{
    const struct ls_stored *s = &e->store->entries[entry];
    const struct ls_layout layout = layout_of(s);
    return ls__memory_from_plain(e, s, &layout, in, remainder_of(e, entry, shard));
}
