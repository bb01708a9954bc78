/* pictures.h: files of pictures, without labels, as a data set: for a network that is to say what they show.
 *
 *     struct ls_names files = {0};
 *     TRY(ls__pictures_find(what, n_what, &files));                   files and folders -> files
 *     TRY(ls__pictures_open(&ds, &shape, (const char *const *)files.at, files.n));   borrows the names
 *     ... a loader reads it, or ls_dataset_read ...
 *     ls__picture_at(ds, i)->error                                    why the i-th could not be read, or NULL
 *
 * A picture becomes a sample as in a `folder:` set: decoded, scaled until the shorter side fits, the centre cut out.
 * One channel is the luma of the three. A file that is no picture is no failure: its sample is black and says why.
 */
#ifndef LS_DATA_PICTURES_H
#define LS_DATA_PICTURES_H

#include "base/names.h"
#include "data/data.h"

/* Whether a name ends like those of the files that can be read: .png, .jpg, .jpeg. */
bool ls__picture_is_named(const char *name);

/* A folder stands for all pictures below it, sorted by their paths; a file for itself, whatever its name. A folder
 * without pictures is LS_DATA. What does not exist is taken for a file: reading it will tell. */
enum ls_status ls__pictures_find(const char *const *what, int n_what, struct ls_names *files) LS_MUST_CHECK;

struct ls_picture_shape {
    int c, h, w, n_classes; /* c: 1 or 3 */
};
enum ls_status ls__pictures_open(struct ls_dataset **out, const struct ls_picture_shape *shape,
                                 const char *const *files, int64_t n) LS_MUST_CHECK;

/* What became of a sample once it was read. */
struct ls_picture {
    char *error; /* NULL: it was good */
    int h, w;    /* of the file's picture */
    bool is_grey;
};
const struct ls_picture *ls__picture_at(const struct ls_dataset *ds, int64_t sample);

#endif
