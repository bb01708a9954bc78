/* load.c: bytes to normalised floats, with augmentation, in one pass over the rows.
 *
 * In: an image of bytes. Out: out = (in / 255 - mean) / std, written as in * scale + offset with one rounding each, so
 * every vector width gives the same bits (the build forbids contraction to fused multiply-add).
 *
 * The order is the usual one: zero-pad and crop, mirror, normalise, cut out. A padded pixel is a black pixel, so after
 * normalising it is -mean/std; a cut-out pixel is the mean, so it is 0. What is drawn, and from what, is told in
 * backend/placement.h; what backend/augment.h adds has draws of its own.
 */
#include "backend/augment.h"
#include "backend/placement.h"
#include "base/simd.h"

#include <string.h>

LS_VECTORIZE static void convert(const uint8_t *restrict in, int64_t n, float scale, float offset, float *restrict out)
{
    for (int64_t i = 0; i < n; i++) out[i] = (float)in[i] * scale + offset;
}

LS_VECTORIZE static void convert_mirrored(const uint8_t *in, int n, float scale, float offset, float *out_end)
{
    float *out = out_end - n;
    for (int i = 0; i < n; i++) out[i] = (float)in[n - 1 - i] * scale + offset;
}

static void fill(float *out, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++) out[i] = value;
}

/* One row of the output; in is the whole source row, or NULL where it lies in the padding. */
static void convert_row(const uint8_t *in, int w, const struct ls_placement *at, float scale, float offset, float *out)
{
    int x0 = at->dx < 0 ? -at->dx : 0; /* [x0,x1) of the output, before mirroring, shows the image */
    int x1 = at->dx > 0 ? w - at->dx : w;
    if (!in || x1 <= x0) {
        fill(out, w, offset);
    } else if (at->is_mirrored) {
        fill(out, w - x1, offset);
        convert_mirrored(in + x0 + at->dx, x1 - x0, scale, offset, out + w - x0);
        fill(out + w - x0, x0, offset);
    } else {
        fill(out, x0, offset);
        convert(in + x0 + at->dx, x1 - x0, scale, offset, out + x0);
        fill(out + x1, w - x1, offset);
    }
}

static void cut_out(const struct ls_transform *t, struct ls_cutout cut, float *out)
{
    const int y0 = cut.y0 < 0 ? 0 : cut.y0, y1 = cut.y1 < t->h ? cut.y1 : t->h;
    const int x0 = cut.x0 < 0 ? 0 : cut.x0, x1 = cut.x1 < t->w ? cut.x1 : t->w;
    for (int c = 0; c < t->c; c++)
        for (int y = y0; y < y1; y++) fill(out + ((int64_t)c * t->h + y) * t->w + x0, x1 - x0, 0);
}

/* out = in * scale + offset per channel, moved as `at` says. */
static void place(const struct ls_transform *t, const struct ls_placement *at, bool is_moved, bool is_normalised,
                  const uint8_t *in, float *out)
{
    const int64_t plane = (int64_t)t->h * t->w;
    for (int c = 0; c < t->c; c++) {
        const float scale = is_normalised ? 1.0f / (255.0f * t->std[c]) : 1.0f / 255.0f;
        const float offset = is_normalised ? -t->mean[c] / t->std[c] : 0.0f;
        const uint8_t *src = in + c * plane;
        float *dst = out + c * plane;
        if (!is_moved) {
            convert(src, plane, scale, offset, dst);
            continue;
        }
        for (int y = 0; y < t->h; y++) {
            int from = y + at->dy;
            const uint8_t *row = from >= 0 && from < t->h ? src + (int64_t)from * t->w : NULL;
            convert_row(row, t->w, at, scale, offset, dst + (int64_t)y * t->w);
        }
    }
}

LS_VECTORIZE static void normalise(float *image, int64_t n, float scale, float offset)
{
    for (int64_t i = 0; i < n; i++) image[i] = image[i] * scale + offset;
}

void ls_transform_apply(const struct ls_transform *t, bool is_training, uint64_t seed, int64_t epoch, int64_t sample,
                        const uint8_t *in, float *out)
{
    const int64_t plane = (int64_t)t->h * t->w;
    struct ls_placement at = {0};
    const bool is_resized = is_training && t->resized_crop > 0;
    const bool has_colours = is_training && ls__augment_has_colours(t);
    const bool is_moved = is_training && (t->crop_pad > 0 || t->flip);
    if (is_moved) at = ls__placement_draw(seed, epoch, sample, t->crop_pad, t->flip);

    if (is_resized) {
        const struct ls_crop crop = ls__augment_draw_crop(t->h, t->w, t->resized_crop, seed, epoch, sample);
        for (int c = 0; c < t->c; c++)
            ls__augment_resize(in + c * plane, t->h, t->w, &crop, at.is_mirrored, out + c * plane);
    } else {
        place(t, &at, is_moved, !has_colours, in, out);
    }
    if (has_colours) ls__augment_colours(t, seed, epoch, sample, out);
    for (int c = 0; (is_resized || has_colours) && c < t->c; c++)
        normalise(out + c * plane, plane, 1.0f / t->std[c], -t->mean[c] / t->std[c]);
    if (is_training && t->cutout > 0) cut_out(t, ls__cutout_draw(seed, epoch, sample, t->h, t->w, t->cutout), out);
    if (is_training && t->erasing > 0) ls__augment_erase(t, seed, epoch, sample, out);
}

enum ls_status ls_backend_load(struct ls_device *device, const struct ls_load *l)
{
    const struct ls_transform *t = l->transform;
    size_t image = (size_t)t->c * (size_t)t->h * (size_t)t->w;
    for (int i = 0; i < l->n; i++) {
        ls_transform_apply(t, l->is_training, l->seed, l->epoch, l->samples[i], l->pixels[i],
                           l->dst + (size_t)i * image);
        l->dst_labels[i] = l->labels[i];
        l->dst_samples[i] = l->samples[i];
    }
    for (int i = l->n; i < l->mb; i++) {
        memset(l->dst + (size_t)i * image, 0, image * sizeof *l->dst);
        l->dst_labels[i] = -1;
        l->dst_samples[i] = 0;
    }
    if (l->dst_mix_labels) ls__augment_mix(l);
    return LS_OK;
}
