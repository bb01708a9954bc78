/* comm.c: a job's life, agreement, broadcast, and the sums' public face. See comm/comm.h. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 24, MAX_TEXT = 1 << 20, SPIN_NS = 50000 };

static enum ls_status join_job(struct ls_comm *c)
{
    TRY(ls__transport_load(c));
    return ls__comm_thread_start(c);
}

enum ls_status ls_comm_open(struct ls_comm **out, const struct ls_comm_options *o)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    struct ls_comm *c = *out;
    c->segment = -1;
    c->timeout = o && o->timeout > 0 ? o->timeout : 300;
    c->is_ended = o ? o->is_ended : NULL;
    c->is_stopped = o ? o->is_stopped : NULL;
    c->is_ended_context = o ? o->context : NULL;
    c->is_apart = o && o->is_apart;
    c->place = (struct ls_comm_place){.n_ranks = 1, .n_machines = 1, .n_local = 1, .n_nodes = 1};
    gethostname(c->place.host, sizeof c->place.host - 1);
    enum ls_status status = ls_comm_is_launched() ? join_job(c) : LS_OK;
    if (status == LS_OK) status = ls__comm_machine_open(c);
    if (status == LS_OK) return LS_OK;
    c->has_failed = ls_comm_is_launched(); /* the others are told by the launcher, when this process ends */
    c->has_ended = true;
    ls_comm_close(out);
    return status;
}

void ls_comm_close(struct ls_comm **comm)
{
    struct ls_comm *c = *comm;
    if (!c) return;
    if (!c->has_ended && c->place.n_ranks > 1) /* a caller's mistake must not leave the others waiting */
        c->has_failed = ls_comm_end(c, ls_fail(LS_INTERNAL, "left the job without saying how it went")) != LS_OK;
    ls__comm_thread_stop(c);
    if (c->has_failed) { /* the communication thread may still use it; the process is about to end */
        ls__lane_abandon(c->lane);
    } else {
        ls__lane_give_back(c->lane);
        ls__travel_release(c);
        ls__comm_machine_close(c);
        free(c);
    }
    *comm = NULL;
}

enum ls_status ls_comm_measure(struct ls_comm *c, struct ls_trace *trace)
{
    return c->thread.is_started ? ls__lane_take(trace, "communication", &c->lane) : LS_OK;
}

const struct ls_comm_place *ls_comm_place(const struct ls_comm *c)
{
    return &c->place;
}

const char *ls_comm_host(const struct ls_comm *c, int machine)
{
    return c->peers[c->leaders[machine]].host;
}

int ls_comm_machine_of(const struct ls_comm *c, int rank)
{
    return c->peers[rank].machine;
}

struct ls_comm_stats ls_comm_stats(const struct ls_comm *c)
{
    return (struct ls_comm_stats){atomic_load(&c->bytes_sent), atomic_load(&c->bytes_received),
                                  atomic_load(&c->n_sums)};
}

void ls_comm_count_sum(struct ls_comm *c, int64_t bytes)
{
    const int64_t n = c->place.n_ranks, each = 2 * (n - 1) * bytes / n;
    atomic_fetch_add_explicit(&c->bytes_sent, (long long)each, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->bytes_received, (long long)each, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->n_sums, 1, memory_order_relaxed);
}

enum ls_status ls_comm_crew(struct ls_comm *c, int n_threads)
{
    const int32_t mine = n_threads;
    int32_t *all;
    if (c->place.n_ranks == 1) return LS_OK;
    const size_t n = (size_t)c->place.n_ranks;
    TRY(ls__calloc(&all, n, sizeof *all));
    enum ls_status status = ls_comm_gather(c, &mine, sizeof mine, all);
    if (status == LS_OK) status = ls_comm_broadcast(c, 0, all, n * sizeof *all);
    if (status == LS_OK) ls__wait_count(c, all);
    free(all);
    return status;
}

/* --- agreement --- */

struct report {
    int32_t status;
    uint32_t len;
};

struct verdict {
    int32_t rank;   /* in trouble, or -1 */
    int32_t status; /* enum ls_status: what all end with */
    char message[COMM_MESSAGE];
};

