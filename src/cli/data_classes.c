/* data_classes.c: the classes of a data set and how many images each has, for `lockstep data info`; see cmd.h. */
#include "base/mem.h"
#include "cli/cmd.h"
#include "data/classes.h"
#include "data/data.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SHOWN = 30, MAX_NAME = 40 };

static enum ls_status count(const struct ls_dataset *ds, int64_t **counts)
{
    TRY(ls__calloc(counts, (size_t)ds->n_classes, sizeof **counts));
    for (int64_t i = 0; i < ds->n; i++)
        if (ds->labels[i] < ds->n_classes) (*counts)[ds->labels[i]]++;
    return LS_OK;
}

static void print(const struct ls_classes *classes, const int64_t *counts)
{
    int width = 1;
    char number[LS_CLASS_TEXT];
    for (int i = 0; i < classes->n && i < MAX_SHOWN; i++) {
        int own = ls__columns_of(ls__classes_show(classes, i, number));
        width = own > width ? own : width;
    }
    if (width > MAX_NAME) width = MAX_NAME;
    for (int i = 0; i < classes->n && i < MAX_SHOWN; i++) {
        printf("    ");
        ls__print_plain(ls__classes_show(classes, i, number), width);
        printf("  %7" PRId64 "\n", counts[i]);
    }
    if (classes->n > MAX_SHOWN) printf("    and %d more classes (--json has all)\n", classes->n - MAX_SHOWN);
}

enum ls_status ls__data_print_classes(const struct ls_dataset *ds)
{
    int64_t *counts;
    struct ls_classes classes;
    TRY(count(ds, &counts));
    enum ls_status status = ls__classes_init(&classes, ds->class_names, ds->n_classes);
    if (status == LS_OK) print(&classes, counts);
    ls__classes_release(&classes);
    free(counts);
    return status;
}

enum ls_status ls__data_json_classes(const struct ls_dataset *ds, struct json_t *object)
{
    int64_t *counts;
    struct ls_classes classes;
    json_t *names = ds->class_names ? json_array() : NULL, *numbers = json_array();
    json_object_set_new(object, "class_names", names ? names : json_null()); /* both are the object's now */
    json_object_set_new(object, "class_counts", numbers);
    TRY(count(ds, &counts));
    enum ls_status status = ls__classes_init(&classes, ds->class_names, ds->n_classes);
    for (int i = 0; status == LS_OK && i < ds->n_classes; i++) {
        if (names) json_array_append_new(names, ls__json_text(ls__classes_name(&classes, i)));
        json_array_append_new(numbers, json_integer(counts[i]));
    }
    ls__classes_release(&classes);
    free(counts);
    return status;
}
