/* view.c: what is common to all pages: the frame, sections, pictures. Every text of a run goes through
 * ls__text_escape.
 */
#include "serve/view.h"

#include "base/mem.h"
#include "draw/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- what is looked at --- */

bool ls__view_add_id(struct ls_view *view, const char *text)
{
    uint64_t id = 0;
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16 || view->n_ids == LS_MAX_COMPARED)
        return false;
    for (int i = 0; i < 16; i++) id = id << 4 | (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
    for (int i = 0; i < view->n_ids; i++)
        if (view->ids[i] == id) return true;
    view->ids[view->n_ids++] = id;
    return true;
}

bool ls__view_equals(const struct ls_view *a, const struct ls_view *b)
{
    return a->kind == b->kind && a->n_ids == b->n_ids && memcmp(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids) == 0;
}

/* Locked. Versions are given once in a site's life, so the newest tells all of them. */
static uint64_t version_of(struct ls_site *site, const struct ls_view *view)
{
    uint64_t newest = view->kind == LS_VIEW_LIST ? site->listing : 0;
    for (int i = 0; i < view->n_ids; i++) {
        const struct ls_site_run *run = ls__site_find(site, view->ids[i]);
        if (!run) return 0;
        if (run->version > newest) newest = run->version;
    }
    return newest;
}

uint64_t ls__view_version(struct ls_site *site, const struct ls_view *view)
{
    pthread_mutex_lock(&site->lock);
    uint64_t version = version_of(site, view);
    pthread_mutex_unlock(&site->lock);
    return version;
}

/* --- small things --- */

void ls__view_add_state(struct ls_buf *b, const struct ls_history *h)
{
    ls__buf_addf(b, "<span class=\"state %s\">%s</span>", ls_history_state_word(h), ls_history_state_word(h));
}

double ls__view_result_or_last(const struct ls_history *h, const char *path, const char *split, const char *value)
{
    double v = ls_history_state(h) == LS_RUN_DONE ? ls_history_number(h, path) : NAN;
    return isfinite(v) ? v : ls_curve_last(ls_history_curve(h, split), value);
}

double ls__view_epoch(const struct ls_history *h, double *of)
{
    double done = ls_curve_last(ls_history_curve(h, "epoch"), "epoch");
    double going = ls_curve_last(ls_history_curve(h, "train"), "epoch");
    *of = ls_history_number(h, "options.epochs");
    if (!isfinite(done)) return going;
    return isfinite(going) ? fmax(done, going) : done;
}

double ls__view_progress(const struct ls_history *h)
{
    double of = ls_history_number(h, "options.epochs"), images = ls_history_number(h, "train_data.images");
    double batch = ls_history_number(h, "batch_size"), wanted = ls_history_number(h, "options.iterations");
    if (ls_history_state(h) == LS_RUN_DONE) return 1;
    if (!(wanted > 0)) wanted = of * floor(images / batch);
    double share = ls_history_steps(h) / wanted;
    return isfinite(share) ? fmin(share, 1) : NAN;
}

/* --- pictures --- */

/* Each panel is a picture of its own, so that a narrow window puts them below each other. */
static enum ls_status add_panels(struct ls_buf *b, const struct ls_draw_picture *picture)
{
    for (int i = 0; i < picture->n_panels; i++) {
        struct ls_draw_panel panel = picture->panels[i];
        panel.n_span = 0;
        const struct ls_draw_picture one = {
            .panels = &panel, .n_panels = 1, .width = 470, .left = 48, .theme = LS_DRAW_AUTO, .is_part = true};
        ls__buf_adds(b, "<figure>");
        TRY(ls_draw(&one, LS_DRAW_SVG, b));
        ls__buf_adds(b, "</figure>\n");
    }
    return LS_OK;
}

