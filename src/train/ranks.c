/* ranks.c: see ranks.h. A row is the difference of two states of a rank, each counted since the sitting began. */
#include "train/ranks.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "ranks.csv";
static const char header[] = "step,epoch,rank,host,loss,accuracy,lr,images,seconds,load,compute,update,communicate,"
                             "hidden,wait,checkpoint,evaluate,other,bytes_sent,bytes_received\n";

/* Of a rank, since its sitting began. What travels. */
struct done {
    char host[64];
    int64_t images, bytes_sent, bytes_received;
    double total_seconds;
    struct ls_seconds seconds;
};

struct ranks {
    int64_t images_before; /* computed before the first step, to foretell its time */
    int64_t step;          /* of the last row */
    struct done *told;     /* [n_ranks and the workers of a server] as of the last row; rank 0's, as the next */
    struct done *now;
    int n_now;                        /* of these */
    struct ls_elastic_result workers; /* of a parameter server, behind the ranks */
    int fd;                           /* -1: not written */
};

static struct done done_now(const struct trainer *t)
{
    const struct ls_comm_stats stats = ls_comm_stats(t->comm);
    struct done d = {.images = ls__sync_samples(&t->sync) - t->ranks->images_before,
                     .bytes_sent = stats.bytes_sent,
                     .bytes_received = stats.bytes_received,
                     .total_seconds = ls__seconds_since(t->opened_ns),
                     .seconds = ls__trainer_seconds(t)};
    snprintf(d.host, sizeof d.host, "%s",
             ls_comm_host(t->comm, ls_comm_machine_of(t->comm, ls_comm_place(t->comm)->rank)));
    return d;
}

/* --- the file --- */

static void warn(struct ranks *k, const char *why)
{
    ls__log(LS_LOG_WARN, "%s is not written any more: %s", file_name, why);
    if (k->fd >= 0) close(k->fd);
    k->fd = -1;
}

/* Rows of steps that a resumed run does anew go; of a file that is not ours, everything. */
static enum ls_status rewind_rows(const struct ls_dir *dir, int64_t step)
{
    const size_t max_bytes = (size_t)1 << 30;
    char *text;
    size_t len;
    TRY(ls__dir_read(dir, file_name, max_bytes, &text, &len, LS_IO));
    struct ls_buf kept = LS_BUF_INIT;
    ls__buf_adds(&kept, header);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
        if (*line >= '0' && *line <= '9' && strtoll(line, NULL, 10) <= step)
            ls__buf_add(&kept, line, (size_t)(end - line) + 1);
    free(text);
    enum ls_status status = ls__buf_check(&kept);
    const struct ls_piece piece = {kept.text, kept.len};
    if (status == LS_OK) status = ls__dir_write_atomic(dir, file_name, &piece, 1, LS_IO);
    ls__buf_release(&kept);
    return status;
}

