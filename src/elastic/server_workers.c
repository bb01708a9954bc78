/* server_workers.c: the list of workers: who is here, whose lease ran out, how much work each gets, what each did. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "elastic/server_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int ls__server_number(const struct ls_server *s, const struct server_worker *w)
{
    return (int)(w - s->workers);
}

int64_t ls__server_step(const struct ls_server *s)
{
    return s->round.step + s->n_in;
}

struct server_worker *ls__server_find(struct ls_server *s, uint64_t peer)
{
    for (int i = s->n_workers - 1; i >= 0; i--)
        if (s->workers[i].is_here && s->workers[i].peer == peer) return &s->workers[i];
    return NULL;
}

static int n_here(const struct ls_server *s)
{
    int n = 0;
    for (int i = 0; i < s->n_workers; i++) n += s->workers[i].is_here;
    return n;
}

enum ls_status ls__server_add(struct ls_server *s, uint64_t peer, const struct ls_talk_join *join,
                              struct server_worker **out)
{
    TRY(ls__grow(&s->workers, (size_t)s->n_workers, (size_t)s->n_workers + 1, sizeof *s->workers));
    struct server_worker *w = &s->workers[s->n_workers++];
    *w = (struct server_worker){.peer = peer,
                                .is_here = true,
                                .threads = join->threads < 1      ? 1
                                           : join->threads > 4096 ? 4096
                                                                  : (int)join->threads,
                                .slot = join->slot,
                                .pid = join->pid,
                                .heard_ns = ls__now_ns(),
                                .joined_ns = ls__now_ns(),
                                .version = -1,
                                .reads = -1,
                                .bell = {-1, -1}};
    ls__server_open_tube(s, w);
    w->told.joined_step = ls__server_step(s);
    w->told.left_step = -1;
    snprintf(w->told.host, sizeof w->told.host, "%.63s", join->host);
    s->lonely_ns = 0;
    *out = w;
    return LS_OK;
}

void ls__server_remove(struct ls_server *s, struct server_worker *w, const char *why)
{
    const int number = ls__server_number(s, w), n_freed = ls__server_take_back(s, number);
    if (!w->is_here) return;
    ls__server_unread(s, w);
    w->is_here = w->is_idle = false;
    ls__server_close_tube(w);
    w->told.left_step = ls__server_step(s);
    w->left_ns = ls__now_ns();
    if (n_here(s) == 0) s->lonely_ns = ls__now_ns();
    if (w->is_ready && why && !w->is_seen_off)
        ls__log(LS_LOG_WARN,
                "worker %d on %s (pid %u) %s at step %lld; %d of its shards go to others, %d worker%s left", number,
                w->told.host, w->pid, why, (long long)ls__server_step(s) + 1, n_freed, n_here(s),
                n_here(s) == 1 ? " is" : "s are");
    ls__server_give_all(s);
}

/* Not when this process itself slept: then messages wait that it has not read. */
void ls__server_look_at_leases(struct ls_server *s)
{
    const int64_t now = ls__now_ns(), lease_ns = (int64_t)(1e9 * s->o.lease), since = now - s->checked_ns;
    s->checked_ns = now;
    if (since > lease_ns / 2) return;
    ls__server_look_at_keepers(s);
    for (int i = 0; i < s->n_workers; i++) {
        struct server_worker *w = &s->workers[i];
        if (!w->is_here || w->is_late || now - w->heard_ns < lease_ns) continue;
        w->is_late = true;
        const int n = ls__server_take_back(s, i);
        if (w->is_ready)
            ls__log(LS_LOG_WARN,
                    "worker %d on %s (pid %u) has not answered for %.3g s (--lease) at step %lld: %d of its "
                    "shards go to others",
                    i, w->told.host, w->pid, s->o.lease, (long long)ls__server_step(s) + 1, n);
        ls__server_give_all(s);
    }
}

/* Speed counts as it was measured; who is new counts as its threads, at the mean of the others. */
static double weight_of(const struct ls_server *s, const struct server_worker *w)
{
    double rate = 0, threads = 0;
    if (w->rate > 0) return w->rate;
    for (int i = 0; i < s->n_workers; i++) {
        const struct server_worker *k = &s->workers[i];
        if (!k->is_here || k->rate <= 0) continue;
        rate += k->rate;
        threads += k->threads;
    }
    return threads > 0 ? w->threads * rate / threads : w->threads;
}

static bool takes_part(const struct server_worker *w)
{
    return w->is_here && w->is_ready && !w->is_late;
}

/* A short step, or one whose shards are done before a question is answered; where all speeds are known. */
bool ls__server_deals(const struct ls_server *s)
{
    const double short_seconds = 0.01;
    const bool is_far = s->turn_seconds > s->shard_seconds;
    double rate = 0;
    int n = 0;
    for (int i = 0; i < s->n_workers; i++) {
        const struct server_worker *w = &s->workers[i];
        if (!takes_part(w)) continue;
        if (!w->is_idle || w->rate <= 0) return false;
        rate += w->rate;
        n++;
    }
    return !s->round.is_batches && n <= s->round.n_items && (is_far || s->round.n_items < short_seconds * rate);
}

/* One, and of the others those between two points of a line on which every worker has a piece as long as its speed. */
static int deal(const struct ls_server *s, const struct server_worker *w, double all)
{
    double before = 0;
    int n = 0;
    for (int i = 0; i < s->n_workers; i++) n += takes_part(&s->workers[i]);
    for (const struct server_worker *k = s->workers; k < w; k++) before += takes_part(k) ? weight_of(s, k) : 0;
    const double others = s->round.n_items - n;
    return 1 + (int)(floor(0.5 + others * (before + weight_of(s, w)) / all) - floor(0.5 + others * before / all));
}

