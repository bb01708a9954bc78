/* pictured.c: see pictured.h. The keys are those of add_images in state.c. */
#include "session/pictured.h"

#include "base/parse.h"
#include "session/recorded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHANNELS = 3, MAX_SIDE = 8192 };

static bool read_floats(const char *text, float out[3])
{
    char *end;
    for (int i = 0; i < 3; i++, text = end) {
        out[i] = strtof(text, &end);
        if (end == text || !isfinite(out[i])) return false;
    }
    return *text == '\0';
}

static bool are_not_zero(const float std[3], int64_t n)
{
    for (int64_t i = 0; i < n && i < 3; i++)
        if (std[i] == 0) return false;
    return true;
}

/* "1x28x28:10", and mean and std. */
static enum ls_status read_shape(struct pictured *p, const struct ls_ckpt *ckpt, const char *path)
{
    const char *images = ls_ckpt_meta(ckpt, "images"), *mean = ls_ckpt_meta(ckpt, "mean");
    const char *std = ls_ckpt_meta(ckpt, "std");
    char shape[64];
    int64_t dims[3], n_classes;
    const char *colon = images ? strchr(images, ':') : NULL;
    if (!images || !mean || !std)
        return ls_fail(LS_CHECKPOINT,
                       "%s does not say what its images are; let this version of lockstep resume the "
                       "run and save another",
                       path);
    snprintf(shape, sizeof shape, "%.*s", colon ? (int)(colon - images) : 0, images);
    if (!colon || ls__parse_dims(shape, dims) != 3 || !ls__parse_i64(colon + 1, 2, 65536, &n_classes) ||
        !read_floats(mean, p->mean) || !read_floats(std, p->std) || !are_not_zero(p->std, dims[0]))
        return ls_fail(LS_CHECKPOINT, "%s: images '%s', mean '%s' or std '%s' in its metadata is malformed", path,
                       images, mean, std);
    if (dims[0] > MAX_CHANNELS || dims[1] > MAX_SIDE || dims[2] > MAX_SIDE)
        return ls_fail(LS_CHECKPOINT, "%s: images of %s", path, shape);
    p->c = (int)dims[0];
    p->h = (int)dims[1];
    p->w = (int)dims[2];
    p->n_classes = (int)n_classes;
    return LS_OK;
}

enum ls_status ls__pictured_open(struct pictured *p, const struct ls_ckpt *ckpt, const char *path)
{
    const char *step = ls_ckpt_meta(ckpt, "step"), *data = ls_ckpt_meta(ckpt, "data");
    struct recorded recorded;
    *p = (struct pictured){.step = step ? strtoll(step, NULL, 10) : 0};
    p->is_folder = data && strncmp(data, "folder:", 7) == 0;
    TRY(read_shape(p, ckpt, path));
    enum ls_status status = ls__recorded_open(&recorded, ckpt, path);
    for (int i = 0; status == LS_OK && !recorded.o.normalize && i < 3; i++) {
        p->mean[i] = 0;
        p->std[i] = 1;
    }
    ls__recorded_close(&recorded);
    TRY(status);
    return ls__classes_init(&p->classes, ls_ckpt_meta(ckpt, "classes"), p->n_classes);
}

void ls__pictured_close(struct pictured *p)
{
    ls__classes_release(&p->classes);
}
