/* serve.h: the arithmetic of parameter servers; see serve.c. The speed-up is the caller's to fill in. */
#ifndef LS_PREDICT_SERVE_H
#define LS_PREDICT_SERVE_H

#include "predict/predict.h"

struct ls_predict_point ls__serve_ps(const struct ls_predict_profile *p, const struct ls_predict_cluster *c);
struct ls_predict_point ls__serve_async(const struct ls_predict_profile *p, const struct ls_predict_cluster *c);

#endif
