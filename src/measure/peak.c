/* peak.c: see peak.h. Twelve independent chains of fused multiply-adds, enough to hide the latency of the instruction,
 * written as assembly so that every chain is a register whatever the compiler thinks. */
#include "measure/peak.h"

#include "base/clock.h"
#include "base/pool.h"

#include <string.h>

enum { ROUNDS = 400000, TRIES = 5, CHAINS = 12 };

#if defined(__x86_64__)
#define PEAK_FMA(v, n) "vfmadd231ps %%" v "14, %%" v "15, %%" v #n "\n\t"
#define PEAK_ZERO(n) "vxorps %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n\t"
/* The chains add zeros to zeros: the time of a multiply-add does not depend on its values. */
#define PEAK_LOOP(v, rounds)                                                                                           \
    __asm__ volatile(PEAK_ZERO(0) PEAK_ZERO(1) PEAK_ZERO(2) PEAK_ZERO(3) PEAK_ZERO(4) PEAK_ZERO(5) PEAK_ZERO(6)        \
                         PEAK_ZERO(7) PEAK_ZERO(8) PEAK_ZERO(9) PEAK_ZERO(10) PEAK_ZERO(11) PEAK_ZERO(14)              \
                             PEAK_ZERO(15) "1:\n\t" PEAK_FMA(v, 0) PEAK_FMA(v, 1) PEAK_FMA(v, 2) PEAK_FMA(v, 3)        \
                                 PEAK_FMA(v, 4) PEAK_FMA(v, 5) PEAK_FMA(v, 6) PEAK_FMA(v, 7) PEAK_FMA(v, 8)            \
                                     PEAK_FMA(v, 9) PEAK_FMA(v, 10) PEAK_FMA(v, 11) "dec %0\n\tjnz 1b\n\tvzeroupper"   \
                     : "+r"(rounds)                                                                                    \
                     :                                                                                                 \
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",  \
                       "xmm11", "xmm14", "xmm15")

static void spin_avx512(int rounds)
{
    PEAK_LOOP("zmm", rounds);
}

static void spin_avx2(int rounds)
{
    PEAK_LOOP("ymm", rounds);
}
#endif

static void spin_plain(int rounds)
{
    volatile float sink;
    float acc[CHAINS] = {0};
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < CHAINS; c++) acc[c] = acc[c] * 0.5f + 1.0f;
    for (int c = 0; c < CHAINS; c++) sink = acc[c];
    (void)sink;
}

struct flavour {
    void (*spin)(int rounds);
    double lanes;
};

/* What the level lets the kernels use: the machine may have more. */
static struct flavour choose(const char *isa)
{
#if defined(__x86_64__)
    bool is_any = strcmp(isa, "any") == 0;
    __builtin_cpu_init();
    if ((is_any || strcmp(isa, "avx512") == 0) && __builtin_cpu_supports("avx512f"))
        return (struct flavour){spin_avx512, 16};
    if ((is_any || strncmp(isa, "avx", 3) == 0) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct flavour){spin_avx2, 8};
#endif
    return (struct flavour){spin_plain, 1};
}

static enum ls_status run(void *arg, int item, int worker)
{
    const struct flavour *f = arg;
    f->spin(ROUNDS);
    return LS_OK;
}

enum ls_status ls__measure_peak_gflops(int n_threads, const char *isa, double *gflops)
{
    struct flavour f = choose(isa);
    struct ls_pool *pool;
    enum ls_status status = LS_OK;
    *gflops = 0;
    TRY(ls__pool_create(&pool, n_threads, true, NULL));
    for (int i = 0; i < TRIES && status == LS_OK; i++) {
        int64_t start = ls__now_ns();
        status = ls__pool_run(pool, n_threads, run, &f);
        double rate = 2.0 * f.lanes * CHAINS * ROUNDS * n_threads / ls__seconds_since(start) * 1e-9;
        if (rate > *gflops) *gflops = rate;
    }
    ls__pool_destroy(&pool);
    return status;
}
