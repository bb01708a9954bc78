/* rng.c: Philox4x32-10 after Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC'11). */
#include "base/rng.h"

struct ls_rng4 ls__philox(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
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
    return (struct ls_rng4){{c0, c1, c2, c3}};
}

struct ls_rng4 ls__rng(uint64_t seed, enum ls_rng_purpose purpose, uint32_t a, uint32_t b, uint64_t c)
{
    const uint32_t counter[4] = {a, b, (uint32_t)c, (uint32_t)(c >> 32)};
    const uint32_t key[2] = {(uint32_t)seed ^ ((uint32_t)purpose * 0x9E3779B9u), (uint32_t)(seed >> 32)};
    return ls__philox(counter, key);
}
