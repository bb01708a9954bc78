/* dropout.c: elements set to zero with probability p, the others scaled by 1 / (1 - p); the mask is the one that
 * backend/ref/dropout.c defines, to the bit.
 *
 * In:  src | diff_dst   (any shape, samples first, plain)
 * Out: dst | diff_src
 *
 * Four elements come from one counter of Philox4x32-10. Counters run side by side in 64-bit lanes: the multiplication
 * of the lower halves (pmuludq) gives both words of a product at once, and what it leaves in the upper halves is never
 * read, so that a round is two multiplications, two shifts and the exclusive ors.
 */
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS = 10 };
static const uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
static const uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;

/* What is the same for all elements of a sample. */
struct draw {
    uint32_t step, layer, sample, key0, key1;
    uint32_t threshold; /* kept if the upper 24 bits of the word are not below it */
    float scale;
};

/* Does elements [0, some multiple of its width) of n, says how many. */
typedef int64_t dropout_run(const float *src, float *dst, int64_t n, const struct draw *d);

struct dropout {
    struct ls_kernel base;
    int64_t mb, n; /* samples, elements of one */
    float p;
    int layer;
    dropout_run *run; /* NULL: one counter at a time */
};

#if defined(__x86_64__)

#define AVX512 __attribute__((target("avx512f,avx512dq")))
#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline))

AVX512 INLINE __m512i xor3_512(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

/* Elements with their words, 16 at a time. */
AVX512 INLINE void keep_512(const float *src, float *dst, __m512i words, const struct draw *d)
{
    const __mmask16 keep = _mm512_cmpge_epu32_mask(_mm512_srli_epi32(words, 8), _mm512_set1_epi32((int)d->threshold));
    _mm512_storeu_ps(dst, _mm512_maskz_mul_ps(keep, _mm512_loadu_ps(src), _mm512_set1_ps(d->scale)));
}

/* Eight counters: 32 elements. */
AVX512 INLINE void finish_512(const float *src, float *dst, const __m512i c[4], const struct draw *d)
{
    const __m512i low = _mm512_set1_epi64(0xffffffff);
    const __m512i first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i second = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    const __m512i a = _mm512_or_si512(_mm512_and_si512(c[0], low), _mm512_slli_epi64(c[1], 32));
    const __m512i b = _mm512_or_si512(_mm512_and_si512(c[2], low), _mm512_slli_epi64(c[3], 32));
    keep_512(src, dst, _mm512_permutex2var_epi64(a, first, b), d);
    keep_512(src + 16, dst + 16, _mm512_permutex2var_epi64(a, second, b), d);
}

/* Elements e to e + 32 n_groups. Several groups at once fill the time that a multiplication takes. */
AVX512 INLINE void span_512(const float *src, float *dst, int64_t e, const struct draw *d, const int n_groups)
{
    const __m512i m0 = _mm512_set1_epi64(multiplier0), m1 = _mm512_set1_epi64(multiplier1);
    __m512i c[4][4], k0 = _mm512_set1_epi64(d->key0), k1 = _mm512_set1_epi64(d->key1);
    for (int g = 0; g < n_groups; g++) {
        c[g][0] = _mm512_set1_epi64(d->step);
        c[g][1] = _mm512_set1_epi64(d->layer);
        c[g][2] = _mm512_add_epi64(_mm512_set1_epi64(e / 4 + 8 * g), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
        c[g][3] = _mm512_set1_epi64(d->sample);
    }
    for (int r = 0; r < ROUNDS; r++) {
        for (int g = 0; g < n_groups; g++) {
            const __m512i p0 = _mm512_mul_epu32(c[g][0], m0), p1 = _mm512_mul_epu32(c[g][2], m1);
            c[g][0] = xor3_512(_mm512_srli_epi64(p1, 32), c[g][1], k0);
            c[g][2] = xor3_512(_mm512_srli_epi64(p0, 32), c[g][3], k1);
            c[g][1] = p1;
            c[g][3] = p0;
        }
        k0 = _mm512_add_epi32(k0, _mm512_set1_epi64(weyl0));
        k1 = _mm512_add_epi32(k1, _mm512_set1_epi64(weyl1));
    }
    for (int g = 0; g < n_groups; g++) finish_512(src + e + 32 * g, dst + e + 32 * g, c[g], d);
}

AVX512 static int64_t run_avx512(const float *src, float *dst, int64_t n, const struct draw *d)
{
    int64_t e = 0;
    for (; e + 128 <= n; e += 128) span_512(src, dst, e, d, 4);
    for (; e + 32 <= n; e += 32) span_512(src, dst, e, d, 1);
    return e;
}

AVX2 INLINE __m256i xor3_256(__m256i a, __m256i b, __m256i c)
{
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}

/* Elements with their words, 8 at a time. The numbers compared have 24 bits, so the signed comparison serves. */
AVX2 INLINE void keep_256(const float *src, float *dst, __m256i words, const struct draw *d)
{
    const __m256i drop = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)d->threshold), _mm256_srli_epi32(words, 8));
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(src), _mm256_set1_ps(d->scale));
    _mm256_storeu_ps(dst, _mm256_andnot_ps(_mm256_castsi256_ps(drop), scaled));
}

