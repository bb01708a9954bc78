/* layout.c: how values lie in the card's memory besides plain: channels last, in float32 or bf16, and the same with
 * channels filled up to a multiple of 8, which is what the tensor cores want of images of 3 channels.
 */
#include "backend/cuda/cuda.h"

#include <stdio.h>

enum { PADDED_TO = 8 };
static struct ls_layout blocks_layout(int id, const struct ls_shape *s);

static bool is_bf16(int id)
{
    return id == LS_CUDA_LAST_BF16 || id == LS_CUDA_PADDED_BF16;
}

static bool is_padded(int id)
{
    return id == LS_CUDA_PADDED_BF16 || id == LS_CUDA_PADDED_F32;
}

struct ls_cuda_place ls__cuda_place(int id, const struct ls_shape *s)
{
    const struct ls_cuda_nchw n = ls__cuda_nchw(s);
    struct ls_cuda_place p = {.type = is_bf16(id) ? LS_CUDA_BF16 : LS_CUDA_F32,
                              .mb = n.mb,
                              .c = n.c,
                              .hw = n.hw,
                              .stored_c = n.c,
                              .is_last = id != LS_LAYOUT_PLAIN};
    if (is_padded(id)) p.stored_c = (n.c + PADDED_TO - 1) / PADDED_TO * PADDED_TO;
    return p;
}

struct ls_layout ls__cuda_layout(int id, const struct ls_shape *s)
{
    static const char *const tags[] = {[LS_CUDA_LAST_BF16] = "last:bf16",
                                       [LS_CUDA_LAST_F32] = "last",
                                       [LS_CUDA_PADDED_BF16] = "last8:bf16",
                                       [LS_CUDA_PADDED_F32] = "last8"};
    if (id == LS_LAYOUT_PLAIN) return ls_layout_plain(s, LS_F32);
    if (id >= LS_CUDA_BLOCKS) return blocks_layout(id, s);
    const struct ls_cuda_place p = ls__cuda_place(id, s);
    struct ls_layout l = {.id = id, .bytes = (size_t)(p.mb * p.stored_c * p.hw) * (is_bf16(id) ? 2 : 4)};
    l.is_narrow = is_bf16(id);
    l.wide_id = id == LS_CUDA_LAST_BF16 ? ls__cuda_wide(s).id : LS_CUDA_PADDED_F32;
    snprintf(l.tag, sizeof l.tag, "%s", tags[id]);
    return l;
}

struct ls_layout ls__cuda_wide(const struct ls_shape *s)
{
    return ls__cuda_layout(s->n_dims == 4 ? LS_CUDA_LAST_F32 : LS_LAYOUT_PLAIN, s);
}

struct ls_layout ls__cuda_native(const struct ls_device *d, const struct ls_shape *s)
{
    return d->precision == LS_PRECISION_BF16 ? ls__cuda_layout(LS_CUDA_LAST_BF16, s) : ls__cuda_wide(s);
}

/* --- blocks: kernel, stride and padding are part of the number --- */

enum { K_BITS = 0, S_BITS = 5, PAD_BITS = 8, TYPE_BIT = 13, WHAT_BIT = 14, MAX_K = 31, MAX_S = 7, MAX_PAD = 31 };

int ls__cuda_blocks_id(enum ls_cuda_blocked what, enum ls_cuda_type type, int k, int s, int pad)
{
    if (k > MAX_K || s > MAX_S || pad > MAX_PAD) return LS_LAYOUT_PLAIN;
    return LS_CUDA_BLOCKS | k << K_BITS | s << S_BITS | pad << PAD_BITS | (int)type << TYPE_BIT | (int)what << WHAT_BIT;
}

bool ls__cuda_is_blocks(int id, enum ls_cuda_blocked *what, enum ls_cuda_type *type)
{
    if (id < LS_CUDA_BLOCKS) return false;
    *what = id >> WHAT_BIT & 1 ? LS_CUDA_BLOCKED_WEIGHTS : LS_CUDA_BLOCKED_IMAGE;
    *type = id >> TYPE_BIT & 1 ? LS_CUDA_BF16 : LS_CUDA_F32;
    return true;
}

struct ls_cuda_blocks ls__cuda_blocks(int id, const struct ls_shape *shape)
{
    struct ls_cuda_blocks b = {.s = id >> S_BITS & MAX_S, .pad = id >> PAD_BITS & MAX_PAD, .k = id >> K_BITS & MAX_K};
    b.c = (int)shape->dims[1];
    b.ih = (int)shape->dims[2];
    b.iw = (int)shape->dims[3];
    b.n = (b.k + b.s - 1) / b.s;
    b.blocks_h = (b.ih + 2 * b.pad - b.k) / b.s + b.n;
    b.blocks_w = (b.iw + 2 * b.pad - b.k) / b.s + b.n;
    b.stored_c = (b.c * b.s * b.s + PADDED_TO - 1) / PADDED_TO * PADDED_TO;
    return b;
}

static struct ls_layout blocks_layout(int id, const struct ls_shape *s)
{
    const struct ls_cuda_blocks b = ls__cuda_blocks(id, s);
    enum ls_cuda_blocked what = LS_CUDA_BLOCKED_IMAGE;
    enum ls_cuda_type type = LS_CUDA_F32;
    (void)ls__cuda_is_blocks(id, &what, &type);
    const bool is_image = what == LS_CUDA_BLOCKED_IMAGE;
    const int64_t blocks = is_image ? (int64_t)b.blocks_h * b.blocks_w : (int64_t)b.n * b.n;
    struct ls_layout l = {.id = id, .is_narrow = type == LS_CUDA_BF16, .wide_id = id & ~(1 << TYPE_BIT)};
    l.bytes = (size_t)(s->dims[0] * blocks * b.stored_c) * (type == LS_CUDA_BF16 ? 2 : 4);
    snprintf(l.tag, sizeof l.tag, "blocks%d%s", b.s, type == LS_CUDA_BF16 ? ":bf16" : "");
    return l;
}

/* What an elementwise op is given as, or plain. */
static int followed(const struct ls_prep *prep, int in)
{
    const int id = prep->in[in].id;
    return id == LS_CUDA_LAST_BF16 || id == LS_CUDA_LAST_F32 ? id : LS_LAYOUT_PLAIN;
}

enum ls_status ls__cuda_follow(const struct ls_prep *prep, int in, struct ls_cuda_kernel *k)
{
    const struct ls_node *n = prep->node;
    const int id = followed(prep, in);
    k->type = is_bf16(id) ? LS_CUDA_BF16 : LS_CUDA_F32;
    k->is_last = id != LS_LAYOUT_PLAIN;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && ls_shape_is_equal(&k->in[i], &k->in[in]) && !prep->graph->values[n->in[i]].is_workspace)
            k->base.in[i] = ls__cuda_layout(id, &k->in[i]);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0 && ls_shape_is_equal(&k->out[i], &k->in[in]) && !prep->graph->values[n->out[i]].is_workspace)
            k->base.out[i] = ls__cuda_layout(id, &k->out[i]);
    return LS_OK;
}
