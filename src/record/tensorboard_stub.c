/* tensorboard_stub.c: a build without protobuf-c writes no event files. */
#include "record/tensorboard.h"

enum ls_status ls__tensorboard_open(struct ls_tensorboard **out, const struct ls_dir *dir, int64_t first_step)
{
    *out = NULL;
    return LS_OK;
}

void ls__tensorboard_close(struct ls_tensorboard **tb)
{
}

void ls__tensorboard_scalar(struct ls_tensorboard *tb, int64_t step, const char *tag, double value)
{
}

void ls__tensorboard_text(struct ls_tensorboard *tb, int64_t step, const char *tag, const char *text)
{
}

void ls__tensorboard_options(struct ls_tensorboard *tb, const struct json_t *values)
{
}

void ls__tensorboard_options_end(struct ls_tensorboard *tb, bool is_done)
{
}

void ls__tensorboard_histogram(struct ls_tensorboard *tb, int64_t step, const char *tag, const float *values, int64_t n)
{
}

void ls__tensorboard_image(struct ls_tensorboard *tb, int64_t step, const char *tag, int c, int h, int w,
                           const uint8_t *pixels)
{
}

void ls__tensorboard_graph(struct ls_tensorboard *tb, const struct ls_tensorboard_node *nodes, int n_nodes)
{
}
