/* report.c: the report of a lab as a page (lab.h). */
#include "report/report.h"
#include "base/mem.h"
#include "base/quote.h"
#include "lab/report_impl.h"
#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the runs --- */

static void close_runs(struct ls_lab_view *v)
{
    for (int r = 0; v->seen && r < v->lab->n_runs; r++) {
        for (int k = 0; v->seen[r].done && k < v->seen[r].n_done; k++) ls_history_close(&v->seen[r].done[k]);
        free(v->seen[r].done);
    }
    free(v->seen);
}

/* A run that is done but cannot be read any more counts as missing. */
static enum ls_status open_runs(struct ls_lab_view *v, const char *dir)
{
    TRY(ls__calloc(&v->seen, (size_t)v->lab->n_runs, sizeof *v->seen));
    for (int r = 0; r < v->lab->n_runs; r++) {
        struct ls_lab_seen *seen = &v->seen[r];
        TRY(ls__calloc(&seen->done, LS_LAB_MAX_REPEATS, sizeof *seen->done));
        for (int k = 1; k <= LS_LAB_MAX_REPEATS; k++) {
            const struct ls_lab_job *job = ls__lab_find_job(v->state, r, k);
            char path[LS_PATH_BYTES];
            if (!job) break;
            seen->n_asked++;
            if (job->state != LS_JOB_DONE) continue;
            TRY(ls__path_join(path, sizeof path, dir, job->dir));
            struct ls_history *h = NULL;
            if (ls_history_open(&h, path) != LS_OK) continue;
            if (ls_history_state(h) == LS_RUN_DONE)
                seen->done[seen->n_done++] = h;
            else
                ls_history_close(&h);
        }
    }
    return LS_OK;
}

static const struct ls_history *any_run(const struct ls_lab_view *v)
{
    for (int r = 0; r < v->lab->n_runs; r++)
        if (v->seen[r].n_done > 0) return v->seen[r].done[0];
    return NULL;
}

static int count_done(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    int n = 0;
    for (int i = 0; i < q->n_runs; i++) n += v->seen[q->runs[i]].n_done;
    return n;
}

/* Whether a run was asked for once only, so that nothing tells its noise. */
static bool has_single(const struct ls_lab_view *v)
{
    for (int r = 0; r < v->lab->n_runs; r++)
        if (v->seen[r].n_asked == 1) return true;
    return false;
}

/* --- parts of the page --- */

static void add_paragraphs(struct ls_page *p, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (len > 0) ls__page_text(p, "%.*s", (int)len, text);
        text += len + (text[len] != '\0');
    }
}

static int count(const struct ls_lab_state *s, enum ls_job_state state)
{
    int n = 0;
    for (int i = 0; i < s->n_jobs; i++) n += s->jobs[i].state == state;
    return n;
}

static void add_summary(const struct ls_lab_view *v)
{
    const struct ls_lab_state *s = v->state;
    double seconds = 0;
    for (int i = 0; i < s->n_jobs; i++) seconds += isfinite(s->jobs[i].seconds) ? s->jobs[i].seconds : 0;
    add_paragraphs(v->p, v->lab->text);
    ls__page_tile(v->p, "trainings done", ls__page_format(v->p, "%d", count(s, LS_JOB_DONE)),
                  ls__page_format(v->p, "of %d", s->n_jobs));
    if (count(s, LS_JOB_FAILED) > 0)
        ls__page_tile(v->p, "failed", ls__page_format(v->p, "%d", count(s, LS_JOB_FAILED)), "see the end");
    ls__page_tile(v->p, "time of all", ls__say_seconds(v->p, seconds), "by the clock");
    ls__page_tile(v->p, "scale", s->scale, strcmp(s->scale, "1") == 0 ? "as the lab says" : "of the lab's size");
    if (ls__lab_smaller_batch(v->lab, s))
        ls__page_text(v->p,
                      "This scale made batches smaller than the lab's: it shows that the lab works. What depends on "
                      "the batch (times, speed-ups, communication, accuracy) is not what the lab asks about; a "
                      "scale of 1/16 or more keeps it.");
    if (s->is_stand_in)
        ls__page_text(v->p,
                      "The data sets were replaced by generated images of the same shape: times are those of the real "
                      "ones, accuracies and losses say nothing about them.");
    ls__lab_data_facts(v);
    ls__lab_warn_of_others(v);
    for (int i = 0; i < v->lab->n_questions; i++) {
        const struct ls_lab_question *q = &v->lab->questions[i];
        if (!ls__lab_is_asked(v->state, q)) continue;
        const char *first = ls__lab_sentences(v, q).first;
        ls__page_point(v->p, "%s: %s", q->id,
                       *first                  ? first
                       : count_done(v, q) == 0 ? "nothing is done yet."
                                               : "its tables show what was measured.");
    }
}

/* What to type to have the runs of a question again. */
static void add_commands(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    struct ls_buf text = LS_BUF_INIT;
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_job *job = ls__lab_find_job(v->state, q->runs[i], 1);
        if (job) ls__buf_addf(&text, "%s%s", text.len ? "\n" : "", job->command);
    }
    if (text.len) ls__page_code(v->p, text.text);
    if (text.failed && v->p->status == LS_OK) v->p->status = ls__buf_check(&text);
    ls__buf_release(&text);
}

