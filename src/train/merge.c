/* merge.c: one trace of all ranks: a clock that they share, and their lines in the file of rank 0 (observe.h).
 *
 * The lines travel by gathers, a piece of every rank at a time, so that it does not matter who sees whose files.
 */
#include "base/mem.h"
#include "record/timeline.h"
#include "train/observe.h"

#include <stdlib.h>

enum ls_status ls__observe_clock(struct trainer *t, struct ls_record_options *ro)
{
    struct ls_comm_clock clock;
    const int n_ranks = ls_comm_place(t->comm)->n_ranks;
    int64_t *began;
    TRY(ls_comm_clock(t->comm, &clock));
    TRY(ls__calloc(&began, (size_t)n_ranks, sizeof *began));
    const int64_t mine = t->opened_ns + clock.offset_ns;
    enum ls_status status = ls_comm_gather(t->comm, &mine, sizeof mine, began);
    int64_t first = began[0];
    for (int r = 1; r < n_ranks; r++)
        if (began[r] < first) first = began[r];
    free(began);
    TRY(status);
    TRY(ls_comm_broadcast(t->comm, 0, &first, sizeof first));
    ro->offset_ns = clock.offset_ns - first;
    ro->error_ns = clock.error_ns;
    return LS_OK;
}

enum { PIECE = 1 << 16 };

struct piece {
    uint64_t bytes; /* 0: no more */
    char lines[PIECE];
};

static enum ls_status merge(struct trainer *t, struct piece *mine, struct piece *all)
{
    struct ls_timeline *timeline = ls__record_timeline(t->record);
    int64_t at = 0;
    bool goes_on = true;
    while (goes_on) {
        mine->bytes = t->is_chief ? 0 : ls__timeline_lines(timeline, &at, mine->lines, sizeof mine->lines);
        TRY(ls_comm_gather(t->comm, mine, sizeof *mine, all));
        goes_on = false;
        for (int r = 1; t->is_chief && r < ls_comm_place(t->comm)->n_ranks; r++) {
            if (all[r].bytes > sizeof all[r].lines) return ls_fail(LS_INTERNAL, "a piece of a trace that is too long");
            ls__timeline_append(timeline, all[r].lines, all[r].bytes);
            goes_on = goes_on || all[r].bytes > 0;
        }
        TRY(ls_comm_broadcast(t->comm, 0, &goes_on, sizeof goes_on));
    }
    return LS_OK;
}

enum ls_status ls__observe_merge(struct trainer *t)
{
    const int n_ranks = ls_comm_place(t->comm)->n_ranks;
    struct piece *mine = NULL, *all = NULL;
    if (!t->o->trace) return LS_OK;
    ls__timeline_stop(ls__record_timeline(t->record));
    if (n_ranks == 1) return LS_OK;
    enum ls_status status = ls__calloc(&mine, 1, sizeof *mine);
    if (status == LS_OK && t->is_chief) status = ls__calloc(&all, (size_t)n_ranks, sizeof *all);
    if (status == LS_OK) status = merge(t, mine, all);
    free(mine);
    free(all);
    if (status == LS_OK && !t->is_chief) ls__record_forget_timeline(t->record);
    return status;
}
