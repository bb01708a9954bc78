/* local.h: the arithmetic of --sync local:H; see local.c. The speed-up is the caller's to fill in. */
#ifndef LS_PREDICT_LOCAL_H
#define LS_PREDICT_LOCAL_H

#include "predict/predict.h"

struct ls_predict_point ls__local_step(const struct ls_predict_profile *p, const struct ls_predict_cluster *c);

#endif
