/* cmd_export.c: `lockstep export`: a trained network for other programs. */
#include "export/export.h"

#include "cli/cmd.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static enum export_pixels pixels_of(const char *word)
{
    return strcmp(word, "unit") == 0 ? EXPORT_UNIT : strcmp(word, "bytes") == 0 ? EXPORT_BYTES : EXPORT_NORMALIZED;
}

static json_t *file_json(const char *path, int64_t bytes)
{
    if (!path) return json_null();
    return json_pack("{s:o, s:I}", "file", ls__json_text(path), "bytes", (json_int_t)bytes);
}

static enum ls_status print_json(const struct ls_options *o, const struct export_result *r)
{
    return ls__print_json(json_pack("{s:o, s:o, s:I, s:[iii], s:i, s:I, s:o, s:o}", "model", ls__json_text(r->model),
                                    "checkpoint", ls__json_text(r->checkpoint), "step", (json_int_t)r->step, "input",
                                    r->c, r->h, r->w, "classes", r->n_classes, "parameters", (json_int_t)r->parameters,
                                    "onnx", file_json(o->onnx, r->onnx_bytes), "safetensors",
                                    file_json(o->safetensors, r->safetensors_bytes)));
}

static void print_text(const struct ls_options *o, const struct export_result *r)
{
    char parameters[LS_TEXT_BYTES], bytes[LS_TEXT_BYTES];
    printf("%s, step %" PRId64 ", %s parameters\n", r->model, r->step,
           ls__count_text((double)r->parameters, parameters));
    if (o->onnx) {
        printf("  onnx         %s: %d operators, %s\n", o->onnx, r->n_nodes,
               ls__bytes_text((double)r->onnx_bytes, bytes));
        printf("  input        images [batch,%d,%d,%d] %s (%s)\n", r->c, r->h, r->w,
               strcmp(o->pixels, "bytes") == 0 ? "uint8" : "float32", o->pixels);
        printf("  output       logits [batch,%d] float32\n", r->n_classes);
    }
    if (o->safetensors)
        printf("  safetensors  %s: %d tensors, %s\n", o->safetensors, r->n_tensors,
               ls__bytes_text((double)r->safetensors_bytes, bytes));
    printf("  checkpoint   %s\n", r->checkpoint);
}

enum ls_status ls__cmd_export(const struct ls_options *o)
{
    const struct export_options options = {.what = o->args[0],
                                           .onnx = o->onnx,
                                           .safetensors = o->safetensors,
                                           .fold = o->fold,
                                           .force = o->force,
                                           .pixels = pixels_of(o->pixels)};
    struct export_result r;
    TRY(ls__export(&options, &r));
    if (o->train.json) return print_json(o, &r);
    print_text(o, &r);
    return LS_OK;
}