/* Tabs are radio buttons: they need no script. */
static enum ls_status add_figure(struct ls_buf *b, const struct ls_part *part, int number)
{
    if (part->n_tabs <= 1) return part->n_tabs ? add_panels(b, part->pictures[0]) : LS_OK;
    ls__buf_adds(b, "<div class=\"tabs\">\n");
    for (int i = 0; i < part->n_tabs; i++) {
        ls__buf_addf(b, "<input type=\"radio\" name=\"f%d\" id=\"f%d-%d\" class=\"t%d\"%s><label for=\"f%d-%d\">",
                     number, number, i, i, i == 0 ? " checked" : "", number, i);
        ls__text_escape(b, part->tabs[i]);
        ls__buf_adds(b, "</label>\n");
    }
    for (int i = 0; i < part->n_tabs; i++) {
        ls__buf_addf(b, "<div class=\"p%d\"><div class=\"panels\">\n", i);
        TRY(add_panels(b, part->pictures[i]));
        ls__buf_adds(b, "</div></div>\n");
    }
    ls__buf_adds(b, "</div>\n");
    return LS_OK;
}

/* --- sections --- */

static void begin_section(struct ls_buf *b, int number, const char *heading, bool is_folded)
{
    ls__buf_addf(b, "<section id=\"s%d\">\n%s<h2>", number, is_folded ? "<details><summary>" : "");
    ls__text_escape(b, heading);
    ls__buf_adds(b, is_folded ? "</h2></summary>\n" : "</h2>\n");
}

/* Pictures that follow each other stand in one grid. */
static enum ls_status add_parts(struct ls_buf *b, const struct ls_page *p)
{
    bool is_folded = false, is_grid = false;
    int n_sections = 0;
    ls__buf_adds(b, "<section id=\"s\">\n");
    for (int i = 0; i < p->n_parts; i++) {
        const struct ls_part *part = &p->parts[i];
        bool wants_grid = part->kind == LS_PART_FIGURE && part->n_tabs <= 1;
        if (is_grid && !wants_grid) ls__buf_adds(b, "</div>\n");
        if (wants_grid && !is_grid) ls__buf_adds(b, "<div class=\"panels\">\n");
        is_grid = wants_grid;
        if (part->kind == LS_PART_HEADING) {
            ls__buf_adds(b, is_folded ? "</details>\n</section>\n" : "</section>\n");
            is_folded = strcmp(part->text, LS_SECTION_FOLDED) == 0;
            begin_section(b, ++n_sections, part->text, is_folded);
        } else if (part->kind == LS_PART_FIGURE) {
            TRY(add_figure(b, part, i));
        } else {
            TRY(ls__page_html_part(b, part, i));
        }
    }
    if (is_grid) ls__buf_adds(b, "</div>\n");
    ls__buf_adds(b, is_folded ? "</details>\n</section>\n" : "</section>\n");
    return LS_OK;
}

/* --- the frame --- */

