/* cmd_classify.c: `lockstep classify`: files of pictures, and what a trained network says of each.
 *
 * All answers are kept until the end: the columns of the table are as wide as the longest entry, and no line of it
 * meets the progress bar.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cli/cmd.h"
#include "data/pictures.h"
#include "lockstep/classify.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE_COLUMNS = 46, MAX_NAME_COLUMNS = 20 }; /* on a terminal of 80 */

struct answers {
    struct ls_classifier *classifier;
    struct ls_names files;
    int k;
    struct ls_guess *guesses; /* [n,k] */
    char **errors;            /* [n]; NULL: it was read */
    int64_t n_bad;
    double seconds;
};

static enum ls_status take(void *arg, const struct ls_classified *one)
{
    struct answers *a = arg;
    if (one->guesses) {
        memcpy(a->guesses + one->index * a->k, one->guesses, (size_t)a->k * sizeof *one->guesses);
        return LS_OK;
    }
    a->n_bad++;
    ls__log(LS_LOG_WARN, "not classified: %s", one->error);
    return ls__strdup(&a->errors[one->index], one->error);
}

static const char *class_name(const struct answers *a, int label, char number[16])
{
    const char *name = ls_classifier_class_name(a->classifier, label);
    snprintf(number, 16, "%d", label);
    return name ? name : number;
}

/* --- the table --- */

static int widest_file(const struct answers *a)
{
    int width = 4;
    for (size_t i = 0; i < a->files.n; i++) {
        int own = ls__columns_of(a->files.at[i]);
        width = own > width ? own : width;
    }
    return isatty(STDOUT_FILENO) && width > MAX_FILE_COLUMNS ? MAX_FILE_COLUMNS : width;
}

static int widest_name(const struct answers *a)
{
    struct ls_classifier_info info = ls_classifier_describe(a->classifier);
    int width = 5;
    char number[16];
    for (int i = 0; i < info.n_classes; i++) {
        int own = ls__columns_of(class_name(a, i, number));
        width = own > width ? own : width;
    }
    return width < MAX_NAME_COLUMNS ? width : MAX_NAME_COLUMNS;
}

/* A long path loses its beginning. */
static void print_file_name(const char *file, int width)
{
    int too_much = ls__columns_of(file) - width;
    if (too_much > 0) {
        printf("...");
        width -= 3;
        for (too_much += 3; *file && too_much > 0; file++) too_much -= ((unsigned char)file[1] & 0xc0) != 0x80;
    }
    ls__print_plain(file, width);
}

static void print_table(const struct answers *a)
{
    int file_width = widest_file(a), name_width = widest_name(a);
    char number[16];
    for (size_t i = 0; i < a->files.n; i++) {
        if (a->errors[i]) continue; /* stderr has told */
        for (int k = 0; k < a->k; k++) {
            const struct ls_guess *guess = &a->guesses[(int64_t)i * a->k + k];
            print_file_name(k == 0 ? a->files.at[i] : "", file_width);
            printf("  ");
            ls__print_plain(class_name(a, guess->label, number), name_width);
            printf("  %6.2f %%\n", 100 * (double)guess->probability);
        }
    }
}

/* --- for programs --- */

static enum ls_status write_csv(const struct answers *a, const char *path)
{
    struct ls_buf b = LS_BUF_INIT;
    char number[16];
    ls__csv_add(&b, "file");
    for (int k = 1; k <= a->k; k++) {
        char ending[16] = "";
        if (k > 1) snprintf(ending, sizeof ending, "_%d", k);
        ls__csv_addf(&b, "predicted%s", ending);
        ls__csv_addf(&b, "name%s", ending);
        ls__csv_addf(&b, "probability%s", ending);
    }
    ls__buf_adds(&b, ",error\n");
    for (size_t i = 0; i < a->files.n; i++) {
        ls__csv_add(&b, a->files.at[i]);
        for (int k = 0; k < a->k; k++) {
            const struct ls_guess *guess = &a->guesses[(int64_t)i * a->k + k];
            if (a->errors[i]) {
                ls__buf_adds(&b, ",,,");
                continue;
            }
            ls__csv_addf(&b, "%d", guess->label);
            ls__csv_add(&b, class_name(a, guess->label, number));
            ls__csv_addf(&b, "%.6f", (double)guess->probability);
        }
        ls__csv_add(&b, a->errors[i] ? a->errors[i] : "");
        ls__buf_adds(&b, "\n");
    }
    return ls__print_file(&b, path);
}

