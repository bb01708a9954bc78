/* defaults.c: the default of every training option; see defaults.h.
 *
 * One list of the members of struct ls_train_options: name, kind, default. The default of a choice or a path is text,
 * NULL meaning "not given". The device is the best this build has.
 */
#include "settings/defaults.h"

#include "backend/backend.h"
#include "settings/sync_names.h"

#include <jansson.h>
#include <stddef.h>
#include <string.h>

enum kind { TEXT, INTEGER, REAL, FLAG };

struct field {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *text; /* TEXT */
    double number;    /* the others */
    double min, max;  /* INTEGER and REAL: what the command line takes too */
    bool is_max_open;
};

#define FIELD(kind_, member, ...)                                                                                      \
    {                                                                                                                  \
        .name = #member, .kind = kind_, .offset = offsetof(struct ls_train_options, member), __VA_ARGS__               \
    }

#define WITHIN(min_, max_) .min = (min_), .max = (max_)
#define BELOW(max_) .max = (max_), .is_max_open = true

static const struct field fields[] = {
    FIELD(TEXT, model, .text = NULL),
    FIELD(TEXT, data, .text = NULL),
    FIELD(TEXT, data_dir, .text = NULL),
    FIELD(TEXT, run_dir, .text = NULL),
    FIELD(TEXT, device, .text = NULL),
    FIELD(TEXT, precision, .text = "f32"),
    FIELD(TEXT, isa, .text = "native"),
    FIELD(TEXT, tune, .text = NULL),
    FIELD(INTEGER, batch_size, .number = 128, WITHIN(1, 1 << 20)),
    FIELD(INTEGER, shards, .number = 0, WITHIN(0, 512)),
    FIELD(INTEGER, threads, .number = 0, WITHIN(0, 1024)),
    FIELD(INTEGER, epochs, .number = 5, WITHIN(1, 1000000)),
    FIELD(INTEGER, iterations, .number = 0, WITHIN(0, 1e12)),
    FIELD(INTEGER, seed, .number = 1, WITHIN(0, 9e18)),
    FIELD(INTEGER, loader_threads, .number = 1, WITHIN(1, 1024)),
    FIELD(TEXT, optimizer, .text = "sgd"),
    FIELD(REAL, lr, .number = 0.05, WITHIN(0, 1e6)),
    FIELD(REAL, momentum, .number = 0.9, BELOW(1)),
    FIELD(REAL, weight_decay, .number = 0, WITHIN(0, 1e6)),
    FIELD(REAL, beta1, .number = 0.9, BELOW(1)),
    FIELD(REAL, beta2, .number = 0.999, BELOW(1)),
    FIELD(REAL, eps, .number = 1e-8, WITHIN(1e-20, 1)),
    FIELD(FLAG, nesterov, .number = 0),
    FIELD(REAL, clip_norm, .number = 0, WITHIN(0, 1e30)),
    FIELD(REAL, label_smoothing, .number = 0, BELOW(1)),
    FIELD(TEXT, schedule, .text = "cosine"),
    FIELD(REAL, gamma, .number = 0.1, WITHIN(0, 1000)),
    FIELD(INTEGER, step_epochs, .number = 30, WITHIN(1, 1000000)),
    FIELD(TEXT, milestones, .text = NULL),
    FIELD(REAL, warmup_epochs, .number = 0, WITHIN(0, 1000000)),
    FIELD(REAL, min_lr, .number = 0, WITHIN(0, 1e6)),
    FIELD(INTEGER, crop_pad, .number = 0, WITHIN(0, 1024)),
    FIELD(INTEGER, cutout, .number = 0, WITHIN(0, 4096)),
    FIELD(FLAG, flip, .number = 0),
    FIELD(TEXT, resize, .text = NULL),
    FIELD(FLAG, normalize, .number = 1),
    FIELD(TEXT, resume, .text = NULL),
    FIELD(FLAG, accept_other_bits, .number = 0),
    FIELD(TEXT, checkpoint_every, .text = "epoch"),
    FIELD(INTEGER, keep, .number = 2, WITHIN(1, 1000000)),
    FIELD(INTEGER, eval_every, .number = 1, WITHIN(0, 1000000)),
    FIELD(INTEGER, log_every, .number = 50, WITHIN(0, 1e12)),
    FIELD(FLAG, no_eval, .number = 0),
    FIELD(FLAG, quiet, .number = 0),
    FIELD(FLAG, json, .number = 0),
    FIELD(FLAG, deterministic_only, .number = 0),
    FIELD(TEXT, memory, .text = "normal"),
    FIELD(TEXT, sync, .text = "allreduce"),
    FIELD(INTEGER, workers, .number = 0, WITHIN(0, 65536)),
    FIELD(REAL, timeout, .number = 300, WITHIN(0.1, 86400)),
    FIELD(FLAG, balance, .number = 1),
    FIELD(INTEGER, rescue_every, .number = 50, WITHIN(0, 1e12)),
    FIELD(INTEGER, compress, .number = 0, WITHIN(0, 16)),
    FIELD(TEXT, sum, .text = "fixed"),
};

