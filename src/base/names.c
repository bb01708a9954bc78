/* names.c: the list of names.h: grown by one, sorted in bytewise order, freed as a whole. */
#include "base/names.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum ls_status ls__names_add(struct ls_names *names, const char *name)
{
    if (names->n == names->cap) {
        size_t cap = names->cap ? 2 * names->cap : 64;
        TRY(ls__grow(&names->at, names->cap, cap, sizeof *names->at));
        names->cap = cap;
    }
    TRY(ls__strdup(&names->at[names->n], name));
    names->n++;
    return LS_OK;
}

int ls__names_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void ls__names_sort(struct ls_names *names, size_t first)
{
    if (names->n > first + 1) qsort(names->at + first, names->n - first, sizeof *names->at, ls__names_compare);
}

void ls__names_release(struct ls_names *names)
{
    for (size_t i = 0; i < names->n; i++) free(names->at[i]);
    free(names->at);
    *names = (struct ls_names){0};
}
