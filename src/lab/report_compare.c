/* report_compare.c: which of the compared settings is best, and when (report_impl.h).
 *
 * `compare sync` says what a question is about. Its runs fall into cases: those of one case differ in nothing but what
 * is compared. Of each case the best is told with what the others have more or less, beyond noise or not; before them
 * the answer in one sentence, which is the question's in the summary; after them what the cases themselves do to each
 * of the compared. A case of which less than two runs are done is not told.
 */
#include "base/buf.h"
#include "lab/report_impl.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run of a case. */
struct entry {
    int run;
    struct ls_spread s;
    bool is_best; /* or does not differ from it beyond noise */
};

struct a_case {
    struct entry *entries; /* [n] the best first */
    int n, leader;         /* the run of it that stands first */
};

struct comparison {
    const struct ls_lab_view *v;
    const struct ls_lab_question *q;
    enum ls_lab_measure measure;
    struct a_case *cases; /* [n_cases] in the order of their leaders */
    int n_cases;
    bool is_once; /* a run of them was measured once */
};

/* --- names --- */

static const char *value_of(const struct comparison *c, int run, const char *key)
{
    return ls__lab_setting(&c->v->lab->runs[run], key);
}

/* "allreduce", "batch-size 64", "servers not set" */
static const char *setting(const struct comparison *c, const char *key, const char *value, bool is_short)
{
    if (!value) return ls__page_format(c->v->p, "%s not set", key);
    const bool is_word = isalpha((unsigned char)*value) && strcmp(value, "on") != 0 && strcmp(value, "off") != 0;
    return is_short && is_word ? value : ls__page_format(c->v->p, "%s %s", key, value);
}

/* What a run is called among those it is compared with. */
static const char *name_of(const struct comparison *c, int run)
{
    const char *name = "";
    for (int i = 0; i < c->q->n_compares; i++) {
        const char *key = c->q->compares[i], *value = value_of(c, run, key);
        if (i > 0 && !value) continue;
        name = ls__page_format(c->v->p, "%s%s%s", name, i ? " " : "", setting(c, key, value, i == 0));
    }
    return name;
}

/* "network 1gbit,0.1ms"; "" where the question has one case. */
static const char *case_name(const struct comparison *c, int run)
{
    const char *name = "";
    for (int i = 0; i < c->q->n_axes; i++) {
        const char *key = c->q->axes[i].key;
        if (ls__lab_compares(c->q, key)) continue;
        name = ls__page_format(c->v->p, "%s%s%s", name, *name ? " and " : "",
                               setting(c, key, value_of(c, run, key), false));
    }
    return name;
}

/* --- cases --- */

static bool is_higher_better(const struct comparison *c)
{
    return c->measure == LS_LAB_ACCURACY;
}

static enum ls_lab_verdict verdict(const struct comparison *c, const struct entry *a, const struct entry *b)
{
    if (c->measure != LS_LAB_ACCURACY) return ls__lab_compare(&a->s, &b->s);
    return ls__lab_compare_accuracy(&a->s, &b->s, ls_history_number(ls__lab_first(c->v, a->run), "test_data.images"));
}

static void insert(const struct comparison *c, struct a_case *k, struct entry e)
{
    int at = k->n++;
    for (; at > 0; at--) {
        const double before = k->entries[at - 1].s.median;
        if (is_higher_better(c) ? before >= e.s.median : before <= e.s.median) break;
        k->entries[at] = k->entries[at - 1];
    }
    k->entries[at] = e;
}

static bool is_beside(const struct comparison *c, int a, int b)
{
    return ls__lab_is_beside(c->q, &c->v->lab->runs[a], &c->v->lab->runs[b]);
}

/* The case that a run leads; false: it leads none, or nothing of it can be compared or is new. */
static bool make_case(struct comparison *c, int leader, struct a_case *k)
{
    const struct ls_lab_question *q = c->q;
    bool is_new = false;
    for (int i = 0; i < q->n_runs && q->runs[i] != leader; i++)
        if (is_beside(c, q->runs[i], leader)) return false;
    *k = (struct a_case){.leader = leader, .entries = ls__page_alloc(c->v->p, (size_t)q->n_runs, sizeof *k->entries)};
    for (int i = 0; k->entries && i < q->n_runs; i++) {
        struct entry e = {.run = q->runs[i], .s = ls__lab_spread(c->v, q->runs[i], c->measure)};
        if (e.s.n == 0 || !is_beside(c, e.run, leader)) continue;
        is_new |= !ls__lab_is_told(q, e.run, -1);
        insert(c, k, e);
    }
    for (int i = 0; i < k->n; i++)
        k->entries[i].is_best = i == 0 || verdict(c, &k->entries[i], &k->entries[0]) == LS_LAB_NOISE;
    if (k->n < 2 || !is_new) return false;
    for (int i = 0; i < k->n; i++) c->is_once |= k->entries[i].s.n == 1;
    return true;
}

