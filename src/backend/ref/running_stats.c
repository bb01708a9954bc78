/* running_stats.c: the running mean and variance of a batch norm take a step towards the statistics of this batch.
 *
 * In, changed in place:  running f32 [c], sum i64 [c] (mean over the batch in fixed point; zeroed for the next step)
 *
 *     running = (1 - momentum) * running + momentum * sum * 2^-scale_log2
 */
#include "backend/rates.h"
#include "backend/ref/update.h"

static void update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    const struct ls_attrs *a = &ls__ref_kernel_of(b)->attrs;
    const double unit = ls__update_unit(a);
    float *running = (float *)b->in[0] + begin;
    for (int64_t i = 0; i < n; i++) {
        const float now = (float)((double)sums[i] * unit);
        running[i] = (1.0f - a->momentum) * running[i] + a->momentum * now;
        sums[i] = 0;
    }
}

const struct ls_impl ls__ref_running_stats = {
    .name = "ref",
    .op = LS_OP_RUNNING_STATS,
    .prepare = ls__ref_prepare_update,
    .launch = ls__ref_launch_update,
    .update = update,
};
