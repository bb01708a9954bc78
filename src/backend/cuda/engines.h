/* engines.h: cuDNN's engines by a table, where measuring found a better one than its heuristics name first. Made once,
 * by bench/cudnn_engines.c on an H200 with cuDNN 9.14, never when a program runs: the choice follows from the shapes.
 * An engine that is not offered, or not with these knobs, is passed over.
 */
#ifndef LS_BACKEND_CUDA_ENGINES_H
#define LS_BACKEND_CUDA_ENGINES_H

#include "backend/cuda/dnn.h"

/* A convolution of square images and kernels, bf16, channels last. */
struct ls_cuda_engine {
    int op, has_ending; /* enum ls_cuda_conv_op; bias or relu in the same pass */
    int mb, ic, ih, oc, k, s, pad;
    int number;        /* cuDNN's */
    const char *knobs; /* "type=value,..." in cuDNN's order */
};

/* NULL: by cuDNN's heuristics. */
const struct ls_cuda_engine *ls__cuda_engine_of(enum ls_cuda_conv_op op, const struct ls_cuda_conv *conv,
                                                const struct ls_cuda_conv_form *form);

#endif
