/* expand.c: a draft -> the lab: every combination of what varies is a run; names of runs are found; what the parts of
 * the file say together is checked.
 */
#include "lab/draft.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SETTINGS = 100, MAX_VARIES = 16 };

/* --- one run's settings --- */

static enum ls_status set(struct draft *d, struct draft_list *list, const struct ls_lab_setting *s)
{
    struct ls_lab_setting *at = list->at;
    for (int i = 0; i < list->n; i++) {
        if (strcmp(at[i].key, s->key) != 0) continue;
        at[i] = *s;
        return LS_OK;
    }
    if (list->n == MAX_SETTINGS) return ls__draft_fail(d, s->line, "more than %d settings for a run", MAX_SETTINGS);
    TRY(ls__draft_grow(d, list, sizeof *at, &at));
    *at = *s;
    return LS_OK;
}

/* Two ways to say how long a training is. */
static const char *const lengths[] = {"epochs", "iterations"};

static const struct ls_lab_setting *find_in(const struct draft_list *list, const char *key)
{
    const struct ls_lab_setting *at = list->at;
    for (int i = 0; i < list->n; i++)
        if (strcmp(at[i].key, key) == 0) return &at[i];
    return NULL;
}

static void forget(struct draft_list *list, const char *key)
{
    struct ls_lab_setting *at = list->at;
    const struct ls_lab_setting *found = find_in(list, key);
    if (!found) return;
    for (int i = (int)(found - at); i + 1 < list->n; i++) at[i] = at[i + 1];
    list->n--;
}

static enum ls_status fail_of_lengths(const struct draft *d, const struct ls_lab_setting *a,
                                      const struct ls_lab_setting *b)
{
    const struct ls_lab_setting *later = b->line > a->line ? b : a;
    return ls__draft_fail(d, later->line,
                          "%s%s%s and %s%s%s: a training is so many epochs or so many iterations long: write one of "
                          "them",
                          a->key, *a->value ? "=" : "", a->value, b->key, *b->value ? "=" : "", b->value);
}

/* The nearer one counts, and the other is not told as a setting that it is not; two alike contradict each other. */
static enum ls_status choose_length(const struct draft *d, struct draft_list *list, const struct draft_list *nearer)
{
    const struct ls_lab_setting *found[] = {find_in(nearer, lengths[0]), find_in(nearer, lengths[1])};
    if (found[0] && found[1]) return d->rules ? fail_of_lengths(d, found[0], found[1]) : LS_OK;
    if (found[0]) forget(list, lengths[1]);
    if (found[1]) forget(list, lengths[0]);
    return LS_OK;
}

static enum ls_status set_all(struct draft *d, struct draft_list *list, const struct draft_list *from, bool is_own)
{
    TRY(choose_length(d, list, from));
    for (int i = 0; i < from->n; i++) {
        struct ls_lab_setting s = ((const struct ls_lab_setting *)from->at)[i];
        s.is_own = is_own;
        TRY(set(d, list, &s));
    }
    return LS_OK;
}

/* "1gbit,0.1ms" -> "1gbit_0.1ms" */
static void add_to_name(char *name, size_t size, const char *value)
{
    size_t len = strlen(name);
    if (len + 1 >= size) return;
    name[len++] = '-';
    for (; *value && len + 1 < size; value++)
        name[len++] = isalnum((unsigned char)*value) || *value == '.' || *value == '-' ? *value : '_';
    name[len] = '\0';
}

static bool has_same_settings(const struct ls_lab_run *a, const struct ls_lab_run *b)
{
    if (a->n_settings != b->n_settings) return false;
    for (int i = 0; i < a->n_settings; i++) {
        const char *value = ls__lab_setting(b, a->settings[i].key);
        if (!value || strcmp(value, a->settings[i].value) != 0) return false;
    }
    return true;
}

