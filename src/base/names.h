/* names.h: a growing list of texts, each its own copy. Zeroed is empty. */
#ifndef LS_BASE_NAMES_H
#define LS_BASE_NAMES_H

#include "lockstep/status.h"

struct ls_names {
    char **at; /* [n] */
    size_t n, cap;
};

enum ls_status ls__names_add(struct ls_names *names, const char *name) LS_MUST_CHECK;
/* Those from `first` on, by their bytes, so that the order is the same everywhere. */
void ls__names_sort(struct ls_names *names, size_t first);
int ls__names_compare(const void *a, const void *b); /* two elements of `at`: for bsearch */
void ls__names_release(struct ls_names *names);

#endif
