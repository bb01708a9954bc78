/* lab_go.c: see lab_go.h. */
#include "cli/lab_go.h"

#include "base/log.h"
#include "base/quote.h"
#include "cli/cmd.h"
#include "cli/lab_rules.h"
#include "cli/machine.h"
#include "comm/comm.h"
#include "run/run.h"
#include "settings/sync_names.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *given(const struct ls_options *o, const char *name, const char *value)
{
    return value && ls__option_is_given(o, name) ? value : "";
}

/* "Debian GNU/Linux 12, Linux 6.1.0" */
static const char *system_text(char *out, size_t size)
{
    char line[256], name[128] = "";
    struct utsname about;
    FILE *file = fopen("/etc/os-release", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "PRETTY_NAME=\"%127[^\"]", name) == 1) break;
    if (file) fclose(file);
    if (uname(&about) != 0) return "";
    snprintf(out, size, "%s%s%s %s", name, *name ? ", " : "", about.sysname, about.release);
    return out;
}

static double memory_bytes(void)
{
    const double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE),
                 limit = ls__machine_memory_limit();
    return limit > 0 && limit < all ? limit : all;
}

static enum ls_status plan(struct ls_lab_state **state, const struct ls_lab *lab, const struct ls_lab_ask *ask)
{
    struct ls_lab_counts *counts;
    struct ls_lab_rates *rates = NULL;
    char processor[256], system[512];
    TRY(ls__lab_counts_create(&counts));
    enum ls_status status = ls__lab_rates_create(&rates, counts);
    const struct ls_lab_means means = {.images = ls__lab_images,
                                       .counts = counts,
                                       .stand_in = ls__lab_stand_in,
                                       .predict = ls__lab_predict,
                                       .context = rates,
                                       .version = LOCKSTEP_VERSION,
                                       .processor = ls__machine_cpu(processor, sizeof processor),
                                       .system = system_text(system, sizeof system),
                                       .memory_bytes = memory_bytes()};
    if (status == LS_OK) status = ls__lab_plan(state, lab, ask, &means);
    ls__lab_rates_destroy(&rates);
    ls__lab_counts_destroy(&counts);
    return status;
}

static struct ls_lab_ask ask_of(const struct ls_options *o, char workers[32])
{
    snprintf(workers, 32, "%lld", (long long)o->train.workers);
    return (struct ls_lab_ask){.scale = o->scale,
                               .only = o->only ? o->only : "",
                               .device = given(o, "device", o->train.device),
                               .workers = given(o, "workers", workers),
                               .hosts = given(o, "hosts", o->hosts),
                               .data_dir = given(o, "data-dir", o->train.data_dir),
                               .repeat = ls__option_is_given(o, "repeat") ? (int)o->repeat : 0,
                               .is_stand_in = o->stand_in};
}

enum ls_status ls__lab_plan_of(struct ls_lab_state **state, const struct ls_options *o, const struct ls_lab *lab)
{
    char workers[32];
    const struct ls_lab_ask ask = ask_of(o, workers);
    return plan(state, lab, &ask);
}

void ls__lab_warn_of_scale(const struct ls_lab *lab, const struct ls_lab_state *state)
{
    const char *run = ls__lab_smaller_batch(lab, state);
    if (!run) return;
    ls__log(
        LS_LOG_WARN,
        "--scale %s makes batches smaller (as of %s): it tries the lab out; times and accuracies are not those of the "
        "lab's batches, which 1/16 keeps",
        state->scale, run);
}

/* A parameter server's workers and machines that add up their gradients are tried before the first step. */
static bool has_forecast(const struct ls_lab_job *job)
{
    const char *sync = ls__lab_job_setting(job, "sync"), *nodes = ls__lab_job_setting(job, "nodes"),
               *hosts = ls__lab_job_setting(job, "hosts");
    if (sync && ls__sync_is_served(sync)) return true;
    const bool is_several = (nodes && strtol(nodes, NULL, 10) > 1) || (hosts && strchr(hosts, ','));
    return is_several && (!sync || strcmp(sync, "allreduce") == 0);
}

