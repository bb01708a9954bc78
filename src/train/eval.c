/* eval.c: `lockstep eval`: a checkpoint on every test sample, once. */
#include "base/control.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "lockstep/train.h"
#include "run/run.h"
#include "session/recorded.h"
#include "session/session.h"
#include "settings/setting.h"
#include "train/guess.h"
#include "train/predictions.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The names of the set that is evaluated; without any those of the run's. */
static enum ls_status begin_predictions(struct predictions *p, const struct ls_dataset *d, const struct ls_ckpt *ckpt)
{
    p->n = 0;
    p->room = d->n;
    p->n_classes = d->n_classes;
    if (p->k > d->n_classes) p->k = d->n_classes;
    TRY(ls__calloc(&p->labels, (size_t)d->n, sizeof *p->labels));
    TRY(ls__calloc(&p->guesses, (size_t)d->n * (size_t)p->k, sizeof *p->guesses));
    for (int64_t i = 0; i < d->n && ls_dataset_file(d, i); i++) TRY(ls__names_add(&p->files, ls_dataset_file(d, i)));
    const char *names = d->class_names ? d->class_names : ls_ckpt_meta(ckpt, "classes");
    return ls__classes_init(&p->classes, names, d->n_classes);
}

static enum ls_status take_predictions(void *arg, const struct ls_batch *batch, const float *logits)
{
    struct predictions *p = arg;
    if (p->n + batch->n > p->room) return ls_fail(LS_INTERNAL, "more answers than samples");
    for (int i = 0; i < batch->n; i++, p->n++) {
        p->labels[p->n] = batch->labels[i];
        ls__guess(logits + (int64_t)i * p->n_classes, p->n_classes, p->k, p->guesses + p->n * p->k);
    }
    return LS_OK;
}

/* Images are seen as the run saw them. p: what is said of every sample, if somebody wants it. */
static enum ls_status evaluate(const struct ls_eval_options *o, const struct ls_ckpt *ckpt, const char *path,
                               const struct ls_train_options *recorded, struct predictions *p, struct ls_eval_result *r)
{
    struct session s;
    const char *model = o->model ? o->model : ls_ckpt_meta(ckpt, "model"),
               *data = o->data ? o->data : ls_ckpt_meta(ckpt, "data");
    const char *step = ls_ckpt_meta(ckpt, "step");
    if (!model || !data)
        return ls_fail(LS_CHECKPOINT, "%s does not say which %s; give %s", path,
                       model ? "data it was trained on" : "model it holds", model ? "a data set" : "--model");
    const char *text = o->model ? NULL : ls_ckpt_meta(ckpt, "model_text");
    const struct session_options so = {.model = o->model ? o->model
                                                : text   ? path
                                                         : model,
                                       .model_text = text,
                                       .data = data,
                                       .data_dir = o->data_dir,
                                       .device = o->device,
                                       .isa = o->isa,
                                       .tune = o->tune,
                                       .resize = o->resize ? o->resize : recorded->resize,
                                       .batch_size = o->batch_size,
                                       .threads = o->threads,
                                       .with_test = true,
                                       .control = o->control,
                                       .test_images = o->images,
                                       .normalize = recorded->normalize};
    enum ls_status status = ls__session_open(&s, &so);
    if (status == LS_OK) status = ls__session_load(&s, ckpt, path, false);
    struct ls_begun begun = ls__span_begin(s.lane, LS_SPAN_EVALUATE, "test data", 0);
    struct evaluation e = {.label = "Test", .take = p ? take_predictions : NULL, .arg = p};
    if (status == LS_OK && p) status = begin_predictions(p, s.test, ckpt);
    if (status == LS_OK) status = ls__session_evaluate_on(&s, &e);
    r->loss = e.loss;
    r->accuracy = e.accuracy;
    if (status == LS_OK && e.is_stopped)
        status = ls_fail(LS_INTERRUPTED, "stopped by %s before all of %s was evaluated",
                         ls__control_stopped_by(o->control), data);
    r->seconds = 1e-9 * (double)ls__span_end(s.lane, begun);
    if (status == LS_OK) status = ls__session_hash(&s, r->weights_hash);
    if (status == LS_OK) {
        snprintf(r->model, sizeof r->model, "%s", ls_model_name(s.model));
        snprintf(r->data, sizeof r->data, "%s", data);
        snprintf(r->checkpoint, sizeof r->checkpoint, "%s", path);
        r->images = s.test->n;
        r->images_per_second = (double)s.test->n / r->seconds;
        r->step = step ? strtoll(step, NULL, 10) : 0;
    }
    ls__session_close(&s);
    return status;
}

void ls_eval_options_default(struct ls_eval_options *o)
{
    struct ls_train_options t;
    ls_train_options_default(&t);
    ls__options_complete(&t);
    *o = (struct ls_eval_options){.device = t.device, .isa = t.isa, .batch_size = t.batch_size};
}

static enum ls_status eval(const struct ls_eval_options *o, struct predictions *p, struct ls_eval_result *result)
{
    char path[LS_PATH_BYTES];
    struct ls_ckpt *ckpt = NULL;
    if (!o || !result) return ls_fail(LS_USAGE, "ls_eval without options or without room for the result");
    if (!o->what) return ls_fail(LS_USAGE, "no run directory or checkpoint was named");
    *result = (struct ls_eval_result){.images = 0};
    TRY(ls_ckpt_open_best(&ckpt, o->what, path));
    struct recorded recorded;
    enum ls_status status = ls__recorded_open(&recorded, ckpt, path);
    if (status == LS_OK) status = evaluate(o, ckpt, path, &recorded.o, p, result);
    ls__recorded_close(&recorded);
    ls_ckpt_close(&ckpt);
    return status;
}

enum ls_status ls_eval(const struct ls_eval_options *o, struct ls_eval_result *result)
{
    return eval(o, NULL, result);
}

enum ls_status ls__eval_predictions(const struct ls_eval_options *o, int k, struct predictions *p,
                                    struct ls_eval_result *result)
{
    *p = (struct predictions){.k = k};
    return eval(o, p, result);
}
