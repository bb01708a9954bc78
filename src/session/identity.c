/* identity.c: makes the texts of identity.h from a run's options, data, model and plans, and finds the first
 * difference. */
#include "session/identity.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "settings/augmentation.h"
#include "settings/setting.h"
#include "settings/sync_names.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum class { RUN, BITS, TOGETHER, NOTE };

static const struct {
    const char *name;
    enum class class;
} keys[N_IDENTITY] = {
#define IDENTITY_ENTRY(NAME, key, class) [IDENTITY_##NAME] = {key, class},
    IDENTITY_MAP(IDENTITY_ENTRY)
#undef IDENTITY_ENTRY
};

const char *ls__identity_key_name(enum identity_key key)
{
    return keys[key].name;
}

bool ls__identity_key_is_kept(enum identity_key key)
{
    return keys[key].class != TOGETHER || key == IDENTITY_EPOCHS;
}

bool ls__identity_key_is_optional(enum identity_key key)
{
    return key == IDENTITY_VALIDATION || key == IDENTITY_AUGMENT || key == IDENTITY_INIT || key == IDENTITY_FREEZE ||
           key == IDENTITY_LR_OF;
}

void ls__identity_release(struct identity *id)
{
    for (int i = 0; i < N_IDENTITY; i++) free(id->values[i]);
    *id = (struct identity){0};
}

/* --- of a session --- */

static enum ls_status set(struct identity *id, enum identity_key key, const char *fmt, ...) LS_PRINTF(3, 4);
static enum ls_status set(struct identity *id, enum identity_key key, const char *fmt, ...)
{
    char text[LS_PATH_BYTES + 512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ls__strdup(&id->values[key], text);
}

static enum ls_status set_buf(struct identity *id, enum identity_key key, struct ls_buf *b)
{
    enum ls_status status = ls__buf_check(b);
    if (status == LS_OK && b->len > 0) id->values[key] = ls__buf_take(b);
    ls__buf_release(b);
    return status;
}

/* The settings that the table gives to a key. */
static enum ls_status set_part(struct identity *id, enum identity_key key, const struct ls_train_options *o)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__options_add_part(&b, o, keys[key].name);
    return set_buf(id, key, &b);
}