static enum ls_status check_run(const struct draft *d, const struct draft_list *runs, const struct ls_lab_run *run)
{
    int line = run->line;
    for (int i = 0; i < runs->n; i++) {
        const struct ls_lab_run *other = (const struct ls_lab_run *)runs->at + i;
        if (other == run) continue;
        if (strcmp(other->name, run->name) == 0)
            return ls__draft_fail(d, line, "a second run %s (the first is in line %d): give it another name", run->name,
                                  other->line);
        if (has_same_settings(other, run))
            return ls__draft_fail(d, line, "run %s is the same training as %s (line %d): write use %s instead",
                                  run->name, other->name, other->line, other->name);
    }
    if (!d->rules) return LS_OK;
    if (d->rules->run(d->rules, run, &line) == LS_OK) return LS_OK;
    if (line != run->line) return ls_fail_in(LS_USAGE, "%s:%d", d->origin, line); /* the line says it all */
    return ls_fail_in(LS_USAGE, "%s:%d: run %s", d->origin, line, run->name);
}

/* --- a question's runs --- */

struct expansion {
    struct draft *d;
    struct draft_list runs; /* struct ls_lab_run, of the whole lab */
};

/* On the run's own line and those below it. */
static enum ls_status check_lengths(const struct draft *d, const struct draft_run *from)
{
    const struct draft_vary *vary = from->varies.at;
    struct ls_lab_setting varied[2] = {{0}};
    const struct ls_lab_setting *found[2];
    for (int k = 0; k < 2; k++) {
        found[k] = find_in(&from->settings, lengths[k]);
        for (int i = 0; i < from->varies.n; i++) {
            if (strcmp(vary[i].key, lengths[k]) != 0) continue;
            varied[k] = (struct ls_lab_setting){.key = lengths[k], .value = "", .line = vary[i].line};
            found[k] = &varied[k];
        }
    }
    return found[0] && found[1] && d->rules ? fail_of_lengths(d, found[0], found[1]) : LS_OK;
}

static enum ls_status check_varies(const struct draft *d, const struct draft_run *from)
{
    const struct draft_vary *vary = from->varies.at;
    const struct ls_lab_setting *own = from->settings.at;
    for (int i = 0; i < from->varies.n; i++) {
        for (int k = 0; k < from->settings.n; k++)
            if (strcmp(own[k].key, vary[i].key) == 0)
                return ls__draft_fail(d, vary[i].line,
                                      "vary %s, but the run's own line sets %s=%s: take one of them away", vary[i].key,
                                      own[k].key, own[k].value);
        for (int k = 0; k < i; k++)
            if (strcmp(vary[k].key, vary[i].key) == 0)
                return ls__draft_fail(d, vary[i].line, "%s is varied twice (line %d): put all values into one line",
                                      vary[i].key, vary[k].line);
    }
    return check_lengths(d, from);
}

/* The combination with this number; the last `vary` runs fastest. */
static enum ls_status expand_one(struct expansion *x, const struct draft_question *q, const struct draft_run *from,
                                 int number)
{
    char name[LS_LAB_NAME_BYTES + 2];
    struct draft_list settings = {0};
    const struct draft_vary *vary = from->varies.at;
    int part[MAX_VARIES], n = from->varies.n;
    struct ls_lab_run *run;
    TRY(set_all(x->d, &settings, &x->d->base, false));
    TRY(set_all(x->d, &settings, &q->base, false));
    TRY(set_all(x->d, &settings, &from->settings, true));
    for (int i = n - 1; i >= 0; i--) {
        part[i] = number % vary[i].n_values;
        number /= vary[i].n_values;
    }
    snprintf(name, sizeof name, "%s", from->name);
    for (int i = 0; i < n; i++) {
        const char *value = vary[i].values[part[i]];
        add_to_name(name, sizeof name, value);
        for (int k = 0; k < 2; k++)
            if (strcmp(vary[i].key, lengths[k]) == 0) forget(&settings, lengths[1 - k]);
        TRY(set(x->d, &settings,
                &(struct ls_lab_setting){
                    .key = vary[i].key, .value = value, .line = vary[i].line, .is_own = true, .is_varied = true}));
    }
    if (strlen(name) > LS_LAB_NAME_BYTES)
        return ls__draft_fail(x->d, from->line,
                              "run %s...: the names of its runs, made of its values, are longer than %d "
                              "characters: split it",
                              from->name, LS_LAB_NAME_BYTES);
    if (x->runs.n == LS_LAB_MAX_RUNS)
        return ls__draft_fail(x->d, from->line, "more than %d runs in all", LS_LAB_MAX_RUNS);
    TRY(ls__draft_grow(x->d, &x->runs, sizeof *run, &run));
    *run = (struct ls_lab_run){.group = from->name,
                               .settings = settings.at,
                               .n_settings = settings.n,
                               .line = from->line,
                               .repeats = q->repeat      ? q->repeat
                                          : x->d->repeat ? x->d->repeat
                                                         : 1};
    TRY(ls__arena_text(&x->d->lab->memory, &run->name, name, strlen(name)));
    return check_run(x->d, &x->runs, run);
}

