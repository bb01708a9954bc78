/* mem.c: memory with checked sizes; the one place where allocation can be made to fail. */
#include "base/mem.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* True for the n-th call when the environment says LOCKSTEP_FAIL_ALLOC=n. It is read on the first call. */
static bool is_doomed(void)
{
    static atomic_long n_left = LONG_MIN; /* LONG_MIN: not asked yet; 0 or less: nothing to fail */
    long n = atomic_load_explicit(&n_left, memory_order_relaxed);
    if (n == LONG_MIN) {
        const char *text = getenv("LOCKSTEP_FAIL_ALLOC");
        long asked = text ? strtol(text, NULL, 10) : 0;
        atomic_compare_exchange_strong(&n_left, &n, asked > 0 ? asked : 0); /* another thread may have been first */
        n = atomic_load(&n_left);
    }
    return n > 0 && atomic_fetch_sub(&n_left, 1) == 1;
}

static enum ls_status no_memory(size_t n, size_t size)
{
    return ls_fail(LS_NOMEM, "out of memory (%zu x %zu bytes)", n, size);
}

enum ls_status ls__calloc(void *out, size_t n, size_t size)
{
    void *p = is_doomed() ? NULL : calloc(n ? n : 1, size ? size : 1);
    memcpy(out, &p, sizeof p);
    return p ? LS_OK : no_memory(n, size);
}

enum ls_status ls__grow(void *array, size_t old_n, size_t new_n, size_t size)
{
    char *p;
    size_t bytes;
    memcpy(&p, array, sizeof p);
    if (__builtin_mul_overflow(new_n, size, &bytes) || is_doomed()) return no_memory(new_n, size);
    p = realloc(p, bytes ? bytes : 1);
    if (!p) return no_memory(new_n, size);
    if (new_n > old_n) memset(p + old_n * size, 0, (new_n - old_n) * size);
    memcpy(array, &p, sizeof p);
    return LS_OK;
}

enum { MMAP_FROM_BYTES = 1 << 20, HUGE_PAGE_BYTES = 2 << 20, ALIGNMENT = 64 };

enum ls_status ls__alloc_aligned(void *out, size_t bytes)
{
    void *p = NULL;
    if (is_doomed() || bytes > SIZE_MAX - HUGE_PAGE_BYTES) {
        p = NULL;
    } else if (bytes >= MMAP_FROM_BYTES) {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) p = NULL;
        if (p && bytes >= 4 * (size_t)HUGE_PAGE_BYTES) madvise(p, bytes, MADV_HUGEPAGE); /* a wish, not a need */
    } else {
        p = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
        if (p) memset(p, 0, bytes);
    }
    memcpy(out, &p, sizeof p);
    return p ? LS_OK : no_memory(bytes, 1);
}

void ls__free_aligned(void *p, size_t bytes)
{
    if (!p) return;
    if (bytes >= MMAP_FROM_BYTES)
        munmap(p, bytes);
    else
        free(p);
}

enum ls_status ls__strdup(char **out, const char *text)
{
    size_t n = strlen(text) + 1;
    TRY(ls__calloc(out, n, 1));
    memcpy(*out, text, n);
    return LS_OK;
}
