/* jobs.c: sums, updates and copies of parameters wait here and are enqueued together: a network has a hundred tensors,
 * and a kernel for each would spend its time being launched.
 *
 * Two lists, one kernel each: sums and copies, then updates. Jobs of one list do not depend on each other. An update
 * whose sum still waits to be made adds it up itself: of a step of one shard, no sum is ever in memory. What could not
 * be summed is found by the first kernel (CHECK), so that the second changes everything or nothing.
 */
#include "backend/cuda/cuda.h"

static enum ls_status flush_list(struct ls_device *d, struct ls_cuda_jobs *jobs, cudaStream_t stream)
{
    if (jobs->n == 0) return LS_OK;
    const cudaError_t error = ls__cuda_run_jobs(stream, jobs, d->fault, ls__cuda_now(d));
    jobs->n = 0;
    return LS_CUDA(error);
}

/* Nothing is summed or updated from what was not computed. */
static enum ls_status flush(struct ls_device *d)
{
    ls__cuda_small_take_over(d, d->jobs);
    enum ls_status status = ls__cuda_small_flush(d);
    if (status == LS_OK && d->jobs->n > 0)
        status = ls__cuda_join(d); /* what is summed may come from beside the stream */
    const bool is_well = status == LS_OK && d->failure.status == LS_OK;
    if (is_well) status = flush_list(d, d->jobs, d->stream);
    if (is_well && status == LS_OK) status = flush_list(d, d->updates, d->stream);
    d->jobs->n = d->updates->n = 0;
    return status;
}

void ls__cuda_keep_failure(struct ls_device *d, enum ls_status status)
{
    if (d->failure.status == LS_OK && status != LS_OK) d->failure = ls__keep(status);
}

enum ls_status ls__cuda_take_failure(struct ls_device *d)
{
    const enum ls_status status = ls__fail_again(&d->failure);
    d->failure.status = LS_OK;
    return status;
}

enum ls_status ls__cuda_let_jobs_go(struct ls_device *d)
{
    return d->jobs->n + d->updates->n > 0 ? flush(d) : LS_OK;
}

bool ls__cuda_sums_are_alone(const struct ls_device *d)
{
    return !ls__cuda_small_is_waiting(d) && d->updates->n == 0 && !d->has_next_now && d->failure.status == LS_OK;
}

enum ls_status ls__cuda_let_sums_go(struct ls_device *d, cudaStream_t stream)
{
    return flush_list(d, d->jobs, stream);
}

struct ls_cuda_next_now ls__cuda_next_now(const struct ls_device *d)
{
    return (struct ls_cuda_next_now){d->now, d->fault, d->next_now};
}

cudaStream_t ls__cuda_stream(struct ls_device *d)
{
    ls__cuda_make_current(d);
    if (ls__cuda_small_is_waiting(d) || d->jobs->n + d->updates->n > 0) ls__cuda_keep_failure(d, flush(d));
    if (d->has_next_now) ls__cuda_keep_failure(d, LS_CUDA(ls__cuda_run_now(d->stream, ls__cuda_next_now(d))));
    d->has_next_now = false;
    return d->stream;
}

static bool is_update(enum ls_cuda_job_kind kind)
{
    return kind == LS_CUDA_JOB_SGD || kind == LS_CUDA_JOB_ADAMW || kind == LS_CUDA_JOB_RUNNING;
}

/* Whether the job may join those that wait. */
static bool fits(const struct ls_cuda_jobs *jobs, const struct ls_cuda_job *job)
{
    if (jobs->n == LS_CUDA_MAX_JOBS) return false;
    for (int i = 0; i < jobs->n; i++) {
        const struct ls_cuda_job *other = &jobs->list[i];
        if ((job->sum && other->sum == job->sum) || (job->a && other->a == job->a)) return false;
        if ((other->kind == LS_CUDA_JOB_NARROW) != (job->kind == LS_CUDA_JOB_NARROW)) return false;
    }
    return true;
}

/* The update takes over the sum that was to be made for it. */
static void take_over(struct ls_cuda_jobs *jobs, struct ls_cuda_job *update)
{
    for (int i = 0; i < jobs->n; i++) {
        struct ls_cuda_job *job = &jobs->list[i];
        if (job->kind != LS_CUDA_JOB_REDUCE || job->sum != update->sum || job->n != update->n) continue;
        update->src = job->src;
        update->type = job->type;
        update->reduce = job->reduce;
        job->kind = LS_CUDA_JOB_CHECK;
        return;
    }
}

enum ls_status ls__cuda_job(struct ls_device *d, const struct ls_cuda_job *job)
{
    struct ls_cuda_jobs *list = is_update(job->kind) ? d->updates : d->jobs;
    if (job->n == 0) return LS_OK;
    if (!fits(list, job) || (list == d->jobs && d->updates->n > 0)) TRY(flush(d));
    list->list[list->n] = *job;
    if (list == d->updates) take_over(d->jobs, &list->list[list->n]);
    list->n++;
    return LS_OK;
}