static enum ls_status add_run(struct draft *d, struct draft_list *runs, struct draft_list *own, int run, bool is_own)
{
    int *at;
    bool *is;
    for (int i = 0; i < runs->n; i++)
        if (((const int *)runs->at)[i] == run) return LS_OK;
    TRY(ls__draft_grow(d, runs, sizeof *at, &at));
    TRY(ls__draft_grow(d, own, sizeof *is, &is));
    *at = run;
    *is = is_own;
    return LS_OK;
}

static enum ls_status expand_run(struct expansion *x, const struct draft_question *q, const struct draft_run *from,
                                 struct draft_list *runs, struct draft_list *own)
{
    const struct draft_vary *vary = from->varies.at;
    int n = 1;
    if (from->varies.n > MAX_VARIES)
        return ls__draft_fail(x->d, from->line, "run %s varies more than %d settings", from->name, MAX_VARIES);
    TRY(check_varies(x->d, from));
    for (int i = 0; i < from->varies.n; i++) {
        if (vary[i].n_values > LS_LAB_MAX_RUNS || n * vary[i].n_values > LS_LAB_MAX_RUNS)
            return ls__draft_fail(x->d, vary[i].line, "run %s would be more than %d runs", from->name, LS_LAB_MAX_RUNS);
        n *= vary[i].n_values;
    }
    for (int i = 0; i < n; i++) {
        TRY(expand_one(x, q, from, i));
        TRY(add_run(x->d, runs, own, x->runs.n - 1, true));
    }
    return LS_OK;
}

/* --- names of runs --- */

/* "Q1", a run line or one run; of questions that stand before this one. */
static enum ls_status use(struct expansion *x, const struct draft_word *word, const struct ls_lab_question *before,
                          int n_before, struct draft_list *runs, struct draft_list *own)
{
    bool is_found = false;
    for (int i = 0; i < n_before; i++) {
        if (strcmp(before[i].id, word->text) != 0) continue;
        for (int k = 0; k < before[i].n_runs; k++) TRY(add_run(x->d, runs, own, before[i].runs[k], false));
        return LS_OK;
    }
    for (int i = 0; i < x->runs.n; i++) {
        const struct ls_lab_run *run = (const struct ls_lab_run *)x->runs.at + i;
        if (strcmp(run->name, word->text) != 0 && strcmp(run->group, word->text) != 0) continue;
        TRY(add_run(x->d, runs, own, i, false));
        is_found = true;
    }
    return is_found ? LS_OK : ls__draft_unknown_run(x->d, &x->runs, word->line, "use", word->text);
}

/* --- questions --- */

static int count_values(const struct ls_lab_run *runs, const struct ls_lab_question *q, const char *key)
{
    int n = 0;
    for (int i = 0; i < q->n_runs; i++) { /* a value counts where it appears first */
        const char *value = ls__lab_setting(&runs[q->runs[i]], key);
        bool is_new = true;
        for (int k = 0; k < i && is_new; k++) {
            const char *other = ls__lab_setting(&runs[q->runs[k]], key);
            is_new = value && other ? strcmp(value, other) != 0 : value != other;
        }
        n += is_new;
    }
    return n;
}

static bool is_seen(const struct draft_list *keys, const char *key)
{
    for (int i = 0; i < keys->n; i++)
        if (strcmp(((const char **)keys->at)[i], key) == 0) return true;
    return false;
}

