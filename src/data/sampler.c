/* sampler.c: the order of an epoch, by Fisher and Yates' shuffle with counter-based random numbers.
 *
 * One Philox call serves four positions. The draw for position i is word i % 4 of block i / 4, so the order is a
 * function of (seed, epoch, n) and of nothing else.
 */
#include "base/rng.h"
#include "data/data.h"

void ls_sampler_order(uint64_t seed, int64_t epoch, int64_t n, uint32_t *order)
{
    /* "Inside-out" shuffle: fills and permutes in one pass. */
    for (int64_t first = 0; first < n; first += 4) {
        struct ls_rng4 r = ls__rng(seed, LS_RNG_SHUFFLE, (uint32_t)epoch, (uint32_t)(first / 4), 0);
        int64_t end = first + 4 < n ? first + 4 : n;
        for (int64_t i = first; i < end; i++) {
            uint32_t j = ls__rng_below(r.v[i - first], (uint64_t)i + 1);
            if (j != i) order[i] = order[j];
            order[j] = (uint32_t)i;
        }
    }
}