struct agreement {
    enum ls_status mine;
    const char *text; /* the identity, which begins with a newline, or the message */
    struct verdict verdict;
};

/* Line by line: the first that differs, as "key: this there, that here". Both texts begin with a newline. */
static void tell_difference(const char *here, const char *there, char *out, size_t size)
{
    size_t at = 0, line = 1;
    for (; here[at] && here[at] == there[at]; at++)
        if (here[at] == '\n') line = at + 1;
    const char *line_here = here + line, *line_there = there + line;
    snprintf(out, size, "'%.*s' there, '%.*s' here", (int)strcspn(line_there, "\n"), line_there,
             (int)strcspn(line_here, "\n"), line_here);
}

static void judge(struct ls_comm *c, struct agreement *a, int rank, const struct report *report, const char *text)
{
    struct verdict *v = &a->verdict;
    char difference[COMM_MESSAGE - 256];
    const char *host = c->peers[rank].host;
    if (v->rank >= 0) return;
    if (report->status != LS_OK) {
        v->rank = rank;
        v->status = report->status;
        if (rank == 0) /* the chief speaks for all */
            snprintf(v->message, sizeof v->message, "%s", text);
        else
            snprintf(v->message, sizeof v->message, "rank %d on %s: %s", rank, host, text);
    } else if (a->mine == LS_OK && strcmp(text, a->text) != 0) {
        v->rank = rank;
        v->status = LS_ERROR;
        tell_difference(a->text, text, difference, sizeof difference);
        snprintf(v->message, sizeof v->message, "rank %d on %s does not do the same as rank 0 on %s: %s", rank, host,
                 c->peers[0].host, difference);
    }
}

static enum ls_status hear_rank(struct ls_comm *c, struct agreement *a, int rank)
{
    struct report report;
    char *text;
    TRY(ls__link_receive(c, &report, sizeof report, rank, TAG_AGREE, c->timeout));
    bool is_text = report.status != LS_OK || report.len > 0;
    if (report.len > MAX_TEXT || !is_text) return ls_fail(LS_REMOTE, "rank %d sent a malformed report", rank);
    TRY(ls__calloc(&text, report.len + 1, 1));
    enum ls_status status = ls__link_receive(c, text, report.len, rank, TAG_AGREE, c->timeout);
    if (status == LS_OK && report.status == LS_OK && *text != '\n')
        status = ls_fail(LS_REMOTE, "rank %d sent a malformed report", rank);
    if (status == LS_OK) judge(c, a, rank, &report, text);
    free(text);
    return status;
}

/* Rank 0 hears all, judges, and tells all. When one does not report, waiting itself says who (link.c). */
static enum ls_status agree(struct ls_comm *c, void *arg)
{
    struct agreement *a = arg;
    const struct report mine = {(int32_t)a->mine, (uint32_t)strlen(a->text)};
    a->verdict = (struct verdict){.rank = -1};
    if (c->place.rank > 0) {
        TRY(ls__link_send(c, &mine, sizeof mine, 0, TAG_AGREE, c->timeout));
        TRY(ls__link_send(c, a->text, mine.len, 0, TAG_AGREE, c->timeout));
        return ls__link_receive(c, &a->verdict, sizeof a->verdict, 0, TAG_VERDICT, c->timeout + 2);
    }
    if (a->mine != LS_OK) judge(c, a, 0, &mine, a->text);
    for (int r = 1; r < c->place.n_ranks; r++) TRY(hear_rank(c, a, r));
    for (int r = 1; r < c->place.n_ranks; r++)
        TRY(ls__link_send(c, &a->verdict, sizeof a->verdict, r, TAG_VERDICT, c->timeout));
    return LS_OK;
}

/* All know the same: the chief tells it. */
static enum ls_status end_by(struct ls_comm *c, const struct verdict *v)
{
    struct ending e = {.by = 0, .sureness = ENDING_AGREED, .status = v->status};
    snprintf(e.message, sizeof e.message, "%s", v->message);
    ls__ending_post(c, &e);
    return ls_fail(LS_REMOTE, "%s", v->message);
}