static enum ls_status find_axes(const struct expansion *x, struct ls_lab_question *q)
{
    struct draft_list axes = {0}, keys = {0};
    const struct ls_lab_run *runs = x->runs.at;
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_run *run = &runs[q->runs[i]];
        for (int s = 0; s < run->n_settings; s++) {
            struct ls_lab_axis *axis;
            const char **key;
            if (is_seen(&keys, run->settings[s].key)) continue;
            TRY(ls__draft_grow(x->d, &keys, sizeof *key, &key));
            *key = run->settings[s].key;
            const int n_values = count_values(runs, q, *key);
            if (n_values < 2) continue;
            TRY(ls__draft_grow(x->d, &axes, sizeof *axis, &axis));
            *axis = (struct ls_lab_axis){.key = *key, .n_values = n_values};
        }
    }
    q->axes = axes.at;
    q->n_axes = axes.n;
    return LS_OK;
}

static enum ls_status find_published(const struct expansion *x, const struct draft_question *from,
                                     struct ls_lab_question *q)
{
    TRY(ls__arena_alloc(&x->d->lab->memory, &q->published, (size_t)from->published.n, sizeof *q->published));
    for (int i = 0; i < from->published.n; i++) {
        const struct draft_published *p = (const struct draft_published *)from->published.at + i;
        char what[32];
        int run = 0;
        if (!ls__lab_shows(q, p->what))
            return ls__draft_fail(x->d, p->line, "published %s, but the question does not show %s: add it to show",
                                  ls__lab_show_words[p->what], ls__lab_show_words[p->what]);
        const struct draft_word name = {.text = p->run, .line = p->line};
        snprintf(what, sizeof what, "published %s", ls__lab_show_words[p->what]);
        TRY(ls__draft_find_run(x->d, &x->runs, q, what, &name, &run));
        q->published[q->n_published++] = (struct ls_lab_published){
            .what = p->what, .run = run, .low = p->low, .high = p->high, .is_unsure = p->is_unsure, .line = p->line};
    }
    if (q->n_published && !*x->d->lab->source)
        return ls__draft_fail(x->d, q->published[0].line,
                              "published figures without their source: write source WHERE THEY COME FROM at the top");
    return LS_OK;
}

static bool is_axis(const struct ls_lab_question *q, const char *key)
{
    for (int i = 0; i < q->n_axes; i++)
        if (strcmp(q->axes[i].key, key) == 0) return true;
    return false;
}

/* What is compared has to differ, and something to be better in. */
static enum ls_status find_compares(const struct expansion *x, const struct draft_question *from,
                                    struct ls_lab_question *q)
{
    const struct draft_word *words = from->compares.at;
    const struct ls_lab_run *runs = x->runs.at;
    if (from->compares.n == 0) return LS_OK;
    TRY(ls__arena_alloc(&x->d->lab->memory, &q->compares, (size_t)from->compares.n, sizeof *q->compares));
    for (int i = 0; i < from->compares.n; i++) {
        if (!is_axis(q, words[i].text))
            return ls__draft_fail(x->d, words[i].line,
                                  "compare %s, but it is the same in all runs of question %s: vary it, or take it away",
                                  words[i].text, q->id);
        q->compares[q->n_compares++] = words[i].text;
    }
    if (!ls__lab_shows(q, LS_SHOW_TIME) && !ls__lab_shows(q, LS_SHOW_ACCURACY))
        return ls__draft_fail(x->d, words[0].line,
                              "compare %s, but question %s shows neither time nor accuracy: add one of them to show",
                              words[0].text, q->id);
    for (int i = 0; i < q->n_runs; i++)
        for (int k = 0; k < i; k++)
            if (ls__lab_is_beside(q, &runs[q->runs[i]], &runs[q->runs[k]])) return LS_OK;
    return ls__draft_fail(x->d, words[0].line,
                          "compare %s: no two runs of question %s differ in nothing else: name what differs with it, "
                          "too, or make runs that do not",
                          words[0].text, q->id);
}

