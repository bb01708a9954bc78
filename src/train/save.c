/* save.c: the state of a training as a checkpoint, on disk or in the memory of every machine.
 *
 * In: the store, struct train_state, what the shards carry. Out: one copy of them, handed over to a writer, which
 * hashes, writes and frees it. Nothing here changes what the next step computes.
 */
#include "base/mem.h"
#include "checkpoint/writer.h"
#include "train/trainer.h"

#include <stdlib.h>

/* Everything of a checkpoint; the writer's, once it is taken. */
struct package {
    struct snapshot snap;
    struct carried carried;
    struct state_meta meta;
};

static void release(void *owner)
{
    struct package *p = owner;
    ls__snapshot_release(&p->snap);
    ls__carry_release(&p->carried);
    ls__state_meta_release(&p->meta);
    free(p);
}

/* On the writer's thread: the training does not wait for the hash. */
static enum ls_status complete(void *owner)
{
    struct package *p = owner;
    return ls__snapshot_hash(&p->snap, p->meta.weights_hash);
}

/* What has passed since this checkpoint was begun is in no part yet: it is the checkpoint's. */
static void count_seconds(struct trainer *t)
{
    ls__trainer_count_seconds(t);
    struct ls_seconds *p = &t->st.parts;
    p->checkpoint += t->st.total_seconds - (p->setup + p->load + p->compute + p->update + p->communicate + p->wait +
                                            p->checkpoint + p->evaluate + p->other);
}

static enum ls_status pack(struct trainer *t, struct package *p)
{
    count_seconds(t);
    TRY(ls__sync_tell_state(&t->sync, &t->st));
    TRY(ls__state_to_meta(&t->st, t->o, &t->s, &p->meta));
    if (p->carried.is_due) ls__state_add_carried(&p->meta, p->carried.first, p->carried.n_shards);
    TRY(ls__session_snapshot(&t->s, t->st.step, &p->snap));
    return ls__carry_join(&p->snap, &p->carried);
}

/* The state of now, to be written in the background. The store is copied once, when the writer is done with the state
 * before: there is never more than one copy. *carried is taken over. */
static enum ls_status submit(struct trainer *t, struct ls_ckpt_writer *writer, bool is_best, struct carried *carried)
{
    struct package *p;
    TRY(ls_ckpt_writer_finish(writer));
    TRY(ls__calloc(&p, 1, sizeof *p));
    p->carried = *carried;
    *carried = (struct carried){0};
    enum ls_status status = pack(t, p);
    if (status != LS_OK) {
        release(p);
        return status;
    }
    const struct ls_ckpt_state state = {.tensors = p->snap.tensors,
                                        .n_tensors = p->snap.n,
                                        .meta = p->meta.meta,
                                        .n_meta = p->meta.n,
                                        .owner = p,
                                        .complete = complete,
                                        .release = release};
    return ls__ckpt_writer_take(writer, t->st.step, is_best, &state);
}

enum ls_status ls__trainer_view(struct trainer *t)
{
    struct ls_exec_stats stats;
    TRY(ls_exec_catch_up(t->s.exec, &stats));
    ls__tally_add(&t->st.epoch_tally, &stats);
    ls__tally_add(&t->st.log_tally, &stats);
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
    ls__record_mark(t->record, "checkpoint");
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
