/* resources.c: the thread that watches a process, and the rows it writes. */
#include "record/resources.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/nvml.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ROWS_BEFORE_DOUBLING = 7200, MAX_MARKS = 16 };

struct ls_resources {
    struct ls_resources_options o; /* never changes */
    int64_t start_ns;
    pthread_t thread;
    atomic_int_fast64_t step, epoch; /* written by the training, read by the thread */
    atomic_bool is_over;             /* written by the thread: the process has ended */
    pthread_mutex_t lock;            /* of the members below */
    pthread_cond_t wake;
    bool is_ending;
    const char *marks[MAX_MARKS]; /* not written yet */
    int n_marks;
    void (*work)(void *arg); /* NULL: none is left to do */
    void *work_arg;
    struct ls_resources_peak peak;
    /* the thread's own */
    struct ls_process_use first, last;
    int64_t last_ns;
    double cpu_percent;
    int64_t n_rows;
    bool is_broken; /* a row could not be written */
    struct ls_resources_point *points;
    size_t n_points, room;
    bool is_ended; /* the thread is joined. The caller's */
};

static const char *const header[] = {
    [LS_RESOURCES_CSV] = "elapsed_time,nproc,cpu,mem_real,mem_virtual,threads,read_bytes,write_bytes,net_received,"
                         "net_sent,switches,gpu,gpu_mem,load,compute,update,communicate,hidden,wait,checkpoint,"
                         "evaluate,other,step,epoch,event,gpu_watts,gpu_mhz\n",
    [LS_RESOURCES_PLAIN] = "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)",
    [LS_RESOURCES_PSCSV] = "elapsed_time,nproc,cpu,mem_real,mem_virtual",
};

static void write_text(struct ls_resources *r, struct ls_buf *b)
{
    size_t done = 0;
    bool is_whole = ls__buf_check(b) == LS_OK;
    while (is_whole && r->o.fd >= 0 && !r->is_broken && done < b->len) {
        ssize_t n = write(r->o.fd, b->text + done, b->len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            ls__log(LS_LOG_WARN, "resources are not recorded any more: %s", strerror(n < 0 ? errno : ENOSPC));
            r->is_broken = true;
            break;
        }
        done += (size_t)n;
    }
    ls__buf_release(b);
}

static void write_header(struct ls_resources *r)
{
    static const char io_csv[] = ",read_count,write_count,read_bytes,write_bytes";
    static const char io_plain[] = "   Read count  Write count   Read bytes  Write bytes";
    struct ls_buf b = LS_BUF_INIT;
    if (r->o.is_going_on) return;
    ls__buf_adds(&b, header[r->o.form]);
    if (r->o.form != LS_RESOURCES_CSV)
        ls__buf_addf(&b, "%s\n", !r->o.with_io ? "" : r->o.form == LS_RESOURCES_PLAIN ? io_plain : io_csv);
    write_text(r, &b);
}

/* Where the time of this sitting went so far. */
static void add_seconds(const struct ls_resources *r, struct ls_buf *b)
{
    if (!r->o.trace) {
        ls__buf_adds(b, ",,,,,,,,,");
        return;
    }
    const struct ls_time_split s = ls__trace_split(r->o.trace, r->o.n_threads);
    ls__buf_addf(b, ",%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f", s.load, s.compute, s.update, s.communicate,
                 s.hidden, s.wait, s.checkpoint, s.evaluate, s.other + s.setup);
}

/* MB are 2^20 bytes, as psrecord's. */
static void keep_point(struct ls_resources *r, double seconds)
{
    const double mb = 1024 * 1024;
    if (r->n_points == r->room) {
        size_t room = r->room ? 2 * r->room : 1024;
        struct ls_resources_point *more = realloc(r->points, room * sizeof *more);
        if (!more) return; /* the plot ends here */
        r->points = more;
        r->room = room;
    }
    r->points[r->n_points++] = (struct ls_resources_point){.seconds = seconds,
                                                           .cpu_percent = r->cpu_percent,
                                                           .real_mb = (double)r->last.rss_bytes / mb,
                                                           .virtual_mb = (double)r->last.virtual_bytes / mb};
}