/* Whether a run of the question is measured on test data. */
static bool has_evaluation(const struct expansion *x, const struct ls_lab_question *q)
{
    for (int i = 0; i < q->n_runs; i++) {
        const char *no_eval = ls__lab_setting((const struct ls_lab_run *)x->runs.at + q->runs[i], "no-eval");
        if (!no_eval || strcmp(no_eval, "on") != 0) return true;
    }
    return false;
}

/* Accuracy that nobody measured cannot be shown. */
static enum ls_status copy_shows(const struct expansion *x, const struct draft_question *from,
                                 struct ls_lab_question *q)
{
    static const enum ls_lab_show usual[] = {LS_SHOW_TIME, LS_SHOW_ACCURACY};
    const bool is_measured = has_evaluation(x, q);
    q->n_shows = from->n_shows ? from->n_shows : is_measured ? 2 : 1;
    memcpy(q->shows, from->n_shows ? from->shows : usual, (size_t)q->n_shows * sizeof *q->shows);
    if (is_measured || !x->d->rules || !ls__lab_shows(q, LS_SHOW_ACCURACY)) return LS_OK;
    return ls__draft_fail(x->d, from->show_lines[LS_SHOW_ACCURACY],
                          "show accuracy, but all runs of question %s have no-eval=on: take the word away, or write "
                          "no-eval=off",
                          q->id);
}

/* What no run is asked to reach cannot be shown. */
static enum ls_status check_target(const struct expansion *x, const struct draft_question *from,
                                   const struct ls_lab_question *q)
{
    if (!ls__lab_shows(q, LS_SHOW_TARGET)) return LS_OK;
    for (int i = 0; i < q->n_runs; i++)
        if (ls__lab_setting((const struct ls_lab_run *)x->runs.at + q->runs[i], "target")) return LS_OK;
    return ls__draft_fail(
        x->d, from->show_lines[LS_SHOW_TARGET],
        "show target, but no run of question %s has one: write target=0.9 on a run line or in base, or "
        "take the word away",
        q->id);
}

static enum ls_status expand_question(struct expansion *x, struct draft_question *from, struct ls_lab_question *q,
                                      const struct ls_lab_question *before, int n_before)
{
    struct draft_list runs = {0}, own = {0};
    *q = (struct ls_lab_question){.id = from->id, .title = from->title, .line = from->line};
    TRY(ls__draft_text(x->d, &from->text, &q->text));
    for (int i = 0; i < from->uses.n; i++)
        TRY(use(x, (const struct draft_word *)from->uses.at + i, before, n_before, &runs, &own));
    for (int i = 0; i < from->runs.n; i++)
        TRY(expand_run(x, from, (const struct draft_run *)from->runs.at + i, &runs, &own));
    if (runs.n == 0)
        return ls__draft_fail(x->d, from->line,
                              "question %s has no runs: write run NAME key=value ... below it, or use "
                              "NAME for runs of questions above",
                              from->id);
    q->runs = runs.at;
    q->n_runs = runs.n;
    q->is_own = own.at;
    TRY(copy_shows(x, from, q));
    for (int i = 0; i < runs.n; i++) {
        struct ls_lab_run *run = (struct ls_lab_run *)x->runs.at + q->runs[i];
        if (from->repeat > run->repeats) run->repeats = from->repeat;
    }
    q->baseline = q->runs[0];
    if (from->baseline.text) TRY(ls__draft_find_run(x->d, &x->runs, q, "baseline", &from->baseline, &q->baseline));
    TRY(check_target(x, from, q));
    TRY(find_published(x, from, q));
    TRY(find_axes(x, q));
    return find_compares(x, from, q);
}

enum ls_status ls__draft_expand(struct draft *d)
{
    struct expansion x = {.d = d};
    struct ls_lab *lab = d->lab;
    TRY(ls__draft_text(d, &d->text, &lab->text));
    TRY(ls__arena_alloc(&lab->memory, &lab->questions, (size_t)d->questions.n, sizeof *lab->questions));
    for (int i = 0; i < d->questions.n; i++)
        TRY(expand_question(&x, (struct draft_question *)d->questions.at + i, &lab->questions[i], lab->questions, i));
    lab->n_questions = d->questions.n;
    lab->runs = x.runs.at;
    lab->n_runs = x.runs.n;
    return LS_OK;
}
