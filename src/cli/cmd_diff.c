/* cmd_diff.c: `lockstep diff RUN RUN`: what differs in options, environment and result, and where the curves part. */
#include "cli/cmd.h"
#include "cli/spark.h"
#include "history/history.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_BYTES = 96 };

/* A line if the two differ; says whether they do. */
static bool add_pair(struct ls_buf *b, const char *name, const char *left, const char *right)
{
    char clean[VALUE_BYTES];
    if (strcmp(left, right) == 0) return false;
    struct ls_buf l = LS_BUF_INIT, r = LS_BUF_INIT;
    snprintf(clean, sizeof clean, "%s", left[0] ? left : "-");
    ls__spark_text(&l, clean);
    snprintf(clean, sizeof clean, "%s", right[0] ? right : "-");
    ls__spark_text(&r, clean);
    ls__buf_adds(b, "  ");
    struct ls_buf n = LS_BUF_INIT;
    ls__spark_text(&n, name);
    ls__buf_addf(b, "%-22s %-30s %s", n.text, l.text, r.text);
    ls__buf_release(&n);
    ls__buf_release(&l);
    ls__buf_release(&r);
    return true;
}

static void value_text(json_t *value, char out[VALUE_BYTES])
{
    out[0] = '\0';
    if (json_is_string(value)) snprintf(out, VALUE_BYTES, "%s", json_string_value(value));
    if (json_is_integer(value)) snprintf(out, VALUE_BYTES, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) snprintf(out, VALUE_BYTES, "%.9g", json_real_value(value));
    if (json_is_boolean(value)) snprintf(out, VALUE_BYTES, "%s", json_is_true(value) ? "true" : "false");
}

static bool is_left_out(const char *key)
{
    return strcmp(key, "run_dir") == 0 || strcmp(key, "started") == 0 || strcmp(key, "options") == 0;
}

/* Members of one level; of numbers the change in per cent too. `skip`: those of it are told elsewhere. */
static int add_members(struct ls_buf *b, const char *prefix, json_t *left, json_t *right)
{
    json_t *all = json_object();
    const char *key;
    json_t *value;
    int n = 0;
    if (all && left) json_object_update(all, left);
    if (all && right) json_object_update_missing(all, right);
    json_object_foreach(all, key, value)
    {
        char name[160], l[VALUE_BYTES], r[VALUE_BYTES];
        json_t *a = json_object_get(left, key), *c = json_object_get(right, key);
        if (is_left_out(key)) continue;
        snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_is_object(a) || json_is_object(c)) {
            n += add_members(b, name, a, c);
            continue;
        }
        value_text(a, l);
        value_text(c, r);
        if (!add_pair(b, name, l, r)) continue;
        double from = json_number_value(a), to = json_number_value(c);
        if (json_is_number(a) && json_is_number(c) && from != 0) ls__buf_addf(b, "  %+.2f %%", 100 * (to / from - 1));
        ls__buf_adds(b, "\n");
        n++;
    }
    json_decref(all);
    return n;
}

static void add_section(struct ls_buf *b, const char *title, json_t *left, json_t *right)
{
    ls__buf_addf(b, "%s\n", title);
    if (!left && !right)
        ls__buf_adds(b, "  not there\n");
    else if (add_members(b, "", left, right) == 0)
        ls__buf_adds(b, "  the same\n");
}

/* The first step at which the training losses differ. */
static void add_parting(struct ls_buf *b, const struct ls_history *left, const struct ls_history *right)
{
    const struct ls_curve *a = ls_history_curve(left, "train"), *c = ls_history_curve(right, "train");
    const double *la = ls_curve_values(a, "loss"), *lc = ls_curve_values(c, "loss"), *sa = ls_curve_values(a, "step"),
                 *sc = ls_curve_values(c, "step");
    if (!la || !lc || !sa || !sc) return;
    size_t i = 0, k = 0, n_same = 0;
    while (i < a->n && k < c->n) {
        if (sa[i] != sc[k]) {
            if (sa[i] < sc[k])
                i++;
            else
                k++;
            continue;
        }
        if (la[i] != lc[k] && !(isnan(la[i]) && isnan(lc[k]))) {
            ls__buf_addf(b, "  losses part at step %.0f: %.9g and %.9g\n", sa[i], la[i], lc[k]);
            return;
        }
        n_same++, i++, k++;
    }
    ls__buf_addf(b, "  %zu logged losses that both have are the same\n", n_same);
}

static void add_verdict(struct ls_buf *b, const struct ls_history *left, const struct ls_history *right)
{
    const char *l = ls_history_text(left, "weights_hash"), *r = ls_history_text(right, "weights_hash");
    if (l && r) ls__buf_adds(b, strcmp(l, r) == 0 ? "the weights are identical\n" : "the weights differ\n");
    if (!l || !r) ls__buf_adds(b, "the weights cannot be compared: not both runs are done\n");
}

static void add_diff(struct ls_buf *b, const struct ls_history *left, const struct ls_history *right)
{
    json_t *ml = (json_t *)ls_history_manifest(left), *mr = (json_t *)ls_history_manifest(right);
    ls__buf_adds(b, "  ");
    add_pair(b, "", ls_history_dir(left), ls_history_dir(right));
    ls__buf_adds(b, "\n");
    add_section(b, "options", json_object_get(ml, "options"), json_object_get(mr, "options"));
    add_section(b, "environment", ml, mr);
    add_section(b, "result", (json_t *)ls_history_result(left), (json_t *)ls_history_result(right));
    ls__buf_adds(b, "curves\n");
    add_parting(b, left, right);
    add_verdict(b, left, right);
}

enum ls_status ls__cmd_diff(const struct ls_options *o)
{
    struct ls_history *left = NULL, *right = NULL;
    struct ls_buf b = LS_BUF_INIT;
    enum ls_status status = ls_history_open(&left, o->args[0]);
    if (status == LS_OK) status = ls_history_open(&right, o->args[1]);
    if (status == LS_OK) add_diff(&b, left, right);
    ls_history_close(&left);
    ls_history_close(&right);
    if (status == LS_OK) return ls__print_buf(&b);
    ls__buf_release(&b);
    return status;
}
