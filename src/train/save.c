/* save.c: the state of a training as a checkpoint, on disk or in the memory of every machine.
 *
 * In: the store, struct train_state, what the shards carry. Out: tensors and metadata, handed to a writer that copies
 * them. Nothing here changes what the next step computes.
 */
#include "train/trainer.h"

#include <stdlib.h>

/* The state of now, to be written in the background. */
static enum ls_status submit_all(struct trainer *t, struct ls_ckpt_writer *writer, bool is_best,
                                 const struct carried *carried, struct state_meta *m)
{
    struct snapshot snap;
    TRY(ls__state_to_meta(&t->st, t->o, &t->s, m));
    if (carried->is_due) ls__state_add_carried(m, carried->first, carried->n_shards);
    TRY(ls__session_snapshot(&t->s, t->st.step, &snap));
    enum ls_status status = ls__carry_join(&snap, carried);
    if (status == LS_OK)
        status = ls_ckpt_writer_submit(writer, t->st.step, is_best, snap.tensors, snap.n, m->meta, m->n);
    ls__snapshot_release(&snap);
    return status;
}

static enum ls_status submit(struct trainer *t, struct ls_ckpt_writer *writer, bool is_best,
                             const struct carried *carried)
{
    struct state_meta *m;
    m = calloc(1, sizeof *m);
    if (!m) return ls_fail(LS_NOMEM, "out of memory while making a checkpoint");
    enum ls_status status = submit_all(t, writer, is_best, carried, m);
    ls__state_meta_release(m);
    free(m);
    return status;
}

enum ls_status ls__trainer_view(struct trainer *t)
{
    return ls__sync_view(&t->sync, &t->st.pending);
}

static enum ls_status save(struct trainer *t, bool is_best)
{
    struct carried carried;
    TRY(ls__trainer_view(t));
    TRY(ls__carry_gather(t->carry, &t->st, &carried));
    t->saved_step = t->st.step;
    enum ls_status status = t->is_chief ? submit(t, t->writer, is_best, &carried) : LS_OK;
    ls__carry_release(&carried);
    return status;
}

enum ls_status ls__trainer_save(struct trainer *t, bool is_best)
{
    if (t->saved_step == t->st.step && !is_best) return LS_OK;
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_CHECKPOINT, "snapshot", t->st.step);
    enum ls_status status = save(t, is_best);
    ls__span_end(t->s.lane, begun);
    return status;
}

static enum ls_status save_in_memory(struct trainer *t)
{
    struct carried carried;
    ls__rescue_start(&t->rescue, t->st.step);
    TRY(ls__trainer_view(t));
    enum ls_status status = ls__carry_copy(t->carry, &t->st, &carried);
    if (status == LS_OK && t->rescue.writer) status = submit(t, t->rescue.writer, false, &carried);
    if (status != LS_OK) ls__rescue_give_up(&t->rescue, t->comm);
    ls__carry_release(&carried);
    return ls__carry_barrier(t->carry, &t->st);
}

/* It waits until the store is all there is. */
enum ls_status ls__trainer_save_in_memory(struct trainer *t)
{
    if (!ls__rescue_is_due(&t->rescue, t->st.step) || !ls__sync_is_settled(&t->sync)) return LS_OK;
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_CHECKPOINT, "copy in memory", t->st.step);
    enum ls_status status = save_in_memory(t);
    ls__span_end(t->s.lane, begun);
    return status;
}