static void add_row(const struct ls_resources *r, struct ls_buf *b, double seconds, const char *event)
{
    const struct ls_process_use *u = &r->last, *f = &r->first;
    const double mb = 1024 * 1024, real = (double)u->rss_bytes / mb, all = (double)u->virtual_bytes / mb;
    struct ls_gpu_use gpu = {0};
    if (r->o.form == LS_RESOURCES_PLAIN) {
        ls__buf_addf(b, "%12.3f %12.3f %12.3f %12.3f", seconds, r->cpu_percent, real, all);
        if (r->o.with_io)
            ls__buf_addf(b, " %12lld %12lld %12lld %12lld", (long long)u->n_reads, (long long)u->n_writes,
                         (long long)u->read_bytes, (long long)u->written_bytes);
        ls__buf_adds(b, "\n");
        return;
    }
    ls__buf_addf(b, "%.3f,%d,%.1f,%.3f,%.3f", seconds, u->n_processes, r->cpu_percent, real, all);
    if (r->o.form == LS_RESOURCES_PSCSV) {
        if (r->o.with_io)
            ls__buf_addf(b, ",%lld,%lld,%lld,%lld", (long long)u->n_reads, (long long)u->n_writes,
                         (long long)u->read_bytes, (long long)u->written_bytes);
        ls__buf_adds(b, "\n");
        return;
    }
    ls__buf_addf(b, ",%d,%lld,%lld,%lld,%lld,%lld,", u->n_threads, (long long)(u->read_bytes - f->read_bytes),
                 (long long)(u->written_bytes - f->written_bytes), (long long)(u->received_bytes - f->received_bytes),
                 (long long)(u->sent_bytes - f->sent_bytes), (long long)(u->n_switches - f->n_switches));
    const bool has_gpu = r->o.gpu[0] && ls__nvml_read(r->o.gpu, &gpu);
    if (has_gpu)
        ls__buf_addf(b, "%.0f,%.1f", gpu.percent, (double)gpu.used_bytes / mb);
    else
        ls__buf_adds(b, ",");
    add_seconds(r, b);
    ls__buf_addf(b, ",%lld,%lld,%s", (long long)atomic_load(&r->step), (long long)atomic_load(&r->epoch), event);
    if (has_gpu)
        ls__buf_addf(b, ",%.0f,%.0f\n", gpu.watts, gpu.clock_mhz);
    else
        ls__buf_adds(b, ",,\n");
}

static void note_peak(struct ls_resources *r, double seconds)
{
    struct ls_resources_peak *p = &r->peak;
    pthread_mutex_lock(&r->lock);
    p->seconds = seconds;
    if (r->last.rss_bytes > p->rss_bytes) p->rss_bytes = r->last.rss_bytes;
    if (r->cpu_percent > p->cpu_percent_max) p->cpu_percent_max = r->cpu_percent;
    if (seconds > 0) p->cpu_percent_mean = 100 * (r->last.cpu_seconds - r->first.cpu_seconds) / seconds;
    pthread_mutex_unlock(&r->lock);
}

/* A row for now. The load is that since the last row, or since one at least a twentieth of a second ago: over less it
 * would be noise. */
static void sample(struct ls_resources *r, const char *event)
{
    const int64_t shortest_ns = 50 * 1000000LL;
    struct ls_process_use now;
    struct ls_buf b = LS_BUF_INIT;
    if (!ls__process_read(r->o.pid ? r->o.pid : getpid(), r->o.with_children, &now)) {
        atomic_store(&r->is_over, true);
        return;
    }
    int64_t at = ls__now_ns();
    if (at - r->last_ns >= shortest_ns || r->n_rows == 0) {
        double passed = 1e-9 * (double)(at - r->last_ns), used = now.cpu_seconds - r->last.cpu_seconds;
        r->cpu_percent = r->n_rows > 0 && passed > 0 && used > 0 ? 100 * used / passed : 0;
        r->last_ns = at;
        r->last = now;
    } else {
        double cpu_seconds = r->last.cpu_seconds;
        r->last = now;
        r->last.cpu_seconds = cpu_seconds; /* of last_ns */
    }
    if (r->n_rows == 0) r->first = now;
    double seconds = 1e-9 * (double)(at - r->start_ns);
    note_peak(r, seconds);
    if (r->o.keeps_points) keep_point(r, seconds);
    add_row(r, &b, r->o.first_seconds + seconds, event);
    r->n_rows++;
    write_text(r, &b);
}

static double interval_now(const struct ls_resources *r)
{
    double interval = r->o.interval;
    for (int64_t rows = r->n_rows; rows >= ROWS_BEFORE_DOUBLING; rows -= ROWS_BEFORE_DOUBLING) interval *= 2;
    return interval;
}