static void add_missing_of(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    const char *names = "";
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_seen *s = &v->seen[q->runs[i]];
        if (s->n_done < s->n_asked)
            names = ls__page_format(v->p, "%s%s%s (%d of %d)", names, *names ? ", " : "", v->lab->runs[q->runs[i]].name,
                                    s->n_done, s->n_asked);
    }
    if (*names) ls__page_note(v->p, "Not all is there: trainings done of %s.", names);
}

/* Where the nodes of a run were; NULL: it had none but this machine, or machines of their own. */
static const char *network_note(const struct ls_lab_view *v, int run)
{
    const struct ls_history *h = ls__lab_first(v, run);
    char is_shaped[8] = "";
    const double n = h ? ls_history_number(h, "launch.nodes") : NAN,
                 cores = h ? ls_history_number(h, "machine.cpus") : 0;
    const char *network = n > 1 ? ls_history_text(h, "launch.network") : NULL;
    if (!network) return NULL;
    ls_history_value(h, "launch.is_shaped", is_shaped, sizeof is_shaped);
    if (strcmp(is_shaped, "true") != 0)
        return "The network was not shaped (that needs root): nodes were plain processes that talk through loopback.";
    return ls__page_format(v->p,
                           "The %.0f nodes of the network %s are network namespaces on one computer, whose %.0f core%s "
                           "they share; the link of each has that shape.",
                           n, network, cores, cores == 1 ? "" : "s");
}

static void add_network_notes(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    const char *told = "";
    for (int i = 0; i < q->n_runs; i++) {
        const char *note = network_note(v, q->runs[i]);
        if (!note || strstr(told, note)) continue;
        told = ls__page_format(v->p, "%s%s", told, note);
        ls__page_note(v->p, "%s", note);
    }
}

static void add_question(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    const struct ls_lab_text words = ls__lab_sentences(v, q);
    ls__page_heading(v->p, ls__page_format(v->p, "%s: %s", q->id, q->title));
    add_paragraphs(v->p, q->text);
    ls__lab_setting_table(v, q);
    for (int i = 0; i < words.n; i++) ls__page_point(v->p, "%s", words.lines[i]);
    add_missing_of(v, q);
    add_network_notes(v, q);
    for (int i = 0; count_done(v, q) > 0 && i < q->n_shows; i++) {
        ls__page_end(v->p); /* a table as wide as the one before is one of its own */
        ls__lab_figures(v, q, q->shows[i]);
        ls__lab_tables(v, q, q->shows[i]);
    }
    ls__lab_source_note(v, q);
    add_commands(v, q);
}

static void add_missing(const struct ls_lab_view *v)
{
    const struct ls_lab_state *s = v->state;
    if (count(s, LS_JOB_DONE) == s->n_jobs) return;
    static const char *const head[] = {"training", "state", "why"};
    ls__page_heading(v->p, "What is missing");
    ls__page_row(v->p, head, 3);
    for (int i = 0; i < s->n_jobs; i++) {
        const char *cells[] = {s->jobs[i].dir, ls__job_state_words[s->jobs[i].state], s->jobs[i].message};
        if (s->jobs[i].state != LS_JOB_DONE) ls__page_row(v->p, cells, 3);
    }
}

/* The parts of their time (compute, wait, ...) are those of the last sitting. */
static void add_interrupted(const struct ls_lab_view *v)
{
    const char *names = "";
    for (int i = 0; i < v->state->n_jobs; i++) {
        const struct ls_lab_job *job = &v->state->jobs[i];
        if (job->state == LS_JOB_DONE && job->tries > 1)
            names =
                ls__page_format(v->p, "%s%s%s (%d)", names, *names ? ", " : "", job->dir + strlen("runs/"), job->tries);
    }
    if (*names)
        ls__page_note(v->p,
                      "Interrupted or failed and gone on with, and how often started: %s. Where their time went is "
                      "told of the last start only.",
                      names);
}

/* As `lab run` takes it: of those that ship the name. That of a sweep is in no file but the folder's. */
static const char *lab_word(const struct ls_lab_view *v)
{
    for (const struct ls_lab_entry *e = ls__labs; e->name; e++)
        if (strlen(e->text) == v->lab->file_len && memcmp(e->text, v->lab->file, v->lab->file_len) == 0) return e->name;
    return strcmp(v->lab->name, "sweep") == 0 ? "lab.txt" : ls__page_format(v->p, "%s.lab", v->lab->name);
}

