/* record.c: opens the files of a rank's recording and hands every event on to those who write them. */
#include "record/record.h"

#include "base/dir.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/resources.h"
#include "record/tensorboard.h"
#include "record/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double resources_interval = 0.5;

struct ls_record {
    struct ls_dir dir; /* the run directory, or ranks/N in it */
    struct ls_resources *resources;
    struct ls_tensorboard *tensorboard; /* rank 0's */
    struct ls_timeline *timeline;
    int64_t first_step;
    struct ls_trace *trace;
    int n_threads;
    struct ls_time_split told; /* as of the last ls__record_time */
};

static enum ls_status open_dir(struct ls_record *r, const struct ls_record_options *o)
{
    struct ls_dir run, ranks;
    char name[16];
    if (o->rank == 0) return ls__dir_open(&r->dir, o->run_dir, LS_IO);
    TRY(ls__dir_open(&run, o->run_dir, LS_IO));
    enum ls_status status = ls__dir_open_below(&ranks, &run, "ranks", LS_IO);
    ls__dir_close(&run);
    TRY(status);
    snprintf(name, sizeof name, "%d", o->rank);
    status = ls__dir_open_below(&r->dir, &ranks, name, LS_IO);
    ls__dir_close(&ranks);
    return status;
}

/* The first column of the last whole row, and the end of that row: what a killed run left half-written is cut off. */
static bool last_row(int fd, double *seconds)
{
    char tail[4096];
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size == 0) return false;
    off_t from = st.st_size > (off_t)sizeof tail - 1 ? st.st_size - (off_t)sizeof tail + 1 : 0;
    ssize_t n = pread(fd, tail, sizeof tail - 1, from);
    if (n <= 0) return false;
    while (n > 0 && tail[n - 1] != '\n') n--;
    if (n == 0 || (from + n < st.st_size && ftruncate(fd, from + n) != 0)) return false;
    tail[n - 1] = '\0';
    const char *row = strrchr(tail, '\n');
    *seconds = strtod(row ? row + 1 : tail, NULL);
    return true;
}

static enum ls_status open_resources(struct ls_record *r, const struct ls_record_options *o)
{
    bool is_resumed = o->first_step > 0;
    struct ls_resources_options ro = {.interval = resources_interval, .trace = o->trace, .n_threads = o->n_threads};
    memcpy(ro.gpu, o->gpu, sizeof ro.gpu);
    int flags = O_RDWR | O_CREAT | O_APPEND | (is_resumed ? 0 : O_TRUNC);
    TRY(ls__dir_open_file(&r->dir, "resources.csv", flags, &ro.fd, LS_IO));
    ro.is_going_on = is_resumed && last_row(ro.fd, &ro.first_seconds);
    if (!ro.is_going_on && ftruncate(ro.fd, 0) != 0) ro.first_seconds = 0;
    return ls__resources_open(&r->resources, &ro);
}

/* Where there is no run directory, in a file that has no name. */
static enum ls_status open_timeline(struct ls_record *r, const struct ls_record_options *o)
{
    struct ls_timeline_options to = {.trace = o->trace,
                                     .rank = o->rank,
                                     .host = o->host,
                                     .n_steps = o->traced_steps,
                                     .batch_size = o->batch_size,
                                     .offset_ns = o->offset_ns,
                                     .error_ns = o->error_ns};
    const char *tmp = getenv("TMPDIR");
    if (r->dir.fd >= 0)
        TRY(ls__dir_open_file(&r->dir, "trace.json", O_RDWR | O_CREAT | O_APPEND | O_TRUNC, &to.fd, LS_IO));
    else if ((to.fd = open(tmp ? tmp : "/tmp", O_RDWR | O_TMPFILE | O_APPEND | O_CLOEXEC, 0600)) < 0)
        return ls_fail(LS_IO, "a file in %s for trace.json: %s", tmp ? tmp : "/tmp", strerror(errno));
    return ls__timeline_open(&r->timeline, &to);
}

static enum ls_status open_files(struct ls_record *r, const struct ls_record_options *o)
{
    if (o->run_dir) TRY(open_dir(r, o));
    if (o->run_dir && o->with_resources) {
        TRY(open_resources(r, o));
        if (o->rank == 0) TRY(ls__tensorboard_open(&r->tensorboard, &r->dir, o->first_step));
    }
    return o->traced_steps >= 0 ? open_timeline(r, o) : LS_OK;
}