/* Sleeps until the next row is due, a mark comes or the end. False: the end. *mark: the word, or "". Under the lock. */
static bool await(struct ls_resources *r, int64_t due_ns, const char **mark)
{
    struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    int error = 0;
    while (r->n_marks == 0 && !r->work && !r->is_ending && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&r->wake, &r->lock, &due);
    *mark = "";
    if (r->n_marks > 0) {
        *mark = r->marks[0];
        memmove(r->marks, r->marks + 1, (size_t)--r->n_marks * sizeof r->marks[0]);
        return true;
    }
    return !r->is_ending;
}

/* Without the lock: it may take a while. */
static void do_work(struct ls_resources *r)
{
    pthread_mutex_lock(&r->lock);
    void (*work)(void *arg) = r->work;
    void *arg = r->work_arg;
    r->work = NULL;
    pthread_mutex_unlock(&r->lock);
    if (work) work(arg);
}

static void *watch(void *arg)
{
    struct ls_resources *r = arg;
    int64_t due = r->start_ns;
    prctl(PR_SET_NAME, "record"); /* so that what it costs can be looked up */
    const char *mark;
    write_header(r);
    sample(r, r->o.is_going_on ? "resume" : "");
    while (!atomic_load(&r->is_over)) {
        int64_t interval_ns = (int64_t)(1e9 * interval_now(r)), now = ls__now_ns();
        if (due <= now) due = now - (now - due) % interval_ns + interval_ns; /* on the grid: no drift, no catching up */
        pthread_mutex_lock(&r->lock);
        bool goes_on = await(r, due, &mark), has_work = r->work && !*mark;
        pthread_mutex_unlock(&r->lock);
        if (!goes_on) break;
        if (has_work)
            do_work(r);
        else
            sample(r, mark);
    }
    do_work(r);
    if (!atomic_load(&r->is_over)) sample(r, "");
    return NULL;
}

static enum ls_status start(struct ls_resources *r)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* as ls__now_ns */
    pthread_cond_init(&r->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&r->lock, NULL);
    r->start_ns = r->last_ns = ls__now_ns();
    int error = pthread_create(&r->thread, NULL, watch, r);
    return error ? ls_fail(LS_NOMEM, "start the thread that records resources: %s", strerror(error)) : LS_OK;
}

enum ls_status ls__resources_open(struct ls_resources **out, const struct ls_resources_options *o)
{
    enum ls_status status = ls__calloc(out, 1, sizeof **out);
    if (status == LS_OK) {
        (*out)->o = *o;
        status = start(*out);
    }
    if (status == LS_OK) return LS_OK;
    if (o->fd >= 0) close(o->fd);
    free(*out);
    *out = NULL;
    return status;
}

static void end(struct ls_resources *r)
{
    if (r->is_ended) return;
    pthread_mutex_lock(&r->lock);
    r->is_ending = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    r->is_ended = true;
}

size_t ls__resources_points(struct ls_resources *r, const struct ls_resources_point **out)
{
    end(r);
    *out = r->points;
    return r->n_points;
}

void ls__resources_close(struct ls_resources **resources)
{
    struct ls_resources *r = *resources;
    if (!r) return;
    end(r);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    if (r->o.fd >= 0) close(r->o.fd);
    free(r->points);
    free(r);
    *resources = NULL;
}

void ls__resources_step(struct ls_resources *r, int64_t step, int64_t epoch)
{
    if (!r) return;
    atomic_store_explicit(&r->step, step, memory_order_relaxed);
    atomic_store_explicit(&r->epoch, epoch, memory_order_relaxed);
}

void ls__resources_mark(struct ls_resources *r, const char *event)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    if (r->n_marks < MAX_MARKS) r->marks[r->n_marks++] = event; /* a thread that far behind has no time for more */
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

bool ls__resources_later(struct ls_resources *r, void (*work)(void *arg), void *arg)
{
    if (!r) return false;
    pthread_mutex_lock(&r->lock);
    bool is_free = !r->work;
    if (is_free) {
        r->work = work;
        r->work_arg = arg;
        pthread_cond_signal(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
    return is_free;
}

bool ls__resources_is_over(const struct ls_resources *r)
{
    return atomic_load(&r->is_over);
}

struct ls_resources_peak ls__resources_peak(struct ls_resources *r)
{
    pthread_mutex_lock(&r->lock);
    struct ls_resources_peak peak = r->peak;
    pthread_mutex_unlock(&r->lock);
    peak.seconds = ls__seconds_since(r->start_ns); /* not of the last row */
    return peak;
}
