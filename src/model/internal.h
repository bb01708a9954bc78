/* internal.h: the stages of the model language and what each hands to the next.
 *
 *     text --text.c--> statements --expand.c, layer.c--> layers --build*.c--> graph
 *
 * Statements are lines cut into words. Expansion runs them once: blocks are unrolled, "$x" is replaced, `keep` and
 * `from` disappear, and what is left is a flat list of layers. Building needs shapes and happens as often as asked.
 *
 * Invariants of the layer list:
 *   1. Tensor 0 is the model's input, tensor i+1 is the output of layer i.
 *   2. A layer reads only tensors with a number not above its own index (so the list is in execution order).
 *   3. Names of layers with parameters are unique.
 * The whole list is bounded by the limits below, whatever the text says.
 */
#ifndef LS_MODEL_INTERNAL_H
#define LS_MODEL_INTERNAL_H

#include "model/model.h"

enum {
    LS_MODEL_TEXT_BYTES = 1 << 20,
    LS_MODEL_STATEMENTS = 10000, /* written in the file */
    LS_MODEL_EXPANDED = 100000,  /* run, blocks unrolled */
    LS_MODEL_LAYERS = 10000,
    LS_MODEL_DEPTH = 16, /* blocks in blocks */
    LS_MODEL_BLOCKS = 1000,
    LS_MODEL_BLOCK_PARAMS = 16,
    LS_MODEL_LABELS = 1000, /* per block */
    LS_MODEL_WORDS = 32,    /* per line */
    LS_MODEL_NAME = 100,    /* characters of a word, and of a full name */
    LS_WORD_BYTES = LS_MODEL_NAME + 1,
};

/* Every statement of the language, in the order of the table in statement.c. */
enum ls_word {
    LS_WORD_MODEL,
    LS_WORD_INPUT,
    LS_WORD_BLOCK,
    LS_WORD_END,
    LS_WORD_USE,
    LS_WORD_KEEP,
    LS_WORD_FROM,
    LS_WORD_CONV,
    LS_WORD_LINEAR,
    LS_WORD_BIAS,
    LS_WORD_BN,
    LS_WORD_GROUPNORM,
    LS_WORD_LAYERNORM,
    LS_WORD_RELU,
    LS_WORD_GELU,
    LS_WORD_SILU,
    LS_WORD_HARDSWISH,
    LS_WORD_TANH,
    LS_WORD_SIGMOID,
    LS_WORD_LEAKYRELU,
    LS_WORD_RELU6,
    LS_WORD_MAXPOOL,
    LS_WORD_AVGPOOL,
    LS_WORD_GLOBALAVGPOOL,
    LS_WORD_ADAPTIVEAVGPOOL,
    LS_WORD_DROPOUT,
    LS_WORD_LRN,
    LS_WORD_ADD,
    LS_WORD_CONCAT,
    LS_WORD_FLATTEN,
    LS_N_WORDS,
};

/* Attributes, "stride=2"; bits of ls_word_def.attrs. */
enum ls_word_attr {
    LS_ATTR_STRIDE,
    LS_ATTR_PAD,
    LS_ATTR_DILATION,
    LS_ATTR_GROUPS,
    LS_ATTR_BIAS,
    LS_ATTR_EPS,
    LS_ATTR_MOMENTUM,
    LS_ATTR_ALPHA,
    LS_ATTR_BETA,
    LS_ATTR_K,
    LS_ATTR_FIXED,
    LS_ATTR_CEIL,
    LS_ATTR_COUNTPAD,
    LS_ATTR_TANH,
    LS_ATTR_SLOPE,
    LS_ATTR_IMAGE,
    LS_N_ATTRS,
};

struct ls_word_def {
    const char *word, *usage;
    int min_args, max_args; /* after the word, attributes not counted; -1 = as many as fit */
    unsigned attrs;         /* allowed attributes, 1u << enum ls_word_attr */
    bool is_named;          /* the first argument is the name of its parameters */
};
extern const struct ls_word_def ls__word_defs[LS_N_WORDS];

