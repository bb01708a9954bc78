/* cmd_watch.c: `lockstep watch DIR`: follows a run, or the runs of a folder, until nothing runs any more.
 *
 * On a terminal a table that is drawn anew; elsewhere a line for every epoch, evaluation and end. It only reads, so it
 * can be pointed at anything, and ended at any time.
 */
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/spark.h"
#include "history/history.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MAX_WATCHED = 200, PAUSE_US = 500000, LOOK_FOR_NEW = 10 };

struct watched {
    struct ls_history *h;
    size_t n_epochs, n_tests; /* lines told */
    bool is_told;             /* its end */
};

struct watch {
    const char *dir;
    struct watched runs[MAX_WATCHED];
    int n;
    int n_lines; /* on the terminal */
};

/* Runs that were not there before. */
static enum ls_status look_for_runs(struct watch *w)
{
    char **names;
    size_t n;
    enum ls_status status = ls_history_find(w->dir, &names, &n, MAX_WATCHED);
    for (size_t i = 0; i < n; i++) {
        bool is_known = status != LS_OK || w->n == MAX_WATCHED;
        for (int k = 0; k < w->n && !is_known; k++) is_known = strcmp(ls_history_dir(w->runs[k].h), names[i]) == 0;
        if (!is_known && ls_history_open(&w->runs[w->n].h, names[i]) == LS_OK)
            w->n++; /* one that is going is no failure */
        free(names[i]);
    }
    free(names);
    return status;
}

/* --- lines --- */

static void tell_curve(const struct ls_history *h, const char *split, size_t *n_told)
{
    const struct ls_curve *c = ls_history_curve(h, split);
    if (c && c->n < *n_told) *n_told = 0; /* resumed: written anew */
    for (; c && *n_told < c->n; ++*n_told) {
        const double *epoch = ls_curve_values(c, "epoch"), *loss = ls_curve_values(c, "loss"),
                     *accuracy = ls_curve_values(c, "accuracy"), *seconds = ls_curve_values(c, "seconds");
        size_t i = *n_told;
        ls__print_plain(ls_history_name(h), 0);
        printf(": epoch %.0f, %s: loss %.4g, accuracy %.2f %%, %.4g s\n", epoch ? epoch[i] : NAN,
               strcmp(split, "epoch") == 0 ? "training" : split, loss ? loss[i] : NAN,
               accuracy ? 100 * accuracy[i] : NAN, seconds ? seconds[i] : NAN);
    }
}

static void tell_lines(struct watched *r)
{
    tell_curve(r->h, "epoch", &r->n_epochs);
    tell_curve(r->h, "test", &r->n_tests);
    bool has_ended = ls_history_state(r->h) != LS_RUN_RUNNING;
    if (has_ended && !r->is_told) {
        ls__print_plain(ls_history_name(r->h), 0);
        const double steps = ls_history_steps(r->h);
        printf(": %s after %.0f step%s", ls_history_state_word(r->h), steps, steps == 1 ? "" : "s");
        if (ls_history_state(r->h) == LS_RUN_FAILED && ls_history_why(r->h)) {
            printf(": ");
            ls__print_plain(ls_history_why(r->h), 0);
        }
        printf("\n");
    }
    r->is_told = has_ended;
    fflush(stdout);
}

/* --- the table --- */

static void add_row(struct ls_buf *b, const struct ls_history *h, int width)
{
    const struct ls_curve *train = ls_history_curve(h, "train"), *test = ls_history_curve(h, "test");
    const double *loss = ls_curve_values(train, "loss");
    struct ls_buf name = LS_BUF_INIT;
    ls__spark_text(&name, ls_history_name(h));
    double epochs = ls_history_number(h, "options.epochs"), epoch = ls_curve_last(train, "epoch");
    ls__buf_addf(b, "%-28.28s %-8s", name.text, ls_history_state_word(h));
    ls__buf_release(&name);
    if (isfinite(epoch)) ls__buf_addf(b, " %3.0f/%-3.0f", epoch, epochs);
    if (loss) ls__buf_addf(b, " loss %-8.4g", loss[train->n - 1]);
    if (isfinite(ls_curve_last(test, "accuracy")))
        ls__buf_addf(b, " test %6.2f %%", 100 * ls_curve_last(test, "accuracy"));
    if (isfinite(ls_curve_last(train, "images_per_second")))
        ls__buf_addf(b, " %7.0f/s ", ls_curve_last(train, "images_per_second"));
    if (loss && width > 100) ls__spark(b, loss, train->n, width - 100 > 40 ? 40 : width - 100, true);
    ls__buf_adds(b, "\033[K\n");
}

static void draw_table(struct watch *w)
{
    struct winsize size = {0};
    struct ls_buf b = LS_BUF_INIT;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80, size.ws_row = 24;
    int rows = size.ws_row > 4 ? size.ws_row - 2 : 2, n = w->n < rows ? w->n : rows, first = w->n - n;
    if (w->n_lines) ls__buf_addf(&b, "\033[%dA", w->n_lines);
    if (size.ws_col < 80) ls__buf_adds(&b, "\033[?7l"); /* cut, not wrapped */
    for (int i = first; i < w->n; i++) add_row(&b, w->runs[i].h, size.ws_col);
    if (size.ws_col < 80) ls__buf_adds(&b, "\033[?7h");
    w->n_lines = n;
    fwrite(b.text, 1, b.len, stdout);
    fflush(stdout);
    ls__buf_release(&b);
}

/* --- the command --- */

static enum ls_status follow(struct watch *w)
{
    bool is_terminal = isatty(STDOUT_FILENO);
    TRY(look_for_runs(w));
    if (w->n == 0) return ls_fail(LS_CHECKPOINT, "%s is not a run directory, and holds none", w->dir);
    for (int round = 1;; round++) {
        int n_running = 0;
        for (int i = 0; i < w->n; i++) {
            TRY(ls_history_refresh(w->runs[i].h, NULL));
            n_running += ls_history_state(w->runs[i].h) == LS_RUN_RUNNING;
            if (!is_terminal) tell_lines(&w->runs[i]);
        }
        if (is_terminal) draw_table(w);
        if (n_running == 0 || ferror(stdout)) return LS_OK;
        usleep(PAUSE_US);
        if (round % LOOK_FOR_NEW == 0) TRY(look_for_runs(w));
    }
}

enum ls_status ls__cmd_watch(const struct ls_options *o)
{
    struct watch *w = NULL;
    TRY(ls__calloc(&w, 1, sizeof *w));
    w->dir = o->n_args ? o->args[0] : "runs";
    enum ls_status status = follow(w);
    for (int i = 0; i < w->n; i++) ls_history_close(&w->runs[i].h);
    free(w);
    return status;
}
