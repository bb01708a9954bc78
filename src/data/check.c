/* check.c: what `lockstep data list` and `lockstep data check` say about the sets on this machine.
 *
 * In: the catalogue and the files found. Out: text. Checking opens the set exactly as training does, so "good" here
 * means that training can read it; the checksum tells in addition whether it is the published one.
 */
#include "data/catalog.h"

#include "base/mem.h"
#include "base/status_kept.h"
#include "data/fetch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HISTOGRAM_CLASSES = 32, MEASURED_SAMPLES_OF_FOLDERS = 200 };

static const char *split_name(enum ls_split split)
{
    return split == LS_TRAIN ? "train" : "test";
}

/* ---- list ---- */

/* The folder that has both splits, or how to get them. */
static void find_set(struct ls_data_row *row, const struct ls_set *set, bool with_extra, struct ls_found *found,
                     const char *data_dir)
{
    snprintf(row->name, sizeof row->name, "%s%s", set->name, with_extra ? "+extra" : "");
    row->title = with_extra ? "the same with the third file" : set->title;
    row->terms = set->licence;
    if (ls__catalog_locate(found, set, LS_TEST, with_extra, data_dir) != LS_OK ||
        ls__catalog_locate(found, set, LS_TRAIN, with_extra, data_dir) != LS_OK) {
        bool is_partial = strstr(ls_error_message(), "incomplete") != NULL;
        snprintf(row->where, sizeof row->where, "%s: lockstep data fetch %s", is_partial ? "incomplete" : "not here",
                 row->name);
        return;
    }
    row->is_here = true;
    char *slash = strrchr(found->path[0], '/');
    if (slash) *slash = '\0';
    snprintf(row->where, sizeof row->where, "%s", found->path[0]);
}

enum ls_status ls_data_list(const char *data_dir, struct ls_data_row **rows, int *n_rows)
{
    static const struct {
        const char *name, *title, *terms, *where;
    } others[] = {{"digits", "rendered digits, 28x28 grey", "built in", "needs nothing"},
                  {"digits-rgb", "rendered digits, 32x32 colour", "built in", "needs nothing"},
                  {"folder:PATH", "PNG or JPEG files, one sub-folder per class", "yours", "PATH"},
                  {"fake:C..:N", "random pixels, fake:3x32x32:10:5000", "built in", "needs nothing"}};
    enum { N_OTHERS = sizeof others / sizeof others[0] };
    struct ls_found *found;
    int n = 0, n_sets = 0;
    while (ls__catalog_at(n_sets)) n_sets++;
    TRY(ls__calloc(rows, (size_t)(2 * n_sets + N_OTHERS), sizeof **rows));
    enum ls_status status = ls__calloc(&found, 1, sizeof *found);
    if (status != LS_OK) {
        free(*rows);
        *rows = NULL;
        return status;
    }
    for (int i = 0; i < n_sets; i++) {
        const struct ls_set *set = ls__catalog_at(i);
        find_set(&(*rows)[n++], set, false, found, data_dir);
        if (ls__catalog_has_extra(set)) find_set(&(*rows)[n++], set, true, found, data_dir);
    }
    free(found);
    for (int i = 0; i < N_OTHERS; i++, n++) {
        struct ls_data_row *row = &(*rows)[n];
        *row = (struct ls_data_row){.title = others[i].title, .terms = others[i].terms, .is_here = true};
        snprintf(row->name, sizeof row->name, "%s", others[i].name);
        snprintf(row->where, sizeof row->where, "%s", others[i].where);
    }
    *n_rows = n;
    return LS_OK;
}

/* ---- check ---- */

static void describe_file(struct ls_buf *report, const struct ls_set_file *file, const char *path)
{
    struct stat st;
    char md5[33];
    size_t len = strlen(path);
    bool is_published_form = file->md5 && (!file->is_gzip || (len > 3 && strcmp(path + len - 3, ".gz") == 0));
    ls__buf_addf(report, "  %s: %lld bytes, ", path, stat(path, &st) == 0 ? (long long)st.st_size : -1LL);
    if (!is_published_form)
        ls__buf_adds(report, "no checksum is published for this form\n");
    else if (ls__file_md5(path, md5) != LS_OK)
        ls__buf_addf(report, "checksum not computed (%s)\n", ls_error_message());
    else if (strcmp(md5, file->md5) == 0)
        ls__buf_addf(report, "MD5 %s as published\n", md5);
    else
        ls__buf_addf(report, "MD5 %s differs from the published %s\n", md5, file->md5);
}

