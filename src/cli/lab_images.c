/* lab_images.c: how many images the data set of a lab's run has: those that are on this machine, counted once by
 * opening it; where it is not, those that are published.
 */
#include "base/mem.h"
#include "cli/lab_rules.h"
#include "data/catalog.h"
#include "data/data.h"
#include "settings/validation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct count {
    char data[256], dir[LS_PATH_BYTES];
    int64_t images[2]; /* to train on, to test on */
    struct count *next;
};

struct ls_lab_counts {
    struct count *first;
};

enum ls_status ls__lab_counts_create(struct ls_lab_counts **out)
{
    return ls__calloc(out, 1, sizeof **out);
}

void ls__lab_counts_destroy(struct ls_lab_counts **counts)
{
    for (struct count *c = *counts ? (*counts)->first : NULL, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(*counts);
    *counts = NULL;
}

/* Of a folder of pictures it is not worth while: all of them would be looked at. */
static int64_t count_split(const char *data, const char *dir, bool is_test)
{
    const struct ls_data_options options = {.data_dir = dir && *dir ? dir : NULL};
    struct ls_dataset *ds;
    if (strncmp(data, "folder:", 7) == 0) return 0;
    if (ls_data_open(&ds, data, is_test ? LS_TEST : LS_TRAIN, &options) != LS_OK)
        return ls__lab_published_images(data, is_test);
    const int64_t n = ds->n;
    ls_dataset_close(&ds);
    return n;
}

/* Without those that the run puts aside to validate on. */
static int64_t without_validation(const struct ls_lab_job *job, int64_t n)
{
    const char *text = ls__lab_job_setting(job, "validation");
    struct ls_validation v;
    if (!text || !ls__validation_parse(text, &v) || v.folder) return n;
    const int64_t held = v.n > 0 ? v.n : (int64_t)(v.share * (double)n);
    return held < n ? n - held : n;
}

int64_t ls__lab_images(void *context, const struct ls_lab_job *job, bool is_test)
{
    struct ls_lab_counts *counts = context;
    const char *data = ls__lab_job_setting(job, "data"), *dir = ls__lab_job_setting(job, "data-dir");
    struct count *c = counts->first;
    if (!data) return 0;
    if (!dir) dir = "";
    while (c && (strcmp(c->data, data) != 0 || strcmp(c->dir, dir) != 0)) c = c->next;
    if (!c) {
        c = strlen(data) < sizeof c->data && strlen(dir) < sizeof c->dir ? calloc(1, sizeof *c) : NULL;
        if (!c) return count_split(data, dir, is_test);
        snprintf(c->data, sizeof c->data, "%s", data);
        snprintf(c->dir, sizeof c->dir, "%s", dir);
        c->images[0] = c->images[1] = -1;
        c->next = counts->first;
        counts->first = c;
    }
    if (c->images[is_test] < 0) c->images[is_test] = count_split(data, dir, is_test);
    return is_test ? c->images[1] : without_validation(job, c->images[0]);
}
