/* schedule.c: the learning rate as a function of the step. See optim/optim.h. */
#include "base/parse.h"
#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [LS_CONSTANT] = "constant", [LS_STEP] = "step",         [LS_MULTISTEP] = "multistep",
    [LS_COSINE] = "cosine",     [LS_ONECYCLE] = "onecycle",
};

static enum ls_status parse_milestones(struct ls_schedule *s, const char *text)
{
    for (const char *at = text; *at;) {
        char word[32];
        size_t n = strcspn(at, ",");
        if (n == 0 || n >= sizeof word || s->n_milestones == LS_MAX_MILESTONES)
            return ls_fail(LS_USAGE, "--milestones %s: expected up to %d epochs like 30,60,80", text,
                           LS_MAX_MILESTONES);
        memcpy(word, at, n);
        word[n] = '\0';
        double *m = &s->milestones[s->n_milestones];
        if (!ls__parse_f64(word, m) || *m < 0 || (s->n_milestones > 0 && *m <= m[-1]))
            return ls_fail(LS_USAGE, "--milestones %s: '%s' is not an epoch greater than the one before", text, word);
        s->n_milestones++;
        at += n;
        if (*at == ',' && at[1] == '\0') return ls_fail(LS_USAGE, "--milestones %s: ends in a comma", text);
        if (*at == ',') at++;
    }
    return LS_OK;
}

enum ls_status ls_schedule_parse(struct ls_schedule *s, const char *kind, const char *milestones)
{
    if (!kind) return ls_fail(LS_USAGE, "no schedule was named: constant, step, multistep, cosine or onecycle");
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(kind, names[i]) != 0) continue;
        s->kind = (enum ls_schedule_kind)i;
        s->n_milestones = 0;
        if (i == LS_MULTISTEP && (!milestones || !*milestones))
            return ls_fail(LS_USAGE, "--schedule multistep needs --milestones, for example --milestones 30,60,80");
        return milestones ? parse_milestones(s, milestones) : LS_OK;
    }
    return ls_fail(LS_USAGE, "unknown schedule '%s': constant, step, multistep, cosine or onecycle", kind);
}

/* From a to b along half a cosine, t in [0,1]. */
static double cosine(double a, double b, double t)
{
    return b + (a - b) * 0.5 * (1 + cos(M_PI * t));
}

/* PyTorch's OneCycleLR with its defaults: lr/25 up to lr over 30 % of the steps, then down to lr/25/10^4. */
static double onecycle(const struct ls_schedule *s, int64_t step)
{
    double start = s->lr / 25, end = start / 1e4;
    double last = s->total_steps > 1 ? (double)(s->total_steps - 1) : 1;
    double peak = 0.3 * (double)s->total_steps - 1;
    if (peak > 0 && (double)step <= peak) return cosine(start, s->lr, (double)step / peak);
    if (peak < 0) peak = 0;
    return cosine(s->lr, end, ((double)step - peak) / (last > peak ? last - peak : 1));
}

double ls_schedule_lr(const struct ls_schedule *s, int64_t step)
{
    double per_epoch = s->steps_per_epoch > 0 ? (double)s->steps_per_epoch : 1;
    int64_t warmup = (int64_t)(s->warmup_epochs * per_epoch + 1e-6); /* 0.29 * 100 is 28.999999999999996 */
    if (step >= s->total_steps && s->total_steps > 0) step = s->total_steps - 1;
    if (s->kind == LS_ONECYCLE) return onecycle(s, step);
    if (step < warmup) return s->lr * (double)(step + 1) / (double)warmup;
    double epoch = (double)step / per_epoch, lr = s->lr;
    double span = (double)(s->total_steps - warmup);
    switch (s->kind) {
    case LS_STEP:
        return lr * pow(s->gamma, floor(epoch / (double)(s->step_epochs > 0 ? s->step_epochs : 1)));
    case LS_MULTISTEP:
        for (int i = 0; i < s->n_milestones; i++)
            if (epoch >= s->milestones[i]) lr *= s->gamma;
        return lr;
    case LS_COSINE:
        return cosine(lr, s->min_lr, span > 0 ? (double)(step - warmup) / span : 0);
    default:
        return lr;
    }
}
