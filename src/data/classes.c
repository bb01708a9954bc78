/* classes.c: cuts the text with a name per line into names (classes.h). */
#include "data/classes.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ls_status ls__classes_init(struct ls_classes *c, const char *lines, int n)
{
    *c = (struct ls_classes){.n = n};
    if (!lines || n <= 0) return LS_OK;
    enum ls_status status = ls__strdup(&c->text, lines);
    if (status == LS_OK) status = ls__calloc(&c->names, (size_t)n, sizeof *c->names);
    if (status != LS_OK) {
        ls__classes_release(c);
        return status;
    }
    char *rest = c->text, *line;
    for (int i = 0; i < n && (line = strsep(&rest, "\n")); i++) c->names[i] = *line ? line : NULL;
    return LS_OK;
}

void ls__classes_release(struct ls_classes *c)
{
    free(c->text);
    free(c->names);
    *c = (struct ls_classes){.n = 0};
}

const char *ls__classes_name(const struct ls_classes *c, int label)
{
    return c->names && label >= 0 && label < c->n ? c->names[label] : NULL;
}

const char *ls__classes_show(const struct ls_classes *c, int label, char number[LS_CLASS_TEXT])
{
    const char *name = ls__classes_name(c, label);
    if (name) return name;
    snprintf(number, LS_CLASS_TEXT, "%d", label);
    return number;
}
