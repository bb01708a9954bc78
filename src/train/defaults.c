/* defaults.c: the default of every training option; see defaults.h.
 *
 * One list of the members of struct ls_train_options: name, kind, default. The default of a choice or a path is text,
 * NULL meaning "not given". The device is the best this build has.
 */
#include "train/defaults.h"

#include "lockstep/backend.h"

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
};

#define FIELD(kind_, member, ...)                                                                                      \
    {                                                                                                                  \
        .name = #member, .kind = kind_, .offset = offsetof(struct ls_train_options, member), __VA_ARGS__               \
    }

static const struct field fields[] = {
    FIELD(TEXT, model, .text = NULL),
    FIELD(TEXT, data, .text = NULL),
    FIELD(TEXT, data_dir, .text = NULL),
    FIELD(TEXT, run_dir, .text = NULL),
    FIELD(TEXT, device, .text = NULL),
    FIELD(TEXT, precision, .text = "f32"),
    FIELD(TEXT, isa, .text = "native"),
    FIELD(TEXT, tune, .text = NULL),
    FIELD(INTEGER, batch_size, .number = 128),
    FIELD(INTEGER, shards, .number = 0),
    FIELD(INTEGER, threads, .number = 0),
    FIELD(INTEGER, epochs, .number = 5),
    FIELD(INTEGER, iterations, .number = 0),
    FIELD(INTEGER, seed, .number = 1),
    FIELD(INTEGER, loader_threads, .number = 1),
    FIELD(TEXT, optimizer, .text = "sgd"),
    FIELD(REAL, lr, .number = 0.05),
    FIELD(REAL, momentum, .number = 0.9),
    FIELD(REAL, weight_decay, .number = 0),
    FIELD(REAL, beta1, .number = 0.9),
    FIELD(REAL, beta2, .number = 0.999),
    FIELD(REAL, eps, .number = 1e-8),
    FIELD(FLAG, nesterov, .number = 0),
    FIELD(REAL, clip_norm, .number = 0),
    FIELD(REAL, label_smoothing, .number = 0),
    FIELD(TEXT, schedule, .text = "cosine"),
    FIELD(REAL, gamma, .number = 0.1),
    FIELD(INTEGER, step_epochs, .number = 30),
    FIELD(TEXT, milestones, .text = NULL),
    FIELD(REAL, warmup_epochs, .number = 0),
    FIELD(REAL, min_lr, .number = 0),
    FIELD(INTEGER, crop_pad, .number = 0),
    FIELD(INTEGER, cutout, .number = 0),
    FIELD(FLAG, flip, .number = 0),
    FIELD(TEXT, resize, .text = NULL),
    FIELD(FLAG, normalize, .number = 1),
    FIELD(TEXT, resume, .text = NULL),
    FIELD(FLAG, accept_other_bits, .number = 0),
    FIELD(TEXT, checkpoint_every, .text = "epoch"),
    FIELD(INTEGER, keep, .number = 2),
    FIELD(INTEGER, eval_every, .number = 1),
    FIELD(INTEGER, log_every, .number = 50),
    FIELD(FLAG, no_eval, .number = 0),
    FIELD(FLAG, quiet, .number = 0),
    FIELD(FLAG, json, .number = 0),
    FIELD(FLAG, deterministic_only, .number = 0),
    FIELD(TEXT, memory, .text = "normal"),
    FIELD(TEXT, sync, .text = "allreduce"),
    FIELD(INTEGER, workers, .number = 0),
    FIELD(REAL, timeout, .number = 300),
    FIELD(FLAG, balance, .number = 1),
    FIELD(INTEGER, rescue_every, .number = 50),
    FIELD(INTEGER, compress, .number = 0),
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
