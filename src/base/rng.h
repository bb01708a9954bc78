/* rng.h: counter-based random numbers (Philox4x32-10).
 *
 * A number is a pure function of (seed, purpose, a, b, c): no state, no order, no rank, no thread. That is half of the
 * promise: whoever computes a shard draws the same numbers. Keys in use:
 *
 *     LS_RNG_INIT     (layer's parameter index, 0, block)           initial weights
 *     LS_RNG_SHUFFLE  (epoch, position, 0)                          order of the samples
 *     LS_RNG_AUGMENT  (epoch, sample, block)                        crop, flip, cutout, colours, erasing
 *     LS_RNG_MIX      (epoch, sample, block)                        mixup and cutmix: pairs of a shard, shares
 *     LS_RNG_DROPOUT  (step, layer, sample | block)                 dropout masks
 *     LS_RNG_DATA     (split, sample, block)                        built-in and fake data sets
 *     LS_RNG_HOLD_OUT (0, position, 0)                              which samples are held out for validation
 *
 * One call gives four independent 32-bit words.
 */
#ifndef LS_BASE_RNG_H
#define LS_BASE_RNG_H

#include <stdint.h>

/* What the functions are; code for other processors says otherwise before it includes this. */
#ifndef LS_RNG_FN
#define LS_RNG_FN static inline
#endif

enum ls_rng_purpose {
    LS_RNG_INIT = 1,
    LS_RNG_SHUFFLE,
    LS_RNG_AUGMENT,
    LS_RNG_DROPOUT,
    LS_RNG_DATA,
    LS_RNG_HOLD_OUT = 32,
    LS_RNG_MIX
};

struct ls_rng4 {
    uint32_t v[4];
};

/* Philox4x32-10 itself, after Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC'11). Inline, so that a
 * loop over counters becomes vector code. */
LS_RNG_FN struct ls_rng4 ls__philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct ls_rng4 out = {{c0, c1, c2, c3}};
    return out;
}

/* counter = (a, b, c low, c high); key = (seed low ^ purpose-mixed, seed high). */
LS_RNG_FN struct ls_rng4 ls__rng(uint64_t seed, enum ls_rng_purpose purpose, uint32_t a, uint32_t b, uint64_t c)
{
    return ls__philox(a, b, (uint32_t)c, (uint32_t)(c >> 32), (uint32_t)seed ^ ((uint32_t)purpose * 0x9E3779B9u),
                      (uint32_t)(seed >> 32));
}

/* [0,1) with 24 bits, exact in float. */
LS_RNG_FN float ls__rng_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* [0,n) without modulo bias worth speaking of (multiply-shift), n <= 2^32. */
LS_RNG_FN uint32_t ls__rng_below(uint32_t word, uint64_t n)
{
    return (uint32_t)(((uint64_t)word * n) >> 32);
}

#endif