void ls__lab_warn_of_forecasts(const struct ls_lab *lab, const struct ls_lab_state *state)
{
    for (int i = 0; i < lab->n_questions; i++) {
        const struct ls_lab_question *q = &lab->questions[i];
        bool is_there = false;
        for (int k = 0; k < q->n_runs; k++) {
            const struct ls_lab_job *job = ls__lab_find_job(state, q->runs[k], 1);
            is_there |= job && has_forecast(job);
        }
        if (!ls__lab_is_asked(state, q) || !ls__lab_shows(q, LS_SHOW_PREDICTED) || is_there) continue;
        ls__log(LS_LOG_WARN,
                "%s shows predicted, but none of its runs has a forecast: it is made with nodes or hosts, from two up, "
                "and with sync=ps, async and ssp:K",
                q->id);
    }
}

/* --- what came of it --- */

static void print_runs(const struct ls_lab *lab, const struct ls_lab_state *state)
{
    printf("%s: %d training%s\n", lab->title, state->n_jobs, state->n_jobs == 1 ? "" : "s");
    for (int i = 0; i < lab->n_runs; i++) {
        double sum = 0;
        int n_done = 0, n = 0;
        const char *message = "";
        for (int k = 0; k < state->n_jobs; k++) {
            const struct ls_lab_job *job = &state->jobs[k];
            if (job->run != i) continue;
            n++;
            if (job->state == LS_JOB_FAILED) message = job->message;
            if (job->state != LS_JOB_DONE) continue;
            n_done++;
            if (isfinite(job->seconds)) sum += job->seconds;
        }
        char mean[LS_LAB_TIME_BYTES] = "";
        if (n == 0) continue;
        if (n_done > 0) ls__lab_time_text(sum / n_done, mean);
        printf("  %-32s %d of %d done  %-12s %s\n", lab->runs[i].name, n_done, n, mean, message);
    }
}

static enum ls_status tell(const struct ls_lab_folder *folder, const struct ls_lab_state *state,
                           const struct ls_lab_summary *s)
{
    char dir[LS_QUOTED_BYTES];
    ls__quote_path(folder->dir.path, dir, sizeof dir);
    if (s->signal || s->n_left > 0) {
        printf("\n%d of %d trainings are done; go on with:\n  lockstep lab run %s\n", s->n_done, state->n_jobs, dir);
        return ls_fail(LS_INTERRUPTED, "the lab was stopped; go on with: lockstep lab run %s", dir);
    }
    printf("\nreport:\n  %s/report.html\n", folder->dir.path);
    if (s->n_failed == 0) return LS_OK;
    return ls_fail(LS_ERROR,
                   "%d of %d trainings failed, as the report tells; once the cause is gone: lockstep lab run %s",
                   s->n_failed, state->n_jobs, dir);
}

/* --- running --- */

static enum ls_status run_in(struct ls_lab_folder *folder, const struct ls_lab *lab, struct ls_lab_state *state)
{
    char exe[LS_PATH_BYTES], time[LS_LAB_TIME_BYTES];
    struct ls_lab_summary summary;
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (len <= 0) return ls_fail(LS_ERROR, "find this program: %s", strerror(errno));
    exe[len] = '\0';
    ls__log(LS_LOG_INFO, "%s: %d training%s in %s, predicted to take %s", lab->name, state->n_jobs,
            state->n_jobs == 1 ? "" : "s", folder->dir.path, ls__lab_time_text(ls__lab_seconds_left(state), time));
    ls__lab_warn_of_scale(lab, state);
    ls__lab_warn_of_forecasts(lab, state);
    TRY(ls__lab_run(folder, lab, state, exe, &summary));
    print_runs(lab, state);
    if (!summary.signal) {
        const struct ls_lab_report_ask ask = {.published_images = ls__lab_published_images};
        TRY(ls__lab_report(lab, state, folder->dir.path, &ask));
    }
    return tell(folder, state, &summary);
}

