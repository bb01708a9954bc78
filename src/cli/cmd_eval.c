/* cmd_eval.c: `lockstep eval`: loss and accuracy, and where the errors are. */
#include "cli/cmd.h"
#include "cli/eval_tables.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* What is asked for besides loss and accuracy. */
static bool wants_predictions(const struct ls_options *o)
{
    return o->per_class || o->confusion || o->top > 1 || o->output;
}

/* --confusion with a file. */
static const char *picture(const struct ls_options *o)
{
    return o->confusion && strcmp(o->confusion, "table") != 0 ? o->confusion : NULL;
}

static json_t *result_json(const struct ls_eval_result *r)
{
    return json_pack("{s:o, s:o, s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "model", ls__json_text(r->model), "data",
                     ls__json_text(r->data), "checkpoint", ls__json_text(r->checkpoint), "weights_hash",
                     r->weights_hash, "step", (json_int_t)r->step, "images", (json_int_t)r->images, "loss",
                     ls__json_number(r->loss), "accuracy", ls__json_number(r->accuracy), "seconds",
                     ls__json_number(r->seconds), "images_per_second", ls__json_number(r->images_per_second));
}

static enum ls_status print_json(const struct ls_options *o, const struct predictions *p,
                                 const struct ls_eval_result *r)
{
    json_t *object = result_json(r);
    enum ls_status status = object ? LS_OK : ls_fail(LS_NOMEM, "out of memory while writing JSON");
    if (status == LS_OK && o->top > 1) {
        json_object_set_new(object, "top", json_integer(p->k));
        json_object_set_new(object, "top_accuracy", ls__json_number(ls__predictions_top(p, p->k)));
    }
    if (status == LS_OK && o->per_class) status = ls__eval_json_classes(p, object);
    if (status == LS_OK && o->confusion) status = ls__eval_json_confusion(p, object);
    if (status == LS_OK) return ls__print_json(object);
    json_decref(object);
    return status;
}

static enum ls_status print_text(const struct ls_options *o, const struct predictions *p,
                                 const struct ls_eval_result *r)
{
    char accuracy[LS_TEXT_BYTES], name[LS_TEXT_BYTES];
    printf("%s on %s\n", r->model, r->data);
    printf("  accuracy    %s  (loss %.4f)\n", ls__percent_text(r->accuracy, accuracy), r->loss);
    if (o->top > 1) {
        snprintf(name, sizeof name, "top %d", p->k);
        printf("  %-10s  %s\n", name, ls__percent_text(ls__predictions_top(p, p->k), accuracy));
    }
    printf("  images      %" PRId64 " in %.2f s: %.0f images/s\n", r->images, r->seconds, r->images_per_second);
    printf("  checkpoint  %s (step %" PRId64 ")\n", r->checkpoint, r->step);
    printf("  weights     %s\n", r->weights_hash);
    if (o->per_class) TRY(ls__eval_print_classes(p));
    if (o->confusion) TRY(ls__eval_print_confusion(p));
    return LS_OK;
}

static enum ls_status write_files(const struct ls_options *o, const struct predictions *p,
                                  const struct ls_eval_result *r)
{
    char title[512];
    snprintf(title, sizeof title, "%s on %s: %.2f %% right", r->model, r->data, 100 * r->accuracy);
    if (picture(o)) TRY(ls__eval_draw_confusion(p, title, picture(o)));
    return o->output ? ls__eval_write_csv(p, o->output) : LS_OK;
}

/* Before an hour of work: whether its results could be kept. */
static enum ls_status try_files(const struct ls_options *o)
{
    if (o->output) TRY(ls__print_try(o->output));
    if (picture(o)) TRY(ls__eval_can_draw(picture(o)));
    if (o->output && strcmp(o->output, "-") == 0 && o->train.json)
        return ls_fail(LS_USAGE, "--json and -o - would both write to stdout; give -o a file");
    return LS_OK;
}

enum ls_status ls__cmd_eval(const struct ls_options *o)
{
    const struct ls_eval_options options = {
        .what = o->args[0],
        .model = o->model,
        .data = o->args[1],
        .data_dir = o->train.data_dir,
        .device = o->train.device,
        .isa = o->train.isa,
        .tune = o->train.tune,
        .resize = o->train.resize,
        .threads = o->train.threads,
        .batch_size = o->train.batch_size,
        .json = o->train.json,
    };
    struct ls_eval_result r = {.step = 0};
    struct predictions p = {.n = 0};
    TRY(try_files(o));
    enum ls_status status =
        wants_predictions(o) ? ls__eval_predictions(&options, (int)o->top, &p, &r) : ls_eval(&options, &r);
    if (status == LS_OK) status = write_files(o, &p, &r);
    if (status == LS_OK) status = o->train.json ? print_json(o, &p, &r) : print_text(o, &p, &r);
    ls__predictions_release(&p);
    return status;
}
