/* tensorboard.h: event files as TensorBoard reads them: scalars, histograms, pictures, texts, the network, the options.
 *
 *     struct ls_tensorboard *tb;
 *     TRY(ls__tensorboard_open(&tb, &dir, first_step));      a new file; first_step > 0: an earlier one is void from
 * there on ls__tensorboard_scalar(tb, step, "Loss/train", 0.31); ls__tensorboard_close(&tb);
 *
 * A file is a list of records, each with its length and two checksums (docs/formats/run-directory.md). A record is one
 * write(2); one that cannot be written ends the file with a warning, and nothing else. NULL is fine for all but open.
 * Any thread may write.
 * Without protobuf-c nothing is written: open gives NULL and LS_OK.
 */
#ifndef LS_RECORD_TENSORBOARD_H
#define LS_RECORD_TENSORBOARD_H

#include "base/dir.h"

#include <stdint.h>

struct ls_tensorboard;
struct json_t;

enum ls_status ls__tensorboard_open(struct ls_tensorboard **out, const struct ls_dir *dir,
                                    int64_t first_step) LS_MUST_CHECK;
void ls__tensorboard_close(struct ls_tensorboard **tb);

void ls__tensorboard_scalar(struct ls_tensorboard *tb, int64_t step, const char *tag, double value);
/* Markdown. */
void ls__tensorboard_text(struct ls_tensorboard *tb, int64_t step, const char *tag, const char *text);
/* values: an object of numbers, strings and truths, as the comparison of runs shows them. */
void ls__tensorboard_options(struct ls_tensorboard *tb, const struct json_t *values);
void ls__tensorboard_options_end(struct ls_tensorboard *tb, bool is_done);
/* n values over 64 buckets of the same width; those that are not finite are left out. */
void ls__tensorboard_histogram(struct ls_tensorboard *tb, int64_t step, const char *tag, const float *values,
                               int64_t n);
/* pixels [c,h,w], c 1 or 3. */
void ls__tensorboard_image(struct ls_tensorboard *tb, int64_t step, const char *tag, int c, int h, int w,
                           const uint8_t *pixels);

struct ls_tensorboard_node {
    const char *name, *op;     /* '/' in a name groups */
    const char *const *inputs; /* names of other nodes */
    int n_inputs;
    const int64_t *dims; /* of the output */
    int n_dims;
};
void ls__tensorboard_graph(struct ls_tensorboard *tb, const struct ls_tensorboard_node *nodes, int n_nodes);

#endif
