/* names.c: the run that a line of a lab file names, and what to write where there is none or are several. */
#include "base/buf.h"
#include "base/suggest.h"
#include "lab/draft.h"

#include <string.h>

enum ls_status ls__draft_unknown_run(const struct draft *d, const struct draft_list *all, int line, const char *what,
                                     const char *name)
{
    const char *best = NULL;
    int distance = -1;
    const struct ls_lab_run *runs = all->at;
    for (int i = 0; i < all->n; i++) {
        ls__suggest(name, runs[i].name, &best, &distance);
        ls__suggest(name, runs[i].group, &best, &distance);
    }
    return ls__draft_fail(d, line, "%s %s: no run of that name above%s%s%s", what, name, best ? "; did you mean " : "",
                          best ? best : "", best ? "?" : "");
}

static bool is_called(const struct ls_lab_run *run, const char *name)
{
    return strcmp(run->name, name) == 0 || strcmp(run->group, name) == 0;
}

static const struct ls_lab_run *find(const struct draft_list *all, const char *name)
{
    const struct ls_lab_run *runs = all->at;
    for (int i = 0; i < all->n; i++)
        if (is_called(&runs[i], name)) return &runs[i];
    return NULL;
}

/* The `run` line became several: all their names, to choose from, and the line as it would be. */
static enum ls_status several_runs(const struct draft *d, const struct draft_list *all, const struct ls_lab_question *q,
                                   const char *what, const struct draft_word *word)
{
    enum { MOST = 6 };
    const struct ls_lab_run *runs = all->at;
    struct ls_buf names = LS_BUF_INIT;
    const char *first = NULL;
    int n = 0;
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_run *run = &runs[q->runs[i]];
        if (!is_called(run, word->text)) continue;
        if (!first) first = run->name;
        if (n < MOST) ls__buf_addf(&names, "%s%s", n ? ", " : "", run->name);
        n++;
    }
    enum ls_status status =
        ls__draft_fail(d, word->line, "%s %s: its vary lines made %d runs of %s: %s%s; name one of them, as %s %s",
                       what, word->text, n, word->text, names.text, n > MOST ? ", ..." : "", what, first ? first : "");
    ls__buf_release(&names);
    return status;
}

enum ls_status ls__draft_find_run(const struct draft *d, const struct draft_list *all, const struct ls_lab_question *q,
                                  const char *what, const struct draft_word *word, int *out)
{
    const struct ls_lab_run *runs = all->at, *other = find(all, word->text);
    int n = 0;
    for (int i = 0; i < q->n_runs; i++) {
        if (strcmp(runs[q->runs[i]].name, word->text) == 0) {
            *out = q->runs[i];
            return LS_OK;
        }
        if (strcmp(runs[q->runs[i]].group, word->text) != 0) continue;
        *out = q->runs[i];
        n++;
    }
    if (n == 1) return LS_OK;
    if (n > 1) return several_runs(d, all, q, what, word);
    if (other)
        return ls__draft_fail(d, word->line,
                              "%s %s: that run is not of this question: write use %s too, on a line of its own", what,
                              word->text, other->name);
    return ls__draft_unknown_run(d, all, word->line, what, word->text);
}
