/* recorded.h: how the run that wrote a checkpoint saw its images, read back by the names of the settings.
 *
 *     struct recorded r;
 *     status = ls__recorded_open(&r, ckpt, path);
 *     ... r.o.normalize, r.o.resize; all else in r.o is a default
 *     ls__recorded_close(&r);            after a failure too
 */
#ifndef LS_SESSION_RECORDED_H
#define LS_SESSION_RECORDED_H

#include "checkpoint/checkpoint.h"
#include "lockstep/options.h"

/* Key of a checkpoint's metadata: the settings that decide the result, as a JSON object in text. */
#define LS_RECORDED_KEY "options"

struct json_t;

struct recorded {
    struct ls_train_options o; /* its texts lie in the other two */
    struct json_t *options;
    char *input;
};

/* A checkpoint without settings, another program's, gives the defaults; LS_CHECKPOINT for settings that are none. */
enum ls_status ls__recorded_open(struct recorded *r, const struct ls_ckpt *ckpt, const char *path) LS_MUST_CHECK;
void ls__recorded_close(struct recorded *r);

/* The text under LS_RECORDED_KEY; free() it. */
enum ls_status ls__recorded_text(const struct ls_train_options *o, char **text) LS_MUST_CHECK;

#endif
