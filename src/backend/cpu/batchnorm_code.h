/* batchnorm_code.h: the passes of batch norm over the elements of one group of channels, for vectors of VEC floats.
 *
 * Included by batchnorm_<set>.c, which defines VEC (16, 8 or 4) and TARGET. The code is plain C over vectors of the
 * compiler; a row has 16 lanes whatever VEC is, and every lane does the same operations in the same order, so all
 * instruction sets give the same bits.
 *
 * Sums are made in two stages: at most CHUNK rows in float, in several partial sums of 16 or 32 terms each, then these
 * in double. A partial sum this short loses about as much as rounding a single term does, and the errors of thousands
 * of them cancel, so a channel's sum is as good as one in double after rounding to float (below 2e-7), at the speed of
 * float.
 */
#include "backend/cpu/batchnorm_passes.h"

enum { N_VECS = BN_LANES / VEC, CHUNK = 64 };

typedef float vec __attribute__((vector_size(4 * VEC)));
typedef int32_t veci __attribute__((vector_size(4 * VEC)));
typedef float vec_at __attribute__((vector_size(4 * VEC), aligned(4), may_alias)); /* anywhere in memory */

#define AT(p) (*(const vec_at *)(p))
#define PASS TARGET static void
#define EACH_VEC _Pragma("GCC unroll 4") for (int j = 0; j < N_VECS; j++)

/* sums[16] += (a + b) + (c + d), the last step in double. */
#define FLUSH(sums, a, b, c, d)                                                                                        \
    {                                                                                                                  \
        float all[BN_LANES];                                                                                           \
        EACH_VEC *(vec_at *)(all + j * VEC) = (a[j] + b[j]) + (c[j] + d[j]);                                           \
        for (int l = 0; l < BN_LANES; l++) (sums)[l] += (double)all[l];                                                \
    }

PASS add_values(const float *x, const struct bn_group *g, double sums[BN_LANES])
{
    for (int64_t run = 0; run < g->n_runs; run++, x += g->run_step) {
        for (int64_t row = 0; row < g->rows; row += CHUNK) {
            const int64_t end = row + CHUNK < g->rows ? row + CHUNK : g->rows;
            const float *p = x + row * g->row_step;
            vec a[N_VECS] = {0}, b[N_VECS] = {0}, c[N_VECS] = {0}, d[N_VECS] = {0};
            int64_t i = row;
            for (; i + 4 <= end; i += 4, p += 4 * g->row_step) {
                EACH_VEC a[j] += AT(p + j * VEC);
                EACH_VEC b[j] += AT(p + g->row_step + j * VEC);
                EACH_VEC c[j] += AT(p + 2 * g->row_step + j * VEC);
                EACH_VEC d[j] += AT(p + 3 * g->row_step + j * VEC);
            }
            for (; i < end; i++, p += g->row_step) EACH_VEC a[j] += AT(p + j * VEC);
            FLUSH(sums, a, b, c, d)
        }
        const float *tail = x + g->rows * g->row_step;
        for (int l = 0; l < g->tail; l++) sums[l] += (double)tail[l];
    }
}

#define ADD_SQUARE(sum, p)                                                                                             \
    EACH_VEC                                                                                                           \
    {                                                                                                                  \
        const vec e = AT((p) + j * VEC) - m[j];                                                                        \
        sum[j] += e * e;                                                                                               \
    }

PASS add_squares(const float *x, const struct bn_group *g, const float mean[BN_LANES], double sums[BN_LANES])
{
    vec m[N_VECS];
    EACH_VEC m[j] = AT(mean + j * VEC);
    for (int64_t run = 0; run < g->n_runs; run++, x += g->run_step) {
        for (int64_t row = 0; row < g->rows; row += CHUNK) {
            const int64_t end = row + CHUNK < g->rows ? row + CHUNK : g->rows;
            const float *p = x + row * g->row_step;
            vec a[N_VECS] = {0}, b[N_VECS] = {0}, c[N_VECS] = {0}, d[N_VECS] = {0};
            int64_t i = row;
            for (; i + 4 <= end; i += 4, p += 4 * g->row_step) {
                ADD_SQUARE(a, p)
                ADD_SQUARE(b, p + g->row_step)
                ADD_SQUARE(c, p + 2 * g->row_step)
                ADD_SQUARE(d, p + 3 * g->row_step)
            }
            for (; i < end; i++, p += g->row_step) ADD_SQUARE(a, p)
            FLUSH(sums, a, b, c, d)
        }
        const float *tail = x + g->rows * g->row_step;
        for (int l = 0; l < g->tail; l++) {
            const float e = tail[l] - mean[l];
            sums[l] += (double)(e * e);
        }
    }
}

#define LOAD_AFFINE                                                                                                    \
    vec m[N_VECS], scale[N_VECS], shift[N_VECS];                                                                       \
    const veci always = (veci){0} - (relu ? 0 : 1);                                                                    \
    EACH_VEC                                                                                                           \
    {                                                                                                                  \
        m[j] = AT(f->mean + j * VEC);                                                                                  \
        scale[j] = AT(f->scale + j * VEC);                                                                             \
        shift[j] = AT(f->shift + j * VEC);                                                                             \
    }

