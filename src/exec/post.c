/* post.c: after the sums: the norm of the gradient where it is limited, then the updates. */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>

/* --- the norm of the whole gradient, from the exact sums --- */

enum { NORM_PART = 1 << 15 };

struct norm_item {
    struct ls_exec *e;
    const int64_t *sum;
    int64_t n;
    double result;
};

static double sum_of_squares(const int64_t *sum, int64_t n)
{
    const double unit = ldexp(1, -LS_SCALE_GRAD);
    double lanes[8] = {0}, all = 0;
    for (int64_t i = 0; i < n; i++) {
        double g = (double)sum[i] * unit;
        lanes[i & 7] += g * g;
    }
    for (int k = 0; k < 8; k++) all += lanes[k];
    return all;
}

static enum ls_status run_norm(void *arg, int item, int thread)
{
    struct norm_item *it = (struct norm_item *)arg + item;
    const size_t bytes = (size_t)it->n * sizeof *it->sum;
    const void *view;
    struct ls_lane *lane = it->e->workers[thread].lane;
    struct ls_begun begun = ls__span_begin(lane, LS_SPAN_UPDATE, "norm", item);
    enum ls_status status = ls__memory_view(it->e, it->sum, bytes, &view);
    if (status == LS_OK) {
        it->result = sum_of_squares(view, it->n);
        ls__memory_release_view(it->e, it->sum, bytes, view);
    }
    ls__span_end(lane, begun);
    return status;
}

static int64_t n_norm_items(struct ls_exec *e, const struct ls_plan *p, struct norm_item *items)
{
    int64_t at = 0;
    for (int v = 0; v < p->graph->n_values; v++) {
        if (p->graph->values[v].kind != LS_VALUE_PARAM || p->graph->values[v].grad < 0) continue;
        const struct ls_stored *s = &e->store->entries[p->slots[p->graph->values[v].grad].stored];
        int64_t n = (int64_t)(s->layout.bytes / sizeof(int64_t));
        for (int64_t i = 0; i < n; i += NORM_PART, at++)
            if (items)
                items[at] =
                    (struct norm_item){e, (const int64_t *)s->data + i, n - i < NORM_PART ? n - i : NORM_PART, 0};
    }
    return at;
}

/* Parts and their order depend on the parameters alone, so the rounding does too. */
static enum ls_status grad_norm(struct ls_exec *e, const struct ls_plan *plan, double *norm)
{
    int64_t n = n_norm_items(e, plan, NULL);
    struct norm_item *items;
    TRY(ls__calloc(&items, (size_t)n, sizeof *items));
    n_norm_items(e, plan, items);
    enum ls_status status = ls__pool_run(e->pool, (int)n, run_norm, items);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += items[i].result;
    free(items);
    *norm = sqrt(sum);
    return status;
}

/* Who reads the sums hears first whether they could be made. */
static enum ls_status await_all_sums(struct step *s)
{
    struct ls_exec *e = s->e;
    ls__fetch_next(s);
    struct ls_begun begun = ls__span_begin(e->workers[0].lane, LS_SPAN_COMMUNICATE, "all sums", s->ask->step);
    enum ls_status status = e->together->sum_wait(s, e->sums.n);
    ls__moments_mark(s, LS_MOMENT_END);
    if (status == LS_OK) status = ls__memory_settle(e); /* they are enqueued only */
    return ls__step_diagnose(s, ls__moments_end(s, begun, status));
}

static enum ls_status look(struct step *s)
{
    TRY(await_all_sums(s));
    s->ask->look(s->ask->look_arg);
    return s->e->together->barrier(s->e, LS_OK); /* updates zero the sums */
}

static enum ls_status clip(struct step *s, struct ls_step_ctx *ctx, double *norm)
{
    struct ls_exec *e = s->e;
    TRY(await_all_sums(s));
    TRY(e->together->barrier(e, grad_norm(e, s->plan->plan, norm))); /* updates zero the sums */
    if (*norm > s->ask->clip_norm) ctx->clip_scale = (float)(s->ask->clip_norm / (*norm + 1e-6));
    return LS_OK;
}

static enum ls_status run_updates(void *arg)
{
    return ls__exec_run_parts(arg);
}

/* Recorded, unless they wait for sums of other machines, depend on a norm that the host has just made or are some of
 * them only. */
static enum ls_status launch_updates(const struct parts *round)
{
    const struct step *s = round->s;
    const struct record_key key = {.plan = s->plan->plan, .phase = LS_POST};
    bool is_replayed;
    if (s->e->together->is_awaited || s->ask->clip_norm > 0 || s->is_at_once || s->ask->sums.end > 0)
        return ls__exec_run_parts(round);
    return ls__exec_launch(s->e, &key, run_updates, (void *)round, &is_replayed);
}

enum ls_status ls__exec_post(struct step *s, struct ls_step_ctx ctx, struct ls_exec_stats *stats)
{
    if (s->ask->look) TRY(look(s));
    if (s->ask->clip_norm > 0) TRY(clip(s, &ctx, &stats->grad_norm));
    const struct parts round = {s, LS_POST, ctx};
    TRY(launch_updates(&round));
    ls__exec_note_update(s->e, s->plan);
    return LS_OK;
}
