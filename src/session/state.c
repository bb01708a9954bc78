/* state.c: struct train_state to the metadata of a checkpoint and back, and whether a checkpoint may be resumed
 * (state.h). */
#include "session/state.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "session/recorded.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)N_IDENTITY + 21 <= (int)STATE_MAX_META, "no room for the state behind the identity");

void ls__state_init(struct train_state *st)
{
    *st = (struct train_state){.train_loss = NAN,
                               .train_accuracy = NAN,
                               .test_loss = NAN,
                               .test_accuracy = NAN,
                               .validation_loss = NAN,
                               .validation_accuracy = NAN,
                               .best = {.step = -1, .loss = NAN, .accuracy = -1}};
}

void ls__tally_add(struct tally *t, const struct ls_exec_stats *stats)
{
    t->loss_sum += stats->loss_sum;
    t->n_correct += stats->n_correct;
    t->n += stats->n;
}

static void add(struct state_meta *m, const char *key, const char *fmt, ...) LS_PRINTF(3, 4);
static void add(struct state_meta *m, const char *key, const char *fmt, ...)
{
    va_list args;
    if (m->n == STATE_MAX_META) return;
    va_start(args, fmt);
    vsnprintf(m->values[m->n], STATE_VALUE, fmt, args);
    va_end(args);
    m->meta[m->n] = (struct ls_ckpt_meta){key, m->values[m->n]};
    m->n++;
}

static void add_identity(struct state_meta *m)
{
    for (int i = 0; i < N_IDENTITY && m->n < STATE_MAX_META; i++)
        if (m->identity.values[i] && ls__identity_key_is_kept((enum identity_key)i))
            m->meta[m->n++] = (struct ls_ckpt_meta){ls__identity_key_name((enum identity_key)i), m->identity.values[i]};
}

/* The model itself, so that a checkpoint can be evaluated without the file that was trained from. Bytes that JSON does
 * not take can stand in comments only. A text that would fill the header is left out. */
static enum ls_status add_model_text(struct state_meta *m, const struct session *s)
{
    enum { MAX_BYTES = 512 << 10 };
    size_t len;
    const char *text = ls_model_text(s->model, &len);
    if (len > MAX_BYTES || m->n == STATE_MAX_META) return LS_OK;
    TRY(ls__calloc(&m->model_text, len + 1, 1));
    for (size_t i = 0; i < len; i++) {
        bool is_plain = (text[i] >= ' ' && text[i] <= '~') || text[i] == '\n' || text[i] == '\t' || text[i] == '\r';
        m->model_text[i] = is_plain ? text[i] : '?';
    }
    m->meta[m->n++] = (struct ls_ckpt_meta){"model_text", m->model_text};
    return LS_OK;
}

/* Names of folders may be any bytes; JSON takes UTF-8 only. A list that would fill the header is left out. */
static bool can_keep_names(const char *names)
{
    enum { MAX_BYTES = 256 << 10 };
    json_t *text = names && strlen(names) <= MAX_BYTES ? json_string(names) : NULL;
    json_decref(text);
    return text != NULL;
}

/* What a network of this checkpoint is to be fed with (classify.c). */
static void add_images(struct state_meta *m, const struct ls_dataset *d)
{
    add(m, "images", "%dx%dx%d:%d", d->c, d->h, d->w, d->n_classes);
    add(m, "mean", "%a %a %a", (double)d->mean[0], (double)d->mean[1], (double)d->mean[2]);
    add(m, "std", "%a %a %a", (double)d->std[0], (double)d->std[1], (double)d->std[2]);
    if (m->n < STATE_MAX_META && can_keep_names(d->class_names))
        m->meta[m->n++] = (struct ls_ckpt_meta){"classes", d->class_names};
}

/* What validation data said, where there is any. */
static void add_validation(struct state_meta *m, const struct train_state *st)
{
    if (isfinite(st->validation_loss))
        add(m, "validation_result", "%a %a", st->validation_loss, st->validation_accuracy);
    if (st->best.step >= 0)
        add(m, "best", "%lld %lld %a %a", (long long)st->best.step, (long long)st->best.epoch, st->best.loss,
            st->best.accuracy);
    if (st->target.epoch > 0)
        add(m, "target", "%lld %lld %a %a %a", (long long)st->target.epoch, (long long)st->target.step,
            st->target.train_seconds, st->target.total_seconds, st->target.accuracy);
}

static void add_seconds(struct state_meta *m, const struct train_state *st)
{
    const struct ls_seconds *p = &st->parts;
    add(m, "train_seconds", "%a", st->train_seconds);
    add(m, "seconds", "%a %a %a %a %a %a %a %a %a %a %a %a %a", st->total_seconds, st->epoch_seconds, st->log_seconds,
        p->load, p->compute, p->communicate, p->wait, p->checkpoint, p->evaluate, p->update, p->setup, p->other,
        p->hidden);
}

