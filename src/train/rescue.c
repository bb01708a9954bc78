/* rescue.c: writes the copies in memory, finds the newest that all machines can go on from, and loads it (rescue.h). */
#include "train/rescue.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "checkpoint/writer.h"
#include "train/carry.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { KEEP = 2 }; /* the last one may be half written when the machine stops */

void ls__rescue_give_up(struct rescue *r, const struct ls_comm *comm)
{
    enum ls_log_level limit = ls__log_present_limit();
    ls_ckpt_writer_destroy(&r->writer);
    if (limit == LS_LOG_ERROR) ls__log_limit(LS_LOG_WARN); /* the chief, who warns for all, does not know of it */
    ls__log(LS_LOG_WARN, "rank %d on %s keeps no copies in memory, so a restart goes back to a checkpoint on disk: %s",
            ls_comm_place(comm)->rank, ls_comm_place(comm)->host, ls_error_message());
    ls__log_limit(limit);
}

/* /dev/shm is open to everybody: what lies there must be this user's, and closed to others, before it is read or
 * written. A machine of tests shares the machine, and its memory, with others: hence the host's name below. */
static enum ls_status open_folder(struct rescue *r, const char *folder, const char *host)
{
    struct ls_dir all, own;
    TRY(ls__path_join(r->folder, sizeof r->folder, folder, host));
    TRY(ls__dir_open_private(&all, folder, LS_CHECKPOINT));
    enum ls_status status = ls__dir_open_below(&own, &all, host, LS_CHECKPOINT);
    if (status == LS_OK)
        r->is_guest = ls__dir_open_file(&all, "guest", O_RDWR | O_CREAT, &r->guest, LS_CHECKPOINT) == LS_OK;
    if (r->is_guest) flock(r->guest, LOCK_SH | LOCK_NB); /* if it fails, it is for a moment only */
    ls__dir_close(&all);
    TRY(status);
    return ls__ckpt_writer_create_in(&r->writer, &own, KEEP);
}

void ls__rescue_open(struct rescue *r, const struct ls_comm *comm, int64_t every)
{
    const char *folder = getenv("LOCKSTEP_RESCUE");
    if (!folder || !*folder || every <= 0) return;
    r->every = every;
    if (ls_comm_place(comm)->local_rank > 0) return;
    if (open_folder(r, folder, ls_comm_place(comm)->host) != LS_OK) ls__rescue_give_up(r, comm);
}

void ls__rescue_close(struct rescue *r)
{
    ls_ckpt_writer_destroy(&r->writer);
    if (r->is_guest) close(r->guest);
    r->is_guest = false;
}

void ls__rescue_start(struct rescue *r, int64_t step)
{
    if (r->every > 0) r->n_done = step / r->every;
}

bool ls__rescue_is_due(const struct rescue *r, int64_t step)
{
    return r->every > 0 && step / r->every > r->n_done;
}

/* A copy: its step and the shards of which it has everything. */
struct offer {
    int64_t step; /* -1: none */
    int32_t first, n;
};

static int64_t step_of(const struct ls_ckpt *ckpt)
{
    const char *text = ls_ckpt_meta(ckpt, "step");
    int64_t step = -1;
    return text && ls__parse_i64(text, 0, INT64_MAX / 2, &step) ? step : -1;
}

/* The newest copy before `before`, if it is whole. */
static struct offer open_copy(const struct rescue *r, int64_t before, int n_shards, struct ls_ckpt **ckpt,
                              char path[LS_PATH_BYTES])
{
    struct offer o = {.step = -1};
    int n_seen, first, n;
    if (!r->writer || ls_ckpt_open_before(ckpt, r->folder, before, path, &n_seen) != LS_OK) return o;
    if (ls__carry_shards_of(*ckpt, n_shards, &first, &n)) o = (struct offer){step_of(*ckpt), first, n};
    return o;
}

static void look(const struct rescue *r, int n_shards, struct offer mine[KEEP])
{
    int64_t before = INT64_MAX;
    for (int i = 0; i < KEEP; i++) {
        struct ls_ckpt *ckpt = NULL;
        char path[LS_PATH_BYTES];
        mine[i] = (struct offer){.step = -1};
        if (i == 0 || mine[i - 1].step >= 0) mine[i] = open_copy(r, before, n_shards, &ckpt, path);
        before = mine[i].step;
        ls_ckpt_close(&ckpt);
    }
}

/* Whether the offers for a step have all shards between them. */
static bool is_whole(const struct offer *offers, int n, int64_t step, int n_shards)
{
    int end = 0;
    for (int last = -1; end < n_shards && end != last;) {
        last = end;
        for (int i = 0; i < n; i++)
            if (offers[i].step == step && offers[i].first <= end && offers[i].first + offers[i].n > end)
                end = offers[i].first + offers[i].n;
    }
    return end == n_shards;
}

static int64_t best_step(const struct offer *offers, int n, int64_t after, int n_shards)
{
    int64_t best = -1;
    for (int i = 0; i < n; i++)
        if (offers[i].step > after && offers[i].step > best && is_whole(offers, n, offers[i].step, n_shards))
            best = offers[i].step;
    return best;
}

/* What rank 0 finds best. */
struct choice {
    int64_t step;
    int32_t from;
};

enum ls_status ls__rescue_find(struct rescue *r, struct ls_comm *comm, int64_t step, int n_shards,
                               struct ls_ckpt **ckpt, char path[LS_PATH_BYTES], int *from)
{
    const struct ls_comm_place *at = ls_comm_place(comm);
    struct offer mine[KEEP], *all;
    struct choice choice = {-1, -1};
    *from = -1;
    *ckpt = NULL;
    if (r->every == 0) return LS_OK;
    look(r, n_shards, mine);
    TRY(ls__calloc(&all, (size_t)at->n_ranks * KEEP, sizeof *all));
    enum ls_status status = ls_comm_gather(comm, mine, sizeof mine, all);
    if (at->rank == 0 && status == LS_OK) choice.step = best_step(all, at->n_ranks * KEEP, step, n_shards);
    for (int i = at->n_ranks * KEEP - 1; choice.step >= 0 && i >= 0; i--)
        if (all[i].step == choice.step) choice.from = i / KEEP;
    free(all);
    if (status == LS_OK) status = ls_comm_broadcast(comm, 0, &choice, sizeof choice);
    if (status != LS_OK || choice.step < 0) return status;
    *from = choice.from;
    if (open_copy(r, choice.step + 1, n_shards, ckpt, path).step != choice.step) ls_ckpt_close(ckpt);
    return LS_OK;
}
