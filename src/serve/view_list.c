/* view_list.c: the list of runs: those that train first, then the newest. In a narrow window a row is a card. */
#include "serve/view.h"

#include "draw/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const struct ls_site_run *run;
    const char *started; /* UTC, so that texts can be compared */
    bool is_running;
};

static int by_urgency(const void *a, const void *b)
{
    const struct row *l = a, *r = b;
    if (l->is_running != r->is_running) return l->is_running ? -1 : 1;
    int newest = strcmp(r->started, l->started);
    return newest ? newest : strcmp(l->run->name, r->run->name);
}

static void add_cell(struct ls_buf *b, const char *class, const char *label, const char *text)
{
    ls__buf_addf(b, "<td class=\"%s\" data-label=\"%s\">", class, label);
    ls__text_escape(b, text);
    ls__buf_adds(b, "</td>");
}

static void add_epoch(struct ls_buf *b, struct ls_page *p, const struct ls_history *h)
{
    double of, epoch = ls__view_epoch(h, &of), share = ls__view_progress(h);
    ls__buf_adds(b, "<td class=\"n\" data-label=\"epoch\">");
    if (isfinite(epoch))
        ls__text_escape(b, ls__page_format(p, isfinite(of) && of > 0 ? "%.0f / %.0f" : "%.0f", epoch, of));
    if (ls_history_state(h) == LS_RUN_RUNNING && isfinite(share))
        ls__buf_addf(b, "<progress max=\"1\" value=\"%.3f\">%.0f %%</progress>", share, 100 * share);
    ls__buf_adds(b, "</td>");
}

static void add_row(struct ls_buf *b, struct ls_page *p, const struct row *row)
{
    const struct ls_history *h = row->run->h;
    const char *model = ls_history_text(h, "model"), *data = ls_history_text(h, "options.data");
    double accuracy = ls__view_result_or_last(h, "test_accuracy", "test", "accuracy");
    if (!isfinite(accuracy)) accuracy = ls__view_result_or_last(h, "validation_accuracy", "validation", "accuracy");
    double loss = ls__view_result_or_last(h, "train_loss", "train", "loss");
    double rate = ls__view_result_or_last(h, "images_per_second", "train", "images_per_second");
    ls__buf_addf(b,
                 "<tr><td class=\"tick\"><input type=\"checkbox\" name=\"r\" value=\"%016" PRIx64 "\" id=\"c%016" PRIx64
                 "\" aria-label=\"compare ",
                 row->run->id, row->run->id);
    ls__text_escape(b, row->run->name);
    ls__buf_addf(b, "\"></td><td class=\"name\"><a href=\"/run/%016" PRIx64 "\">", row->run->id);
    ls__text_escape(b, row->run->name);
    ls__buf_adds(b, "</a></td><td class=\"what\">");
    ls__view_add_state(b, h);
    ls__buf_adds(b, "</td>");
    add_cell(b, "", "model", model ? model : "");
    add_cell(b, "", "data", data ? data : "");
    add_epoch(b, p, h);
    add_cell(b, "n", "train loss", ls__say_number(p, loss));
    add_cell(b, "n", "accuracy", ls__say_percent(p, accuracy, 2));
    add_cell(b, "n", "images/s", ls__say_count(p, rate));
    add_cell(b, "n", "time", ls_history_seconds(h) > 0 ? ls__say_seconds(p, ls_history_seconds(h)) : "");
    ls__buf_adds(b, "</tr>\n");
}

void ls__view_list(struct ls_buf *b, struct ls_page *p, const struct ls_site *site)
{
    struct row *rows = ls__page_alloc(p, (size_t)site->n_runs + 1, sizeof *rows);
    int n_running = 0;
    if (!rows) return;
    for (int i = 0; i < site->n_runs; i++) {
        const char *started = ls_history_text(site->runs[i].h, "started");
        rows[i] =
            (struct row){&site->runs[i], started ? started : "", ls_history_state(site->runs[i].h) == LS_RUN_RUNNING};
        n_running += rows[i].is_running;
    }
    qsort(rows, (size_t)site->n_runs, sizeof *rows, by_urgency);
    ls__buf_addf(b, "<section id=\"head\"><h1>%d run%s</h1>\n<p class=\"sub\">", site->n_runs,
                 site->n_runs == 1 ? "" : "s");
    if (n_running) ls__buf_addf(b, "<span class=\"state running\">%d running</span> ", n_running);
    ls__buf_adds(b, "below ");
    ls__text_escape(b, site->dir);
    if (site->is_cut) ls__buf_addf(b, "; only %d of them are shown", LS_MAX_SITE_RUNS);
    ls__buf_adds(b, "</p></section>\n<form action=\"/compare\" method=\"get\">\n<section id=\"list\">\n");
    if (site->n_runs == 0)
        ls__buf_adds(b,
                     "<p class=\"note\">No run is here yet. <code>lockstep train</code> makes one; this page shows it "
                     "as soon as it begins.</p>\n");
    else
        ls__buf_adds(b,
                     "<div class=\"wide\"><table class=\"runs\">\n<thead><tr><th></th><th>run</th><th>state</th>"
                     "<th>model</th><th>data</th><th class=\"n\">epoch</th><th class=\"n\">train loss</th>"
                     "<th class=\"n\">accuracy</th><th class=\"n\">images/s</th><th class=\"n\">time</th></tr></thead>"
                     "<tbody>\n");
    for (int i = 0; i < site->n_runs; i++) add_row(b, p, &rows[i]);
    ls__buf_adds(b, site->n_runs ? "</tbody></table></div>\n</section>\n" : "</section>\n");
    if (site->n_runs > 1)
        ls__buf_addf(
            b,
            "<p class=\"bar\"><button type=\"submit\">Compare ticked runs</button> <span class=\"note\">two to "
            "%d</span></p>\n",
            LS_MAX_COMPARED);
    ls__buf_adds(b, "</form>\n");
}
