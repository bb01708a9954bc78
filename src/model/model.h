/* model.h: networks as text (docs/formats/model-language.md), parsed once and built into a graph for any shard size. */
#ifndef LS_MODEL_H
#define LS_MODEL_H

#include "base/status.h"
#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ls_model;

/* name_or_path: a model of the zoo ("lenet5") or a file (anything with a '/' or ending in ".net"). Unknown names are
 * LS_USAGE and list the zoo; bad text is LS_DATA and names file and line. */
enum ls_status ls_model_load(struct ls_model **out, const char *name_or_path) LS_MUST_CHECK;
/* The same from memory; `origin` is used in messages. text need not end in '\0'. */
enum ls_status ls_model_parse(struct ls_model **out, const char *origin, const char *text, size_t len) LS_MUST_CHECK;
void ls_model_destroy(struct ls_model **model);

const char *ls_model_name(const struct ls_model *model);
const char *ls_model_text(const struct ls_model *model, size_t *len); /* as parsed, for the manifest's hash */

/* The input the model asks for; a dimension that adapts to the data is 0. */
void ls_model_input(const struct ls_model *model, int *c, int *h, int *w);
/* Whether it refuses data of another size; else that is the size it was made for. */
bool ls_model_input_is_fixed(const struct ls_model *model);

/* Forward graph for shards of mb samples of c x h x w and n_classes classes, ending in logits [mb,n_classes]
 * (g->logits). With is_training dropout is active and batch norm uses the shard's statistics. Shapes that do not fit
 * are LS_DATA: "models/x.net:12: linear fc1: ...". */
struct ls_model_options {
    int64_t mb;
    int c, h, w, n_classes;
    bool is_training;
};
enum ls_status ls_model_build(const struct ls_model *model, const struct ls_model_options *options,
                              struct ls_graph **out) LS_MUST_CHECK;

/* What a model is and costs on images of c x h x w, when evaluating. */
struct ls_model_summary {
    int64_t parameters;
    double flops_per_image;             /* forward; a multiply-add counts 2 */
    int64_t activation_bytes_per_image; /* all forward results of one image, float32 */
    int n_layers;                       /* blocks unrolled */
};
enum ls_status ls_model_summarize(const struct ls_model *model, int c, int h, int w, int n_classes,
                                  struct ls_model_summary *out) LS_MUST_CHECK;

/* A layer of the model, blocks unrolled, for a batch of options->mb. */
struct ls_model_row {
    const char *name; /* the model's */
    char type[24];    /* "conv 3x3 /2", "bn" */
    struct ls_shape out;
    int64_t parameters, buffers; /* trained; kept with the weights (running statistics) */
    double flops;                /* forward; a multiply-add counts 2 */
    int64_t activation_bytes;    /* its result, float32; 0 where it is another's under a new shape */
};
/* *rows has *n_rows entries and is the caller's to free. */
enum ls_status ls_model_table(const struct ls_model *model, const struct ls_model_options *options,
                              struct ls_model_row **rows, int *n_rows) LS_MUST_CHECK;

/* The zoo, compiled in from models/NAME.net. */
struct ls_zoo_entry {
    const char *name, *text;
};
extern const struct ls_zoo_entry ls_zoo[]; /* ends with name == NULL */

#ifdef __cplusplus
}
#endif

#endif
