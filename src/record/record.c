/* record.c: opens the files of a rank's recording and hands every event on to those who write them. */
#include "record/record.h"

#include "base/dir.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/resources.h"

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
    struct ls_resources_options ro = {.interval = resources_interval, .with_gpu = o->with_gpu};
    int flags = O_RDWR | O_CREAT | O_APPEND | (o->is_resumed ? 0 : O_TRUNC);
    TRY(ls__dir_open_file(&r->dir, "resources.csv", flags, &ro.fd, LS_IO));
    ro.is_going_on = o->is_resumed && last_row(ro.fd, &ro.first_seconds);
    if (!ro.is_going_on && ftruncate(ro.fd, 0) != 0) ro.first_seconds = 0;
    return ls__resources_open(&r->resources, &ro);
}

struct ls_record *ls__record_open(const struct ls_record_options *o)
{
    struct ls_record *r;
    if (ls__calloc(&r, 1, sizeof *r) != LS_OK) return NULL;
    r->dir.fd = -1;
    enum ls_status status = open_dir(r, o);
    if (status == LS_OK) status = open_resources(r, o);
    if (status == LS_OK) return r;
    ls__log(LS_LOG_WARN, "rank %d is not recorded: %s", o->rank, ls_error_message());
    ls__record_close(&r);
    return NULL;
}

void ls__record_close(struct ls_record **record)
{
    struct ls_record *r = *record;
    if (!r) return;
    ls__resources_close(&r->resources);
    ls__dir_close(&r->dir);
    free(r);
    *record = NULL;
}

void ls__record_step(struct ls_record *r, int64_t step, int64_t epoch)
{
    if (r) ls__resources_step(r->resources, step, epoch);
}

void ls__record_mark(struct ls_record *r, const char *event)
{
    if (r) ls__resources_mark(r->resources, event);
}