/* First most of a worker's fair share, then half of its share of what is left, so that all end together. Of a round
 * that is dealt out all at once. */
int ls__server_share(const struct ls_server *s, const struct server_worker *w, bool is_first)
{
    double all = 0;
    if (s->round.is_batches) return 1;
    for (int i = 0; i < s->n_workers; i++)
        if (takes_part(&s->workers[i])) all += weight_of(s, &s->workers[i]);
    if (s->is_dealt && is_first && all > 0) return deal(s, w, all);
    const double share = all > 0 ? weight_of(s, w) / all : 1;
    int n = (int)(is_first ? 0.75 * share * s->round.n_items : 0.5 * share * ls__ledger_n_free(s->ledger));
    const int least = is_first ? w->threads : 1;
    if (n < least) n = least;
    return n < LS_TALK_MAX_ITEMS ? n : LS_TALK_MAX_ITEMS;
}

static void note_rate(struct server_worker *w, int n_items)
{
    const double seconds = ls__seconds_since(w->given_ns), rate = n_items / (seconds > 1e-6 ? seconds : 1e-6);
    w->rate = w->rate > 0 ? 0.7 * w->rate + 0.3 * rate : rate;
}

void ls__server_paused(struct ls_server *s, const struct ls_server_pause *pause)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_workers; i++) {
        struct server_worker *w = &s->workers[i];
        if (!w->is_here || !w->is_ready) continue;
        w->paused.evaluate += pause->evaluate;
        w->paused.checkpoint += pause->checkpoint;
        w->paused.other += pause->other;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Who computed meanwhile lost less by a pause than it lasted: at most the seconds in which the worker did nothing. What
 * it lost is told of apart, and returned. */
static double tell_pause(struct ls_elastic_worker *told, const struct ls_server_pause *p, double idle)
{
    const double all = p->evaluate + p->checkpoint + p->other, part = all > idle ? idle / all : 1;
    told->evaluate_seconds += part * p->evaluate;
    told->checkpoint_seconds += part * p->checkpoint;
    told->other_seconds += part * p->other;
    return part * all;
}

void ls__server_note_push(struct ls_server *s, struct server_worker *w, const struct ls_talk_push *push,
                          bool is_counted, size_t bytes)
{
    w->told.pushes++;
    w->told.rejected += !is_counted;
    w->told.acknowledged = (int64_t)push->acknowledged;
    w->told.compute_seconds += push->compute_seconds;
    w->told.wait_seconds += push->wait_seconds - tell_pause(&w->told, &w->paused, push->wait_seconds);
    w->paused = (struct ls_server_pause){0};
    w->told.bytes_sent += (int64_t)bytes;
    if (!is_counted) return;
    if (!s->round.is_batches) note_rate(w, (int)push->n_items);
}

/* An update that is in the store. */
void ls__server_note_settled(struct ls_server *s, const struct ls_server_push *push)
{
    struct server_worker *w = &s->workers[push->worker];
    struct ls_elastic_result *r = &s->report;
    const int64_t stale = push->staleness;
    if (s->round.is_batches)
        w->told.batches += push->n_items;
    else
        w->told.shards += push->n_items;
    for (int i = 0; i < push->n_items; i++)
        w->told.images += push->items[i] == s->round.n_items - 1 ? s->round.last_n : s->round.item_n;
    w->n_settled++;
    w->staleness_sum += (double)stale;
    if (stale > w->told.staleness_max) w->told.staleness_max = stale;
    if (!s->round.is_batches) return;
    r->updates++;
    r->staleness[stale < LS_STALENESS_BINS ? stale : LS_STALENESS_BINS - 1]++;
    s->staleness_sum += (double)stale;
    if (stale > r->staleness_max) r->staleness_max = stale;
}

int ls__server_n_workers(struct ls_server *s)
{
    pthread_mutex_lock(&s->lock);
    const int n = n_here(s);
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* That count, and are not added yet: an end of the training drops them. */
static int n_waiting(const struct ls_server *s, int worker)
{
    int n = 0;
    for (const struct queued *q = s->first; q; q = q->next) n += q->push.worker == worker;
    return n;
}

void ls__server_report(struct ls_server *s, struct ls_elastic_result *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->report;
    ls__server_report_keepers(s, out);
    out->staleness_mean = out->updates > 0 ? s->staleness_sum / (double)out->updates : 0;
    for (int i = 0; i < s->n_workers; i++) {
        const struct server_worker *w = &s->workers[i];
        if (!w->is_ready) continue;
        out->n_workers++;
        if (out->n_told == LS_ELASTIC_TOLD) continue;
        struct ls_elastic_worker *told = &out->workers[out->n_told++];
        *told = w->told;
        told->threads = w->threads;
        told->pushes -= n_waiting(s, i);
        told->total_seconds = ls__seconds_since(w->joined_ns) - (w->is_here ? 0 : ls__seconds_since(w->left_ns));
        (void)tell_pause(told, &w->paused, INFINITY); /* behind its last push it does nothing */
        told->staleness_mean = w->n_settled > 0 ? w->staleness_sum / (double)w->n_settled : 0;
    }
    pthread_mutex_unlock(&s->lock);
}
