/* peak.c: see peak.h. Vectors of 16 floats in enough independent chains to hide the latency of the multiply-add;
 * compiled for AVX-512, AVX2+FMA and plain x86-64, and picked when run. Contraction is on here, and only here: nothing
 * of it reaches a result. */
#include "train/peak.h"

#include "base/clock.h"
#include "base/pool.h"

#include <string.h>

enum { CHAINS = 20, ROUNDS = 200000, TRIES = 5 };

typedef float vec __attribute__((vector_size(64)));

/* Each clone is its own function, so that the registers fit the instruction set. */
#define PEAK_BODY                                                                                                      \
    vec acc[CHAINS], a, b;                                                                                             \
    memset(acc, 0, sizeof acc);                                                                                        \
    for (int i = 0; i < 16; i++) a[i] = 1.0f + seed, b[i] = seed;                                                      \
    for (int r = 0; r < rounds; r++) {                                                                                 \
        for (int c = 0; c < CHAINS; c++) acc[c] = acc[c] * a + b;                                                      \
        __asm__ volatile("" ::: "memory");                                                                             \
    }                                                                                                                  \
    float sum = 0;                                                                                                     \
    for (int c = 0; c < CHAINS; c++)                                                                                   \
        for (int i = 0; i < 16; i++) sum += acc[c][i];                                                                 \
    return sum

#if defined(__x86_64__)
__attribute__((target("avx512f,fma"), optimize("fp-contract=fast", "O3"))) static float spin_avx512(int rounds,
                                                                                                    float seed)
{
    PEAK_BODY;
}
/* Ten chains of two registers: sixteen registers in all cannot hold more. */
typedef float vec8 __attribute__((vector_size(32)));
__attribute__((target("avx2,fma"), optimize("fp-contract=fast", "O3"))) static float spin_avx2(int rounds, float seed)
{
    vec8 acc[12], a, b;
    memset(acc, 0, sizeof acc);
    for (int i = 0; i < 8; i++) a[i] = 1.0f + seed, b[i] = seed;
    for (int r = 0; r < rounds; r++) {
        for (int c = 0; c < 12; c++) acc[c] = acc[c] * a + b;
        __asm__ volatile("" ::: "memory");
    }
    float sum = 0;
    for (int c = 0; c < 12; c++)
        for (int i = 0; i < 8; i++) sum += acc[c][i];
    return sum;
}
#endif

static float spin_plain(int rounds, float seed)
{
    PEAK_BODY;
}

struct flavour {
    float (*spin)(int rounds, float seed);
    double flops_per_round;
};

static struct flavour choose(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return (struct flavour){spin_avx512, 2.0 * 16 * CHAINS};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct flavour){spin_avx2, 2.0 * 8 * 12};
#endif
    return (struct flavour){spin_plain, 2.0 * 16 * CHAINS};
}

static enum ls_status run(void *arg, int item, int worker)
{
    const struct flavour *f = arg;
    volatile float sink = f->spin(ROUNDS, 1e-7f * (float)item);
    (void)sink;
    return LS_OK;
}

enum ls_status ls__measure_peak_gflops(int n_threads, double *gflops)
{
    struct flavour f = choose();
    struct ls_pool *pool;
    enum ls_status status = LS_OK;
    *gflops = 0;
    TRY(ls__pool_create(&pool, n_threads, true, NULL));
    for (int i = 0; i < TRIES && status == LS_OK; i++) {
        int64_t start = ls__now_ns();
        status = ls__pool_run(pool, n_threads, run, &f);
        double rate = f.flops_per_round * ROUNDS * n_threads / ls__seconds_since(start) * 1e-9;
        if (rate > *gflops) *gflops = rate;
    }
    ls__pool_destroy(&pool);
    return status;
}
