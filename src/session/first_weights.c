/* first_weights.c: weights of a file by name into the store; see session.h.
 *
 * Names are PyTorch's on both sides; "module." before them, as its DataParallel writes, does not count. All is looked
 * through before anything is set: a file that does not fit changes nothing.
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session.h"
#include "settings/patterns.h"
#include "tensor/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 12, NAME_BYTES = 320 };

/* A list for people, cut where it gets long. */
struct names {
    struct ls_buf text;
    int n;
};

static void add_name(struct names *l, const char *name)
{
    if (l->n < MAX_NAMES) ls__buf_addf(&l->text, "%s%s", l->n ? ", " : "", name);
    l->n++;
}

static void tell(enum ls_log_level level, const char *what, struct names *l)
{
    if (l->n > 0 && !l->text.failed)
        ls__log(level, "init: %s: %s%s", what, l->text.text, l->n > MAX_NAMES ? ", and more" : "");
    ls__buf_release(&l->text);
}

static bool is_weight(const struct ls_stored *e)
{
    return e->source < 0 && (e->kind == LS_VALUE_PARAM || e->kind == LS_VALUE_BUFFER);
}

static const struct ls_ckpt_tensor *find(const struct ls_ckpt *ckpt, const char *name)
{
    char wrapped[NAME_BYTES];
    const struct ls_ckpt_tensor *t = ls_ckpt_find(ckpt, name);
    if (t) return t;
    snprintf(wrapped, sizeof wrapped, "module.%s", name);
    return ls_ckpt_find(ckpt, wrapped);
}

bool ls__tensor_is_float(const struct ls_ckpt_tensor *t)
{
    return t->dtype == LS_F32 || t->dtype == LS_F16 || t->dtype == LS_BF16;
}

bool ls__tensor_to_floats(const struct ls_ckpt_tensor *t, float *out)
{
    const int64_t n = ls_shape_count(&t->shape);
    const uint16_t *half = t->data;
    bool is_finite = true;
    for (int64_t i = 0; i < n; i++) {
        out[i] = t->dtype == LS_F32    ? ((const float *)t->data)[i]
                 : t->dtype == LS_BF16 ? ls__bf16_to_f32(half[i])
                                       : ls__f16_to_f32(half[i]);
        is_finite &= isfinite(out[i]);
    }
    return is_finite;
}

static enum ls_status set(struct session *s, int entry, const struct ls_ckpt_tensor *t, const char *path)
{
    float *plain;
    size_t bytes = (size_t)ls_shape_count(&t->shape) * sizeof *plain;
    TRY(ls__alloc_aligned(&plain, bytes));
    enum ls_status status =
        ls__tensor_to_floats(t, plain)
            ? ls_exec_set(s->exec, entry, plain)
            : ls_fail(LS_CHECKPOINT, "%s: tensor '%s' holds a value that is not finite", path, t->name);
    ls__free_aligned(plain, bytes);
    return status;
}

/* What the file has beyond the weights of this network; not what our checkpoints hold besides, and PyTorch's counters.
 */
static void list_unused(const struct session *s, const struct ls_ckpt *ckpt, struct names *unused)
{
    for (int i = 0; i < ls_ckpt_n_tensors(ckpt); i++) {
        const char *name = ls_ckpt_tensor_at(ckpt, i)->name;
        const char *plain = strncmp(name, "module.", 7) == 0 ? name + 7 : name, *dot = strrchr(plain, '.');
        bool is_known = strncmp(plain, "optimizer.", 10) == 0 || strchr(plain, '/') ||
                        (dot && strcmp(dot, ".num_batches_tracked") == 0);
        for (int k = 0; k < s->store->n_entries && !is_known; k++)
            is_known = is_weight(&s->store->entries[k]) && strcmp(s->store->entries[k].name, plain) == 0;
        if (!is_known) add_name(unused, name);
    }
}