static enum ls_status open_file(struct trainer *t)
{
    const struct ls_piece start = {header, sizeof header - 1};
    struct ls_dir dir;
    TRY(ls__dir_open(&dir, ls__run_dir(t->run), LS_IO));
    bool is_there = t->st.step > 0 && faccessat(dir.fd, file_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    enum ls_status status =
        is_there ? rewind_rows(&dir, t->st.step) : ls__dir_write_atomic(&dir, file_name, &start, 1, LS_IO);
    if (status == LS_OK) status = ls__dir_open_file(&dir, file_name, O_WRONLY | O_APPEND, &t->ranks->fd, LS_IO);
    ls__dir_close(&dir);
    return status;
}

static double last_lr(const struct trainer *t)
{
    return ls_schedule_lr(&t->schedule, t->st.step > 0 ? t->st.step - 1 : 0);
}

static void add_row(struct ls_buf *b, const struct trainer *t, int rank, const struct done *from, const struct done *to)
{
    const struct train_state *st = &t->st;
    const struct tally *y = &st->epoch_tally;
    const struct ls_seconds *a = &from->seconds, *s = &to->seconds;
    char host[64];
    snprintf(host, sizeof host, "%s", to->host);
    for (char *c = host; *c; c++)
        if (*c == ',' || *c == '"' || (unsigned char)*c < 0x20) *c = '_';
    ls__buf_addf(b, "%lld,%lld,%d,%s,", (long long)st->step, (long long)st->epoch + 1, rank, host);
    if (y->n > 0)
        ls__buf_addf(b, "%.9g,%.9g", y->loss_sum / (double)y->n, (double)y->n_correct / (double)y->n);
    else
        ls__buf_adds(b, ","); /* replicas have not met yet */
    ls__buf_addf(b, ",%.9g,%lld,%.3f", last_lr(t), (long long)(to->images - from->images),
                 to->total_seconds - from->total_seconds);
    ls__buf_addf(b, ",%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f", s->load - a->load, s->compute - a->compute,
                 s->update - a->update, s->communicate - a->communicate, s->hidden - a->hidden, s->wait - a->wait,
                 s->checkpoint - a->checkpoint, s->evaluate - a->evaluate, s->other + s->setup - a->other - a->setup);
    ls__buf_addf(b, ",%lld,%lld\n", (long long)(to->bytes_sent - from->bytes_sent),
                 (long long)(to->bytes_received - from->bytes_received));
}

static void write_rows(struct trainer *t)
{
    struct ranks *k = t->ranks;
    struct ls_buf b = LS_BUF_INIT;
    for (int r = 0; r < k->n_now; r++) add_row(&b, t, r, &k->told[r], &k->now[r]);
    if (ls__buf_check(&b) != LS_OK)
        warn(k, ls_error_message());
    else if (write(k->fd, b.text, b.len) != (ssize_t)b.len)
        warn(k, strerror(errno ? errno : ENOSPC));
    ls__buf_release(&b);
}

/* --- what the loop calls --- */

/* A server's workers are told of as ranks behind it, in the order in which they came. Those that came while the server
 * was getting ready were not waiting for the training: that is their setup. What they stood still while it evaluated or
 * wrote a checkpoint is no waiting either. */
static struct done done_by(const struct ls_elastic_worker *w, const struct done *server)
{
    struct done d = {.images = w->images,
                     .bytes_sent = w->bytes_sent,
                     .bytes_received = w->bytes_received,
                     .total_seconds = w->total_seconds > w->compute_seconds ? w->total_seconds : w->compute_seconds,
                     .seconds = {.compute = w->compute_seconds}};
    const double idle = d.total_seconds - w->compute_seconds,
                 paused = w->evaluate_seconds + w->checkpoint_seconds + w->other_seconds,
                 part = paused > idle ? idle / paused : 1, left = idle - part * paused,
                 before = d.total_seconds - (server->total_seconds - server->seconds.setup);
    d.seconds.evaluate = part * w->evaluate_seconds;
    d.seconds.checkpoint = part * w->checkpoint_seconds;
    d.seconds.other = part * w->other_seconds;
    d.seconds.setup = before < 0 ? 0 : before < left ? before : left;
    d.seconds.wait = left - d.seconds.setup; /* for shards, for others, for parameters */
    snprintf(d.host, sizeof d.host, "%s", w->host);
    return d;
}

static void add_workers(struct trainer *t)
{
    struct ranks *k = t->ranks;
    const int n_ranks = ls_comm_place(t->comm)->n_ranks;
    ls__sync_tell_workers(&t->sync, &k->workers);
    k->n_now = n_ranks + k->workers.n_told;
    for (int i = 0; i < k->workers.n_told; i++) {
        k->now[n_ranks + i] = done_by(&k->workers.workers[i], &k->now[0]);
        k->now[0].bytes_sent += k->workers.workers[i].bytes_received; /* it was the server who sent them */
        k->now[0].bytes_received += k->workers.workers[i].bytes_sent;
    }
}

static enum ls_status gather(struct trainer *t)
{
    const struct done mine = done_now(t);
    TRY(ls_comm_gather(t->comm, &mine, sizeof mine, t->ranks->now));
    if (t->is_chief) add_workers(t);
    return LS_OK;
}

enum ls_status ls__ranks_open(struct trainer *t)
{
    const size_t n_most = (size_t)ls_comm_place(t->comm)->n_ranks + LS_ELASTIC_TOLD;
    TRY(ls__calloc(&t->ranks, 1, sizeof *t->ranks));
    struct ranks *k = t->ranks;
    k->fd = -1;
    k->step = t->st.step;
    k->images_before = ls__sync_samples(&t->sync);
    if (!t->is_chief) return LS_OK;
    TRY(ls__calloc(&k->told, n_most, sizeof *k->told));
    TRY(ls__calloc(&k->now, n_most, sizeof *k->now));
    if (t->o->record && open_file(t) != LS_OK) warn(k, ls_error_message());
    return LS_OK;
}

enum ls_status ls__ranks_row(struct trainer *t)
{
    struct ranks *k = t->ranks;
    TRY(gather(t));
    if (t->is_chief && k->fd >= 0) write_rows(t);
    if (t->is_chief) memcpy(k->told, k->now, (size_t)k->n_now * sizeof *k->now);
    k->step = t->st.step;
    return LS_OK;
}

enum ls_status ls__ranks_result(struct trainer *t, struct ls_result *r)
{
    struct ranks *k = t->ranks;
    if (t->st.step != k->step) TRY(ls__ranks_row(t));
    TRY(gather(t));
    const int n = k->n_now;
    r->n_ranks_told = !t->is_chief ? 0 : n < LS_RANKS_TOLD ? n : LS_RANKS_TOLD;
    for (int i = 0; i < r->n_ranks_told; i++) {
        const struct done *d = &k->now[i];
        r->ranks[i] = (struct ls_rank){.epoch = t->st.epoch + (t->st.epoch_step > 0),
                                       .lr = last_lr(t),
                                       .images = d->images,
                                       .total_seconds = d->total_seconds,
                                       .seconds = d->seconds,
                                       .bytes_sent = d->bytes_sent,
                                       .bytes_received = d->bytes_received};
        snprintf(r->ranks[i].host, sizeof r->ranks[i].host, "%s", d->host);
    }
    return LS_OK;
}

void ls__ranks_close(struct trainer *t)
{
    struct ranks *k = t->ranks;
    if (!k) return;
    if (k->fd >= 0) close(k->fd);
    free(k->told);
    free(k->now);
    free(k);
    t->ranks = NULL;
}
