/* simd.h: one loop, compiled for several instruction sets and chosen when the program starts.
 *
 * LS_VECTORIZE in front of a function makes a clone for AVX-512, one for AVX2 and a plain one. Together with
 * -ffp-contract=off and no reassociation every clone gives the same bits, so it changes speed only. The resolver this
 * needs runs before a sanitizer is ready, and clang exports it under the name of a static function; they get the plain
 * function. LS_HAS_CLONES says which, for code that brings intrinsics of its own.
 */
#ifndef LS_BASE_SIMD_H
#define LS_BASE_SIMD_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define LS_NO_CLONES 1
#endif
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__) && !defined(LS_NO_CLONES)
#define LS_HAS_CLONES 1
#define LS_VECTORIZE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LS_HAS_CLONES 0
#define LS_VECTORIZE
#endif

/* For small functions inside such loops: inlined into every clone. */
#define LS_INLINE static inline __attribute__((always_inline))

/* In front of a loop whose iterations do not touch each other's elements, though two pointers may be equal (in place):
 * without it the compiler guards the vector loop by a test for overlap, which working in place fails. */
#ifdef __clang__
#define LS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LS_INDEPENDENT _Pragma("GCC ivdep")
#endif

#endif
