/* cmd_lab.c: `lockstep lab list|show|run|report`. */
#include "base/buf.h"
#include "base/suggest.h"
#include "cli/cmd.h"
#include "cli/lab_go.h"
#include "cli/lab_rules.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- finding a lab --- */

static bool is_file_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return strchr(name, '/') || (dot && strcmp(dot, ".lab") == 0);
}

static bool is_folder(const char *name)
{
    struct stat about;
    return stat(name, &about) == 0 && S_ISDIR(about.st_mode);
}

static enum ls_status unknown_lab(const char *name)
{
    const char *best = NULL;
    char file[LS_PATH_BYTES];
    int distance = -1;
    snprintf(file, sizeof file, "%s.lab", name);
    if (ls__file_exists(file)) return ls_fail(LS_USAGE, "unknown lab '%s'; did you mean the file %s?", name, file);
    for (const struct ls_lab_entry *e = ls__labs; e->name; e++) ls__suggest(name, e->name, &best, &distance);
    if (best)
        return ls_fail(LS_USAGE, "unknown lab '%s'; did you mean %s? (`lockstep lab list` lists all)", name, best);
    return ls_fail(LS_USAGE, "unknown lab '%s'; `lockstep lab list` lists those of the program; a file ends in .lab",
                   name);
}

static enum ls_status load(struct ls_lab **lab, const char *name, const struct ls_lab_rules *rules)
{
    char *text, origin[128];
    size_t len;
    *lab = NULL;
    for (const struct ls_lab_entry *e = ls__labs; e->name; e++) {
        if (strcmp(e->name, name) != 0) continue;
        snprintf(origin, sizeof origin, "%s.lab", name);
        return ls__lab_parse(lab, origin, e->text, strlen(e->text), rules);
    }
    if (ls__lab_is_folder(name))
        return ls_fail(LS_USAGE, "%s is a lab's folder: its file is shown by lockstep lab show %s/lab.txt", name, name);
    if (is_folder(name))
        return ls_fail(LS_USAGE, "%s is a folder without lab.txt, so no lab's; a lab is a file ending in .lab", name);
    if (!is_file_name(name) && !ls__file_exists(name)) return unknown_lab(name);
    enum ls_status status = ls__file_read(name, LS_LAB_FILE_BYTES, &text, &len);
    if (status != LS_OK) return ls_fail_in(status == LS_NOMEM ? LS_NOMEM : LS_DATA, "lab");
    status = ls__lab_parse(lab, name, text, len, rules);
    free(text);
    return status;
}

/* --- list --- */

static enum ls_status list(const struct ls_options *o)
{
    json_t *all = json_array();
    if (!o->train.json) printf("%-16s %9s %5s  %s\n", "lab", "questions", "runs", "about");
    for (const struct ls_lab_entry *e = ls__labs; e->name; e++) {
        struct ls_lab *lab = NULL;
        const enum ls_status status = load(&lab, e->name, NULL);
        if (!lab) return status;
        if (o->train.json)
            json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:i}", "name", lab->name, "title", lab->title,
                                                 "questions", lab->n_questions, "runs", lab->n_runs));
        else
            printf("%-16s %9d %5d  %s\n", lab->name, lab->n_questions, lab->n_runs, lab->title);
        ls__lab_destroy(&lab);
    }
    if (o->train.json) return ls__print_json(all);
    json_decref(all);
    printf("\nnext:\n  lockstep lab show NAME\n");
    return LS_OK;
}

/* --- show --- */

/* What sets the runs of a question apart, or all of a run's own. */
static void add_settings(struct ls_buf *b, const struct ls_lab_question *q, const struct ls_lab_job *job)
{
    for (int i = 0; i < job->n_settings; i++) {
        const struct ls_lab_setting *s = &job->settings[i];
        bool is_axis = q->n_axes == 0;
        for (int a = 0; a < q->n_axes; a++) is_axis |= strcmp(q->axes[a].key, s->key) == 0;
        if (is_axis) ls__buf_addf(b, "%s%s=%s", b->len ? " " : "", s->key, s->value);
    }
}

