/* repeat.c: `lockstep train ... --repeat N`: the same training with N seeds, and what came of them together.
 *
 * Every repetition is a run of its own, DIR/seed-K, by a process of its own (which may launch workers): its memory and
 * its seconds are what they would be alone, and one that fails takes no other with it. What they print goes nowhere;
 * their progress is seen on stderr. Signals are handed on: after one that stops a repetition no other is begun.
 * DIR/repeat.json has the outcome. With --resume auto finished repetitions are kept and others go on.
 *
 * Nothing is written into a folder that somebody else has filled: DIR holds nothing but what is told here, or it is
 * refused before the first seed, as a run's directory is (run/claim.c).
 */
#include "cli/repeat.h"

#include "base/dir.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/quote.h"
#include "cli/cmd.h"
#include "comm/comm.h"
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct repetition {
    int64_t seed;
    char dir[LS_PATH_BYTES];
    int code;       /* 0: finished; -1: not begun */
    json_t *result; /* or NULL */
};

struct repeat {
    const struct ls_options *o;
    char dir[LS_PATH_BYTES], exe[LS_PATH_BYTES];
    struct ls_dir folder;   /* dir */
    struct repetition *all; /* [n] */
    int n;
};

static const char file_name[] = "repeat.json";
enum { FILE_MAX_BYTES = 16 << 20 };

/* --- one repetition --- */

static volatile sig_atomic_t child, last_signal;

static void hand_on(int number)
{
    last_signal = number;
    if (child > 0) kill((pid_t)child, number);
}

static void take_signals(void)
{
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue; /* nohup */
        sigaction(numbers[i], &(struct sigaction){.sa_handler = hand_on}, NULL);
    }
}

/* In the child. A group of its own: Ctrl-C reaches it through us, once. */
static void become(char *const *argv)
{
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
    }
    execv(argv[0], argv);
    _exit(127);
}

static enum ls_status run_child(char *const *argv, int *code)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0) return ls_fail(LS_ERROR, "start a repetition: %s", strerror(errno));
    if (pid == 0) become(argv);
    child = pid;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    child = 0;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return LS_OK;
}

static enum ls_status train(const struct repeat *r, struct repetition *one)
{
    static const char *const without[] = {"repeat", "seed", "run", "resume", "json", NULL};
    struct ls_words w = {0};
    char seed[32];
    snprintf(seed, sizeof seed, "%" PRId64, one->seed);
    ls__words_add(&w, r->exe);
    ls__words_add(&w, "train");
    ls__words_add(&w, "--json");
    ls__words_add_option(&w, "seed", seed);
    ls__words_add_option(&w, "run", one->dir);
    if (r->o->train.resume) ls__words_add_option(&w, "resume", "auto");
    ls__words_add_options(&w, r->o, without);
    enum ls_status status = w.status == LS_OK ? run_child(w.argv, &one->code) : w.status;
    ls__words_release(&w);
    return status;
}

/* --- what is there already --- */

/* Whether the run was trained as this one would be: all that decides the result and its end. */
static bool is_same_training(const struct repeat *r, const struct repetition *one)
{
    struct ls_train_options o = r->o->train;
    json_t *manifest = NULL, *ours = NULL, *theirs;
    char *text = NULL;
    const char *key;
    json_t *value;
    o.seed = one->seed;
    bool is_same = ls__run_load(one->dir, "manifest.json", &manifest) == LS_OK &&
                   ls__json_dump(ls__options_json(&o, LS_ROLE_RUN | LS_ROLE_TOGETHER), LS_JSON_SETTINGS, "options",
                                 &text) == LS_OK; /* the digits that a manifest has */
    if (is_same) ours = json_loads(text, 0, NULL);
    theirs = json_object_get(manifest, "options");
    json_object_foreach(ours, key, value) is_same = is_same && json_equal(value, json_object_get(theirs, key));
    json_decref(ours);
    json_decref(manifest);
    free(text);
    return is_same;
}

static bool has_result(const struct repetition *one)
{
    char path[LS_PATH_BYTES];
    return ls__path_join(path, sizeof path, one->dir, "result.json") == LS_OK && ls__file_exists(path);
}

