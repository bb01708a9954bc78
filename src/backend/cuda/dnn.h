/* dnn.h: cuDNN's graph API, as far as this backend uses it: one convolution becomes an execution plan.
 *
 * The engine is the one that a table has for the problem (engines.h), or else the first that cuDNN's heuristics name,
 * that is deterministic, computes with the numbers asked for and takes the problem: the same choice on every run,
 * without measuring.
 */
#ifndef LS_BACKEND_CUDA_DNN_H
#define LS_BACKEND_CUDA_DNN_H

#include "backend/cuda/cuda.h"

/* What is multiplied, and how it lies. */
struct ls_cuda_conv_form {
    enum ls_cuda_type type;         /* of images and weights */
    enum ls_cuda_type diff_weights; /* of the gradient of the weights */
    bool is_last;                   /* channels last */
    bool tensor_cores;              /* float32 may be rounded to TF32 */
    bool has_bias, has_relu;        /* FORWARD: what follows in the same pass */
};

enum ls_cuda_conv_op { LS_CUDA_CONV_FORWARD, LS_CUDA_CONV_BWD_DATA, LS_CUDA_CONV_BWD_WEIGHTS };

/* Immutable after it is made. */
struct ls_cuda_dnn_plan {
    cudnnBackendDescriptor_t plan;
    size_t workspace_bytes;
    int64_t engine; /* cuDNN's number of it */
};

/* LS_UNSUPPORTED: no such engine. Release also after a failure. */
enum ls_status ls__cuda_dnn_plan(struct ls_device *device, enum ls_cuda_conv_op op, const struct ls_cuda_conv *conv,
                                 const struct ls_cuda_conv_form *form, struct ls_cuda_dnn_plan *out) LS_MUST_CHECK;
void ls__cuda_dnn_release(struct ls_cuda_dnn_plan *plan);

/* The plan's addresses: src [mb,ic,ih,iw], weights, dst [mb,oc,oh,ow], whichever of them is computed; bias: NULL where
 * the form has none. */
struct ls_cuda_conv_data {
    void *src, *weights, *dst, *bias;
};
enum ls_status ls__cuda_dnn_bind(const struct ls_cuda_conv_data *data, void *workspace,
                                 cudnnBackendDescriptor_t *pack) LS_MUST_CHECK;

#endif