static json_t *answer_json(const struct answers *a, size_t i)
{
    json_t *list = json_array();
    if (a->errors[i]) {
        json_decref(list);
        return json_pack("{s:o, s:o}", "file", ls__json_text(a->files.at[i]), "error", ls__json_text(a->errors[i]));
    }
    for (int k = 0; k < a->k; k++) {
        const struct ls_guess *guess = &a->guesses[(int64_t)i * a->k + k];
        json_array_append_new(list, json_pack("{s:i, s:o, s:o}", "class", guess->label, "name",
                                              ls__json_text(ls_classifier_class_name(a->classifier, guess->label)),
                                              "probability", ls__json_number((double)guess->probability)));
    }
    return json_pack("{s:o, s:o}", "file", ls__json_text(a->files.at[i]), "guesses", list);
}

static enum ls_status print_answers_json(const struct answers *a)
{
    struct ls_classifier_info info = ls_classifier_describe(a->classifier);
    json_t *list = json_array();
    for (size_t i = 0; list && i < a->files.n; i++)
        if (json_array_append_new(list, answer_json(a, i)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return ls__print_json(json_pack("{s:o, s:o, s:I, s:I, s:I, s:o, s:o}", "model", ls__json_text(info.model),
                                    "checkpoint", ls__json_text(info.checkpoint), "step", (json_int_t)info.step,
                                    "pictures", (json_int_t)a->files.n, "unreadable", (json_int_t)a->n_bad, "seconds",
                                    ls__json_number(a->seconds), "answers", list));
}

/* --- the command --- */

static enum ls_status classify(struct answers *a, const struct ls_options *o)
{
    const struct ls_classifier_options options = {.what = o->args[0],
                                                  .device = o->train.device,
                                                  .isa = o->train.isa,
                                                  .tune = o->train.tune,
                                                  .threads = o->train.threads > 0 ? o->train.threads : ls__cpu_count()};
    int n_what;
    const char *const *what = ls__options_args(o, 1, &n_what);
    if (o->csv) TRY(ls__print_try(o->csv));
    TRY(ls_classifier_open(&a->classifier, &options));
    int n_classes = ls_classifier_describe(a->classifier).n_classes;
    a->k = o->top < n_classes ? (int)o->top : n_classes;
    TRY(ls__pictures_find(what, n_what, &a->files));
    TRY(ls__calloc(&a->guesses, a->files.n * (size_t)a->k, sizeof *a->guesses));
    TRY(ls__calloc(&a->errors, a->files.n, sizeof *a->errors));
    int64_t start_ns = ls__now_ns();
    TRY(ls_classify_files(a->classifier, (const char *const *)a->files.at, (int64_t)a->files.n, a->k, take, a));
    a->seconds = 1e-9 * (double)(ls__now_ns() - start_ns);
    return LS_OK;
}

static enum ls_status tell(const struct answers *a, const struct ls_options *o)
{
    if (o->csv) TRY(write_csv(a, o->csv));
    if (o->train.json) TRY(print_answers_json(a));
    if (!o->csv && !o->train.json) print_table(a);
    if (a->files.n > 1)
        ls__log(LS_LOG_INFO, "%zu pictures in %.2f s: %.0f images/s", a->files.n, a->seconds,
                (double)a->files.n / a->seconds);
    if (a->n_bad == 0) return LS_OK;
    return ls_fail(LS_DATA, "%lld of %zu picture%s could not be read", (long long)a->n_bad, a->files.n,
                   a->files.n == 1 ? "" : "s");
}

enum ls_status ls__cmd_classify(const struct ls_options *o)
{
    struct answers a = {.k = 1};
    if (o->train.json && o->csv && strcmp(o->csv, "-") == 0)
        return ls_fail(LS_USAGE, "--json and --csv - would both write to stdout; give --csv a file");
    enum ls_status status = classify(&a, o);
    if (status == LS_OK) status = tell(&a, o);
    for (size_t i = 0; a.errors && i < a.files.n; i++) free(a.errors[i]);
    free(a.errors);
    free(a.guesses);
    ls__names_release(&a.files);
    ls_classifier_close(&a.classifier);
    return status;
}
