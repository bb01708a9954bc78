/* state.c: see state.h. */
#include "train/state.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void state_init(struct train_state *st)
{
    *st = (struct train_state){
        .train_loss = NAN, .train_accuracy = NAN, .test_loss = NAN, .test_accuracy = NAN, .best_accuracy = -1};
}

void tally_add(struct tally *t, const struct ls_exec_stats *stats)
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

/* The options that decide the bits of a run; "epochs" decides them only through the schedule and may be changed. */
static void add_identity(struct state_meta *m, const struct ls_train_options *o, const struct session *s)
{
    size_t len;
    const char *text = ls_model_text(s->model, &len);
    add(m, "model", "%s", ls_model_name(s->model));
    add(m, "model_hash", "%016llx", (unsigned long long)XXH3_64bits(text, len));
    add(m, "data", "%s", s->train->name);
    add(m, "data_checksum", "%s", s->train->checksum);
    add(m, "seed", "%lld", (long long)o->seed);
    add(m, "batch_size", "%lld", (long long)s->batch_size);
    add(m, "shards", "%lld", (long long)s->shards);
    add(m, "device", "%s", o->device);
    add(m, "optimizer", "%s lr=%.17g momentum=%.17g nesterov=%d weight_decay=%.17g beta1=%.17g beta2=%.17g eps=%.17g",
        o->optimizer, o->lr, o->momentum, o->nesterov, o->weight_decay, o->beta1, o->beta2, o->eps);
    add(m, "schedule", "%s gamma=%.17g step_epochs=%lld milestones=%s warmup_epochs=%.17g min_lr=%.17g", o->schedule,
        o->gamma, (long long)o->step_epochs, o->milestones ? o->milestones : "", o->warmup_epochs, o->min_lr);
    add(m, "regularization", "label_smoothing=%.17g clip_norm=%.17g", o->label_smoothing, o->clip_norm);
    add(m, "input", "crop_pad=%lld flip=%d cutout=%lld normalize=%d resize=%s", (long long)o->crop_pad, o->flip,
        (long long)o->cutout, o->normalize, o->resize ? o->resize : "");
    add(m, "sum", "%s", o->sum);
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

void state_meta_release(struct state_meta *m)
{
    free(m->model_text);
    m->model_text = NULL;
}

enum ls_status state_to_meta(const struct train_state *st, const struct ls_train_options *o, struct session *s,
                             struct state_meta *m)
{
    char hash[33], isa[128];
    m->n = 0;
    m->model_text = NULL;
    add(m, "lockstep.version", "%s", LOCKSTEP_VERSION);
    add_identity(m, o, s);
    s->backend->describe(s->device, isa, sizeof isa);
    add(m, "isa", "%s", isa);
    ls_plan_hash(ls_exec_plan(s->exec, s->shard_size, true), hash);
    add(m, "plan_hash", "%s", hash);
    TRY(session_hash(s, hash));
    add(m, "weights_hash", "%s", hash);
    add(m, "epochs", "%lld", (long long)o->epochs);
    add(m, "step", "%lld", (long long)st->step);
    add(m, "epoch", "%lld", (long long)st->epoch);
    add(m, "epoch_step", "%lld", (long long)st->epoch_step);
    add(m, "epoch_tally", "%a %lld %lld", st->epoch_tally.loss_sum, (long long)st->epoch_tally.n_correct,
        (long long)st->epoch_tally.n);
    add(m, "log_tally", "%a %lld %lld", st->log_tally.loss_sum, (long long)st->log_tally.n_correct,
        (long long)st->log_tally.n);
    add(m, "train", "%a %a", st->train_loss, st->train_accuracy);
    add(m, "test", "%a %a", st->test_loss, st->test_accuracy);
    add(m, "best_accuracy", "%a", st->best_accuracy);
    add(m, "train_seconds", "%a", st->train_seconds);
    return add_model_text(m, s);
}

enum ls_status state_check(const struct ls_train_options *o, const struct session *s, const struct ls_ckpt *ckpt,
                           const char *path)
{
    struct state_meta mine = {.n = 0};
    char isa[128];
    add_identity(&mine, o, s);
    for (int i = 0; i < mine.n; i++) {
        const char *theirs = ls_ckpt_meta(ckpt, mine.meta[i].key);
        if (!theirs)
            return ls_fail(LS_CHECKPOINT,
                           "%s has no '%s': it was not written by lockstep train, so it cannot be resumed", path,
                           mine.meta[i].key);
        if (strcmp(theirs, mine.meta[i].value) != 0)
            return ls_fail(LS_CHECKPOINT,
                           "%s was made with %s '%s', this run has '%s'; give the same options, or start another run",
                           path, mine.meta[i].key, theirs, mine.meta[i].value);
    }
    const char *epochs = ls_ckpt_meta(ckpt, "epochs"), *their_isa = ls_ckpt_meta(ckpt, "isa");
    if (epochs && atoll(epochs) != o->epochs) /* ok: only for a warning */
        ls__log(LS_LOG_WARN,
                "the run was begun for %s epochs and goes on for %lld: the learning rate follows the new plan", epochs,
                (long long)o->epochs);
    s->backend->describe(s->device, isa, sizeof isa);
    if (their_isa && strcmp(their_isa, isa) != 0)
        ls__log(LS_LOG_WARN,
                "the checkpoint was made with %s, this machine has %s: the weights will not be bit for bit "
                "those of an unbroken run",
                their_isa, isa);
    return LS_OK;
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

enum ls_status state_from_meta(struct train_state *st, const struct ls_ckpt *ckpt, const char *path)
{
    const char *best = ls_ckpt_meta(ckpt, "best_accuracy"), *seconds = ls_ckpt_meta(ckpt, "train_seconds");
    state_init(st);
    if (!read_count(ls_ckpt_meta(ckpt, "step"), &st->step) || !read_count(ls_ckpt_meta(ckpt, "epoch"), &st->epoch) ||
        !read_count(ls_ckpt_meta(ckpt, "epoch_step"), &st->epoch_step) ||
        !read_tally(ls_ckpt_meta(ckpt, "epoch_tally"), &st->epoch_tally) ||
        !read_tally(ls_ckpt_meta(ckpt, "log_tally"), &st->log_tally) ||
        !read_pair(ls_ckpt_meta(ckpt, "train"), &st->train_loss, &st->train_accuracy) ||
        !read_pair(ls_ckpt_meta(ckpt, "test"), &st->test_loss, &st->test_accuracy) || !best || !seconds)
        return ls_fail(LS_CHECKPOINT, "%s: the training position in its metadata is missing or malformed", path);
    st->best_accuracy = strtod(best, NULL);
    st->train_seconds = strtod(seconds, NULL);
    return LS_OK;
}