/* With relu a NaN stays, so that a broken value is seen where it is looked for. */
PASS normalise(const float *x, float *dst, const struct bn_group *g, const struct bn_affine *f, bool relu)
{
    LOAD_AFFINE
    for (int64_t run = 0; run < g->n_runs; run++, x += g->run_step, dst += g->run_step) {
        for (int64_t i = 0; i < g->rows; i++) EACH_VEC
            {
                const vec v = (AT(x + i * g->row_step + j * VEC) - m[j]) * scale[j] + shift[j];
                *(vec_at *)(dst + i * g->row_step + j * VEC) = (vec)((veci)v & (~(v <= 0.0f) | always));
            }
        const int64_t at = g->rows * g->row_step;
        for (int l = 0; l < g->tail; l++) {
            const float v = (x[at + l] - f->mean[l]) * f->scale[l] + f->shift[l];
            dst[at + l] = relu && v <= 0.0f ? 0.0f : v;
        }
    }
}

/* e = x - mean and d = diff_dst behind the relu, which is open where the forward pass was above zero: the same
 * operations on the same numbers give the same sign, so no mask needs to be kept. */
#define GRADIENT(e, d, x_at, d_at)                                                                                     \
    const vec e = AT(x_at) - m[j];                                                                                     \
    const vec d = (vec)((veci)AT(d_at) & ((e * scale[j] + shift[j] > 0.0f) | always));

TARGET static inline float open_at(float e, float d, const struct bn_affine *f, int l, bool relu)
{
    return !relu || e * f->scale[l] + f->shift[l] > 0.0f ? d : 0.0f;
}

#define ADD_GRADIENT(sum, sum_x, offset)                                                                               \
    EACH_VEC                                                                                                           \
    {                                                                                                                  \
        GRADIENT(e, d, x + (offset) + j * VEC, diff_dst + (offset) + j * VEC)                                          \
        sum[j] += d;                                                                                                   \
        sum_x[j] += d * e;                                                                                             \
    }

PASS add_gradients(const float *x, const float *diff_dst, const struct bn_group *g, const struct bn_affine *f,
                   bool relu, double sums[BN_LANES], double sums_x[BN_LANES])
{
    const vec zero[N_VECS] = {0};
    LOAD_AFFINE
    for (int64_t run = 0; run < g->n_runs; run++, x += g->run_step, diff_dst += g->run_step) {
        for (int64_t row = 0; row < g->rows; row += CHUNK) {
            const int64_t end = row + CHUNK < g->rows ? row + CHUNK : g->rows;
            vec a[N_VECS] = {0}, b[N_VECS] = {0}, ax[N_VECS] = {0}, bx[N_VECS] = {0};
            int64_t i = row;
            for (; i + 2 <= end; i += 2) {
                ADD_GRADIENT(a, ax, i * g->row_step)
                ADD_GRADIENT(b, bx, (i + 1) * g->row_step)
            }
            for (; i < end; i++) ADD_GRADIENT(a, ax, i * g->row_step)
            FLUSH(sums, a, b, zero, zero)
            FLUSH(sums_x, ax, bx, zero, zero)
        }
        const int64_t at = g->rows * g->row_step;
        for (int l = 0; l < g->tail; l++) {
            const float e = x[at + l] - f->mean[l], d = open_at(e, diff_dst[at + l], f, l, relu);
            sums[l] += (double)d;
            sums_x[l] += (double)(d * e);
        }
    }
}

PASS make_gradients(const float *x, const float *diff_dst, float *diff_src, const struct bn_group *g,
                    const struct bn_affine *f, bool relu, const struct bn_slope *s)
{
    vec per_x[N_VECS], constant[N_VECS];
    LOAD_AFFINE
    EACH_VEC
    {
        per_x[j] = AT(s->per_x + j * VEC);
        constant[j] = AT(s->constant + j * VEC);
    }
    for (int64_t run = 0; run < g->n_runs; run++) {
        for (int64_t i = 0; i < g->rows; i++) EACH_VEC
            {
                const int64_t at = run * g->run_step + i * g->row_step + j * VEC;
                GRADIENT(e, d, x + at, diff_dst + at)
                *(vec_at *)(diff_src + at) = d * scale[j] + (e * per_x[j] + constant[j]);
            }
        const int64_t at = run * g->run_step + g->rows * g->row_step;
        for (int l = 0; l < g->tail; l++) {
            const float e = x[at + l] - f->mean[l], d = open_at(e, diff_dst[at + l], f, l, relu);
            diff_src[at + l] = d * f->scale[l] + (e * s->per_x[l] + s->constant[l]);
        }
    }
}

static const struct bn_passes passes = {
    .add_values = add_values,
    .add_squares = add_squares,
    .normalise = normalise,
    .add_gradients = add_gradients,
    .make_gradients = make_gradients,
};
