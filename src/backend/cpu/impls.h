/* impls.h: every implementation of this backend; cpu.c lists them best first. */
#ifndef LS_BACKEND_CPU_IMPLS_H
#define LS_BACKEND_CPU_IMPLS_H

#include "backend/backend.h"

extern const struct ls_impl ls__cpu_conv2d, ls__cpu_conv2d_bwd_data, ls__cpu_conv2d_bwd_weights;
extern const struct ls_impl ls__cpu_conv2d_lanes, ls__cpu_conv2d_bwd_data_lanes, ls__cpu_conv2d_bwd_weights_lanes;
extern const struct ls_impl ls__cpu_maxpool_lanes, ls__cpu_maxpool_bwd_lanes;
extern const struct ls_impl ls__cpu_conv2d_winograd, ls__cpu_conv2d_bwd_data_winograd,
    ls__cpu_conv2d_bwd_weights_winograd;
extern const struct ls_impl ls__cpu_conv2d_wino, ls__cpu_conv2d_bwd_data_wino, ls__cpu_conv2d_bwd_weights_wino;
extern const struct ls_impl ls__cpu_linear_blocked, ls__cpu_linear_bwd_data_blocked;
extern const struct ls_impl ls__cpu_conv2d_dnnl2, ls__cpu_conv2d_bwd_data_dnnl2, ls__cpu_conv2d_bwd_weights_dnnl2;
extern const struct ls_impl ls__cpu_conv2d_dnnl3, ls__cpu_conv2d_bwd_data_dnnl3, ls__cpu_conv2d_bwd_weights_dnnl3;
extern const struct ls_impl ls__cpu_conv2d_dnnl4, ls__cpu_conv2d_bwd_data_dnnl4, ls__cpu_conv2d_bwd_weights_dnnl4;
extern const struct ls_impl ls__cpu_linear_dot, ls__cpu_linear_sum, ls__cpu_linear, ls__cpu_linear_bwd_data,
    ls__cpu_linear_bwd_weights;
extern const struct ls_impl ls__cpu_maxpool, ls__cpu_maxpool_bwd, ls__cpu_avgpool, ls__cpu_avgpool_bwd;
extern const struct ls_impl ls__cpu_batchnorm, ls__cpu_batchnorm_eval, ls__cpu_batchnorm_bwd;
extern const struct ls_impl ls__cpu_relu, ls__cpu_relu_bwd, ls__cpu_add;
extern const struct ls_impl ls__cpu_activation, ls__cpu_activation_bwd;
extern const struct ls_impl ls__cpu_groupnorm, ls__cpu_groupnorm_bwd, ls__cpu_layernorm, ls__cpu_layernorm_bwd;
extern const struct ls_impl ls__cpu_bias, ls__cpu_bias_bwd;
extern const struct ls_impl ls__cpu_dropout, ls__cpu_dropout_bwd;
extern const struct ls_impl ls__cpu_lrn, ls__cpu_lrn_bwd;
extern const struct ls_impl ls__cpu_concat, ls__cpu_concat_bwd;
extern const struct ls_impl ls__cpu_softmax_ce;
extern const struct ls_impl ls__cpu_reorder;
extern const struct ls_impl ls__cpu_reduce, ls__cpu_sgd, ls__cpu_adamw, ls__cpu_running_stats;

#endif