void ls__state_meta_release(struct state_meta *m)
{
    free(m->model_text);
    free(m->options);
    m->model_text = m->options = NULL;
    ls__identity_release(&m->identity);
}

enum ls_status ls__state_to_meta(const struct train_state *st, const struct ls_train_options *o, struct session *s,
                                 struct state_meta *m)
{
    char machine[128];
    m->n = 0;
    m->model_text = m->options = NULL;
    TRY(ls__identity_of(&m->identity, o, s));
    add_identity(m);
    TRY(ls__recorded_text(o, &m->options));
    m->meta[m->n++] = (struct ls_ckpt_meta){LS_RECORDED_KEY, m->options};
    s->backend->describe(s->device, machine, sizeof machine);
    add(m, "machine", "%s", machine);
    m->weights_hash = m->values[m->n];
    add(m, "weights_hash", "%032d", 0);
    add(m, "step", "%lld", (long long)st->step);
    add(m, "epoch", "%lld", (long long)st->epoch);
    add(m, "epoch_step", "%lld", (long long)st->epoch_step);
    if (*st->applied) add(m, "applied_batches", "%s", st->applied);
    add(m, "epoch_tally", "%a %lld %lld", st->epoch_tally.loss_sum, (long long)st->epoch_tally.n_correct,
        (long long)st->epoch_tally.n);
    add(m, "log_tally", "%a %lld %lld", st->log_tally.loss_sum, (long long)st->log_tally.n_correct,
        (long long)st->log_tally.n);
    if (st->pending.n > 0)
        add(m, "pending_tally", "%a %lld %lld", st->pending.loss_sum, (long long)st->pending.n_correct,
            (long long)st->pending.n);
    add(m, "train", "%a %a", st->train_loss, st->train_accuracy);
    add(m, "test", "%a %a", st->test_loss, st->test_accuracy);
    add_validation(m, st);
    add_seconds(m, st);
    add_images(m, s->train);
    return add_model_text(m, s);
}

void ls__state_add_carried(struct state_meta *m, int first, int n)
{
    add(m, "carried_shards", "%d %d", first, n);
}

/* A difference that changes only the rounding may be accepted. */
static enum ls_status refuse(const struct identity_difference *d, const struct identity *theirs, const char *path)
{
    const char *key = ls__identity_key_name(d->key);
    if (ls__identity_key_is_optional(d->key) && !theirs->values[d->key])
        return ls_fail(LS_CHECKPOINT, "%s was made without --%s, this run has '%s'; leave it out, or start another run",
                       path, key, d->mine);
    if (ls__identity_key_is_optional(d->key) && strcmp(d->mine, "(not recorded)") == 0)
        return ls_fail(LS_CHECKPOINT, "%s was made with --%s ('%s'), this run has none; give it, or start another run",
                       path, key, d->theirs);
    if (!theirs->values[d->key] && d->key != IDENTITY_PRECISION)
        return ls_fail(LS_CHECKPOINT, "%s has no '%s': it was not written by %s, so it cannot be resumed%s", path, key,
                       d->is_bits ? "this version of lockstep" : "lockstep train",
                       d->is_bits ? " with the same bits; --accept-other-bits goes on anyway" : "");
    if (!d->is_bits)
        return ls_fail(LS_CHECKPOINT, "%s was made with %s '%s', this run has '%s'; %s, or start another run", path,
                       key, d->theirs, d->mine, d->advice);
    return ls_fail(LS_CHECKPOINT,
                   "%s was computed with %s '%s', this run would use '%s'; %s, or --accept-other-bits to go on anyway: "
                   "the result will then not be that of the unbroken run",
                   path, d->what, d->theirs, d->mine, d->advice);
}

static enum ls_status compare(const struct ls_train_options *o, const struct session *s, const struct ls_ckpt *ckpt,
                              const char *path, struct identity *mine, struct identity *theirs)
{
    struct identity_difference d;
    TRY(ls__identity_of(mine, o, s));
    TRY(ls__identity_of_checkpoint(theirs, ckpt));
    if (ls__identity_differs(mine, theirs, o->accept_other_bits ? IDENTITY_RUN : IDENTITY_RESUME, &d))
        return refuse(&d, theirs, path);
    if (ls__identity_differs(mine, theirs, IDENTITY_RESUME, &d))
        ls__log(LS_LOG_WARN,
                "the checkpoint was computed with %s '%s', this run uses '%s': the weights will not be bit for bit "
                "those of an unbroken run",
                d.what, d.theirs, d.mine);
    return LS_OK;
}

