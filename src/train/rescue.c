/* rescue.c: see rescue.h. */
#include "train/rescue.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEEP = 2 }; /* the last one may be half written when the machine stops */

void rescue_give_up(struct rescue *r, const struct ls_comm *comm)
{
    enum ls_log_level level = ls__log_level();
    ls_ckpt_writer_destroy(&r->writer);
    if (level == LS_LOG_ERROR) ls__log_set_level(LS_LOG_WARN); /* the chief, who warns for all, does not know of it */
    ls__log(LS_LOG_WARN, "rank %d on %s keeps no copies in memory, so a restart goes back to a checkpoint on disk: %s",
            ls_comm_place(comm)->rank, ls_comm_place(comm)->host, ls_error_message());
    ls__log_set_level(level);
}

/* A node of tests shares the machine, and its memory, with others. */
static enum ls_status open_folder(struct rescue *r, const char *folder, const char *host)
{
    TRY(ls__path_join(r->folder, sizeof r->folder, folder, host));
    return ls_ckpt_writer_create(&r->writer, r->folder, KEEP);
}

void rescue_open(struct rescue *r, const struct ls_comm *comm, int64_t every)
{
    const char *folder = getenv("LOCKSTEP_RESCUE");
    if (!folder || !*folder || every <= 0) return;
    r->every = every;
    if (ls_comm_place(comm)->seat > 0) return;
    if (open_folder(r, folder, ls_comm_place(comm)->host) != LS_OK) rescue_give_up(r, comm);
}

void rescue_close(struct rescue *r)
{
    ls_ckpt_writer_destroy(&r->writer);
}

bool rescue_is_due(const struct rescue *r, int64_t step)
{
    return r->every > 0 && step % r->every == 0;
}

static int64_t step_of(const struct ls_ckpt *ckpt)
{
    const char *text = ls_ckpt_meta(ckpt, "step");
    int64_t step = -1;
    return text && ls__parse_i64(text, 0, INT64_MAX / 2, &step) ? step : -1;
}

enum ls_status rescue_find(struct rescue *r, struct ls_comm *comm, int64_t step, struct ls_ckpt **ckpt,
                           char path[LS_PATH_BYTES], int *from)
{
    const struct ls_comm_place *at = ls_comm_place(comm);
    int64_t mine = -1, *all;
    int n_seen;
    *from = -1;
    *ckpt = NULL;
    if (r->every == 0) return LS_OK;
    if (r->writer && ls_ckpt_open_newest(ckpt, r->folder, path, &n_seen) == LS_OK) mine = step_of(*ckpt);
    TRY(ls__calloc(&all, (size_t)at->n_ranks, sizeof *all));
    enum ls_status status = ls_comm_gather(comm, &mine, sizeof mine, all);
    for (int i = 0; at->rank == 0 && status == LS_OK && i < at->n_ranks; i++)
        if (all[i] > step) {
            step = all[i];
            *from = i;
        }
    free(all);
    if (status == LS_OK) status = ls_comm_broadcast(comm, 0, from, sizeof *from);
    if (*from != at->rank) ls_ckpt_close(ckpt);
    return status;
}