enum ls_status ls_comm_agree(struct ls_comm *c, enum ls_status mine, const char *text)
{
    struct ls_buf full = LS_BUF_INIT;
    if (c->place.n_ranks == 1) return mine;
    if (mine == LS_OK) {
        ls__buf_addf(&full, "\n%s", text);
        mine = ls__buf_check(&full);
    }
    struct ls_kept own = ls__keep(mine);
    struct agreement a = {.mine = mine, .text = mine == LS_OK ? full.text : own.message};
    enum ls_status status = ls__comm_thread_call(c, agree, &a);
    ls__buf_release(&full);
    TRY(status);
    return a.verdict.rank < 0 ? LS_OK : end_by(c, &a.verdict);
}

/* --- waiting elsewhere --- */

static enum ls_status name_late(struct ls_comm *c, void *arg)
{
    return ls__late_peers(c, *(const double *)arg);
}

enum ls_status ls_comm_check(struct ls_comm *c, double seconds)
{
    if (c->place.n_ranks == 1) return LS_OK;
    TRY(ls__late_machine(c, seconds > c->timeout ? seconds : 0));
    return seconds > c->timeout ? ls__comm_thread_call(c, name_late, &seconds) : LS_OK;
}

/* --- gather and broadcast --- */

struct gather {
    const void *mine;
    size_t bytes;
    char *all;
};

static enum ls_status gather(struct ls_comm *c, void *arg)
{
    const struct gather *g = arg;
    if (c->place.rank > 0) return ls__link_send(c, g->mine, g->bytes, 0, TAG_GATHER, c->timeout);
    memcpy(g->all, g->mine, g->bytes);
    for (int r = 1; r < c->place.n_ranks; r++)
        TRY(ls__link_receive(c, g->all + (size_t)r * g->bytes, g->bytes, r, TAG_GATHER, c->timeout));
    return LS_OK;
}

enum ls_status ls_comm_gather(struct ls_comm *c, const void *mine, size_t bytes, void *all)
{
    struct gather g = {mine, bytes, all};
    if (c->place.n_ranks > 1) return ls__comm_thread_call(c, gather, &g);
    memcpy(all, mine, bytes);
    return LS_OK;
}

/* A tree, counted from the root: place i has from its parent and hands on to i + 2^k. */
enum ls_status ls__broadcast(struct ls_comm *c, void *arg)
{
    const struct broadcast *b = arg;
    int n = b->is_among_machines ? c->place.n_machines : c->place.n_ranks;
    int me = ((b->is_among_machines ? c->place.machine : c->place.rank) - b->root + n) % n;
    for (size_t at = 0; at < b->bytes; at += PIECE) {
        size_t bytes = b->bytes - at < PIECE ? b->bytes - at : PIECE;
        int reach = 1;
        while (reach <= me) reach *= 2;
        if (me > 0) {
            int from = (me - reach / 2 + b->root) % n;
            TRY(ls__link_receive(c, b->data + at, bytes, b->is_among_machines ? c->leaders[from] : from, TAG_BROADCAST,
                                 c->timeout + b->more_seconds));
        }
        for (; me + reach < n; reach *= 2) {
            int to = (me + reach + b->root) % n;
            TRY(ls__link_send(c, b->data + at, bytes, b->is_among_machines ? c->leaders[to] : to, TAG_BROADCAST,
                              c->timeout));
        }
    }
    return LS_OK;
}

enum ls_status ls_comm_broadcast(struct ls_comm *c, int root, void *data, size_t bytes)
{
    struct broadcast b = {.data = data, .bytes = bytes, .root = root};
    return c->place.n_ranks == 1 ? LS_OK : ls__comm_thread_call(c, ls__broadcast, &b);
}

enum ls_status ls_comm_broadcast_machines(struct ls_comm *c, int root, void *data, size_t bytes)
{
    struct broadcast b = {.data = data, .bytes = bytes, .root = root, .is_among_machines = true};
    return c->place.n_machines == 1 || c->place.local_rank > 0 ? LS_OK : ls__comm_thread_call(c, ls__broadcast, &b);
}

/* --- sums over the machines --- */