static bool find_cases(struct comparison *c)
{
    c->cases = ls__page_alloc(c->v->p, (size_t)c->q->n_runs, sizeof *c->cases);
    for (int i = 0; c->cases && i < c->q->n_runs; i++)
        if (make_case(c, c->q->runs[i], &c->cases[c->n_cases])) c->n_cases++;
    return c->n_cases > 0;
}

/* --- sentences --- */

/* How far an entry is from the best: "2.01 times", "1.10 points less". */
static const char *distance(const struct comparison *c, const struct entry *e, const struct entry *best)
{
    if (is_higher_better(c)) return ls__page_format(c->v->p, "%.2f points less", 100 * (best->s.median - e->s.median));
    return ls__page_format(c->v->p, "%s times", ls__lab_say(c->v->p, e->s.median / best->s.median));
}

/* "allreduce", or all that are not worse beyond noise. */
static const char *winners(const struct comparison *c, const struct a_case *k)
{
    const char *names = name_of(c, k->entries[0].run);
    int n_best = 0, n_told = 1;
    for (int i = 0; i < k->n; i++) n_best += k->entries[i].is_best;
    for (int i = 1; i < k->n; i++)
        if (k->entries[i].is_best)
            names = ls__page_format(c->v->p, "%s%s%s", names, ++n_told == n_best ? " and " : ", ",
                                    name_of(c, k->entries[i].run));
    return n_best > 1 ? ls__page_format(c->v->p, "%s, no difference beyond noise,", names) : names;
}

/* " with network 1gbit,0.1ms (ps 2.01 times the time)" */
static const char *where(const struct comparison *c, const struct a_case *k)
{
    const char *name = case_name(c, k->leader), *others = "";
    for (int i = 0; i < k->n; i++)
        if (!k->entries[i].is_best)
            others = ls__page_format(c->v->p, "%s%s%s %s", others, *others ? ", " : "", name_of(c, k->entries[i].run),
                                     distance(c, &k->entries[i], &k->entries[0]));
    return ls__page_format(c->v->p, "%s%s%s%s%s", *name ? " with " : "", name, *others ? " (" : "", others,
                           !*others              ? ""
                           : is_higher_better(c) ? ")"
                                                 : " the time)");
}

static const char *once(const struct comparison *c)
{
    return c->is_once ? "; measured once, so the noise is not known" : "";
}

/* Who is best in which cases, each of them once. */
static void say_answer(const struct comparison *c, struct ls_lab_text *t)
{
    const char *all = "";
    for (int i = 0; i < c->n_cases; i++) {
        const char *who = winners(c, &c->cases[i]), *cases = "";
        bool is_told = false;
        for (int k = 0; k < i; k++) is_told |= strcmp(winners(c, &c->cases[k]), who) == 0;
        for (int k = i; k < c->n_cases && !is_told; k++)
            if (strcmp(winners(c, &c->cases[k]), who) == 0)
                cases = ls__page_format(c->v->p, "%s%s%s", cases, *cases ? "," : "", where(c, &c->cases[k]));
        if (!is_told) all = ls__page_format(c->v->p, "%s%s%s%s", all, *all ? "; " : "", who, cases);
    }
    ls__lab_finding(t, INFINITY, "%s: %s%s.", is_higher_better(c) ? "Most accurate" : "Fastest", all, once(c));
}

static void say_case(const struct comparison *c, const struct a_case *k, struct ls_lab_text *t)
{
    const char *name = case_name(c, k->leader), *all = "";
    const double scale = is_higher_better(c) ? 100 : 1;
    for (int i = 0; i < k->n; i++) {
        const struct entry *e = &k->entries[i];
        const char *far = i == 0       ? ""
                          : e->is_best ? ", no difference beyond noise"
                                       : ls__page_format(c->v->p, ", %s", distance(c, e, &k->entries[0]));
        all = ls__page_format(c->v->p, "%s%s%s %s %s%s", all, i ? "; " : "", name_of(c, e->run),
                              ls__lab_say_briefly(c->v->p, &e->s, scale), is_higher_better(c) ? "%" : "s", far);
    }
    ls__lab_sentence(t, "%s%s%s%s.", *name ? "With " : "", name, *name ? ": " : "", all);
}

/* What the cases do to one of the compared: its time in each over that in the first. */
static void say_effects_of(const struct comparison *c, const char *name, struct ls_lab_text *t)
{
    const struct entry *first = NULL;
    const char *first_case = "", *all = "";
    for (int i = 0; i < c->n_cases; i++)
        for (int k = 0; k < c->cases[i].n; k++) {
            const struct entry *e = &c->cases[i].entries[k];
            if (strcmp(name_of(c, e->run), name) != 0) continue;
            if (first)
                all = ls__page_format(c->v->p, "%s%s%s with %s", all, *all ? ", " : "",
                                      verdict(c, e, first) == LS_LAB_NOISE ? "no difference beyond noise"
                                                                           : distance(c, e, first),
                                      case_name(c, e->run));
            if (!first) first_case = case_name(c, e->run), first = e;
        }
    if (*all) ls__lab_sentence(t, "%s, against its time with %s: %s.", name, first_case, all);
}