static enum ls_status do_one(const struct repeat *r, struct repetition *one)
{
    bool is_kept = r->o->train.resume && has_result(one) && is_same_training(r, one);
    one->code = 0;
    if (is_kept)
        ls__log(LS_LOG_INFO, "seed %" PRId64 ": finished before, kept", one->seed);
    else
        TRY(train(r, one));
    if (one->code == 0) return ls__run_load(one->dir, "result.json", &one->result);
    return LS_OK;
}

/* --- together --- */

static const struct measure {
    const char *key, *title;
    double scale;
    const char *unit;
} measures[] = {
    {"test_accuracy", "test accuracy", 100, " %"},
    {"best_test_accuracy", "test accuracy, best weights", 100, " %"},
    {"best_validation_accuracy", "validation accuracy, best", 100, " %"},
    {"train_seconds", "seconds of training", 1, ""},
    {"total_seconds", "seconds in all", 1, ""},
    {"target_train_seconds", "seconds to the target", 1, ""},
    {"images_per_second", "images/s", 1, ""},
};
enum { N_MEASURES = sizeof measures / sizeof *measures };

struct spread {
    int n;
    double mean, deviation, min, max; /* deviation: of a sample, NAN for one */
};

static struct spread spread_of(const struct repeat *r, const char *key)
{
    struct spread s = {.min = INFINITY, .max = -INFINITY, .deviation = NAN};
    double squares = 0;
    for (int i = 0; i < r->n; i++) {
        const json_t *value = json_object_get(r->all[i].result, key);
        if (!json_is_number(value)) continue;
        const double x = json_number_value(value), off = x - s.mean;
        s.n++;
        s.mean += off / s.n;
        squares += off * (x - s.mean);
        s.min = fmin(s.min, x);
        s.max = fmax(s.max, x);
    }
    if (s.n > 1) s.deviation = sqrt(squares / (s.n - 1));
    return s;
}

static const char *outcome(const struct repetition *one)
{
    return one->code == 0 ? "finished" : one->code < 0 ? "not begun" : one->code == 75 ? "stopped" : "failed";
}

static json_t *repetition_json(const struct repetition *one)
{
    json_t *object =
        json_pack("{s:I, s:o, s:s, s:o}", "seed", (json_int_t)one->seed, "run_dir", ls__json_text(one->dir), "outcome",
                  outcome(one), "exit_code", one->code < 0 ? json_null() : json_integer(one->code));
    for (int m = 0; object && m < N_MEASURES; m++) {
        json_t *value = json_object_get(one->result, measures[m].key);
        if (json_object_set(object, measures[m].key, value ? value : json_null()) == 0) continue;
        json_decref(object);
        return NULL;
    }
    if (one->result) json_object_set(object, "weights_hash", json_object_get(one->result, "weights_hash"));
    return object;
}

static json_t *repeat_json(const struct repeat *r)
{
    json_t *list = json_array(), *object;
    int n_finished = 0;
    for (int i = 0; i < r->n; i++) {
        n_finished += r->all[i].result != NULL;
        json_array_append_new(list, repetition_json(&r->all[i]));
    }
    object = json_pack("{s:o, s:o, s:i, s:i, s:o}", "model", ls__json_text(r->o->train.model), "data",
                       ls__json_text(r->o->train.data), "repeat", r->n, "finished", n_finished, "repetitions", list);
    for (int m = 0; object && m < N_MEASURES; m++) {
        const struct spread s = spread_of(r, measures[m].key);
        json_t *value = s.n == 0 ? json_null()
                                 : json_pack("{s:i, s:o, s:o, s:o, s:o}", "n", s.n, "mean", ls__json_number(s.mean),
                                             "deviation", ls__json_number(s.deviation), "min", ls__json_number(s.min),
                                             "max", ls__json_number(s.max));
        if (json_object_set_new(object, measures[m].key, value) == 0) continue;
        json_decref(object);
        return NULL;
    }
    return object;
}