struct ls_record *ls__record_open(const struct ls_record_options *o)
{
    struct ls_record *r;
    if (ls__calloc(&r, 1, sizeof *r) != LS_OK) return NULL;
    r->dir.fd = -1;
    r->trace = o->trace;
    r->n_threads = o->n_threads;
    r->first_step = o->first_step;
    if (open_files(r, o) == LS_OK) return r;
    ls__log(LS_LOG_WARN, "rank %d is not recorded: %s", o->rank, ls_error_message());
    ls__record_close(&r);
    return NULL;
}

void ls__record_close(struct ls_record **record)
{
    struct ls_record *r = *record;
    if (!r) return;
    ls__timeline_close(&r->timeline);
    ls__resources_close(&r->resources);
    ls__tensorboard_close(&r->tensorboard);
    ls__dir_close(&r->dir);
    free(r);
    *record = NULL;
}

void ls__record_step(struct ls_record *r, int64_t step, int64_t epoch)
{
    if (!r) return;
    ls__resources_step(r->resources, step, epoch);
    ls__timeline_step(r->timeline, step - r->first_step);
}

void ls__record_mark(struct ls_record *r, const char *event)
{
    if (r) ls__resources_mark(r->resources, event);
}

bool ls__record_later(struct ls_record *r, void (*work)(void *arg), void *arg)
{
    return r && ls__resources_later(r->resources, work, arg);
}

struct ls_timeline *ls__record_timeline(struct ls_record *r)
{
    return r ? r->timeline : NULL;
}

void ls__record_forget_timeline(struct ls_record *r)
{
    if (!r || !r->timeline) return;
    ls__timeline_close(&r->timeline);
    if (r->dir.fd >= 0) unlinkat(r->dir.fd, "trace.json", 0);
}

struct ls_tensorboard *ls__record_tensorboard(struct ls_record *r)
{
    return r ? r->tensorboard : NULL;
}

/* The names that people know from PyTorch's examples. The averages of whole epochs have their own: the steps' curve is
 * no place for them. */
void ls__record_metric(struct ls_record *r, const struct ls_metric *m)
{
    static const struct {
        const char *name, *tag;
        bool by_split; /* "Loss/train"; else of training steps only */
    } tags[] = {{"loss", "Loss", true},
                {"accuracy", "Accuracy", true},
                {"lr", "LearningRate", false},
                {"images_per_second", "Throughput/images_per_sec", false}};
    if (!r || !r->tensorboard) return;
    for (int i = 0; i < LS_MAX_METRICS && m->values[i].name; i++) {
        for (size_t k = 0; k < sizeof tags / sizeof tags[0]; k++) {
            char tag[64];
            if (strcmp(tags[k].name, m->values[i].name) != 0) continue;
            if (!tags[k].by_split && strcmp(m->split, "train") != 0) continue;
            snprintf(tag, sizeof tag, "%s%s%s", tags[k].tag, tags[k].by_split ? "/" : "",
                     tags[k].by_split ? m->split : "");
            ls__tensorboard_scalar(r->tensorboard, m->step, tag, m->values[i].value);
        }
    }
}

void ls__record_time(struct ls_record *r, int64_t step)
{
    if (!r || !r->tensorboard) return;
    const struct ls_time_split now = ls__trace_split(r->trace, r->n_threads), *told = &r->told;
    const struct {
        const char *tag;
        double seconds;
    } parts[] = {{"Time/load", now.load - told->load},
                 {"Time/compute", now.compute - told->compute},
                 {"Time/update", now.update - told->update},
                 {"Time/communicate", now.communicate - told->communicate},
                 {"Time/wait", now.wait - told->wait},
                 {"Time/checkpoint", now.checkpoint - told->checkpoint},
                 {"Time/evaluate", now.evaluate - told->evaluate}};
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    double all = 0;
    for (int i = 0; i < N_PARTS; i++) all += parts[i].seconds;
    for (int i = 0; i < N_PARTS && all > 0; i++)
        ls__tensorboard_scalar(r->tensorboard, step, parts[i].tag, 100 * parts[i].seconds / all);
    r->told = now;
}