static void describe_labels(struct ls_buf *report, const struct ls_dataset *ds)
{
    int64_t count[HISTOGRAM_CLASSES] = {0};
    for (int64_t i = 0; i < ds->n; i++)
        if (ds->labels[i] < HISTOGRAM_CLASSES) count[ds->labels[i]]++;
    ls__buf_adds(report, "  labels:");
    for (int k = 0; k < ds->n_classes && k < HISTOGRAM_CLASSES; k++)
        ls__buf_addf(report, " %d:%lld", k, (long long)count[k]);
    ls__buf_adds(report, ds->n_classes > HISTOGRAM_CLASSES ? " ...\n" : "\n");
}

struct moments {
    double sum[3], squares[3];
    int64_t n; /* pixels of each channel */
};

static void measure(struct moments *m, const uint8_t *sample /* [c,h,w] */, int c, size_t plane)
{
    for (int k = 0; k < c && k < 3; k++) {
        uint64_t sum = 0, squares = 0;
        const uint8_t *p = sample + (size_t)k * plane;
        for (size_t i = 0; i < plane; i++) {
            sum += p[i];
            squares += (uint64_t)p[i] * p[i];
        }
        m->sum[k] += (double)sum;
        m->squares[k] += (double)squares;
    }
    m->n += (int64_t)plane;
}

/* Every sample of sets in memory; of folders the first few hundred, evenly spread. */
static enum ls_status measure_all(struct moments *m, const struct ls_dataset *ds)
{
    uint8_t *sample;
    size_t plane = (size_t)ds->h * (size_t)ds->w;
    int64_t step = ds->pixels || ds->n <= MEASURED_SAMPLES_OF_FOLDERS ? 1 : ds->n / MEASURED_SAMPLES_OF_FOLDERS;
    TRY(ls__calloc(&sample, plane, (size_t)ds->c));
    enum ls_status status = LS_OK;
    for (int64_t i = 0; status == LS_OK && i < ds->n; i += step) {
        status = ls_dataset_read(ds, i, sample);
        if (status == LS_OK) measure(m, sample, ds->c, plane);
    }
    free(sample);
    return status;
}

static enum ls_status describe_split(struct ls_buf *report, const struct ls_dataset *ds, const char *known)
{
    struct moments m = {0};
    ls__buf_addf(report, "  %s: %lld samples of %dx%dx%d, %d classes, content %s%s\n", split_name(ds->split),
                 (long long)ds->n, ds->c, ds->h, ds->w, ds->n_classes, ds->checksum,
                 !known                             ? ""
                 : strcmp(known, ds->checksum) == 0 ? " as published"
                                                    : " (not the published set, but well formed)");
    describe_labels(report, ds);
    TRY(measure_all(&m, ds));
    for (int k = 0; k < ds->c && k < 3; k++) {
        double mean = m.sum[k] / (double)m.n, variance = m.squares[k] / (double)m.n - mean * mean;
        ls__buf_addf(report, "  channel %d: mean %.4f deviation %.4f (used: %.4f and %.4f)\n", k, mean / 255,
                     sqrt(fmax(0, variance)) / 255, (double)ds->mean[k], (double)ds->std[k]);
    }
    return LS_OK;
}

static enum ls_status check_split(const char *spec, enum ls_split split, const struct ls_data_options *options,
                                  struct ls_buf *report)
{
    bool with_extra;
    const struct ls_set *set = ls__catalog_from_spec(spec, &with_extra);
    struct ls_dataset *ds = NULL;
    struct ls_found *found;
    TRY(ls__calloc(&found, 1, sizeof *found));
    ls__buf_addf(report, "%s, %s split\n", spec, split_name(split));
    enum ls_status status = set ? ls__catalog_locate(found, set, split, with_extra, options->data_dir) : LS_OK;
    for (int i = 0; set && i < found->n; i++) describe_file(report, &set->files[found->file[i]], found->path[i]);
    free(found);
    if (status == LS_OK) status = ls_data_open(&ds, spec, split, options);
    if (status == LS_OK) status = describe_split(report, ds, set && !with_extra ? set->content[split] : NULL);
    if (status != LS_OK) ls__buf_addf(report, "  bad: %s\n", ls_error_message());
    ls_dataset_close(&ds);
    return status;
}

enum ls_status ls_data_check(const char *spec, const struct ls_data_options *options, struct ls_buf *report)
{
    struct ls_kept train = ls__keep(check_split(spec, LS_TRAIN, options, report));
    if (train.status == LS_USAGE) return train.status;
    enum ls_status test = check_split(spec, LS_TEST, options, report);
    TRY(ls__fail_again(&train));
    return test != LS_OK ? test : ls__buf_check(report);
}
