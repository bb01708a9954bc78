/* resize.c: images of another size, and data sets that show their samples in one.
 *
 * The image is scaled, keeping its aspect, until the shorter side (relative to the target) fits, and the centre is cut
 * out. The filter is bilinear with a support that grows when shrinking (as PIL's and torchvision's antialiased one), in
 * integers, so the bytes are the same on every machine. Only what the cut needs is computed: along the rows first, then
 * down the columns.
 */
#include "data/resize.h"

#include "base/mem.h"
#include "base/simd.h"
#include "data/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_BITS = 15, MAX_SIDE = 4096 };

/* For each of n outputs: which inputs, and their weights, which sum to 1 << WEIGHT_BITS. */
struct taps {
    int n, max_taps;
    int *first, *count; /* [n] */
    int *weight;        /* [n,max_taps] */
};

static void taps_release(struct taps *t)
{
    free(t->first);
    free(t->count);
    free(t->weight);
}

/* One output's weights: a triangle around `centre`, rounded so that the sum is exact. */
static void fill_taps(struct taps *t, int i, double centre, double support, int n_in)
{
    int *weight = t->weight + (size_t)i * (size_t)t->max_taps;
    int lo = (int)fmax(0, floor(centre - support + 0.5)), hi = (int)fmin(n_in, floor(centre + support + 0.5));
    double sum = 0;
    if (lo >= n_in) lo = n_in - 1;
    if (hi <= lo) hi = lo + 1;
    if (hi - lo > t->max_taps) hi = lo + t->max_taps;
    for (int k = lo; k < hi; k++) sum += fmax(0, 1 - fabs(k + 0.5 - centre) / support);
    int total = 0, largest = 0;
    for (int k = lo; k < hi; k++) {
        double share = sum > 0 ? fmax(0, 1 - fabs(k + 0.5 - centre) / support) / sum : 1.0 / (hi - lo);
        weight[k - lo] = (int)lrint(share * (1 << WEIGHT_BITS));
        total += weight[k - lo];
        if (weight[k - lo] > weight[largest]) largest = k - lo;
    }
    weight[largest] += (1 << WEIGHT_BITS) - total;
    t->first[i] = lo;
    t->count[i] = hi - lo;
}

/* n outputs, the middle of n_in inputs scaled by `scale`. */
static enum ls_status taps_init(struct taps *t, int n_in, int n, double scale)
{
    double support = scale < 1 ? 1 / scale : 1;
    *t = (struct taps){.n = n, .max_taps = 2 * (int)ceil(support) + 1};
    TRY(ls__calloc(&t->first, (size_t)n, sizeof *t->first));
    TRY(ls__calloc(&t->count, (size_t)n, sizeof *t->count));
    TRY(ls__calloc(&t->weight, (size_t)n * (size_t)t->max_taps, sizeof *t->weight));
    double offset = 0.5 * (n_in * scale - n);
    for (int i = 0; i < n; i++) fill_taps(t, i, (i + 0.5 + offset) / scale, support, n_in);
    return LS_OK;
}