bool ls__word_find(const char *word, enum ls_word *out);
const char *ls__word_nearest(const char *word); /* NULL if none is near */
/* Edits that lead from a to b (insert, delete, replace), at least `limit` if it is that or more. */
int ls__edit_distance(const char *a, const char *b, int limit);
/* How far a misspelling may be from what it is taken for. */
int ls__edit_tolerance(const char *word);

/* --- text.c: text into statements --- */

struct ls_statement {
    int line;
    enum ls_word kind;
    int first, n_words; /* words[first] is the statement's own word */
};

struct ls_text {
    char *copy;   /* the text with words ended by '\0' */
    char **words; /* point into copy */
    size_t n_words, cap_words;
    struct ls_statement *statements;
    int n_statements, cap_statements;
    int n_lines;
};
enum ls_status ls__text_cut(const char *origin, const char *text, size_t len, struct ls_text *out) LS_MUST_CHECK;
void ls__text_release(struct ls_text *text);

/* --- layer.c: one line, "$x" replaced, into a layer --- */

struct ls_line {
    int line;
    enum ls_word kind;
    int n_words;
    char words[LS_MODEL_WORDS][LS_WORD_BYTES];
};

/* A tensor named by a label. */
struct ls_ref {
    int tensor;
    int line; /* of the keep */
    char *label;
};
enum { LS_MODEL_REFS = LS_MAX_IN - 1 };

struct ls_layer {
    enum ls_word kind;
    int line;
    char *name;  /* "layer1.0.conv1", or made up: "layer1.0.relu1" */
    char *title; /* for messages: "conv layer1.0.conv1", "add x (in layer1.0)" */
    int src;     /* tensor read */
    struct ls_ref refs[LS_MODEL_REFS];
    int n_refs;
    int64_t out; /* conv, linear: output channels; 0 = the number of classes */
    bool has_bias;
    bool is_whole; /* layernorm: over all of a sample */
    struct ls_attrs attrs;
};
void ls__layer_release(struct ls_layer *layer);
/* Fills everything but src and refs. `prefix` is "" or "layer1.0."; `number` numbers the unnamed ones. */
enum ls_status ls__layer_read(const char *origin, const struct ls_line *line, const char *prefix, int number,
                              struct ls_layer *out) LS_MUST_CHECK;
/* Checks the number of arguments of any statement and that attributes are known and given once, after the arguments.
 * *n_args is without the statement's word. */
enum ls_status ls__line_check(const char *origin, const struct ls_line *line, int *n_args) LS_MUST_CHECK;
/* "yes" or "no" of the only attribute of `input`. */
enum ls_status ls__line_flag(const char *origin, const struct ls_line *line, const char *word, bool *out) LS_MUST_CHECK;
bool ls__name_is_good(const char *name);

/* --- expand.c: statements into layers --- */

struct ls_model {
    char *origin, *name, *text;
    size_t text_len;
    int input[3]; /* c h w; 0 = adapts to the data */
    int input_line;
    bool is_input_fixed;
    struct ls_layer *layers;
    int n_layers, cap_layers;
    int result; /* the tensor that ends the model */
};
enum ls_status ls__expand(struct ls_model *model, const struct ls_text *text) LS_MUST_CHECK;

/* --- build.c, build_layers.c, build_values.c: layers into a graph --- */

/* What building a layer added: nodes and values from here to the next mark's. */
struct ls_mark {
    int node, value; /* first */
    int out;         /* the value of its tensor */
};
/* ls_model_build; marks (may be NULL) has room for n_layers + 1. */
enum ls_status ls__build(const struct ls_model *model, const struct ls_model_options *options, struct ls_mark *marks,
                         struct ls_graph **out) LS_MUST_CHECK;

/* LS_DATA, "origin:line: ..." */
enum ls_status ls__text_fail(const char *origin, int line, const char *fmt, ...) LS_PRINTF(3, 4) LS_MUST_CHECK;

#endif
