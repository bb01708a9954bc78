/* eval.h: what evaluating and classifying read of a checkpoint. */
#ifndef LS_TRAIN_EVAL_H
#define LS_TRAIN_EVAL_H

#include "base/file.h"
#include "checkpoint/checkpoint.h"

#include <stdbool.h>

/* RUN -> its best checkpoint, else its newest; FILE -> itself. path: which it was. */
enum ls_status ls__eval_open_checkpoint(const char *what, struct ls_ckpt **ckpt,
                                        char path[LS_PATH_BYTES]) LS_MUST_CHECK;

#endif