static void print_table(const struct repeat *r)
{
    printf("%s on %s: %d seeds\n", r->o->train.model, r->o->train.data, r->n);
    for (int i = 0; i < r->n; i++) {
        const struct repetition *one = &r->all[i];
        const char *key =
            json_is_number(json_object_get(one->result, "best_test_accuracy")) ? "best_test_accuracy" : "test_accuracy";
        const json_t *accuracy = json_object_get(one->result, key);
        char text[LS_TEXT_BYTES] = "";
        if (one->result) ls__percent_text(json_is_number(accuracy) ? json_number_value(accuracy) : NAN, text);
        printf("  seed %-6" PRId64 " %-12s %-14s %s\n", one->seed, outcome(one), text, one->dir);
    }
    printf("\n  %-28s %12s %12s %12s %12s\n", "", "mean", "deviation", "least", "most");
    for (int m = 0; m < N_MEASURES; m++) {
        const struct measure *d = &measures[m];
        const struct spread s = spread_of(r, d->key);
        if (s.n == 0) continue;
        printf("  %-28s %10.4g%-2s %10.3g%-2s %10.4g%-2s %10.4g%-2s\n", d->title, d->scale * s.mean, d->unit,
               s.n > 1 ? d->scale * s.deviation : 0, d->unit, d->scale * s.min, d->unit, d->scale * s.max, d->unit);
    }
}

/* The command that goes on, with every option as it was given. */
static void print_way_on(const struct repeat *r)
{
    static const char *const without[] = {"run", "resume", NULL};
    struct ls_words w = {0};
    char word[LS_QUOTED_BYTES];
    ls__words_add_options(&w, r->o, without);
    printf("\ngo on with:\n  lockstep train --run %s --resume auto", ls__quote_path(r->dir, word, sizeof word));
    for (int i = 0; i < w.n; i++)
        printf(" %s", (*w.argv[i] == '-' ? ls__quote_word : ls__quote_path)(w.argv[i], word, sizeof word));
    printf("\n");
    ls__words_release(&w);
}

/* --- whose folder it is --- */

struct look {
    const struct ls_dir *folder;
    char foreign[256];      /* the first name that is not ours */
    enum ls_status failure; /* LS_NOMEM: it was not looked at */
};

/* What cannot be read is not ours; what there is no memory for is not known. */
static bool is_our_file(struct look *l)
{
    char *text;
    size_t len;
    enum ls_status status = ls__dir_read(l->folder, file_name, FILE_MAX_BYTES, &text, &len, LS_CHECKPOINT);
    if (status == LS_NOMEM) l->failure = status;
    if (status != LS_OK) return false;
    json_t *object = json_loadb(text, len, 0, NULL);
    bool is_ours = json_is_integer(json_object_get(object, "repeat")) &&
                   json_is_integer(json_object_get(object, "finished")) &&
                   json_is_array(json_object_get(object, "repetitions"));
    json_decref(object);
    free(text);
    return is_ours;
}

