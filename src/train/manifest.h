/* manifest.h: what a run is, written before its first step. */
#ifndef LS_TRAIN_MANIFEST_H
#define LS_TRAIN_MANIFEST_H

#include "lockstep/train.h"
#include "run/run.h"
#include "session/session.h"

enum ls_status ls__manifest_write(struct ls_run *run, const struct ls_train_options *o,
                                  const struct session *s) LS_MUST_CHECK;

#endif