static enum ls_status go(const struct ls_lab *lab, struct ls_lab_state *state, const char *path)
{
    struct ls_lab_folder folder;
    char made[LS_PATH_BYTES];
    TRY(ls__lab_check_data(state));
    TRY(ls__lab_check_devices(lab, state));
    if (!path) TRY(ls__run_make_named("lab", lab->name, made));
    TRY(ls__lab_folder_take(&folder, path ? path : made, lab, state));
    enum ls_status status = run_in(&folder, lab, state);
    ls__lab_folder_leave(&folder);
    return status;
}

static enum ls_status check_place(void)
{
    if (!ls_comm_is_launched()) return LS_OK;
    return ls_fail(LS_USAGE, "a lab starts its own processes: run it without mpirun");
}

/* A folder begun with some questions goes on with those and these. */
static const char *join_only(const char *path, const char *only, char *out, size_t size)
{
    struct ls_lab *lab;
    struct ls_lab_state *state;
    if (!*only || !path || !ls__lab_is_folder(path)) return only;
    if (ls__lab_open_folder(path, &lab, &state) != LS_OK) return only; /* told when it is taken */
    if (!*state->only)
        *out = '\0';
    else if (strcmp(state->only, only) == 0)
        snprintf(out, size, "%s", only);
    else
        snprintf(out, size, "%s,%s", state->only, only);
    ls__lab_state_destroy(&state);
    ls__lab_destroy(&lab);
    return out;
}

enum ls_status ls__lab_go(const struct ls_options *o, const struct ls_lab *lab, const char *dir)
{
    struct ls_lab_state *state;
    char only[LS_PATH_BYTES], workers[32];
    struct ls_lab_ask ask = ask_of(o, workers);
    TRY(check_place());
    if (ask.repeat > LS_LAB_MAX_REPEATS)
        return ls_fail(LS_USAGE, "--repeat %d: a lab repeats at most %d times", ask.repeat, LS_LAB_MAX_REPEATS);
    ask.only = join_only(dir, ask.only, only, sizeof only);
    TRY(plan(&state, lab, &ask));
    enum ls_status status = go(lab, state, dir);
    ls__lab_state_destroy(&state);
    return status;
}

/* Planned anew from what its state says, so that what changed in the program is told before anything runs. */
static enum ls_status go_on(const struct ls_lab *read, const struct ls_lab_state *old, const char *dir)
{
    struct ls_lab *lab;
    struct ls_lab_state *state;
    const struct ls_lab_ask ask = {.scale = old->scale,
                                   .only = old->only,
                                   .device = old->device,
                                   .workers = old->workers,
                                   .hosts = old->hosts,
                                   .data_dir = old->data_dir,
                                   .repeat = old->repeat,
                                   .is_stand_in = old->is_stand_in};
    const struct ls_lab_rules rules = ls__lab_rules(old->device);
    TRY(ls__lab_parse(&lab, read->name, read->file, read->file_len, &rules));
    enum ls_status status = plan(&state, lab, &ask);
    if (status == LS_OK) status = go(lab, state, dir);
    ls__lab_state_destroy(&state);
    ls__lab_destroy(&lab);
    return status;
}

enum ls_status ls__lab_go_on(const struct ls_options *o, const char *dir)
{
    static const char *const fixed[] = {"scale",    "only",     "device", "workers", "hosts",
                                        "data-dir", "stand-in", "repeat", "run"};
    struct ls_lab *lab;
    struct ls_lab_state *state;
    TRY(check_place());
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (ls__option_is_given(o, fixed[i]))
            return ls_fail(LS_USAGE, "%s goes on as it was begun: leave --%s out", dir, fixed[i]);
    TRY(ls__lab_open_folder(dir, &lab, &state));
    enum ls_status status = go_on(lab, state, dir);
    ls__lab_state_destroy(&state);
    ls__lab_destroy(&lab);
    return status;
}