static enum ls_status refuse_shapes(const struct session *s, const struct ls_stored *e, const struct ls_ckpt_tensor *t,
                                    const char *path, int n)
{
    char theirs[LS_SHAPE_TEXT], ours[LS_SHAPE_TEXT], more[48] = "";
    if (n > 1) snprintf(more, sizeof more, " (and %d more that do not fit)", n - 1);
    return ls_fail(LS_CHECKPOINT, "%s: '%s' is %s %s there, f32 %s in %s here%s; --init-skip '%.*s*' leaves it fresh",
                   path, e->name, ls_dtype_name(t->dtype), ls_shape_text(&t->shape, theirs),
                   ls_shape_text(&e->shape, ours), ls_model_name(s->model), more,
                   (int)(strrchr(e->name, '.') ? strrchr(e->name, '.') + 1 - e->name : 0), e->name);
}

/* Which tensor each weight gets: from[entry], NULL for none. */
static enum ls_status choose(const struct session *s, const struct ls_ckpt *ckpt, const char *path, const char *skip,
                             const struct ls_ckpt_tensor **from)
{
    struct names skipped = {.text = LS_BUF_INIT}, fresh = {.text = LS_BUF_INIT}, unused = {.text = LS_BUF_INIT};
    const struct ls_stored *odd = NULL, *entries = s->store->entries;
    int n_weights = 0, n_taken = 0, n_odd = 0;
    for (int i = 0; i < s->store->n_entries; i++) {
        const struct ls_stored *e = &entries[i];
        if (!is_weight(e)) continue;
        n_weights++;
        const struct ls_ckpt_tensor *t = find(ckpt, e->name);
        if (ls__patterns_match(skip, e->name)) {
            add_name(&skipped, e->name);
        } else if (!t) {
            add_name(&fresh, e->name);
        } else if (!ls__tensor_is_float(t) || !ls_shape_is_equal(&t->shape, &e->shape)) {
            if (n_odd++ == 0) odd = e;
        } else {
            from[i] = t;
            n_taken++;
        }
    }
    list_unused(s, ckpt, &unused);
    if (n_taken > 0 || n_odd > 0)
        ls__log(LS_LOG_INFO, "init: %d of %d tensors of %s from %s", n_taken, n_weights, ls_model_name(s->model), path);
    bool is_told = n_odd == 0 && n_taken > 0;
    tell(is_told ? LS_LOG_INFO : LS_LOG_DEBUG, "fresh, by --init-skip", &skipped);
    tell(is_told ? LS_LOG_WARN : LS_LOG_DEBUG, "fresh, not in the file", &fresh);
    tell(is_told ? LS_LOG_INFO : LS_LOG_DEBUG, "in the file and not used", &unused);
    if (n_odd > 0) return refuse_shapes(s, odd, find(ckpt, odd->name), path, n_odd);
    if (n_taken > 0) return LS_OK;
    return ls_fail(LS_CHECKPOINT, "%s: nothing in it fits %s: its first tensor is called '%s', ours '%s'", path,
                   ls_model_name(s->model), ls_ckpt_n_tensors(ckpt) > 0 ? ls_ckpt_tensor_at(ckpt, 0)->name : "nothing",
                   entries[0].name);
}

static enum ls_status check_skip(const struct session *s, const char *skip)
{
    char pattern[LS_PATTERN_BYTES];
    for (int i = 0; ls__pattern_at(skip, i, pattern); i++) {
        bool is_used = false;
        for (int k = 0; k < s->store->n_entries && !is_used; k++)
            is_used = is_weight(&s->store->entries[k]) && ls__pattern_matches(pattern, s->store->entries[k].name);
        if (!is_used)
            return ls_fail(LS_USAGE, "--init-skip %s: no parameter of %s has such a name", pattern,
                           ls_model_name(s->model));
    }
    return LS_OK;
}

enum ls_status ls__session_take_weights(struct session *s, const struct ls_ckpt *ckpt, const char *path,
                                        const char *skip)
{
    const struct ls_ckpt_tensor **from;
    TRY(check_skip(s, skip));
    TRY(ls__calloc(&from, (size_t)s->store->n_entries, sizeof *from));
    enum ls_status status = choose(s, ckpt, path, skip, from);
    for (int i = 0; status == LS_OK && i < s->store->n_entries; i++)
        if (from[i]) status = set(s, i, from[i], path);
    free(from);
    return status;
}
