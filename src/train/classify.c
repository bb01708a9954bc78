/* classify.c: a checkpoint's network asked about pictures (lockstep/classify.h).
 *
 * In: a checkpoint, which says model, shape of the images, mean and std. Out: logits, softmax, the most likely classes.
 * The session's data set is one blank image of that shape: it is there for the sizes.
 */
#include "lockstep/classify.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/pictures.h"
#include "lockstep/data.h"
#include "lockstep/options.h"
#include "session/pictured.h"
#include "session/recorded.h"
#include "session/session.h"
#include "settings/setting.h"
#include "train/guess.h"

#include <stdlib.h>

enum { SHOW_PROGRESS_FROM = 64 }; /* pictures */

struct ls_classifier {
    struct session s;
    char path[LS_PATH_BYTES];
    struct pictured pictured;
    struct ls_images blank;
    uint8_t *blank_pixels;
    /* one call to the executor */
    int64_t mb;             /* the most pictures of one */
    const uint8_t **pixels; /* [mb] */
    uint16_t *labels;       /* [mb] */
    uint32_t *samples;      /* [mb] */
};

static enum ls_status make_blank(struct ls_classifier *c)
{
    static const uint16_t label = 0;
    const struct pictured *p = &c->pictured;
    c->blank = (struct ls_images){
        .n = 1, .c = p->c, .h = p->h, .w = p->w, .n_classes = p->n_classes, .mean = {0, 0, 0}, .std = {1, 1, 1}};
    for (int i = 0; i < p->c; i++) {
        c->blank.mean[i] = p->mean[i];
        c->blank.std[i] = p->std[i];
    }
    TRY(ls__calloc(&c->blank_pixels, (size_t)p->c * (size_t)p->h, (size_t)p->w));
    c->blank.pixels = c->blank_pixels;
    c->blank.labels = &label;
    return LS_OK;
}

static enum ls_status open_network(struct ls_classifier *c, const struct ls_classifier_options *o,
                                   const struct ls_ckpt *ckpt)
{
    struct ls_train_options defaults;
    const char *model = ls_ckpt_meta(ckpt, "model"), *text = ls_ckpt_meta(ckpt, "model_text");
    if (!model) return ls_fail(LS_CHECKPOINT, "%s does not say which model it holds", c->path);
    TRY(ls__pictured_open(&c->pictured, ckpt, c->path));
    TRY(make_blank(c));
    ls_train_options_default(&defaults);
    ls__options_complete(&defaults);
    const struct session_options so = {.model = text ? c->path : model,
                                       .model_text = text,
                                       .data = "pictures",
                                       .test_images = &c->blank,
                                       .device = o->device ? o->device : defaults.device,
                                       .isa = o->isa,
                                       .tune = o->tune,
                                       .threads = o->threads > 0 ? o->threads : 1,
                                       .with_test = true,
                                       .normalize = true}; /* by what pictured says */
    TRY(ls__session_open(&c->s, &so));
    TRY(ls__session_load(&c->s, ckpt, c->path, false));
    c->mb = c->s.eval_size * c->s.threads;
    TRY(ls__calloc(&c->pixels, (size_t)c->mb, sizeof *c->pixels));
    TRY(ls__calloc(&c->labels, (size_t)c->mb, sizeof *c->labels));
    return ls__calloc(&c->samples, (size_t)c->mb, sizeof *c->samples);
}

enum ls_status ls_classifier_open(struct ls_classifier **out, const struct ls_classifier_options *o)
{
    struct ls_ckpt *ckpt = NULL;
    if (!out || !o) return ls_fail(LS_USAGE, "ls_classifier_open without options or without room for the classifier");
    *out = NULL;
    if (!o->what) return ls_fail(LS_USAGE, "no run directory or checkpoint was named");
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = ls_ckpt_open_best(&ckpt, o->what, (*out)->path);
    if (status == LS_OK) status = open_network(*out, o, ckpt);
    ls_ckpt_close(&ckpt);
    if (status != LS_OK) ls_classifier_close(out);
    return status;
}

void ls_classifier_close(struct ls_classifier **classifier)
{
    struct ls_classifier *c = classifier ? *classifier : NULL;
    if (!c) return;
    ls__session_close(&c->s);
    ls__pictured_close(&c->pictured);
    free(c->blank_pixels);
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
                                       .step = c->pictured.step};
}

const char *ls_classifier_class_name(const struct ls_classifier *c, int label)
{
    return ls__classes_name(&c->pictured.classes, label);
}

/* --- pictures from memory --- */

/* n <= mb pictures; the rest of the last shard is padding. */
static enum ls_status classify_some(struct ls_classifier *c, int n, const uint8_t *pixels, float *logits)
{
    size_t bytes = (size_t)c->blank.c * (size_t)c->blank.h * (size_t)c->blank.w;
    struct ls_exec_stats stats;
    for (int i = 0; i < n; i++) c->pixels[i] = pixels + (size_t)i * bytes;
    const struct ls_batch batch = {.n = n, .samples = c->samples, .labels = c->labels, .pixels = c->pixels};
    const struct ls_exec_step step = {
        .batch = &batch, .transform = &c->s.transform, .shard_size = c->s.eval_size, .logits = logits};
    return ls_exec_evaluate(c->s.exec, &step, &stats);
}