/* Anything of what old runs did not have. */
static bool has_augmentation(const struct ls_train_options *o)
{
    const struct ls_transform t = ls__augmentation_of(o);
    return ls_transform_beyond_crops(&t) != NULL;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* What is computed. */
static enum ls_status add_run(struct identity *id, const struct ls_train_options *o, const struct session *s)
{
    struct ls_sync_choice sync;
    size_t len;
    const char *text = ls_model_text(s->model, &len);
    TRY(set(id, IDENTITY_MODEL, "%s", ls_model_name(s->model)));
    TRY(set(id, IDENTITY_MODEL_HASH, "%016llx", (unsigned long long)XXH3_64bits(text, len)));
    TRY(set(id, IDENTITY_DATA, "%s", o->data));
    TRY(set(id, IDENTITY_DATA_CHECKSUM, "%s", s->train->checksum));
    if (s->whole)
        TRY(set(id, IDENTITY_VALIDATION, "%lld of %lld images", (long long)s->validation->n, (long long)s->whole->n));
    else if (s->validation)
        TRY(set(id, IDENTITY_VALIDATION, "%s of %lld images", s->validation->checksum, (long long)s->validation->n));
    if (o->init)
        TRY(set(id, IDENTITY_INIT, "%s%s%s", s->init_hash, o->init_skip ? " without " : "", or_empty(o->init_skip)));
    if (o->freeze) TRY(set(id, IDENTITY_FREEZE, "%s", o->freeze));
    if (o->lr_of) TRY(set(id, IDENTITY_LR_OF, "%s", o->lr_of));
    TRY(set(id, IDENTITY_SEED, "%lld", (long long)o->seed));
    TRY(set(id, IDENTITY_BATCH_SIZE, "%lld", (long long)s->batch_size));
    TRY(set(id, IDENTITY_SHARDS, "%lld", (long long)s->shards));
    TRY(set(id, IDENTITY_DEVICE, "%s", o->device));
    if (strcmp(o->precision, "f32") != 0) TRY(set(id, IDENTITY_PRECISION, "%s", o->precision));
    TRY(set_part(id, IDENTITY_OPTIMIZER, o));
    TRY(set_part(id, IDENTITY_SCHEDULE, o));
    TRY(set_part(id, IDENTITY_REGULARIZATION, o));
    TRY(set_part(id, IDENTITY_INPUT, o));
    if (has_augmentation(o)) TRY(set_part(id, IDENTITY_AUGMENT, o));
    if (o->compress)
        return set(id, IDENTITY_SUM, "%s in %lld bits", o->sum, (long long)o->compress); /* remainders, too */
    if (ls__sync_parse(o->sync, &sync) && sync.name->is_own_training)
        return set(id, IDENTITY_SUM, "%s %s", o->sum, o->sync);
    return set(id, IDENTITY_SUM, "%s", o->sum);
}

/* "conv1 conv2d dnnl:jit:avx512_core", one line per op that computes. Reorders follow from the others. */
static enum ls_status add_kernels(struct identity *id, const struct ls_plan *p)
{
    struct ls_buf b = LS_BUF_INIT;
    for (int i = 0; i < p->n_ops; i++)
        if (!p->ops[i].kernel->is_view && p->ops[i].node.op != LS_OP_REORDER)
            ls__buf_addf(&b, "%s %s %s\n", p->ops[i].node.name, ls_op_name(p->ops[i].node.op), p->ops[i].kernel->name);
    return set_buf(id, IDENTITY_KERNELS, &b);
}

static enum ls_status add_plans(struct identity *id, const struct session *s)
{
    const int64_t m = s->shard_size, others[] = {s->batch_size % m, s->train->n % s->batch_size % m};
    const struct ls_plan *main = ls_exec_plan(s->exec, m, true), *eval = ls_exec_plan(s->exec, s->eval_size, false);
    struct ls_buf b = LS_BUF_INIT;
    char hex[33];
    for (int i = 0; i < 2; i++) {
        const struct ls_plan *p = others[i] > 0 ? ls_exec_plan(s->exec, others[i], true) : NULL;
        enum ls_status status = p ? ls_plan_hash(p, hex) : LS_OK;
        if (status != LS_OK) {
            ls__buf_release(&b);
            return status;
        }
        if (p) ls__buf_addf(&b, "%s%lld:%s", b.len ? " " : "", (long long)others[i], hex);
    }
    if (b.len == 0) ls__buf_adds(&b, "none");
    TRY(set_buf(id, IDENTITY_OTHER_PLAN_HASHES, &b));
    if (eval) {
        TRY(ls_plan_hash(eval, hex));
        TRY(set(id, IDENTITY_EVAL_PLAN_HASH, "%s", hex));
    }
    TRY(ls_plan_hash(main, hex));
    TRY(set(id, IDENTITY_PLAN_HASH, "%s", hex));
    return add_kernels(id, main);
}

enum ls_status ls__identity_of(struct identity *id, const struct ls_train_options *o, const struct session *s)
{
    struct ls_backend_id backend;
    *id = (struct identity){0};
    TRY(add_run(id, o, s));
    s->backend->identify(s->device, &backend);
    TRY(set(id, IDENTITY_VERSION, "%s", LOCKSTEP_VERSION));
    TRY(set(id, IDENTITY_LIBRARY, "%s", backend.software));
    TRY(set(id, IDENTITY_ISA, "%s", backend.isa));
    TRY(set(id, IDENTITY_TUNE, "%s%s%s", s->tune ? s->tune->origin : "none", s->tune ? " " : "",
            s->tune ? s->tune->hash : ""));
    TRY(add_plans(id, s));
    if (s->test) TRY(set(id, IDENTITY_TEST_CHECKSUM, "%s", s->test->checksum));
    TRY(set(id, IDENTITY_EPOCHS, "%lld", (long long)o->epochs));
    TRY(set(id, IDENTITY_ITERATIONS, "%lld", (long long)o->iterations));
    return set_part(id, IDENTITY_EVENTS, o);
}

enum ls_status ls__identity_of_checkpoint(struct identity *id, const struct ls_ckpt *ckpt)
{
    *id = (struct identity){0};
    for (int i = 0; i < N_IDENTITY; i++) {
        const char *value = ls_ckpt_meta(ckpt, keys[i].name);
        if (value) TRY(ls__strdup(&id->values[i], value));
    }
    return LS_OK;
}

/* --- on the wire --- */

enum ls_status ls__identity_to_text(const struct identity *id, char **json)
{
    json_t *object = json_object();
    for (int i = 0; object && i < N_IDENTITY; i++)
        if (id->values[i] && json_object_set_new(object, keys[i].name, ls__json_text(id->values[i])) != 0) {
            json_decref(object);
            object = NULL;
        }
    return ls__json_dump(object, LS_JSON_EXACT, "the identity of the run", json);
}

enum ls_status ls__identity_from_text(struct identity *id, const char *json, size_t len)
{
    json_error_t error;
    json_t *object = json_loadb(json, len, 0, &error);
    enum ls_status status = LS_OK;
    *id = (struct identity){0};
    if (!json_is_object(object)) status = ls_fail(LS_DATA, "the identity of a run is not a JSON object");
    for (int i = 0; status == LS_OK && i < N_IDENTITY; i++) {
        const json_t *value = json_object_get(object, keys[i].name);
        if (value && !json_is_string(value))
            status = ls_fail(LS_DATA, "'%s' in the identity of a run is not a text", keys[i].name);
        else if (value)
            status = ls__strdup(&id->values[i], json_string_value(value));
    }
    json_decref(object);
    return status;
}

/* --- comparing --- */

static bool is_compared(enum identity_key key, enum identity_scope scope, const char *mine, const char *theirs)
{
    switch (keys[key].class) {
    case RUN:
        return true;
    case BITS:
        return scope >= IDENTITY_RESUME;
    case TOGETHER:
        return scope >= IDENTITY_WORKERS && mine && theirs;
    case NOTE:
        break;
    }
    return false;
}

static size_t line_length(const char *text)
{
    return strcspn(text, "\n");
}

/* The first layer whose kernel is not the same, instead of two hashes. */
static void name_first_kernel(const struct identity *mine, const struct identity *theirs, struct identity_difference *d)
{
    const char *a = mine->values[IDENTITY_KERNELS], *b = theirs->values[IDENTITY_KERNELS];
    if (!a || !b) return;
    while (*a && *b && line_length(a) == line_length(b) && memcmp(a, b, line_length(a)) == 0) {
        a += line_length(a) + (a[line_length(a)] == '\n');
        b += line_length(b) + (b[line_length(b)] == '\n');
    }
    if (!*a && !*b) return; /* layouts or shapes, then */
    snprintf(d->what, sizeof d->what, "kernel");
    snprintf(d->mine, sizeof d->mine, "%.*s", *a ? (int)line_length(a) : 6, *a ? a : "(none)");
    snprintf(d->theirs, sizeof d->theirs, "%.*s", *b ? (int)line_length(b) : 6, *b ? b : "(none)");
}

static const char *or_none(const char *text)
{
    return text ? text : "none";
}

static void advise_on_plan(const struct identity *mine, const struct identity *theirs, struct identity_difference *d)
{
    const char *a = or_none(mine->values[IDENTITY_TUNE]), *b = or_none(theirs->values[IDENTITY_TUNE]);
    if (strcmp(a, b) != 0)
        snprintf(d->advice, sizeof d->advice, "the tables differ (%.60s there, %.60s here): give the same --tune", b,
                 a);
    else
        snprintf(d->advice, sizeof d->advice, "use the same build of lockstep and its library");
}

static void advise_on_isa(struct identity_difference *d)
{
    bool is_lower_there = strcmp(d->mine, "avx512") == 0 && strcmp(d->theirs, "avx2") == 0;
    bool is_lower_here = strcmp(d->mine, "avx2") == 0 && strcmp(d->theirs, "avx512") == 0;
    snprintf(d->what, sizeof d->what, "instruction set");
    if (is_lower_there)
        snprintf(d->advice, sizeof d->advice, "give --isa avx2");
    else if (is_lower_here)
        snprintf(d->advice, sizeof d->advice, "only a run with --isa avx2 from its beginning fits both machines");
    else
        snprintf(d->advice, sizeof d->advice, "use a machine of the same instruction set");
}

static void describe(const struct identity *mine, const struct identity *theirs, struct identity_difference *d)
{
    const char *a = mine->values[d->key], *b = theirs->values[d->key];
    const char *absent = d->key == IDENTITY_PRECISION ? "f32" : "(not recorded)";
    snprintf(d->what, sizeof d->what, "%s", keys[d->key].name);
    snprintf(d->mine, sizeof d->mine, "%s", a ? a : absent);
    snprintf(d->theirs, sizeof d->theirs, "%s", b ? b : absent);
    switch (d->key) {
    case IDENTITY_VERSION:
        snprintf(d->what, sizeof d->what, "version");
        snprintf(d->advice, sizeof d->advice, "use the same version of lockstep");
        break;
    case IDENTITY_LIBRARY:
        snprintf(d->advice, sizeof d->advice, "use the same version of the library");
        break;
    case IDENTITY_ISA:
        advise_on_isa(d);
        break;
    case IDENTITY_DATA_CHECKSUM:
    case IDENTITY_TEST_CHECKSUM:
        snprintf(d->advice, sizeof d->advice, "the data differ: use the same files");
        break;
    case IDENTITY_PLAN_HASH:
    case IDENTITY_OTHER_PLAN_HASHES:
    case IDENTITY_EVAL_PLAN_HASH:
        name_first_kernel(mine, theirs, d);
        advise_on_plan(mine, theirs, d);
        break;
    default:
        snprintf(d->advice, sizeof d->advice, "give the same options");
    }
}

bool ls__identity_differs(const struct identity *mine, const struct identity *theirs, enum identity_scope scope,
                          struct identity_difference *d)
{
    for (int i = 0; i < N_IDENTITY; i++) {
        const char *a = mine->values[i], *b = theirs->values[i];
        if (!is_compared((enum identity_key)i, scope, a, b) || (a && b && strcmp(a, b) == 0) || (!a && !b)) continue;
        *d = (struct identity_difference){.key = (enum identity_key)i, .is_bits = keys[i].class == BITS};
        describe(mine, theirs, d);
        return true;
    }
    return false;
}
