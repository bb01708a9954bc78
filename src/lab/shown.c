/* shown.c: the lines `show`, `compare` and `published` of a lab file -> a draft: what the report shows, what its
 * sentences compare, and what others measured.
 */
#include "base/buf.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "lab/draft.h"

#include <string.h>

/* What has one number per run that a report of others has too, with its unit. */
static const char *const examples[LS_N_SHOWS] = {
    [LS_SHOW_TIME] = "81 (seconds)",
    [LS_SHOW_SPEEDUP] = "1.8 (times)",
    [LS_SHOW_ACCURACY] = "0.9905 or 99.05%",
    [LS_SHOW_TARGET] = "86 (seconds)",
};

static enum ls_status find_word(const struct draft *d, int line, const char *word, bool is_published,
                                enum ls_lab_show *show)
{
    const char *best = NULL;
    struct ls_buf all = LS_BUF_INIT;
    int distance = -1;
    for (int i = 0; i < LS_N_SHOWS; i++) {
        if (is_published && !examples[i]) continue;
        if (strcmp(ls__lab_show_words[i], word) == 0) {
            *show = (enum ls_lab_show)i;
            ls__buf_release(&all);
            return LS_OK;
        }
        ls__suggest(word, ls__lab_show_words[i], &best, &distance);
        ls__buf_addf(&all, "%s%s", all.len ? " " : "", ls__lab_show_words[i]);
    }
    enum ls_status status =
        ls__draft_fail(d, line, "\"%s\" cannot be %s; %s%s%sthere are: %s", word, is_published ? "published" : "shown",
                       best ? "did you mean " : "", best ? best : "", best ? "? " : "", all.text);
    ls__buf_release(&all);
    return status;
}

enum ls_status ls__draft_read_show(struct draft *d, struct draft_question *q, int line, char *rest)
{
    char *word;
    for (int n = 0;; n++) {
        enum ls_lab_show show = LS_SHOW_TIME;
        TRY(ls__draft_word(d, line, &rest, &word));
        if (!word && n > 0) return LS_OK;
        if (!word) return ls__draft_fail(d, line, "show what? Write show time accuracy curves");
        size_t len = strlen(word);
        if (len > 1 && word[len - 1] == ',') word[len - 1] = '\0';
        TRY(find_word(d, line, word, false, &show));
        if (q->show_lines[show]) continue;
        q->show_lines[show] = line;
        q->shows[q->n_shows++] = show;
    }
}

enum ls_status ls__draft_read_compare(struct draft *d, struct draft_question *q, int line, char *rest)
{
    struct draft_word *key;
    char *word;
    if (q->compares.n)
        return ls__draft_fail(d, line, "a second compare; a question has one: put all settings into one line");
    for (int n = 0;; n++) {
        const char *name = NULL;
        TRY(ls__draft_word(d, line, &rest, &word));
        if (!word && n > 0) return LS_OK;
        if (!word) return ls__draft_fail(d, line, "compare what? Name a setting that the runs vary, as compare sync");
        TRY(ls__draft_key(d, line, word, &name));
        TRY(ls__draft_grow(d, &q->compares, sizeof *key, &key));
        *key = (struct draft_word){.text = name, .line = line};
    }
}

/* "156", or "99.05%" where parts of 1 are meant. */
static bool parse_number(char *text, bool is_part, bool *is_percent, double *value)
{
    const size_t len = strlen(text);
    if (is_part && len > 1 && text[len - 1] == '%') {
        *is_percent = true;
        text[len - 1] = '\0';
    }
    return ls__parse_f64(text, value) && *value >= 0;
}

/* "156" or "7952..9238" or "91.6..92.1%" */
static bool parse_range(char *text, bool is_part, double *low, double *high)
{
    char *dots = strstr(text, "..");
    bool is_percent = false;
    if (dots) *dots = '\0';
    if (!parse_number(text, is_part, &is_percent, low)) return false;
    *high = *low;
    if (dots && !parse_number(dots + 2, is_part, &is_percent, high)) return false;
    if (is_percent) {
        *low /= 100;
        *high /= 100;
    }
    return *high >= *low && !(is_percent && *high > 1);
}

/* Most likely per cent were meant. */
static enum ls_status not_a_part(const struct draft *d, int line, const char *run, double low, double high)
{
    if (low == high && high <= 100)
        return ls__draft_fail(d, line, "published accuracy %s=%g: accuracy is a part of 1: write %.6g or %.6g%%", run,
                              high, high / 100, high);
    return ls__draft_fail(d, line, "published accuracy %s: accuracy is a part of 1, as 0.9905 or 99.05%%", run);
}

static enum ls_status add_published(struct draft *d, struct draft_question *q, int line, enum ls_lab_show what,
                                    char *word)
{
    struct draft_published *p;
    double low = 0, high = 0;
    const bool is_part = what == LS_SHOW_ACCURACY;
    char *equals = strrchr(word, '=');
    const size_t len = strlen(word);
    const bool is_unsure = len > 0 && word[len - 1] == '?';
    if (is_unsure) word[len - 1] = '\0';
    if (equals) *equals = '\0';
    if (!equals || equals == word || !parse_range(equals + 1, is_part, &low, &high))
        return ls__draft_fail(
            d, line,
            "published %s %s: expected RUN=NUMBER or RUN=LOW..HIGH (RUN=NUMBER? where it may be another "
            "run's); a number is as %s",
            ls__lab_show_words[what], word, examples[what]);
    if (is_part && high > 1) return not_a_part(d, line, word, low, high);
    TRY(ls__draft_grow(d, &q->published, sizeof *p, &p));
    *p = (struct draft_published){.what = what, .low = low, .high = high, .is_unsure = is_unsure, .line = line};
    return ls__arena_text(&d->lab->memory, &p->run, word, strlen(word));
}

enum ls_status ls__draft_read_published(struct draft *d, struct draft_question *q, int line, char *rest)
{
    enum ls_lab_show what = LS_SHOW_TIME;
    char *word;
    TRY(ls__draft_word(d, line, &rest, &word));
    if (!word) return ls__draft_fail(d, line, "published what? Write published time RUN=156");
    TRY(find_word(d, line, word, true, &what));
    for (int n = 0;; n++) {
        TRY(ls__draft_word(d, line, &rest, &word));
        if (!word && n > 0) return LS_OK;
        if (!word)
            return ls__draft_fail(d, line, "published %s of which run? Write published %s RUN=%s",
                                  ls__lab_show_words[what], ls__lab_show_words[what], examples[what]);
        TRY(add_published(d, q, line, what, word));
    }
}
