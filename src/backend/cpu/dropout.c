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
#include "backend/cpu/vec.h"
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

/* The words of the counters one after the other, four of each; a word is the lower half of an element of c[0..3]. The
 * first half of them, and the second. */
AVX512_TARGET INLINE void v16_words(const v16_int c[4], v16_int words[2])
{
    const v16_int low = v16_all_int64(0xffffffff);
    const v16_int first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const v16_int second = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    const v16_int a = _mm512_or_si512(_mm512_and_si512(c[0], low), v16_shift_left64(c[1], 32));
    const v16_int b = _mm512_or_si512(_mm512_and_si512(c[2], low), v16_shift_left64(c[3], 32));
    words[0] = _mm512_permutex2var_epi64(a, first, b);
    words[1] = _mm512_permutex2var_epi64(a, second, b);
}

AVX2_TARGET INLINE void v8_words(const v8_int c[4], v8_int words[2])
{
    const v8_int low = v8_all_int64(0xffffffff);
    const v8_int a = _mm256_or_si256(_mm256_and_si256(c[0], low), v8_shift_left64(c[1], 32));
    const v8_int b = _mm256_or_si256(_mm256_and_si256(c[2], low), v8_shift_left64(c[3], 32));
    const v8_int even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b); /* counters 0 2, 1 3 */
    words[0] = _mm256_permute2x128_si256(even, odd, 0x20);
    words[1] = _mm256_permute2x128_si256(even, odd, 0x31);
}

/* VEC elements with their words. */
AVX512_TARGET INLINE void v16_keep(const float *src, float *dst, v16_int words, const struct draw *d)
{
    const __mmask16 keep = _mm512_cmpge_epu32_mask(_mm512_srli_epi32(words, 8), v16_all_int((int)d->threshold));
    v16_store(dst, _mm512_maskz_mul_ps(keep, v16_load(src), v16_all(d->scale)));
}

/* The numbers compared have 24 bits, so the signed comparison serves. */
AVX2_TARGET INLINE void v8_keep(const float *src, float *dst, v8_int words, const struct draw *d)
{
    const v8_int drop = _mm256_cmpgt_epi32(v8_all_int((int)d->threshold), _mm256_srli_epi32(words, 8));
    v8_store(dst, _mm256_andnot_ps(_mm256_castsi256_ps(drop), v8_mul(v8_load(src), v8_all(d->scale))));
}

#define VEC 16
#define VEC_TARGET AVX512_TARGET
#define GROUPS 4
#include "backend/cpu/dropout_body.h"
#undef VEC
#undef VEC_TARGET
#undef GROUPS
#define VEC 8
#define VEC_TARGET AVX2_TARGET
#define GROUPS 2
#include "backend/cpu/dropout_body.h"

/* By what oneDNN may use, so that one setting limits both. */
static dropout_run *choose_run(const char **name)
{
    const int isa = (int)dnnl_get_effective_cpu_isa();
    const bool has_avx512 = (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    const bool has_avx2 = (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2;
    *name = has_avx512 ? "own:avx512" : has_avx2 ? "own:avx2" : "own";
    return has_avx512 ? v16_run : has_avx2 ? v8_run : NULL;
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
