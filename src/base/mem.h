/* mem.h: memory that reports failure instead of aborting.
 *
 * All allocation of the library goes through here, so that a test can make the n-th one fail (LOCKSTEP_FAIL_ALLOC=n in
 * the environment) and so that sizes computed from a file are multiplied with overflow checks in one place.
 */
#ifndef LS_BASE_MEM_H
#define LS_BASE_MEM_H

#include "base/status.h"

#include <stddef.h>

/* Zeroed memory for n elements, in *out (a pointer to any object pointer). n * size is checked for overflow. */
enum ls_status ls__calloc(void *out, size_t n, size_t size) LS_MUST_CHECK;

/* Grows *array (a pointer to any object pointer, old_n elements) to new_n elements; the new ones are zeroed. */
enum ls_status ls__grow(void *array, size_t old_n, size_t new_n, size_t size) LS_MUST_CHECK;

/* 64-byte aligned, zeroed, not touched page by page before use (large blocks come straight from mmap and are offered
 * huge pages). Freed by ls__free_aligned. bytes may be 0. */
enum ls_status ls__alloc_aligned(void *out, size_t bytes) LS_MUST_CHECK;
void ls__free_aligned(void *p, size_t bytes);

enum ls_status ls__strdup(char **out, const char *text) LS_MUST_CHECK;

#endif
