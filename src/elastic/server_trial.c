/* server_trial.c: before the first step: how fast the workers are, and the network between them and this process.
 *
 *     rehearse    all at once, for what they take from each other where they share cores
 *     latency     a small message to all and back; the median of the time until the last has answered, halved. So it
 *                 has in it what this process does for each of them, and what they do to each other on shared cores
 *     bandwidth   all at once, as in a step: first to the workers, then from them, longer and longer ones
 *
 * Who shares memory with this process is not asked for the last two: between them there is no network.
 */
#include "base/clock.h"
#include "base/control.h"
#include "base/log.h"
#include "base/median.h"
#include "elastic/server_internal.h"

#include <string.h>

enum { LOOK_MS = 100, MAX_TURNS = 64 };

static bool can_try(const struct server_worker *w)
{
    return w->is_here && w->is_ready && !w->is_late;
}

static void ask(struct ls_server *s, struct server_worker *w, double seconds, uint32_t bytes_back,
                struct ls_wire_buffer *payload, size_t bytes)
{
    const struct ls_talk_try body = {.number = s->n_tries, .bytes_back = bytes_back, .seconds = seconds};
    size_t sent; /* not of the training */
    w->asked = s->n_tries;
    if (ls__server_send(s, w->peer, (uint32_t)ls__server_number(s, w), LS_TALK_TRY, s->round.step, &body, payload,
                        bytes, &sent) != LS_OK)
        ls__log(LS_LOG_DEBUG, "worker %d: %s", ls__server_number(s, w), ls_error_message()); /* it is going, or gone */
}

/* Until all that were asked have answered, or are gone, or silent for a lease; or the caller wants to stop. */
static enum ls_status await(struct ls_server *s)
{
    for (bool is_awaited = true; is_awaited;) {
        bool is_something;
        is_awaited = false;
        for (int i = 0; i < s->n_workers; i++) {
            const struct server_worker *w = &s->workers[i];
            if (can_try(w) && w->asked == s->n_tries && w->tried.number != s->n_tries) is_awaited = true;
        }
        if (!is_awaited || ls__control_stop_wanted(s->o.control)) return LS_OK;
        TRY(ls__server_pump(s, LOOK_MS, &is_something));
    }
    return LS_OK;
}

/* To compute for so long, or, where that is 0, only to answer over the network. *seconds: until the last had answered.
 */
static enum ls_status ask_all(struct ls_server *s, double rehearsed, uint32_t bytes_back,
                              struct ls_wire_buffer *payload, size_t bytes, double *seconds)
{
    const int64_t began = ls__now_ns();
    s->n_tries++;
    for (int i = 0; i < s->n_workers; i++)
        if (can_try(&s->workers[i]) && (rehearsed > 0 || !s->workers[i].is_boxed))
            ask(s, &s->workers[i], rehearsed, bytes_back, payload, bytes);
    TRY(await(s));
    *seconds = ls__seconds_since(began);
    return LS_OK;
}

/* --- what is tried --- */

static enum ls_status rehearse(struct ls_server *s, struct ls_server_trial *out)
{
    const double enough = 0.2; /* seconds */
    double took, speed = 0, threads = 0;
    bool is_whole = true;
    TRY(ask_all(s, enough, 0, NULL, 0, &took));
    for (int i = 0; i < s->n_workers; i++) {
        const struct server_worker *w = &s->workers[i];
        if (!can_try(w)) continue;
        out->n_workers++;
        out->n_beside += w->is_boxed;
        is_whole = is_whole && w->tried.number == s->n_tries && w->tried.n_run > 0 && w->tried.shard_seconds > 0;
        if (!is_whole) continue;
        threads += w->tried.threads;
        speed += 1 / w->tried.shard_seconds;
        out->together.pre_seconds += w->tried.pre_seconds;
        out->together.join_seconds += w->tried.join_seconds;
    }
    if (!is_whole || out->n_workers == 0) return LS_OK;
    const double n = out->n_workers;
    out->threads = (int)(threads / n + 0.5);
    out->together.shard_seconds = n / speed;
    out->together.pre_seconds /= n;
    out->together.join_seconds /= n;
    return LS_OK;
}

static enum ls_status measure_latency(struct ls_server *s, struct ls_server_trial *out)
{
    const double enough = 0.1; /* seconds */
    const int64_t began = ls__now_ns();
    double took[MAX_TURNS];
    int n = 0;
    while (n < MAX_TURNS && (n < 5 || ls__seconds_since(began) < enough)) {
        TRY(ask_all(s, 0, 0, NULL, 0, &took[n]));
        took[n++] /= 2;
    }
    out->latency = ls__median(took, n);
    return LS_OK;
}

/* Seconds per byte, to the workers or from them; messages long enough that a connection's window has opened, which
 * takes some turns. */
static enum ls_status measure_way(struct ls_server *s, bool is_back, struct ls_wire_buffer *payload,
                                  const struct ls_server_trial *so_far, double *out)
{
    const double enough = 0.05 + 8 * so_far->latency;
    double took = 0;
    for (uint32_t bytes = 16 << 10; bytes <= LS_TALK_MAX_TRIED && took < enough; bytes *= 4) {
        TRY(ask_all(s, 0, is_back ? bytes : 0, is_back ? NULL : payload, bytes, &took));
        const double alone = took - 2 * so_far->latency;
        *out = (alone > 0.1 * took ? alone : 0.1 * took) / ((double)bytes * (so_far->n_workers - so_far->n_beside));
    }
    return LS_OK;
}

static enum ls_status measure_bandwidth(struct ls_server *s, struct ls_server_trial *out)
{
    struct ls_wire_buffer *payload;
    double there = 0, back = 0;
    TRY(ls_wire_buffer_create(&payload, LS_TALK_MAX_TRIED));
    memset(ls_wire_buffer_data(payload), 0, LS_TALK_MAX_TRIED);
    enum ls_status status = measure_way(s, false, payload, out, &there);
    if (status == LS_OK) status = measure_way(s, true, NULL, out, &back);
    ls_wire_buffer_drop(&payload);
    if (status == LS_OK) out->bandwidth = 2 / (there + back);
    return status;
}

static enum ls_status try_all(struct ls_server *s, bool is_apart, struct ls_server_trial *out)
{
    int n = 0, n_far = 0;
    for (int i = 0; i < s->n_workers; i++) {
        if (!can_try(&s->workers[i])) continue;
        n++;
        n_far += !s->workers[i].is_boxed;
    }
    if (n == 0 || (n_far == 0 && !is_apart)) return LS_OK;
    TRY(rehearse(s, out));
    if (out->n_workers == out->n_beside) return LS_OK;
    TRY(measure_latency(s, out));
    return measure_bandwidth(s, out);
}

enum ls_status ls__server_try(struct ls_server *s, bool is_apart, struct ls_server_trial *out)
{
    *out = (struct ls_server_trial){0};
    pthread_mutex_lock(&s->lock);
    enum ls_status status = try_all(s, is_apart, out);
    s->turn_seconds = 2 * out->latency;
    s->shard_seconds = out->together.shard_seconds;
    pthread_mutex_unlock(&s->lock);
    return status;
}