static enum ls_status print_question(const struct ls_lab *lab, const struct ls_lab_state *state,
                                     const struct ls_lab_question *q)
{
    struct ls_buf scaled = LS_BUF_INIT;
    printf("\n%s  %s\n", q->id, q->title);
    printf("  %-32s %7s %12s  %s\n", "run", "repeats", "each", "with");
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_job *job = ls__lab_find_job(state, q->runs[i], 1);
        const struct ls_lab_run *run = &lab->runs[q->runs[i]];
        struct ls_buf b = LS_BUF_INIT;
        char time[LS_LAB_TIME_BYTES];
        if (!job) continue;
        add_settings(&b, q, job);
        printf("  %-32s %7d %12s  %s%s\n", run->name, state->repeat ? state->repeat : run->repeats,
               ls__lab_time_text(job->predicted_seconds, time), b.text, q->is_own[i] ? "" : " (as above)");
        ls__buf_release(&b);
    }
    ls__lab_say_scaled(&scaled, lab, state, q);
    for (const char *line = scaled.len ? scaled.text : ""; *line;) {
        const size_t len = strcspn(line, "\n");
        printf("  %s: %.*s\n", strcmp(state->scale, "1") == 0 ? "changed" : "scaled", (int)len, line);
        line += len + (line[len] != '\0');
    }
    ls__buf_release(&scaled);
    return LS_OK;
}

static enum ls_status print_plan(const struct ls_lab *lab, const struct ls_lab_state *state)
{
    double bytes = 0;
    char time[LS_LAB_TIME_BYTES], disk[LS_TEXT_BYTES];
    printf("%s: %s\n", lab->name, lab->title);
    if (*lab->text) printf("%s\n", lab->text);
    for (int i = 0; i < lab->n_questions; i++)
        if (ls__lab_is_asked(state, &lab->questions[i])) TRY(print_question(lab, state, &lab->questions[i]));
    for (int i = 0; i < state->n_jobs; i++) bytes += state->jobs[i].predicted_bytes;
    printf("\nin all: %d training%s, predicted to take %s and %s of disk\n", state->n_jobs,
           state->n_jobs == 1 ? "" : "s", ls__lab_time_text(ls__lab_seconds_left(state), time),
           isfinite(bytes) ? ls__bytes_text(bytes, disk) : "?");
    ls__lab_warn_of_scale(lab, state);
    ls__lab_warn_of_forecasts(lab, state);
    if (ls__lab_check_data(state) != LS_OK) printf("data: %s\n", ls_error_message());
    return LS_OK;
}

static enum ls_status print_plan_json(const struct ls_lab *lab, const struct ls_lab_state *state)
{
    json_t *jobs = json_array();
    for (int i = 0; i < state->n_jobs; i++) {
        const struct ls_lab_job *job = &state->jobs[i];
        struct ls_buf scaled = LS_BUF_INIT;
        ls__lab_say_changes(&scaled, lab, job);
        json_array_append_new(jobs, json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "run", lab->runs[job->run].name,
                                              "repeat", job->repeat, "command", ls__json_text(job->command), "scaled",
                                              ls__json_text(scaled.text), "predicted_seconds",
                                              ls__json_number(job->predicted_seconds), "predicted_bytes",
                                              ls__json_number(job->predicted_bytes)));
        ls__buf_release(&scaled);
    }
    return ls__print_json(json_pack("{s:o, s:o, s:o, s:o}", "lab", ls__json_text(lab->name), "title",
                                    ls__json_text(lab->title), "predicted_seconds",
                                    ls__json_number(ls__lab_seconds_left(state)), "jobs", jobs));
}

static struct ls_lab_rules rules_of(const struct ls_options *o)
{
    return ls__lab_rules(ls__option_is_given(o, "device") ? o->train.device : "");
}

