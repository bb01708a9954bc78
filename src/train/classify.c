/* classify.c: a checkpoint's network asked about pictures (lockstep/classify.h).
 *
 * In: a checkpoint, which says model, shape of the images, mean and std. Out: softmax of the logits.
 * The session's data set is one blank image of that shape: it is there for the sizes. One thread, so that the executor
 * keeps the logits.
 */
#include "lockstep/classify.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "lockstep/data.h"
#include "lockstep/options.h"
#include "session/recorded.h"
#include "session/session.h"
#include "settings/setting.h"
#include "train/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_classifier {
    struct session s;
    char path[LS_PATH_BYTES];
    int64_t step;
    char *class_names; /* one per line, '\0' instead of the line breaks; NULL: none */
    size_t names_bytes;
    struct ls_images blank;
    uint8_t *blank_pixels;
    /* one call to the executor */
    float *logits;          /* [mb,n_classes] */
    const uint8_t **pixels; /* [mb] */
    uint16_t *labels;       /* [mb] */
    uint32_t *samples;      /* [mb] */
};

static bool read_floats(const char *text, float out[3])
{
    char *end;
    for (int i = 0; i < 3; i++, text = end) {
        out[i] = strtof(text, &end);
        if (end == text || !isfinite(out[i])) return false;
    }
    return *text == '\0';
}

/* "1x28x28:10", and mean and std. */
static enum ls_status read_shape(struct ls_classifier *c, const struct ls_ckpt *ckpt)
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
                       c->path);
    snprintf(shape, sizeof shape, "%.*s", colon ? (int)(colon - images) : 0, images);
    if (!colon || ls__parse_dims(shape, dims) != 3 || !ls__parse_i64(colon + 1, 2, 65536, &n_classes) ||
        !read_floats(mean, c->blank.mean) || !read_floats(std, c->blank.std))
        return ls_fail(LS_CHECKPOINT, "%s: images '%s', mean '%s' or std '%s' in its metadata is malformed", c->path,
                       images, mean, std);
    c->blank.n = 1;
    c->blank.c = (int)dims[0];
    c->blank.h = (int)dims[1];
    c->blank.w = (int)dims[2];
    c->blank.n_classes = (int)n_classes;
    return LS_OK;
}

static enum ls_status make_blank(struct ls_classifier *c)
{
    static const uint16_t label = 0;
    const struct ls_images *b = &c->blank;
    if (b->c > 3 || b->h > 8192 || b->w > 8192)
        return ls_fail(LS_CHECKPOINT, "%s: images of %dx%dx%d", c->path, b->c, b->h, b->w);
    TRY(ls__calloc(&c->blank_pixels, (size_t)b->c * (size_t)b->h, (size_t)b->w));
    c->blank.pixels = c->blank_pixels;
    c->blank.labels = &label;
    return LS_OK;
}

static enum ls_status take_names(struct ls_classifier *c, const struct ls_ckpt *ckpt)
{
    const char *names = ls_ckpt_meta(ckpt, "classes");
    if (!names) return LS_OK;
    TRY(ls__strdup(&c->class_names, names));
    c->names_bytes = strlen(names);
    for (char *p = c->class_names; *p; p++)
        if (*p == '\n') *p = '\0';
    return LS_OK;
}

static enum ls_status open_network(struct ls_classifier *c, const struct ls_classifier_options *o,
                                   const struct ls_ckpt *ckpt, const struct ls_train_options *recorded)
{
    struct ls_train_options defaults;
    const char *model = ls_ckpt_meta(ckpt, "model"), *text = ls_ckpt_meta(ckpt, "model_text");
    const char *step = ls_ckpt_meta(ckpt, "step");
    if (!model) return ls_fail(LS_CHECKPOINT, "%s does not say which model it holds", c->path);
    TRY(read_shape(c, ckpt));
    TRY(make_blank(c));
    TRY(take_names(c, ckpt));
    c->step = step ? strtoll(step, NULL, 10) : 0;
    ls_train_options_default(&defaults);
    ls__options_complete(&defaults);
    const struct session_options so = {.model = text ? c->path : model,
                                       .model_text = text,
                                       .data = "pictures",
                                       .test_images = &c->blank,
                                       .device = o->device ? o->device : defaults.device,
                                       .isa = o->isa,
                                       .tune = o->tune,
                                       .threads = 1,
                                       .with_test = true,
                                       .normalize = recorded->normalize};
    TRY(ls__session_open(&c->s, &so));
    TRY(ls__session_load(&c->s, ckpt, c->path, false));
    size_t mb = (size_t)c->s.eval_size;
    TRY(ls__calloc(&c->logits, mb * (size_t)c->blank.n_classes, sizeof *c->logits));
    TRY(ls__calloc(&c->pixels, mb, sizeof *c->pixels));
    TRY(ls__calloc(&c->labels, mb, sizeof *c->labels));
    return ls__calloc(&c->samples, mb, sizeof *c->samples);
}