/* What is in seed-K is for the run that is to write there to judge. */
static bool look_at(void *arg, const char *name)
{
    static const char seed[] = "seed-", temporary[] = "repeat.json.tmp.";
    const size_t n = strlen(seed);
    struct look *l = arg;
    struct stat st;
    if (fstatat(l->folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return true; /* gone */
    bool is_file = S_ISREG(st.st_mode), is_ours = false;
    if (strncmp(name, seed, n) == 0)
        is_ours = S_ISDIR(st.st_mode) && name[n] && !name[n + strspn(name + n, "0123456789")];
    if (strcmp(name, file_name) == 0) is_ours = is_file && is_our_file(l);
    if (strncmp(name, temporary, strlen(temporary)) == 0) is_ours = is_file;
    if (!is_ours) snprintf(l->foreign, sizeof l->foreign, "%s", name);
    return is_ours;
}

static enum ls_status claim(struct repeat *r)
{
    TRY(ls__dir_open(&r->folder, r->dir, LS_CHECKPOINT));
    struct look l = {.folder = &r->folder};
    if (!ls__dir_each(&r->folder, look_at, &l)) return ls_fail(LS_CHECKPOINT, "read %s: %s", r->dir, strerror(errno));
    TRY(l.failure);
    if (*l.foreign)
        return ls_fail(LS_CHECKPOINT,
                       "%s is not empty and holds no repetitions of ours (%s is there): choose another --run", r->dir,
                       l.foreign);
    for (int i = 0; i < r->n && !r->o->train.resume; i++)
        if (ls__run_is_run(r->all[i].dir))
            return ls_fail(LS_CHECKPOINT,
                           "%s already holds a run with seed %" PRId64
                           ": give another --run or --seed, or go on with --resume auto",
                           r->dir, r->all[i].seed);
    return LS_OK;
}

/* --- all --- */

static enum ls_status prepare(struct repeat *r)
{
    const struct ls_train_options *t = &r->o->train;
    if (ls_comm_is_launched())
        return ls_fail(LS_USAGE, "--repeat starts its own processes: give it -w or --hosts instead of mpirun");
    if (t->resume && strcmp(t->resume, "auto") != 0)
        return ls_fail(LS_USAGE, "--repeat goes on with --resume auto and the --run of before, not with --resume %s",
                       t->resume);
    if (t->resume && !t->run_dir) return ls_fail(LS_USAGE, "--resume auto needs --run DIR: which run is to go on?");
    ssize_t len = readlink("/proc/self/exe", r->exe, sizeof r->exe - 1);
    if (len <= 0) return ls_fail(LS_ERROR, "find this program: %s", strerror(errno));
    if (!t->run_dir) TRY(ls__run_make_named(t->model, t->data, r->dir));
    if (t->run_dir) snprintf(r->dir, sizeof r->dir, "%s", t->run_dir);
    if (mkdir(r->dir, 0777) != 0 && errno != EEXIST)
        return ls_fail(LS_CHECKPOINT, "make %s: %s", r->dir, strerror(errno));
    r->n = (int)r->o->repeat;
    TRY(ls__calloc(&r->all, (size_t)r->n, sizeof *r->all));
    for (int i = 0; i < r->n; i++) {
        char name[40];
        r->all[i].seed = t->seed + i;
        r->all[i].code = -1;
        snprintf(name, sizeof name, "seed-%" PRId64, r->all[i].seed);
        TRY(ls__path_join(r->all[i].dir, sizeof r->all[i].dir, r->dir, name));
    }
    return claim(r);
}

static enum ls_status write_file(const struct repeat *r)
{
    char *text;
    TRY(ls__json_dump(repeat_json(r), LS_JSON_FOR_PEOPLE, file_name, &text));
    const struct ls_piece pieces[] = {{text, strlen(text)}, {"\n", 1}};
    enum ls_status status = ls__dir_write_atomic(&r->folder, file_name, pieces, 2, LS_CHECKPOINT);
    free(text);
    return status;
}

/* What a repetition was refused for, all would be. */
static bool is_hopeless(int code)
{
    return code == ls_status_exit_code(LS_USAGE) || code == ls_status_exit_code(LS_DATA) || code == 127;
}

static enum ls_status run_all(struct repeat *r, int *exit_code)
{
    TRY(prepare(r));
    take_signals();
    for (int i = 0; i < r->n; i++) {
        struct repetition *one = &r->all[i];
        ls__log(LS_LOG_INFO, "seed %" PRId64 ", %d of %d", one->seed, i + 1, r->n);
        TRY(do_one(r, one));
        if (one->code != 0 && *exit_code == 0) *exit_code = one->code;
        if (one->code == ls_status_exit_code(LS_INTERRUPTED) || one->code >= 128 || is_hopeless(one->code)) break;
    }
    bool is_begun = false;
    for (int i = 0; i < r->n; i++) is_begun |= r->all[i].result || ls__dir_exists(r->all[i].dir);
    if (!is_begun) return LS_OK; /* its own message says why */
    TRY(write_file(r));
    if (r->o->train.json) return ls__print_json(repeat_json(r));
    print_table(r);
    if (*exit_code != 0) print_way_on(r);
    return LS_OK;
}

enum ls_status ls__repeat(const struct ls_options *o, int *exit_code)
{
    struct repeat r = {.o = o, .folder = {.fd = -1}};
    *exit_code = 0;
    enum ls_status status = run_all(&r, exit_code);
    for (int i = 0; r.all && i < r.n; i++) json_decref(r.all[i].result);
    ls__dir_close(&r.folder);
    if (*r.dir) rmdir(r.dir); /* only if nothing is in it */
    free(r.all);
    return status;
}
