/* verdict.c: what a sweep means, in one sentence with its numbers. */
#include "predict/predict.h"

#include <stdio.h>

static const char *seconds_text(double s, char out[32])
{
    if (s >= 0.9995)
        snprintf(out, 32, "%.3g s", s);
    else if (s >= 0.9995e-3)
        snprintf(out, 32, "%.3g ms", s * 1e3);
    else
        snprintf(out, 32, "%.3g us", s * 1e6);
    return out;
}

static const char *count_text(int64_t n, char out[32])
{
    double x = (double)n;
    if (n >= 1000000)
        snprintf(out, 32, "%.3g M", x * 1e-6);
    else if (n >= 10000)
        snprintf(out, 32, "%.3g k", x * 1e-3);
    else
        snprintf(out, 32, "%lld", (long long)n);
    return out;
}

static const char *noun(const struct ls_predict_cluster *c)
{
    return c->workers_per_machine == 1 ? "machines" : "workers";
}

/* The first point on more than one machine. */
static const struct ls_predict_point *first_apart(const struct ls_predict_series *s)
{
    for (int i = 1; i < LS_PREDICT_POINTS; i++)
        if (s->points[i].machines > 1) return &s->points[i];
    return &s->points[LS_PREDICT_POINTS - 1];
}

static void tell_loss(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                      const struct ls_predict_series *s, char *out, size_t size)
{
    char count[32], wire[32], step[32], more[32];
    const struct ls_predict_point *at = first_apart(s);
    const bool is_local = s->algorithm == LS_PREDICT_LOCAL;
    const bool is_served = s->algorithm == LS_PREDICT_PS || s->algorithm == LS_PREDICT_ASYNC;
    bool is_wire = at->communicate > at->wait; /* else the batch has no second shard to give away */
    snprintf(
        out, size,
        "%d %s over %s would be %s one: %s parameters need %s per step on the wire, and a step takes %s instead of "
        "%s; %s",
        at->workers, noun(c), c->network->name,
        at->step_seconds > 1.02 * s->points[0].step_seconds ? "slower than" : "no faster than",
        count_text(p->n_parameters, count), seconds_text(at->wire_seconds, wire), seconds_text(at->step_seconds, more),
        seconds_text(s->points[0].step_seconds, step),
        is_wire && is_local    ? "a larger H, a faster network or a larger batch help"
        : is_wire && is_served ? "more --servers, a faster network or a larger batch help"
        : is_wire              ? "--compress, a faster network or a larger batch help"
                               : "the batch has too few shards for more threads: a larger batch or --shards helps");
}

static void tell_gain(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                      const struct ls_predict_series *s, char *out, size_t size)
{
    char wire[32], step[32], less[32], limit[160];
    const struct ls_predict_point *at = &s->points[s->best];
    if ((int64_t)at->workers * c->threads >= p->shards)
        snprintf(limit, sizeof limit, "a batch of %lld has %lld shards, so more threads than that find nothing to do",
                 (long long)p->batch_size, (long long)p->shards);
    else
        snprintf(limit, sizeof limit, "beyond that the sums, %s per step on the wire, cost more than the help is worth",
                 seconds_text(at->wire_seconds, wire));
    snprintf(out, size, "%d %s over %s are best: %.2f times as fast as one (%s per step instead of %s); %s",
             at->workers, noun(c), c->network->name, at->speedup, seconds_text(at->step_seconds, less),
             seconds_text(s->points[0].step_seconds, step), limit);
}

void ls_predict_verdict(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                        const struct ls_predict_series *s, char *out, size_t size)
{
    if (s->points[s->best].machines == 1 && s->best < LS_PREDICT_POINTS - 1)
        tell_loss(p, c, s, out, size);
    else
        tell_gain(p, c, s, out, size);
}