static enum ls_status show(const struct ls_options *o, const char *name)
{
    struct ls_lab *lab = NULL;
    struct ls_lab_state *state = NULL;
    const struct ls_lab_rules rules = rules_of(o);
    enum ls_status status = load(&lab, name, &rules);
    if (!lab) return status;
    status = ls__lab_plan_of(&state, o, lab);
    if (status == LS_OK) status = o->train.json ? print_plan_json(lab, state) : print_plan(lab, state);
    ls__lab_state_destroy(&state);
    ls__lab_destroy(&lab);
    return status;
}

/* --- run, report --- */

static enum ls_status run(const struct ls_options *o, const char *name)
{
    struct ls_lab *lab = NULL;
    if (ls__lab_is_folder(name)) return ls__lab_go_on(o, name);
    const struct ls_lab_rules rules = rules_of(o);
    enum ls_status status = load(&lab, name, &rules);
    if (!lab) return status;
    status = ls__lab_go(o, lab, o->train.run_dir);
    ls__lab_destroy(&lab);
    return status;
}

/* What was written: the one that was asked for, or all. */
static enum ls_status print_files(const struct ls_options *o, const char *dir)
{
    static const char *const names[] = {"report.html", "report.md", "report.pdf"};
    json_t *files = json_array();
    for (int i = 0; i < (o->output ? 1 : 3); i++) {
        char path[LS_PATH_BYTES];
        enum ls_status status = ls__path_join(path, sizeof path, dir, names[i]);
        if (status != LS_OK) {
            json_decref(files);
            return status;
        }
        if (o->output) snprintf(path, sizeof path, "%s", o->output);
        if (!ls__file_exists(path)) continue; /* PDF needs a library */
        if (!o->train.json) printf("%s\n", path);
        json_array_append_new(files, ls__json_text(path));
    }
    if (o->train.json) return ls__print_json(json_pack("{s:o}", "files", files));
    json_decref(files);
    return LS_OK;
}

static enum ls_status report(const struct ls_options *o, const char *dir)
{
    struct ls_lab *lab;
    struct ls_lab_state *state;
    TRY(ls__lab_open_folder(dir, &lab, &state));
    const struct ls_lab_report_ask ask = {
        .output = o->output, .is_public = o->is_public, .published_images = ls__lab_published_images};
    enum ls_status status = ls__lab_report(lab, state, dir, &ask);
    if (status == LS_OK) status = print_files(o, dir);
    ls__lab_state_destroy(&state);
    ls__lab_destroy(&lab);
    return status;
}

enum ls_status ls__cmd_lab(const struct ls_options *o)
{
    static const struct action {
        const char *name, *arg;
        enum ls_status (*act)(const struct ls_options *o, const char *name);
    } actions[] = {{"show", "LAB", show}, {"run", "LAB", run}, {"report", "DIR", report}};
    const char *word = o->args[0], *best = NULL;
    int distance = -1;
    if (strcmp(word, "list") == 0 && o->n_args == 1) return list(o);
    if (strcmp(word, "list") == 0)
        return ls_fail(LS_USAGE, "lab list takes no argument; lab show %s shows one", o->args[1]);
    ls__suggest(word, "list", &best, &distance);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        ls__suggest(word, actions[i].name, &best, &distance);
        if (strcmp(word, actions[i].name) != 0) continue;
        if (o->is_public && actions[i].act != report)
            return ls_fail(LS_USAGE, "--public is of lab report: lockstep lab report DIR --public");
        if (o->n_args < 2) return ls_fail(LS_USAGE, "lab %s which? lockstep lab %s %s", word, word, actions[i].arg);
        return actions[i].act(o, o->args[1]);
    }
    if (o->n_args == 1) return run(o, word); /* `lockstep lab svhn` */
    return ls_fail(LS_USAGE, "lab %s: expected list, show, run or report%s%s%s", word, best ? "; did you mean " : "",
                   best ? best : "", best ? "?" : "");
}
