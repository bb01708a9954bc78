/* image.c: from the bytes of a PNG or JPEG file to a sample of fixed size.
 *
 * The image is scaled, keeping its aspect, until the shorter side (relative to the target) fits, and the centre is cut
 * out. The filter is bilinear with a support that grows when shrinking (as PIL's and torchvision's antialiased one), in
 * integers, so the bytes are the same on every machine. Only what the cut needs is computed: columns first, then rows.
 */
#include "base/mem.h"
#include "data/formats/parsers.h"

#include <math.h>
#include <stdlib.h>

enum { WEIGHT_BITS = 15 };

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

static uint8_t weigh(const uint8_t *src, size_t stride, const int *weight, int count)
{
    int64_t sum = 1 << (WEIGHT_BITS - 1);
    for (int k = 0; k < count; k++) sum += (int64_t)weight[k] * src[(size_t)k * stride];
    sum >>= WEIGHT_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void scale_columns(const struct taps *tx, const uint8_t *src /* [n_rows,iw,3] */, int n_rows, int iw,
                          uint8_t *dst /* [n_rows,w,3] */)
{
    for (int y = 0; y < n_rows; y++)
        for (int x = 0; x < tx->n; x++)
            for (int c = 0; c < 3; c++)
                dst[((size_t)y * (size_t)tx->n + (size_t)x) * 3 + (size_t)c] =
                    weigh(src + ((size_t)y * (size_t)iw + (size_t)tx->first[x]) * 3 + c, 3,
                          tx->weight + (size_t)x * (size_t)tx->max_taps, tx->count[x]);
}

static void scale_rows(const struct taps *ty, const uint8_t *src /* [n_rows,w,3] */, int first_row, int w,
                       uint8_t *out /* [3,h,w] */)
{
    size_t row = (size_t)w * 3, plane = (size_t)ty->n * (size_t)w;
    for (int y = 0; y < ty->n; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++)
                out[(size_t)c * plane + (size_t)y * (size_t)w + (size_t)x] =
                    weigh(src + (size_t)(ty->first[y] - first_row) * row + (size_t)x * 3 + c, row,
                          ty->weight + (size_t)y * (size_t)ty->max_taps, ty->count[y]);
}

static enum ls_status resample(const struct ls_image *image, int h, int w, struct taps *ty, struct taps *tx,
                               uint8_t **columns, uint8_t *out)
{
    double scale = fmax((double)h / image->h, (double)w / image->w);
    TRY(taps_init(ty, image->h, h, scale));
    TRY(taps_init(tx, image->w, w, scale));
    int first_row = ty->first[0], n_rows = ty->first[h - 1] + ty->count[h - 1] - first_row;
    TRY(ls__calloc(columns, (size_t)n_rows * (size_t)w, 3));
    scale_columns(tx, image->rgb + (size_t)first_row * (size_t)image->w * 3, n_rows, image->w, *columns);
    scale_rows(ty, *columns, first_row, w, out);
    return LS_OK;
}

enum ls_status ls__image_decode(const char *name, const uint8_t *data, size_t len, int h, int w, uint8_t *out)
{
    struct ls_image image = {0};
    struct taps ty = {0}, tx = {0};
    uint8_t *columns = NULL;
    enum ls_status status = ls__image_load(name, data, len, h, w, &image);
    if (status == LS_OK) status = resample(&image, h, w, &ty, &tx, &columns, out);
    taps_release(&ty);
    taps_release(&tx);
    free(columns);
    free(image.rgb);
    return status;
}
