/* ahead.c: steps that are enqueued before the host has heard how those before them ended, so that a device need not
 * wait for the host between two steps.
 *
 * Only a step that is one recording (whole.c), of images that the device keeps. Loss and count add up on the device, as
 * integers, until somebody asks. What fails on the device changes nothing any more, whatever is enqueued behind it; and
 * what is needed to run such a step again is kept here, to tell where its first bad value came from.
 */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <stdlib.h>
#include <string.h>

bool ls__ahead_may(const struct step *s)
{
    const struct ls_exec *e = s->e;
    return s->ask->may_run_ahead && s->ask->batch->kept && e->backend->recording->failed_step && !e->stop_wanted &&
           !e->save_wanted && e->ahead.n < MAX_AHEAD;
}

static enum ls_status need_room(struct step_ahead *a, int n)
{
    if (n <= a->room) return LS_OK;
    free(a->samples);
    free(a->labels);
    a->labels = NULL;
    a->room = 0;
    TRY(ls__calloc(&a->samples, (size_t)n, sizeof *a->samples));
    TRY(ls__calloc(&a->labels, (size_t)n, sizeof *a->labels));
    a->room = n;
    return LS_OK;
}

enum ls_status ls__ahead_note(const struct step *s)
{
    struct ahead *ahead = &s->e->ahead;
    struct step_ahead *a = &ahead->list[ahead->n];
    const int n = s->ask->batch->n;
    TRY(need_room(a, n));
    memcpy(a->samples, s->ask->batch->samples, (size_t)n * sizeof *a->samples);
    memcpy(a->labels, s->ask->batch->labels, (size_t)n * sizeof *a->labels);
    a->ask = *s->ask;
    a->batch = *s->ask->batch;
    a->batch.samples = a->samples;
    a->batch.labels = a->labels;
    a->ask.batch = &a->batch;
    ahead->n++;
    ahead->n_samples += n;
    return LS_OK;
}

void ls__ahead_forget(struct ls_exec *e)
{
    e->ahead.n = 0;
    e->ahead.n_samples = 0;
}

void ls__ahead_free(struct ls_exec *e)
{
    for (int i = 0; i < MAX_AHEAD; i++) {
        free(e->ahead.list[i].samples);
        free(e->ahead.list[i].labels);
    }
}

struct step ls__ahead_failed(const struct step *s)
{
    const struct ahead *ahead = &s->e->ahead;
    const int64_t step = ahead->n > 0 ? s->e->backend->recording->failed_step(s->e->device) : s->ask->step;
    struct step failed = *s;
    for (int i = 0; i < ahead->n; i++)
        if (ahead->list[i].ask.step == step) failed.ask = &ahead->list[i].ask;
    return failed;
}

enum ls_status ls_exec_catch_up(struct ls_exec *e, struct ls_exec_stats *stats)
{
    struct ahead *ahead = &e->ahead;
    *stats = (struct ls_exec_stats){0};
    if (ahead->n == 0) return LS_OK;
    const struct step_ahead *last = &ahead->list[--ahead->n];
    struct step s = ls__step_of(e, &last->ask, true);
    ahead->n_samples -= last->batch.n;
    TRY(ls__step_find_plans(&s));
    return ls__exec_conclude(&s, LS_OK, stats);
}
