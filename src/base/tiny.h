/* tiny.h: numbers below the normal range of float (1.2e-38) as zero.
 *
 * Processors compute with them in microcode, at a hundredth of the speed, and a network that has learnt its images by
 * heart is full of them: gradients that are nothing but tiny. What is summed in fixed point never sees them. So
 * whatever computes says so (the pool does, for all its rounds), and what was before is put back, for a thread may be
 * the caller's own.
 */
#ifndef LS_BASE_TINY_H
#define LS_BASE_TINY_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

/* What it was, for ls__tiny_restore. */
static inline uint64_t ls__tiny_is_zero(void)
{
    const uint32_t was = _mm_getcsr();
    _mm_setcsr(was | 0x8040); /* results flushed, operands taken as zero */
    return was;
}

static inline void ls__tiny_restore(uint64_t was)
{
    _mm_setcsr((_mm_getcsr() & ~UINT32_C(0x8040)) | ((uint32_t)was & 0x8040)); /* flags raised meanwhile stay */
}

#elif defined(__aarch64__)

static inline uint64_t ls__tiny_is_zero(void)
{
    uint64_t was;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    __asm__ volatile("msr fpcr, %0" : : "r"(was | UINT64_C(1) << 24));
    return was;
}

static inline void ls__tiny_restore(uint64_t was)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(was));
}

#else

static inline uint64_t ls__tiny_is_zero(void)
{
    return 0;
}

static inline void ls__tiny_restore(uint64_t was)
{
    (void)was;
}

#endif

#endif
