/* classes.h: the names of classes, for people.
 *
 * Data sets and checkpoints carry them as one text, a name per line (ls_dataset.class_names). Here they are apart.
 *
 *     struct ls_classes classes;
 *     TRY(ls__classes_init(&classes, ds->class_names, ds->n_classes));
 *     puts(ls__classes_show(&classes, 3, text));      "cat", or "3" where there is no name
 *     ls__classes_release(&classes);
 */
#ifndef LS_DATA_CLASSES_H
#define LS_DATA_CLASSES_H

#include "lockstep/status.h"

struct ls_classes {
    int n;
    char *text;         /* what the names lie in */
    const char **names; /* [n], each may be NULL; NULL: no names */
};

/* lines may be NULL: no class has a name. */
enum ls_status ls__classes_init(struct ls_classes *c, const char *lines, int n) LS_MUST_CHECK;
void ls__classes_release(struct ls_classes *c);

/* NULL: it has none, or there is no such class. */
const char *ls__classes_name(const struct ls_classes *c, int label);
/* The name, else the number. */
enum { LS_CLASS_TEXT = 16 };
const char *ls__classes_show(const struct ls_classes *c, int label, char number[LS_CLASS_TEXT]);

#endif
