/* cmd_eval.c: `lockstep eval`. */
#include "cli/cmd.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static enum ls_status print_json(const struct ls_eval_result *r)
{
    return ls__print_json(
        json_pack("{s:o, s:o, s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "model", ls__json_text(r->model), "data",
                  ls__json_text(r->data), "checkpoint", ls__json_text(r->checkpoint), "weights_hash", r->weights_hash,
                  "step", (json_int_t)r->step, "images", (json_int_t)r->images, "loss", ls__json_number(r->loss),
                  "accuracy", ls__json_number(r->accuracy), "seconds", ls__json_number(r->seconds), "images_per_second",
                  ls__json_number(r->images_per_second)));
}

enum ls_status ls__cmd_eval(const struct ls_options *o)
{
    struct ls_eval_options options = {
        .what = o->args[0],
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
    char accuracy[LS_TEXT_BYTES];
    TRY(ls_eval(&options, &r));
    if (o->train.json) return print_json(&r);
    printf("%s on %s\n", r.model, r.data);
    printf("  accuracy    %s  (loss %.4f)\n", ls__percent_text(r.accuracy, accuracy), r.loss);
    printf("  images      %" PRId64 " in %.2f s: %.0f images/s\n", r.images, r.seconds, r.images_per_second);
    printf("  checkpoint  %s (step %" PRId64 ")\n", r.checkpoint, r.step);
    printf("  weights     %s\n", r.weights_hash);
    return LS_OK;
}
