/* validation.h: what --validation says. */
#ifndef LS_SETTINGS_VALIDATION_H
#define LS_SETTINGS_VALIDATION_H

#include <stdbool.h>
#include <stdint.h>

#define LS_VALIDATION_EXPECTED "a share such as 0.1, a number of images such as 5000, or a folder"

struct ls_validation {
    double share;       /* above 0: of the training data */
    int64_t n;          /* above 0: images of it */
    const char *folder; /* else: pictures of their own; the text itself */
};

/* A number is a share if it has a point, else a count; "./0.1" is a folder. False: a number that is neither. */
bool ls__validation_parse(const char *text, struct ls_validation *v);
bool ls__validation_is_valid(const char *text);

#endif
