/* evaluate.c: a network on every sample of a data set, once; see session.h. */
#include "base/control.h"
#include "base/mem.h"
#include "run/progress.h"
#include "session/session.h"

#include <math.h>
#include <stdlib.h>

enum { EVAL_SHARDS_OF_JOB = 32 };

/* A process alone stops after this batch; of several, all after the same one, once the wish has gone round. */
static bool is_stop_heard(const struct session *s, bool is_job, const struct ls_exec_stats *stats)
{
    return stats->stop_wanted || (!is_job && ls__control_stop_wanted(s->control));
}

/* One evaluation under way. */
struct pass {
    struct session *s;
    struct evaluation *e;
    const struct ls_dataset *data;
    struct ls_loader *loader;
    struct ls_progress progress;
    float *logits; /* [batch,n_classes]; NULL: nobody asks */
    bool is_job;
    int64_t done, n_correct;
    double loss_sum;
};

static enum ls_status pass_batch(struct pass *p)
{
    struct session *s = p->s;
    struct ls_batch batch;
    struct ls_exec_stats stats;
    struct ls_begun begun = ls__span_begin(s->lane, LS_SPAN_LOAD, "batch", p->done);
    enum ls_status status = ls_loader_next(p->loader, &batch);
    ls__span_end(s->lane, begun);
    TRY(status);
    const struct ls_exec_step step = {
        .batch = &batch, .transform = &s->transform, .shard_size = s->eval_size, .logits = p->logits};
    ls_exec_want(s->exec, ls__control_stop_wanted(s->control), false);
    TRY(ls_exec_evaluate(s->exec, &step, &stats));
    if (p->e->take) TRY(p->e->take(p->e->arg, &batch, p->logits));
    p->done += batch.n;
    p->loss_sum += stats.loss_sum;
    p->n_correct += stats.n_correct;
    p->e->is_stopped = p->done < p->data->n && is_stop_heard(s, p->is_job, &stats);
    if (p->e->label) ls__progress_update(&p->progress, p->done, NULL);
    return LS_OK;
}

static enum ls_status run_pass(struct pass *p)
{
    const struct session *s = p->s;
    int64_t shards_at_once = p->is_job ? EVAL_SHARDS_OF_JOB : 4 * (int64_t)s->threads; /* all ranks must cut alike */
    if (shards_at_once > LS_MAX_SHARDS) shards_at_once = LS_MAX_SHARDS;
    const struct ls_loader_options options = {.batch_size = (int)(s->eval_size * shards_at_once),
                                              .n_threads = s->threads,
                                              .trace = s->trace,
                                              .kept = p->data == s->test ? s->test_kept : NULL};
    if (p->e->take)
        TRY(ls__calloc(&p->logits, (size_t)options.batch_size * (size_t)p->data->n_classes, sizeof *p->logits));
    TRY(ls_loader_create(&p->loader, p->data, &options));
    if (p->e->label) ls__progress_begin(&p->progress, p->e->label, p->data->n);
    enum ls_status status = LS_OK;
    while (status == LS_OK && p->done < p->data->n && !p->e->is_stopped) status = pass_batch(p);
    if (p->e->label) ls__progress_end(&p->progress, NULL);
    return status;
}

enum ls_status ls__session_evaluate_on(struct session *s, struct evaluation *e)
{
    struct pass p = {.s = s, .e = e, .data = e->data ? e->data : s->test};
    p.is_job = s->comm && ls_comm_place(s->comm)->n_ranks > 1;
    e->is_stopped = false;
    if (p.is_job && e->take) return ls_fail(LS_INTERNAL, "logits of an evaluation by several processes");
    enum ls_status status = run_pass(&p);
    ls_loader_destroy(&p.loader);
    free(p.logits);
    if (status == LS_NONFINITE)
        status = ls_fail(status,
                         "evaluation: the loss is not finite, or above %.2g on average over %lld samples: the weights "
                         "have diverged; train again with a lower --lr, --warmup-epochs or --clip-norm",
                         ldexp(1, LS_FIXED_BITS - LS_SCALE_STATS) / (double)s->eval_size, (long long)s->eval_size);
    e->loss = p.loss_sum / (double)p.data->n;
    e->accuracy = (double)p.n_correct / (double)p.data->n;
    return status;
}

enum ls_status ls__session_evaluate(struct session *s, bool show_progress, double *loss, double *accuracy,
                                    bool *is_stopped)
{
    struct evaluation e = {.label = show_progress ? "Test" : NULL};
    enum ls_status status = ls__session_evaluate_on(s, &e);
    *loss = e.loss;
    *accuracy = e.accuracy;
    *is_stopped = e.is_stopped;
    return status;
}