enum ls_status ls_classify_logits(struct ls_classifier *c, int64_t n, const uint8_t *pixels, float *logits)
{
    if (!c || n < 0 || (n > 0 && (!pixels || !logits)))
        return ls_fail(LS_USAGE, "ls_classify without classifier, pictures or room for the answer");
    size_t bytes = (size_t)c->blank.c * (size_t)c->blank.h * (size_t)c->blank.w;
    for (int64_t i = 0; i < n; i += c->mb) {
        int some = (int)(n - i < c->mb ? n - i : c->mb);
        TRY(classify_some(c, some, pixels + (size_t)i * bytes, logits + (size_t)i * (size_t)c->blank.n_classes));
    }
    return LS_OK;
}

enum ls_status ls_classify(struct ls_classifier *c, int64_t n, const uint8_t *pixels, float *probabilities)
{
    TRY(ls_classify_logits(c, n, pixels, probabilities));
    for (int64_t i = 0; i < n; i++) {
        float *row = probabilities + (size_t)i * (size_t)c->blank.n_classes;
        ls__softmax(row, c->blank.n_classes, row);
    }
    return LS_OK;
}

static enum ls_status check_top(const struct ls_classifier *c, int k)
{
    if (k >= 1 && k <= c->blank.n_classes) return LS_OK;
    return ls_fail(LS_USAGE, "the %d most likely of %d classes", k, c->blank.n_classes);
}

enum ls_status ls_classify_top(struct ls_classifier *c, int64_t n, const uint8_t *pixels, int k,
                               struct ls_guess *guesses)
{
    float *logits;
    if (!c || n < 0 || !guesses) return ls_fail(LS_USAGE, "ls_classify_top without classifier or room for the answer");
    TRY(check_top(c, k));
    size_t classes = (size_t)c->blank.n_classes;
    TRY(ls__calloc(&logits, (size_t)(n > 0 ? n : 1) * classes, sizeof *logits));
    enum ls_status status = ls_classify_logits(c, n, pixels, logits);
    for (int64_t i = 0; status == LS_OK && i < n; i++)
        ls__guess(logits + (size_t)i * classes, c->blank.n_classes, k, guesses + (size_t)i * (size_t)k);
    free(logits);
    return status;
}

/* --- files --- */

/* One call of ls_classify_files. */
struct files_job {
    const struct ls_classifier *c;
    const struct ls_dataset *pictures;
    const char *const *files;
    int k;
    struct ls_guess *guesses; /* [k] */
    bool is_told;             /* that pictures are changed to fit */
    enum ls_status (*take)(void *arg, const struct ls_classified *one);
    void *arg;
};

/* Who trained on photographs of all sizes knows; others hear once what becomes of theirs. */
static void tell_change(struct files_job *job, const char *file, const struct ls_picture *p)
{
    const struct pictured *want = &job->c->pictured;
    bool is_resized = p->h != want->h || p->w != want->w, is_recoloured = p->is_grey != (want->c == 1);
    if (want->is_folder || job->is_told || !(is_resized || is_recoloured)) return;
    job->is_told = true;
    ls__log(LS_LOG_INFO, "%s is %dx%d in %s, the network was trained on %dx%d in %s: such pictures are %s%s%s", file,
            p->w, p->h, p->is_grey ? "grey" : "colour", want->w, want->h, want->c == 1 ? "grey" : "colour",
            is_resized ? "scaled and cut to the centre" : "", is_resized && is_recoloured ? ", and " : "",
            !is_recoloured ? ""
            : p->is_grey   ? "given three equal channels"
                           : "turned to grey");
}

static enum ls_status take_batch(void *arg, const struct ls_batch *batch, const float *logits)
{
    struct files_job *job = arg;
    int n_classes = job->c->blank.n_classes;
    for (int i = 0; i < batch->n; i++) {
        int64_t index = batch->samples[i];
        const struct ls_picture *p = ls__picture_at(job->pictures, index);
        struct ls_classified one = {.index = index, .file = job->files[index], .error = p->error};
        if (!p->error) {
            tell_change(job, one.file, p);
            ls__guess(logits + (size_t)i * (size_t)n_classes, n_classes, job->k, job->guesses);
            one.guesses = job->guesses;
        }
        TRY(job->take(job->arg, &one));
    }
    return LS_OK;
}

enum ls_status ls_classify_files(struct ls_classifier *c, const char *const *files, int64_t n, int k,
                                 enum ls_status (*take)(void *arg, const struct ls_classified *one), void *arg)
{
    if (!c || n < 0 || (n > 0 && !files) || !take)
        return ls_fail(LS_USAGE, "ls_classify_files without classifier, files or somebody to take the answers");
    TRY(check_top(c, k));
    if (n == 0) return LS_OK;
    const struct ls_picture_shape shape = {c->blank.c, c->blank.h, c->blank.w, c->blank.n_classes};
    struct ls_dataset *pictures = NULL;
    struct files_job job = {.c = c, .files = files, .k = k, .take = take, .arg = arg};
    TRY(ls__pictures_open(&pictures, &shape, files, n));
    job.pictures = pictures;
    enum ls_status status = ls__calloc(&job.guesses, (size_t)k, sizeof *job.guesses);
    struct evaluation e = {
        .data = pictures, .label = n >= SHOW_PROGRESS_FROM ? "Classify" : NULL, .take = take_batch, .arg = &job};
    if (status == LS_OK) status = ls__session_evaluate_on(&c->s, &e);
    free(job.guesses);
    ls_dataset_close(&pictures);
    return status;
}