enum ls_status ls_classifier_open(struct ls_classifier **out, const struct ls_classifier_options *o)
{
    struct ls_ckpt *ckpt = NULL;
    if (!out || !o) return ls_fail(LS_USAGE, "ls_classifier_open without options or without room for the classifier");
    *out = NULL;
    if (!o->what) return ls_fail(LS_USAGE, "no run directory or checkpoint was named");
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = ls__eval_open_checkpoint(o->what, &ckpt, (*out)->path);
    struct recorded recorded = {0};
    if (status == LS_OK) status = ls__recorded_open(&recorded, ckpt, (*out)->path);
    if (status == LS_OK) status = open_network(*out, o, ckpt, &recorded.o);
    ls__recorded_close(&recorded);
    ls_ckpt_close(&ckpt);
    if (status != LS_OK) ls_classifier_close(out);
    return status;
}

void ls_classifier_close(struct ls_classifier **classifier)
{
    struct ls_classifier *c = classifier ? *classifier : NULL;
    if (!c) return;
    ls__session_close(&c->s);
    free(c->class_names);
    free(c->blank_pixels);
    free(c->logits);
    free(c->pixels);
    free(c->labels);
    free(c->samples);
    free(c);
    *classifier = NULL;
}

struct ls_classifier_info ls_classifier_describe(const struct ls_classifier *c)
{
    return (struct ls_classifier_info){.c = c->blank.c,
                                       .h = c->blank.h,
                                       .w = c->blank.w,
                                       .n_classes = c->blank.n_classes,
                                       .model = ls_model_name(c->s.model),
                                       .checkpoint = c->path,
                                       .step = c->step};
}

const char *ls_classifier_class_name(const struct ls_classifier *c, int label)
{
    if (!c->class_names || label < 0 || label >= c->blank.n_classes) return NULL;
    const char *name = c->class_names, *end = name + c->names_bytes;
    for (; label > 0 && name < end; label--) name += strlen(name) + 1;
    return name < end && *name ? name : NULL;
}

/* In double, so that the probabilities of many classes still add up to 1. */
static void softmax(const float *logits, int n, float *out)
{
    double top = logits[0], sum = 0;
    for (int i = 1; i < n; i++) top = logits[i] > top ? logits[i] : top;
    for (int i = 0; i < n; i++) sum += exp(logits[i] - top);
    for (int i = 0; i < n; i++) out[i] = (float)(exp(logits[i] - top) / sum);
}

/* n <= mb pictures; the rest of the shard is padding. */
static enum ls_status classify_some(struct ls_classifier *c, int n, const uint8_t *pixels, float *out)
{
    size_t bytes = (size_t)c->blank.c * (size_t)c->blank.h * (size_t)c->blank.w;
    struct ls_exec_stats stats;
    for (int i = 0; i < n; i++) c->pixels[i] = pixels + (size_t)i * bytes;
    const struct ls_batch batch = {.n = n, .samples = c->samples, .labels = c->labels, .pixels = c->pixels};
    const struct ls_exec_step step = {.batch = &batch, .transform = &c->s.transform, .shard_size = c->s.eval_size};
    TRY(ls_exec_evaluate(c->s.exec, &step, &stats));
    TRY(ls_exec_logits(c->s.exec, c->s.eval_size, c->logits));
    for (int i = 0; i < n; i++)
        softmax(c->logits + (size_t)i * (size_t)c->blank.n_classes, c->blank.n_classes,
                out + (size_t)i * (size_t)c->blank.n_classes);
    return LS_OK;
}

enum ls_status ls_classify(struct ls_classifier *c, int64_t n, const uint8_t *pixels, float *probabilities)
{
    if (!c || n < 0 || (n > 0 && (!pixels || !probabilities)))
        return ls_fail(LS_USAGE, "ls_classify without classifier, pictures or room for the answer");
    size_t bytes = (size_t)c->blank.c * (size_t)c->blank.h * (size_t)c->blank.w;
    for (int64_t i = 0; i < n; i += c->s.eval_size) {
        int some = (int)(n - i < c->s.eval_size ? n - i : c->s.eval_size);
        TRY(classify_some(c, some, pixels + (size_t)i * bytes, probabilities + (size_t)i * (size_t)c->blank.n_classes));
    }
    return LS_OK;
}

static void pick_top(const float *p, int n, int k, struct ls_guess *out)
{
    for (int i = 0; i < k; i++) {
        int best = -1;
        for (int label = 0; label < n; label++) {
            bool is_taken = false;
            for (int j = 0; j < i; j++) is_taken |= out[j].label == label;
            if (!is_taken && (best < 0 || p[label] > p[best])) best = label;
        }
        out[i] = (struct ls_guess){.label = best, .probability = p[best]};
    }
}

enum ls_status ls_classify_top(struct ls_classifier *c, int64_t n, const uint8_t *pixels, int k,
                               struct ls_guess *guesses)
{
    float *p;
    if (!c || n < 0 || !guesses) return ls_fail(LS_USAGE, "ls_classify_top without classifier or room for the answer");
    int classes = c->blank.n_classes;
    if (k < 1 || k > classes) return ls_fail(LS_USAGE, "the %d most likely of %d classes", k, classes);
    TRY(ls__calloc(&p, (size_t)(n > 0 ? n : 1) * (size_t)classes, sizeof *p));
    enum ls_status status = ls_classify(c, n, pixels, p);
    for (int64_t i = 0; status == LS_OK && i < n; i++)
        pick_top(p + (size_t)i * (size_t)classes, classes, k, guesses + (size_t)i * (size_t)k);
    free(p);
    return status;
}