enum ls_status ls_comm_sum_begin(struct ls_comm *c, int64_t *block, const struct ls_comm_bucket *buckets, int n_buckets,
                                 enum ls_span_kind kind)
{
    struct board *b = c->board;
    struct sum_job job = {.block = block, .n_buckets = n_buckets, .kind = kind};
    if (c->place.n_machines == 1) return LS_OK;
    if (n_buckets > MAX_BUCKETS) return ls_fail(LS_INTERNAL, "%d buckets, at most %d", n_buckets, MAX_BUCKETS);
    c->n_buckets = n_buckets;
    if (c->place.local_rank == 0) {
        for (int i = 0; i < n_buckets; i++) atomic_store(&b->parts[i], 0);
        for (int i = 0; i < n_buckets; i++) b->n_parts[i] = buckets[i].n_parts;
        atomic_store(&b->summed, 0);
        atomic_store(&b->awaited, LLONG_MAX);
        atomic_store(&b->has_sum_failed, false);
        memcpy(job.buckets, buckets, (size_t)n_buckets * sizeof *buckets);
    }
    TRY(ls_comm_barrier(c, LS_OK, 0)); /* nobody contributes before the counters are at zero */
    if (c->place.local_rank == 0) ls__comm_thread_sum(c, &job);
    return LS_OK;
}

/* The communication thread may sleep until a bucket is complete. */
static void tell_of_parts(struct board *b)
{
    atomic_fetch_add(&b->parts_word, 1);
    ls__futex_wake(&b->parts_word);
}

void ls_comm_sum_part(struct ls_comm *c, int bucket)
{
    struct board *b = c->board;
    if (c->place.n_machines > 1 && atomic_fetch_add(&b->parts[bucket], 1) + 1 == b->n_parts[bucket]) tell_of_parts(b);
}

void ls_comm_sum_flush(struct ls_comm *c)
{
    if (c->place.n_machines == 1) return;
    for (int i = 0; i < c->n_buckets; i++) atomic_store(&c->board->parts[i], INT32_MAX / 2);
    tell_of_parts(c->board);
}

/* Wakes when [0, end) is summed; a sleeper before it that is woken registers anew. */
static void register_end(struct board *b, int64_t end)
{
    long long least = atomic_load(&b->awaited);
    while (least > end && !atomic_compare_exchange_weak(&b->awaited, &least, end)) continue;
}

static enum ls_status await_sum(struct ls_comm *c, int64_t end)
{
    struct board *b = c->board;
    int64_t start = ls__now_ns();
    while (atomic_load(&b->summed) < end) {
        unsigned seen = atomic_load(&b->summed_word);
        if (atomic_load(&b->has_sum_failed)) {
            c->has_failed = true;
            return ls__fail_again(&b->sum_failure);
        }
        if (atomic_load(&c->spare.has_core) && ls__now_ns() - start < SPIN_NS) continue;
        register_end(b, end);
        if (atomic_load(&b->summed) >= end) break;
        ls__futex_wait(&b->summed_word, seen, 20000000);
        double seconds = ls__seconds_since(start);
        TRY(ls__late_machine(c, seconds > c->timeout ? seconds : 0)); /* the sum may want a part of theirs */
        if (ls__seconds_since(start) < c->timeout + 5)
            continue; /* the communication thread has its own deadline, and knows more */
        return ls__ending_found(c, ENDING_GUESSED,
                                ls_fail(LS_TIMEOUT, "the sum over %d machines did not end within %.3g s",
                                        c->place.n_machines, c->timeout + 5));
    }
    return LS_OK;
}

enum ls_status ls_comm_sum_wait(struct ls_comm *c, int64_t end)
{
    if (c->place.n_machines == 1) return LS_OK;
    if (atomic_load_explicit(&c->board->summed, memory_order_acquire) >= end) return LS_OK;
    atomic_fetch_add_explicit(&c->n_waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->board->n_waiting, 1, memory_order_relaxed);
    enum ls_status status = await_sum(c, end);
    atomic_fetch_sub_explicit(&c->board->n_waiting, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&c->n_waiting, 1, memory_order_relaxed);
    return status;
}