enum { N_FIELDS = sizeof fields / sizeof fields[0] };

void ls_train_options_default(struct ls_train_options *o)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < N_FIELDS; i++) {
        const struct field *f = &fields[i];
        void *at = (char *)o + f->offset;
        switch (f->kind) {
        case TEXT:
            *(const char **)at = f->text;
            break;
        case INTEGER:
            *(int64_t *)at = (int64_t)f->number;
            break;
        case REAL:
            *(double *)at = f->number;
            break;
        case FLAG:
            *(bool *)at = f->number != 0;
            break;
        }
    }
    o->device = ls_backends[0] ? ls_backends[0]->name : "ref";
}

static enum ls_status check_number(const struct field *f, double value)
{
    bool is_good = value >= f->min && (f->is_max_open ? value < f->max : value <= f->max); /* a NaN is neither */
    if (f->kind == TEXT || f->kind == FLAG || is_good) return LS_OK;
    return ls_fail(LS_USAGE, "option %s is %g, expected %g to %s%g", f->name, value, f->min,
                   f->is_max_open ? "below " : "", f->max);
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* Words that decide by being equal to something: a misspelt one would pass for the default. */
static enum ls_status check_words(const struct ls_train_options *o)
{
    if (!is_one_of(o->optimizer, "sgd", "adamw"))
        return ls_fail(LS_USAGE, "--optimizer %s: expected sgd or adamw", o->optimizer);
    if (!is_one_of(o->memory, "normal", "low"))
        return ls_fail(LS_USAGE, "--memory %s: expected normal or low", o->memory);
    if (!is_one_of(o->sum, "fixed", "float")) return ls_fail(LS_USAGE, "--sum %s: expected fixed or float", o->sum);
    if (o->compress != 0 && o->compress != 8 && o->compress != 16)
        return ls_fail(LS_USAGE, "--compress %lld: expected 8, 16 or 0", (long long)o->compress);
    return ls__sync_check(o->sync, o->compress);
}

enum ls_status ls__train_options_check(const struct ls_train_options *o)
{
    if (!o->model || !o->data) return ls_fail(LS_USAGE, "no %s was named", o->model ? "data set" : "model");
    TRY(check_words(o));
    for (int i = 0; i < N_FIELDS; i++) {
        const void *at = (const char *)o + fields[i].offset;
        double value = 0;
        if (fields[i].kind == INTEGER) value = (double)*(const int64_t *)at;
        if (fields[i].kind == REAL) value = *(const double *)at;
        TRY(check_number(&fields[i], value));
    }
    return LS_OK;
}

void ls__train_options_complete(struct ls_train_options *o)
{
    struct ls_train_options defaults;
    ls_train_options_default(&defaults);
    for (int i = 0; i < N_FIELDS; i++) {
        const char **at = (const char **)((char *)o + fields[i].offset);
        if (fields[i].kind == TEXT && !*at) *at = *(const char **)((char *)&defaults + fields[i].offset);
    }
}

/* A path may be any bytes; JSON takes UTF-8 only. */
json_t *ls__text_json(const char *text)
{
    if (!text) return json_null();
    json_t *string = json_string(text);
    return string ? string : json_string("(not UTF-8)");
}

static json_t *field_json(const struct field *f, const struct ls_train_options *o)
{
    const void *at = (const char *)o + f->offset;
    switch (f->kind) {
    case TEXT:
        return ls__text_json(*(const char *const *)at);
    case INTEGER:
        return json_integer(*(const int64_t *)at);
    case REAL:
        return json_real(*(const double *)at);
    case FLAG:
        return json_boolean(*(const bool *)at);
    }
    return NULL;
}

struct json_t *ls__train_options_json(const struct ls_train_options *o)
{
    json_t *object = json_object();
    for (int i = 0; object && i < N_FIELDS; i++) {
        if (json_object_set_new(object, fields[i].name, field_json(&fields[i], o)) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}