/* The sum of weights is 1 << WEIGHT_BITS, so a sum of weighted bytes fits 24 bits, whatever their signs. */
static uint8_t rounded(int sum)
{
    sum = (sum + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* A row of `in`, narrowed to out [tx->n]. */
static void narrow_row(const uint8_t *row, size_t pixel, const struct taps *tx, uint8_t *out)
{
    for (size_t x = 0; x < (size_t)tx->n; x++) {
        const int *weight = tx->weight + x * (size_t)tx->max_taps;
        const uint8_t *src = row + (size_t)tx->first[x] * pixel;
        int sum = 0;
        for (int k = 0; k < tx->count[x]; k++) sum += weight[k] * src[(size_t)k * pixel];
        out[x] = rounded(sum);
    }
}

/* `count` rows [.,w], weighed into one; a stretch at a time, so that the compiler takes many columns at once. */
LS_VECTORIZE static void weigh_rows(const uint8_t *rows, size_t w, const int *weight, int count, uint8_t *out)
{
    enum { STRETCH = 256 };
    int sums[STRETCH];
    for (size_t at = 0; at < w; at += STRETCH) {
        const size_t n = w - at < STRETCH ? w - at : STRETCH;
        memset(sums, 0, n * sizeof *sums);
        for (int k = 0; k < count; k++) {
            const uint8_t *row = rows + (size_t)k * w + at;
            for (size_t x = 0; x < n; x++) sums[x] += weight[k] * row[x];
        }
        for (size_t x = 0; x < n; x++) out[at + x] = rounded(sums[x]);
    }
}

/* One channel: src rows [first_row, first_row + n_rows) to narrow [n_rows,w], then to out [h,w]. */
static void resample_channel(const uint8_t *src, const struct ls_image_layout *in, const struct taps *ty,
                             const struct taps *tx, int n_rows, uint8_t *narrow, uint8_t *out)
{
    size_t w = (size_t)tx->n, first_row = (size_t)ty->first[0];
    for (size_t y = 0; y < (size_t)n_rows; y++)
        narrow_row(src + (first_row + y) * in->row, in->pixel, tx, narrow + y * w);
    for (size_t y = 0; y < (size_t)ty->n; y++)
        weigh_rows(narrow + ((size_t)ty->first[y] - first_row) * w, w, ty->weight + y * (size_t)ty->max_taps,
                   ty->count[y], out + y * w);
}

static enum ls_status resample(const uint8_t *src, const struct ls_image_layout *in, int h, int w, struct taps *ty,
                               struct taps *tx, uint8_t **narrow, uint8_t *out)
{
    double scale = fmax((double)h / in->h, (double)w / in->w);
    TRY(taps_init(ty, in->h, h, scale));
    TRY(taps_init(tx, in->w, w, scale));
    int n_rows = ty->first[h - 1] + ty->count[h - 1] - ty->first[0];
    TRY(ls__calloc(narrow, (size_t)n_rows, (size_t)w));
    for (int c = 0; c < in->c; c++)
        resample_channel(src + (size_t)c * in->channel, in, ty, tx, n_rows, *narrow,
                         out + (size_t)c * (size_t)h * (size_t)w);
    return LS_OK;
}

enum ls_status ls__resample(const uint8_t *src, const struct ls_image_layout *in, int h, int w, uint8_t *out)
{
    struct taps ty = {0}, tx = {0};
    uint8_t *narrow = NULL;
    enum ls_status status = resample(src, in, h, w, &ty, &tx, &narrow, out);
    taps_release(&ty);
    taps_release(&tx);
    free(narrow);
    return status;
}

/* ---- a data set shown in another size: impl->state is the one underneath ---- */

static enum ls_status resized_read(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    const struct ls_dataset *under = ds->impl->state;
    size_t plane = (size_t)under->h * (size_t)under->w;
    struct ls_image_layout in = {
        .c = under->c, .h = under->h, .w = under->w, .channel = plane, .row = (size_t)under->w, .pixel = 1};
    if (under->pixels)
        return ls__resample(under->pixels + (size_t)sample * plane * (size_t)under->c, &in, ds->h, ds->w, out);
    uint8_t *bytes;
    TRY(ls__calloc(&bytes, plane, (size_t)under->c));
    enum ls_status status = ls_dataset_read(under, sample, bytes);
    if (status == LS_OK) status = ls__resample(bytes, &in, ds->h, ds->w, out);
    free(bytes);
    return status;
}

static void resized_close(struct ls_dataset *ds)
{
    struct ls_dataset *under = ds->impl->state;
    ls_dataset_close(&under);
}

enum ls_status ls__dataset_resize(struct ls_dataset **ds, int h, int w)
{
    struct ls_dataset *under = *ds, *shown;
    if (h < 1 || w < 1 || h > MAX_SIDE || w > MAX_SIDE)
        return ls_fail(LS_USAGE, "%s: size %dx%d, expected 1 to %d", under->name, h, w, MAX_SIDE);
    TRY(ls__calloc(&shown, 1, sizeof *shown));
    *shown = *under;
    shown->impl = NULL;
    enum ls_status status = ls__calloc(&shown->impl, 1, sizeof *shown->impl);
    if (status != LS_OK) {
        free(shown);
        return status;
    }
    shown->h = h;
    shown->w = w;
    shown->pixels = NULL;
    shown->impl->state = under;
    shown->impl->read = resized_read;
    shown->impl->close = resized_close;
    *ds = shown;
    return LS_OK;
}
