/* blocking.h: how own kernels see activations: [mb,c,h,w] or [mb,c] with the channels in blocks.
 *
 * Element (n, ch, i) of such a tensor lies at ((n * n_blocks + ch / block) * hw + i) * block + ch % block. Plain order
 * is block 1, channels last is one block of all channels, oneDNN's nChw8c and nChw16c are what their names say.
 * Channels that only fill the last block hold zeros; who writes such a tensor keeps it so.
 */
#ifndef LS_BACKEND_CPU_BLOCKING_H
#define LS_BACKEND_CPU_BLOCKING_H

#include "backend/cpu/dnn.h"

enum dnn_blocking { DNN_PLAIN, DNN_BLOCK8, DNN_BLOCK16, DNN_LAST, DNN_OTHER };

struct dnn_view {
    int64_t mb, c, n_blocks, hw, block;
    bool is_last; /* one block of all channels */
};

/* Which of these a layout of v is; DNN_OTHER if none. */
enum ls_status ls__dnn_blocking_of(const struct ls_device *device, const struct ls_layout *layout,
                                   const struct ls_value *v, enum dnn_blocking *out) LS_MUST_CHECK;
/* The layout of v that is blocked so; v has four dimensions unless `blocking` is DNN_PLAIN. */
enum ls_status ls__dnn_blocking_layout(struct ls_device *device, const struct ls_value *v, enum dnn_blocking blocking,
                                       struct ls_layout *out) LS_MUST_CHECK;
/* [mb,c] is seen as one block of c channels, not as c blocks of one. */
struct dnn_view ls__dnn_view_of(const struct ls_shape *shape, enum dnn_blocking blocking);
/* For kernels that take input 0 as it lies: its layout and view, or the plain ones where they do not know how it lies
 * (the plan reorders). */
enum ls_status ls__dnn_view_input(const struct ls_prep *prep, struct ls_layout *layout,
                                  struct dnn_view *view) LS_MUST_CHECK;

/* The blocks in which oneDNN's code for this process's instructions works: as many channels as a vector has lanes. */
enum dnn_blocking ls__dnn_native_blocking(void);
/* The descriptor of input 0 for a pooling of oneDNN: as it lies, unless oneDNN has only slow code for that (samples
 * last; plain without AVX-512): then in its own blocks, and the plan reorders. */
enum ls_status ls__dnn_library_md(const struct ls_prep *prep, struct dnn_md_box *box) LS_MUST_CHECK;

#endif
