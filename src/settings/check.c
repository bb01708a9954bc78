/* check.c: what a training takes, beyond each setting for itself: what is missing is filled in, what does not go
 * together is refused. Programs and the command line get the same answers, for both come here.
 */
#include "backend/backend.h"
#include "settings/augmentation.h"
#include "settings/setting.h"
#include "settings/sync_names.h"

#include <inttypes.h>
#include <string.h>

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

void ls__options_complete(struct ls_train_options *o)
{
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        if (!s->follows_others && !ls__setting_is_there(s, o)) ls__setting_reset(s, o);
    }
    if (o->train_images && !o->data) o->data = "memory";
    if (o->model_text && !o->model) o->model = "model_text";
    if (is(o->device, "auto")) o->device = ls_backends[0] ? ls_backends[0]->name : "ref";
}

enum ls_status ls__options_check_device(struct ls_train_options *o)
{
    const struct ls_backend *backend;
    ls__options_complete(o);
    return ls_backend_exists(o->device) ? LS_OK : ls_backend_get(o->device, &backend);
}

static enum ls_status check_sums(const struct ls_train_options *o)
{
    TRY(ls__sync_check(o->sync, o->compress));
    if (o->compress != 0 && o->compress != 8 && o->compress != 16)
        return ls_fail(LS_USAGE, "--compress %" PRId64 ": expected 8, 16 or 0", o->compress);
    if (o->compress && !is(o->sum, "fixed")) return ls_fail(LS_USAGE, "--compress needs --sum fixed");
    return LS_OK;
}

/* What needs all of it in one place. */
static enum ls_status check_servers(const struct ls_train_options *o)
{
    if (o->servers == 1) return LS_OK;
    if (!is(o->sync, "ps"))
        return ls_fail(LS_USAGE, "--servers %" PRId64 " is for --sync ps, not %s", o->servers, o->sync);
    if (o->clip_norm > 0)
        return ls_fail(LS_USAGE,
                       "--clip-norm needs the whole gradient in one place: it does not go with --servers %" PRId64,
                       o->servers);
    if (o->histograms > 0)
        return ls_fail(LS_USAGE,
                       "--histograms need the whole gradient in one place: they do not go with --servers %" PRId64,
                       o->servers);
    return LS_OK;
}

/* The defaults that the table tells are sgd's. */
static enum ls_status choose_rate(struct ls_train_options *o, enum ls_setting_id id, const char *for_adamw)
{
    const struct ls_setting *s = &ls__settings[id];
    if (ls__setting_is_there(s, o)) return LS_OK;
    return ls__setting_store(s, o, is(o->optimizer, "adamw") ? for_adamw : s->def);
}

/* Of those that are not loaded yet; a plug-in answers for itself. */
static enum ls_status check_precision(const struct ls_train_options *o)
{
    const struct ls_backend *backend = ls_backend_find(is(o->device, "auto") ? NULL : o->device);
    if (is(o->precision, "f32") || !backend || backend->set_precision) return LS_OK;
    return ls_fail(LS_USAGE, "--precision %s: the device %s computes in f32 only; leave it out, or use --device cuda",
                   o->precision, backend->name);
}

enum ls_status ls_options_check(struct ls_train_options *o)
{
    if (!o) return ls_fail(LS_USAGE, "ls_options_check without options");
    ls__options_complete(o);
    if (!o->model || !o->data) return ls_fail(LS_USAGE, "no %s was named", o->model ? "data set" : "model");
    TRY(ls__options_check_device(o));
    for (int i = 0; i < LS_N_SETTINGS; i++) TRY(ls__setting_check(&ls__settings[i], o));
    TRY(choose_rate(o, LS_SET_LR, "0.001"));
    TRY(choose_rate(o, LS_SET_WEIGHT_DECAY, "0.01"));
    TRY(check_precision(o));
    TRY(check_sums(o));
    TRY(check_servers(o));
    if (o->init_skip && !o->init) return ls_fail(LS_USAGE, "--init-skip needs --init, the file to skip parts of");
    if (o->patience > 0 && !o->validation)
        return ls_fail(LS_USAGE,
                       "--patience needs --validation, data to be patient about: --validation 0.1 holds out a "
                       "tenth of the training data");
    if (o->target > 0 && o->no_eval && !o->validation)
        return ls_fail(LS_USAGE, "--target needs data to reach it on: --validation 0.1, or no --no-eval");
    if (is(o->schedule, "multistep") && !o->milestones)
        return ls_fail(LS_USAGE,
                       "--schedule multistep needs --milestones, the epochs at which the rate changes: 30,60,80");
    if (o->nesterov && o->momentum == 0) return ls_fail(LS_USAGE, "--nesterov needs a --momentum above 0");
    TRY(ls__augmentation_check(o));
    if (o->shards > o->batch_size)
        return ls_fail(LS_USAGE, "--shards %" PRId64 ": more than the %" PRId64 " samples of a batch", o->shards,
                       o->batch_size);
    return LS_OK;
}
