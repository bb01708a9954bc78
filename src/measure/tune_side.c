/* tune_side.c: see tune.h.
 *
 * A step of one shard tells what a shard costs, so large batches are not run in full; ops that run once per step count
 * once. Times are CPU times of the thread, and of each op the least over all steps counts: whatever else the machine
 * does only ever adds. Ops that two plans have in common cancel out by name, not by measurement, so that the noise of
 * the rest of the network does not hide a small gain.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "measure/bench.h"
#include "measure/tune.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static enum ls_status sign_ops(struct side *side)
{
    struct ls_buf b = LS_BUF_INIT;
    for (int i = 0; i < side->plan->n_ops; i++) {
        const struct ls_plan_op *op = &side->plan->ops[i];
        ls__buf_truncate(&b, 0);
        ls__buf_addf(&b, "%d %s %s %s", op->phase, ls_op_name(op->node.op), op->node.name, op->kernel->name);
        for (int k = 0; k < op->node.n_in; k++) ls__buf_addf(&b, " %s", op->kernel->in[k].tag);
        for (int k = 0; k < op->node.n_out; k++) ls__buf_addf(&b, " %s", op->kernel->out[k].tag);
        side->signature[i] = XXH3_64bits(b.text, b.len);
    }
    enum ls_status status = ls__buf_check(&b);
    ls__buf_release(&b);
    return status;
}

enum ls_status ls__side_open(struct side *side, const struct ls_tune_options *o, struct ls_tune **table)
{
    const struct ls_bench_options bo = {.model = o->model,
                                        .device = o->device,
                                        .isa = o->isa,
                                        .data = o->data,
                                        .batch_size = o->batch_size,
                                        .shards = o->shards,
                                        .threads = o->threads > 0 ? o->threads : 1};
    *side = (struct side){.table = *table};
    *table = NULL;
    TRY(ls__bench_open_session(&side->s, &bo, true, side->table));
    TRY(ls_exec_init_store(side->s.exec, 1));
    side->plan = ls_exec_plan(side->s.exec, side->s.shard_size, true);
    TRY(ls__calloc(&side->best, (size_t)side->plan->n_ops, sizeof *side->best));
    TRY(ls__calloc(&side->signature, (size_t)side->plan->n_ops, sizeof *side->signature));
    TRY(ls__calloc(&side->is_counted, (size_t)side->plan->n_ops, sizeof *side->is_counted));
    TRY(sign_ops(side));
    const struct ls_loader_options lo = {.batch_size = (int)(side->s.shard_size * side->s.threads), .seed = 1};
    TRY(ls_loader_create(&side->loader, side->s.train, &lo));
    ls__side_reset(side);
    return ls_loader_next(side->loader, &side->batch);
}

void ls__side_close(struct side *side)
{
    ls_loader_destroy(&side->loader);
    ls__session_close(&side->s);
    ls__tune_destroy(&side->table);
    free(side->best);
    free(side->signature);
    free(side->is_counted);
    *side = (struct side){0};
}

void ls__side_reset(struct side *side)
{
    for (int i = 0; i < side->plan->n_ops; i++) side->best[i] = DBL_MAX;
}

enum ls_status ls__side_step(struct side *side)
{
    struct ls_exec_stats stats;
    const struct ls_exec_step step = {
        .batch = &side->batch, .transform = &side->s.transform, .shard_size = side->s.shard_size, .seed = 1, .lr = 0};
    TRY(ls_exec_profile(side->s.exec, true));
    TRY(ls_exec_train(side->s.exec, &step, &stats));
    for (int i = 0; i < side->plan->n_ops; i++) {
        double seconds = ls_exec_op_seconds(side->s.exec, side->plan, i);
        if (side->plan->ops[i].phase == LS_SHARD) seconds *= (double)side->s.batch_size / side->batch.n;
        if (seconds < side->best[i]) side->best[i] = seconds;
    }
    return LS_OK;
}

double ls__side_seconds(const struct side *side)
{
    double sum = 0;
    for (int i = 0; i < side->plan->n_ops; i++) sum += side->best[i];
    return sum;
}

double ls__side_key_seconds(const struct side *side, const char *key)
{
    char other[LS_TUNE_KEY_BYTES];
    double sum = 0;
    for (int i = 0; i < side->plan->n_ops; i++) {
        ls__tune_key(side->plan->graph, &side->plan->ops[i].node, other);
        if (strcmp(key, other) == 0) sum += side->best[i];
    }
    return sum;
}

/* The op of b that does the same as op i of a and has no partner yet; -1 if there is none. */
static int partner_of(const struct side *a, int i, const struct side *b)
{
    for (int k = 0; k < b->plan->n_ops; k++)
        if (!b->is_counted[k] && b->signature[k] == a->signature[i]) return k;
    return -1;
}

double ls__side_gain(struct side *now, struct side *other, double *changed)
{
    double rest = 0;
    *changed = 0;
    memset(other->is_counted, 0, (size_t)other->plan->n_ops * sizeof *other->is_counted);
    for (int i = 0; i < now->plan->n_ops; i++) {
        int k = partner_of(now, i, other);
        if (k >= 0)
            other->is_counted[k] = true;
        else
            *changed += now->best[i];
    }
    for (int k = 0; k < other->plan->n_ops; k++)
        if (!other->is_counted[k]) rest += other->best[k];
    return *changed - rest;
}
