/* writer.h: what training asks of the checkpoint writer beyond checkpoint/checkpoint.h. */
#ifndef LS_CHECKPOINT_WRITER_H
#define LS_CHECKPOINT_WRITER_H

#include "base/dir.h"
#include "checkpoint/checkpoint.h"

/* ls_ckpt_writer_create for a folder that is open already; takes it over, also on failure. */
enum ls_status ls__ckpt_writer_create_in(struct ls_ckpt_writer **out, struct ls_dir *folder, int keep) LS_MUST_CHECK;

/* Where its thread's time goes, before the first submit; the trace outlives the writer. */
struct ls_trace;
enum ls_status ls__ckpt_writer_measure(struct ls_ckpt_writer *w, struct ls_trace *trace) LS_MUST_CHECK;

/* A state of a run whose memory the writer takes over: nothing is copied. */
struct ls_ckpt_state {
    const struct ls_ckpt_tensor *tensors;
    const struct ls_ckpt_meta *meta;
    int n_tensors, n_meta;
    void *owner;                             /* of all that is pointed at */
    enum ls_status (*complete)(void *owner); /* before it is written, on the writer's thread; NULL: it is complete */
    void (*release)(void *owner);            /* once it is written, or will not be; on whichever thread */
};
/* As ls_ckpt_writer_submit. *state is taken over, also on failure. Who calls ls_ckpt_writer_finish before it makes the
 * state never has two of them in memory. */
enum ls_status ls__ckpt_writer_take(struct ls_ckpt_writer *w, int64_t step, bool is_best,
                                    const struct ls_ckpt_state *state) LS_MUST_CHECK;

/* A checkpoint without the data (which may be NULL), before a training begins that depends on it: the header is made
 * with its names and metadata, a file of the full size is tried in the folder and removed again. What would make every
 * checkpoint of the run fail (too many tensors, too long a header, a folder that cannot be written, a disk too small
 * for even one) is LS_CHECKPOINT now. */
enum ls_status ls__ckpt_writer_try(struct ls_ckpt_writer *w, int64_t step, const struct ls_ckpt_tensor *tensors,
                                   int n_tensors, const struct ls_ckpt_meta *meta, int n_meta) LS_MUST_CHECK;

#endif