/* version: what the page shows, so that its listener is told whatever came since. */
static void begin_page(struct ls_buf *b, const char *title, const struct ls_view *view, uint64_t version, bool is_live)
{
    ls__buf_adds(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                    "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    ls__text_escape(b, title);
    ls__buf_adds(b, "</title>\n<link rel=\"stylesheet\" href=\"/style.css\">\n"
                    "<link rel=\"icon\" href=\"/icon.svg\" type=\"image/svg+xml\">\n");
    if (view) ls__buf_adds(b, "<script src=\"/page.js\" defer></script>\n");
    if (is_live) ls__buf_adds(b, "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n");
    ls__buf_adds(b, "</head>\n<body");
    if (view) {
        ls__buf_addf(b, " data-events=\"/events?v=%" PRIu64, version);
        for (int i = 0; i < view->n_ids; i++) ls__buf_addf(b, "&amp;r=%016" PRIx64, view->ids[i]);
        ls__buf_adds(b, "\"");
    }
    ls__buf_adds(b, ">\n<header><a href=\"/\" class=\"home\"><b>Lockstep</b> runs</a>"
                    "<span id=\"live\" hidden></span></header>\n<main>\n");
}

static void end_page(struct ls_buf *b)
{
    ls__buf_adds(b, "</main>\n</body>\n</html>\n");
}

void ls__view_message(struct ls_buf *out, const char *title, const char *text)
{
    begin_page(out, title, NULL, 0, false);
    ls__buf_adds(out, "<h1>");
    ls__text_escape(out, title);
    ls__buf_adds(out, "</h1>\n<p>");
    ls__text_escape(out, text);
    ls__buf_adds(out, "</p>\n<p><a href=\"/\">All runs</a></p>\n");
    end_page(out);
}

/* --- the pages --- */

static void add_head(struct ls_buf *b, const struct ls_page *p, const struct ls_history *h)
{
    ls__buf_adds(b, "<section id=\"head\"><h1>");
    ls__text_escape(b, p->title);
    ls__buf_adds(b, "</h1>\n<p class=\"sub\">");
    if (h) {
        ls__view_add_state(b, h);
        ls__buf_adds(b, " ");
    }
    ls__text_escape(b, p->note);
    ls__buf_adds(b, "</p>\n");
    double share = h && ls_history_state(h) == LS_RUN_RUNNING ? ls__view_progress(h) : NAN;
    if (isfinite(share))
        ls__buf_addf(b, "<progress class=\"whole\" max=\"1\" value=\"%.3f\">%.0f %%</progress>\n", share, 100 * share);
    ls__buf_adds(b, "</section>\n");
}

/* Locked. */
static enum ls_status run_page(struct ls_site *site, const struct ls_view *view, uint64_t version, struct ls_page *p,
                               struct ls_buf *out)
{
    const struct ls_site_run *run = ls__site_find(site, view->ids[0]);
    ls__view_run_parts(p, site, run);
    TRY(p->status);
    begin_page(out, ls__page_format(p, "%s (%s)", run->name, ls_history_state_word(run->h)), view, version,
               ls_history_state(run->h) == LS_RUN_RUNNING);
    add_head(out, p, run->h);
    TRY(add_parts(out, p));
    end_page(out);
    return LS_OK;
}

/* Locked. What `lockstep report` says of several runs. */
static enum ls_status compare_page(struct ls_site *site, const struct ls_view *view, uint64_t version,
                                   struct ls_page *p, struct ls_buf *out)
{
    struct ls_history *runs[LS_MAX_COMPARED];
    const char *labels[LS_MAX_COMPARED];
    bool is_live = false;
    for (int i = 0; i < view->n_ids; i++) {
        const struct ls_site_run *run = ls__site_find(site, view->ids[i]);
        runs[i] = run->h;
        labels[i] = run->name;
        is_live |= ls_history_state(run->h) == LS_RUN_RUNNING;
    }
    ls__report_several(p, runs, view->n_ids, &(const struct ls_report_options){.labels = labels});
    TRY(p->status);
    begin_page(out, p->title, view, version, is_live);
    add_head(out, p, NULL);
    TRY(add_parts(out, p));
    end_page(out);
    return LS_OK;
}

/* Locked. */
static enum ls_status list_page(struct ls_site *site, const struct ls_view *view, uint64_t version, struct ls_page *p,
                                struct ls_buf *out)
{
    bool is_live = false;
    for (int i = 0; i < site->n_runs; i++) is_live |= ls_history_state(site->runs[i].h) == LS_RUN_RUNNING;
    begin_page(out, "Lockstep runs", view, version, is_live);
    ls__view_list(out, p, site);
    end_page(out);
    return p->status;
}

enum ls_status ls__view_page(struct ls_site *site, const struct ls_view *view, struct ls_buf *out, uint64_t *version)
{
    struct ls_page *p = NULL;
    TRY(ls__calloc(&p, 1, sizeof *p));
    pthread_mutex_lock(&site->lock);
    enum ls_status status = LS_OK;
    *version = version_of(site, view);
    if (*version == 0)
        status = ls_fail(LS_DATA, "the run is not there any more");
    else if (view->kind == LS_VIEW_LIST)
        status = list_page(site, view, *version, p, out);
    else
        status = view->kind == LS_VIEW_RUN ? run_page(site, view, *version, p, out)
                                           : compare_page(site, view, *version, p, out);
    pthread_mutex_unlock(&site->lock);
    ls__arena_release(&p->memory);
    free(p);
    return status == LS_OK ? ls__buf_check(out) : status;
}