enum ls_status ls__state_check(const struct ls_train_options *o, const struct session *s, const struct ls_ckpt *ckpt,
                               const char *path)
{
    struct identity mine = {0}, theirs = {0};
    enum ls_status status = compare(o, s, ckpt, path, &mine, &theirs);
    const char *epochs = theirs.values[IDENTITY_EPOCHS];
    if (status == LS_OK && epochs && atoll(epochs) != o->epochs) /* ok: only for a warning */
        ls__log(LS_LOG_WARN,
                "the run was begun for %s epochs and goes on for %lld: the learning rate follows the new plan", epochs,
                (long long)o->epochs);
    ls__identity_release(&mine);
    ls__identity_release(&theirs);
    return status;
}

static bool read_tally(const char *text, struct tally *t)
{
    char *end;
    if (!text) return false;
    t->loss_sum = strtod(text, &end);
    t->n_correct = strtoll(end, &end, 10);
    t->n = strtoll(end, &end, 10);
    return *end == '\0' && isfinite(t->loss_sum) && t->n >= 0 && t->n_correct >= 0;
}

static bool read_pair(const char *text, double *a, double *b)
{
    char *end;
    if (!text) return false;
    *a = strtod(text, &end);
    *b = strtod(end, &end);
    return *end == '\0';
}

static bool read_count(const char *text, int64_t *out)
{
    return text && ls__parse_i64(text, 0, INT64_MAX / 2, out);
}

/* n numbers and nothing else; a text that is not there changes nothing and is fine. */
static bool read_numbers(const char *text, double **out, int n)
{
    char *end;
    for (int i = 0; text && i < n; i++) {
        *out[i] = strtod(text, &end);
        if (end == text) return false;
        text = end;
    }
    return !text || *text == '\0';
}

static bool read_validation(const struct ls_ckpt *ckpt, struct train_state *st)
{
    const char *last = ls_ckpt_meta(ckpt, "validation_result"), *best = ls_ckpt_meta(ckpt, "best");
    const char *target = ls_ckpt_meta(ckpt, "target");
    double at[2] = {-1, 0}, reached[2] = {0, 0};
    if (last && !read_pair(last, &st->validation_loss, &st->validation_accuracy)) return false;
    if (!read_numbers(best, (double *[]){&at[0], &at[1], &st->best.loss, &st->best.accuracy}, 4)) return false;
    st->best.step = (int64_t)at[0];
    st->best.epoch = (int64_t)at[1];
    if (!read_numbers(target,
                      (double *[]){&reached[0], &reached[1], &st->target.train_seconds, &st->target.total_seconds,
                                   &st->target.accuracy},
                      5))
        return false;
    st->target.epoch = (int64_t)reached[0];
    st->target.step = (int64_t)reached[1];
    return at[0] <= (double)st->step && reached[1] <= (double)st->step;
}

/* Checkpoints of before know the seconds of the steps only. */
static bool read_seconds(const struct ls_ckpt *ckpt, struct train_state *st)
{
    const char *in_steps = ls_ckpt_meta(ckpt, "train_seconds"), *all = ls_ckpt_meta(ckpt, "seconds");
    struct ls_seconds *p = &st->parts;
    if (!in_steps) return false;
    st->train_seconds = strtod(in_steps, NULL);
    if (all)
        return read_numbers(all,
                            (double *[]){&st->total_seconds, &st->epoch_seconds, &st->log_seconds, &p->load,
                                         &p->compute, &p->communicate, &p->wait, &p->checkpoint, &p->evaluate,
                                         &p->update, &p->setup, &p->other, &p->hidden},
                            13);
    st->total_seconds = p->other = st->train_seconds;
    if (st->step > 0) st->epoch_seconds = st->train_seconds * (double)st->epoch_step / (double)st->step;
    return true;
}

enum ls_status ls__state_from_meta(struct train_state *st, const struct ls_ckpt *ckpt, const char *path)
{
    const char *pending = ls_ckpt_meta(ckpt, "pending_tally"), *applied = ls_ckpt_meta(ckpt, "applied_batches");
    ls__state_init(st);
    snprintf(st->applied, sizeof st->applied, "%s", applied ? applied : "");
    if (!read_count(ls_ckpt_meta(ckpt, "step"), &st->step) || !read_count(ls_ckpt_meta(ckpt, "epoch"), &st->epoch) ||
        !read_count(ls_ckpt_meta(ckpt, "epoch_step"), &st->epoch_step) ||
        !read_tally(ls_ckpt_meta(ckpt, "epoch_tally"), &st->epoch_tally) ||
        !read_tally(ls_ckpt_meta(ckpt, "log_tally"), &st->log_tally) ||
        (pending && !read_tally(pending, &st->pending)) ||
        !read_pair(ls_ckpt_meta(ckpt, "train"), &st->train_loss, &st->train_accuracy) ||
        !read_pair(ls_ckpt_meta(ckpt, "test"), &st->test_loss, &st->test_accuracy) || !read_validation(ckpt, st) ||
        !read_seconds(ckpt, st))
        return ls_fail(LS_CHECKPOINT, "%s: the training position in its metadata is missing or malformed", path);
    return LS_OK;
}