/* What to type to have all of it again. */
static const char *command_of(const struct ls_lab_view *v)
{
    const struct ls_lab_state *s = v->state;
    char data_dir[LS_QUOTED_BYTES];
    const char *text = ls__page_format(v->p, "lockstep lab run %s", lab_word(v));
    const char *const options[][2] = {
        {"only", s->only}, {"device", s->device}, {"workers", s->workers}, {"hosts", s->hosts}};
    if (strcmp(s->scale, "1") != 0) text = ls__page_format(v->p, "%s --scale %s", text, s->scale);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (*options[i][1]) text = ls__page_format(v->p, "%s --%s %s", text, options[i][0], options[i][1]);
    if (s->repeat > 0) text = ls__page_format(v->p, "%s --repeat %d", text, s->repeat);
    if (s->is_stand_in) text = ls__page_format(v->p, "%s --stand-in", text);
    if (!*s->data_dir) return text;
    ls__quote_path(s->data_dir, data_dir, sizeof data_dir);
    return ls__page_format(v->p, "%s --data-dir %s", text, data_dir);
}

/* The commits that the runs were trained with, of most labs one. */
static const char *commits_of(const struct ls_lab_view *v)
{
    const char *all = "";
    for (int r = 0; r < v->lab->n_runs; r++)
        for (int k = 0; k < v->seen[r].n_done; k++) {
            const char *one = ls_history_text(v->seen[r].done[k], "lockstep_commit");
            if (one && !strstr(all, one)) all = ls__page_format(v->p, "%s%s%.64s", all, *all ? ", " : "", one);
        }
    return all;
}

static void add_environment(const struct ls_lab_view *v, bool knows_others)
{
    static const char *const pairs[][2] = {{"CPUs", "machine.cpus"},         {"device", "machine.backend"},
                                           {"library", "machine.library"},   {"instructions", "machine.isa"},
                                           {"Lockstep", "lockstep_version"}, {"first run started", "started"}};
    const struct ls_history *h = any_run(v);
    ls__page_heading(v->p, "Environment");
    if (*v->state->processor) ls__page_pair(v->p, "processor", v->state->processor);
    if (isfinite(v->state->memory_bytes))
        ls__page_pair(v->p, "memory", ls__page_format(v->p, "%.1f GiB", v->state->memory_bytes / 1073741824));
    if (*v->state->system) ls__page_pair(v->p, "system", v->state->system);
    for (size_t i = 0; h && i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *value = ls__say_value(v->p, h, pairs[i][1]);
        if (*value) ls__page_pair(v->p, pairs[i][0], value);
    }
    if (*commits_of(v)) ls__page_pair(v->p, "its commit", commits_of(v));
    ls__page_pair(v->p, "command", command_of(v));
    if (!h) ls__page_note(v->p, "No run is done, so nothing is known.");
    if (h && !knows_others) ls__page_note(v->p, "How busy the machine was with other programs was not recorded.");
    add_interrupted(v);
    ls__page_note(
        v->p,
        "Time is that of training and of the moments in which checkpoints held it up, without the start and "
        "without evaluation. Numbers are medians over the repeats of a run, with the smallest and the largest "
        "in parentheses; two runs differ beyond noise when these ranges do not overlap. Accuracies must also be "
        "further apart than chance in which images are tested explains: 1.96 standard errors of test sets of that "
        "size. Repeats were interleaved: all runs once, then all again.%s",
        has_single(v) ? " Where a run was trained once its noise is not known: any difference in time counts, however "
                        "small."
                      : "");
}

/* --- files --- */

static enum ls_status write_files(struct ls_page *p, const char *dir, const char *output)
{
    static const char *const names[] = {"report.html", "report.md", "report.pdf"};
    char path[LS_PATH_BYTES];
    if (output) return ls_page_write(p, output);
    for (int i = 0; i < 3; i++) {
        TRY(ls__path_join(path, sizeof path, dir, names[i]));
        if (i == 2 && ls_draw_can(LS_DRAW_PDF) != LS_OK) break;
        TRY(ls_page_write(p, path));
    }
    return LS_OK;
}

static enum ls_status write_report(struct ls_lab_view *v, const char *dir)
{
    TRY(open_runs(v, dir));
    v->p->has_folder = true;
    v->p->title = v->lab->title;
    v->p->note = ls__page_format(v->p, "lab %s, %d of %d trainings done", v->lab->name, count(v->state, LS_JOB_DONE),
                                 v->state->n_jobs);
    add_summary(v);
    for (int i = 0; i < v->lab->n_questions; i++)
        if (ls__lab_is_asked(v->state, &v->lab->questions[i])) add_question(v, &v->lab->questions[i]);
    add_missing(v);
    const bool knows_others = ls__lab_others_section(v);
    add_environment(v, knows_others);
    if (v->ask->is_public) ls__lab_make_public(v);
    TRY(v->p->status);
    return write_files(v->p, dir, v->ask->output);
}

enum ls_status ls__lab_report(const struct ls_lab *lab, const struct ls_lab_state *state, const char *dir,
                              const struct ls_lab_report_ask *ask)
{
    struct ls_lab_view v = {.lab = lab, .state = state, .ask = ask};
    if (ask->output) TRY(ls_report_check(ask->output));
    TRY(ls__calloc(&v.p, 1, sizeof *v.p));
    enum ls_status status = write_report(&v, dir);
    close_runs(&v);
    ls__arena_release(&v.p->memory);
    free(v.p);
    return status;
}