static void say_effects(const struct comparison *c, struct ls_lab_text *t)
{
    const char *told = "";
    for (int i = 0; i < c->n_cases && !is_higher_better(c); i++)
        for (int k = 0; k < c->cases[i].n; k++) {
            const char *name = name_of(c, c->cases[i].entries[k].run), *mark = ls__page_format(c->v->p, "\n%s\n", name);
            if (strstr(told, mark)) continue;
            told = ls__page_format(c->v->p, "%s%s", told, mark);
            say_effects_of(c, name, t);
        }
}

/* --- is it the same that they trained? --- */

static bool has_weights_of(const struct ls_lab_view *v, int run, const char *hash)
{
    for (int k = 0; k < v->seen[run].n_done; k++) {
        const char *its = ls_history_text(v->seen[run].done[k], "weights_hash");
        if (!its || !hash || strcmp(its, hash) != 0) return false;
    }
    return v->seen[run].n_done > 0;
}

/* Where some of the compared have the weights of the first and some not, time alone does not decide. */
static void say_weights(const struct comparison *c, struct ls_lab_text *t)
{
    const char *others = "";
    int n_same = 0, n_others = 0;
    for (int i = 0; i < c->n_cases; i++) {
        const char *hash = ls_history_text(ls__lab_first(c->v, c->cases[i].leader), "weights_hash");
        for (int k = 0; k < c->cases[i].n; k++) {
            const int run = c->cases[i].entries[k].run;
            const char *name = name_of(c, run), *mark = ls__page_format(c->v->p, "\n%s\n", name);
            if (has_weights_of(c->v, run, hash)) {
                n_same += run != c->cases[i].leader;
                continue;
            }
            if (!strstr(others, mark)) others = ls__page_format(c->v->p, "%s%s", others, mark), n_others++;
        }
    }
    if (n_same > 0 && n_others == 0)
        ls__lab_sentence(t, "What is compared is one training: the weights are the same, proved by hash.");
    for (const char *at = others; n_same > 0 && *at;) {
        const size_t len = strcspn(++at, "\n");
        ls__lab_sentence(t, "%.*s ended with other weights than %s: another training, of which this is the time only.",
                         (int)len, at, name_of(c, c->cases[0].leader));
        at += len + 1;
    }
}

/* Whether there is anything to compare. */
static bool begin(struct comparison *c, const struct ls_lab_view *v, const struct ls_lab_question *q,
                  enum ls_lab_measure m)
{
    *c = (struct comparison){.v = v, .q = q, .measure = m};
    return q->n_compares > 0 && find_cases(c);
}

bool ls__lab_say_comparison(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_measure m,
                            struct ls_lab_text *t)
{
    struct comparison c;
    if (!begin(&c, v, q, m)) return false;
    say_answer(&c, t);
    for (int i = 0; i < c.n_cases; i++) say_case(&c, &c.cases[i], t);
    say_effects(&c, t);
    if (m == LS_LAB_TIME) say_weights(&c, t);
    return true;
}

/* --- the forecast --- */

/* The run of a case with the shortest step, as forecast; -1: one of them has no forecast. */
static int forecast_of(const struct comparison *c, const struct a_case *k)
{
    double least = INFINITY;
    int best = -1;
    for (int i = 0; i < k->n; i++) {
        const struct ls_spread s = ls__lab_spread(c->v, k->entries[i].run, LS_LAB_PREDICTED);
        if (s.n == 0) return -1;
        if (s.median < least) least = s.median, best = i;
    }
    return best;
}

void ls__lab_say_forecast(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    struct comparison c;
    const char *wrong = "";
    int n = 0, n_right = 0;
    if (!begin(&c, v, q, LS_LAB_STEP)) return;
    for (int i = 0; i < c.n_cases; i++) {
        const struct a_case *k = &c.cases[i];
        const int best = forecast_of(&c, k);
        const char *name = case_name(&c, k->leader);
        if (best < 0) continue;
        n++;
        n_right += k->entries[best].is_best;
        if (!k->entries[best].is_best)
            wrong = ls__page_format(v->p, "%s%s%s%s%sforecast %s, measured %s", wrong, *wrong ? "; " : ": ",
                                    *name ? "with " : "", name, *name ? " " : "", name_of(&c, k->entries[best].run),
                                    name_of(&c, k->entries[0].run));
    }
    if (n > 0)
        ls__lab_sentence(t, "The forecast before the first step named the fastest in %d of %d case%s%s.", n_right, n,
                         n == 1 ? "" : "s", wrong);
}
