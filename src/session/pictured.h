/* pictured.h: what a checkpoint's network is to be fed with, and what it answers, from the checkpoint's metadata.
 *
 *     struct pictured p;
 *     status = ls__pictured_open(&p, ckpt, path);
 *     ... p.c, p.mean, ls__classes_name(&p.classes, 3)
 *     ls__pictured_close(&p);            after a failure too
 */
#ifndef LS_SESSION_PICTURED_H
#define LS_SESSION_PICTURED_H

#include "checkpoint/checkpoint.h"
#include "data/classes.h"

struct pictured {
    int c, h, w, n_classes;
    float mean[3], std[3]; /* as the training used them: 0 and 1 without --normalize */
    bool is_folder;        /* trained on pictures of any size, resized while they were read */
    int64_t step;
    struct ls_classes classes;
};

/* LS_CHECKPOINT if it does not say, or cannot be. */
enum ls_status ls__pictured_open(struct pictured *p, const struct ls_ckpt *ckpt, const char *path) LS_MUST_CHECK;
void ls__pictured_close(struct pictured *p);

#endif