/* Four counters: 16 elements. */
AVX2 INLINE void finish_256(const float *src, float *dst, const __m256i c[4], const struct draw *d)
{
    const __m256i low = _mm256_set1_epi64x(0xffffffff);
    const __m256i a = _mm256_or_si256(_mm256_and_si256(c[0], low), _mm256_slli_epi64(c[1], 32));
    const __m256i b = _mm256_or_si256(_mm256_and_si256(c[2], low), _mm256_slli_epi64(c[3], 32));
    const __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b); /* counters 0 2, 1 3 */
    keep_256(src, dst, _mm256_permute2x128_si256(even, odd, 0x20), d);
    keep_256(src + 8, dst + 8, _mm256_permute2x128_si256(even, odd, 0x31), d);
}

/* Elements e to e + 16 n_groups. */
AVX2 INLINE void span_256(const float *src, float *dst, int64_t e, const struct draw *d, const int n_groups)
{
    const __m256i m0 = _mm256_set1_epi64x(multiplier0), m1 = _mm256_set1_epi64x(multiplier1);
    __m256i c[2][4], k0 = _mm256_set1_epi64x(d->key0), k1 = _mm256_set1_epi64x(d->key1);
    for (int g = 0; g < n_groups; g++) {
        c[g][0] = _mm256_set1_epi64x(d->step);
        c[g][1] = _mm256_set1_epi64x(d->layer);
        c[g][2] = _mm256_add_epi64(_mm256_set1_epi64x(e / 4 + 4 * g), _mm256_set_epi64x(3, 2, 1, 0));
        c[g][3] = _mm256_set1_epi64x(d->sample);
    }
    for (int r = 0; r < ROUNDS; r++) {
        for (int g = 0; g < n_groups; g++) {
            const __m256i p0 = _mm256_mul_epu32(c[g][0], m0), p1 = _mm256_mul_epu32(c[g][2], m1);
            c[g][0] = xor3_256(_mm256_srli_epi64(p1, 32), c[g][1], k0);
            c[g][2] = xor3_256(_mm256_srli_epi64(p0, 32), c[g][3], k1);
            c[g][1] = p1;
            c[g][3] = p0;
        }
        k0 = _mm256_add_epi32(k0, _mm256_set1_epi64x(weyl0));
        k1 = _mm256_add_epi32(k1, _mm256_set1_epi64x(weyl1));
    }
    for (int g = 0; g < n_groups; g++) finish_256(src + e + 16 * g, dst + e + 16 * g, c[g], d);
}

AVX2 static int64_t run_avx2(const float *src, float *dst, int64_t n, const struct draw *d)
{
    int64_t e = 0;
    for (; e + 32 <= n; e += 32) span_256(src, dst, e, d, 2);
    for (; e + 16 <= n; e += 16) span_256(src, dst, e, d, 1);
    return e;
}

/* By what oneDNN may use, so that one setting limits both. */
static dropout_run *choose_run(const char **name)
{
    const int isa = (int)dnnl_get_effective_cpu_isa();
    const bool has_avx512 = (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    const bool has_avx2 = (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2;
    *name = has_avx512 ? "own:avx512" : has_avx2 ? "own:avx2" : "own";
    return has_avx512 ? run_avx512 : has_avx2 ? run_avx2 : NULL;
}

#else

static dropout_run *choose_run(const char **name)
{
    *name = "own";
    return NULL;
}

#endif

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, struct ls_kernel **out)
{
    struct dropout *k;
    const char *name;
    const struct ls_shape *shape = &ls__dnn_value_in(prep, 0)->shape;
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    k->mb = shape->dims[0];
    k->n = ls_shape_count(shape) / k->mb;
    k->p = prep->node->attrs.p;
    k->layer = prep->node->attrs.layer;
    k->run = choose_run(&name);
    snprintf(k->base.name, sizeof k->base.name, "%s", name);
    k->base.may_alias = true;
    k->base.alias_in = 0;
    *out = &k->base;
    return LS_OK;
}

static void drop_sample(const struct dropout *k, const float *src, float *dst, const struct draw *d, uint64_t seed)
{
    int64_t e = k->run ? k->run(src, dst, k->n, d) : 0;
    for (; e < k->n; e += 4) {
        const struct ls_rng4 r =
            ls__rng(seed, LS_RNG_DROPOUT, d->step, d->layer, (uint64_t)d->sample << 32 | (uint64_t)(e / 4));
        for (int64_t i = 0; i < 4 && e + i < k->n; i++)
            dst[e + i] = r.v[i] >> 8 >= d->threshold ? src[e + i] * d->scale : 0.0f;
    }
}

/* The same both ways: diff_src = diff_dst * mask. */
static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct dropout *k = (const struct dropout *)b->kernel;
    struct draw d = {.step = (uint32_t)ctx->step,
                     .layer = (uint32_t)k->layer,
                     .key0 = (uint32_t)ctx->seed ^ ((uint32_t)LS_RNG_DROPOUT * weyl0),
                     .key1 = (uint32_t)(ctx->seed >> 32),
                     .threshold = (uint32_t)ceil((double)k->p * 0x1p24),
                     .scale = 1.0f / (1.0f - k->p)};
    for (int64_t s = 0; s < k->mb; s++) {
        /* padding samples have no number; what they draw never counts */
        d.sample = b->samples && s < ctx->n_valid ? b->samples[s] : (uint32_t)s;
        drop_sample(k, (const float *)b->in[0] + s * k->n, (float *)b->out[0] + s * k->n, &d, ctx->seed);
    }
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_dropout, out);
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_dropout_bwd, out);
}

const struct ls_impl ls__cpu_dropout = {
    .name = "own", .op = LS_OP_DROPOUT, .prepare = prepare_forward, .launch = launch};
const struct ls_impl ls__cpu_dropout_bwd = {
    .name = "own", .op = LS_OP_DROPOUT_BWD, .prepare = prepare_bwd, .launch = launch};
