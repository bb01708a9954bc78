/* driver.c: a libcuda.so.1 that is no driver, for tests of what is said without a usable one: it is for CUDA
 * FAKE_CUDA_VERSION (11040: 11.4) and sees FAKE_CUDA_CARDS cards; everything else fails. tests/e2e/no_card.sh builds
 * it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, NO_DEVICE = 100, UNKNOWN = 999 }; /* CUresult */

static int number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

static int fail(void)
{
    return UNKNOWN;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    return number_of("FAKE_CUDA_CARDS") > 0 ? DONE : NO_DEVICE;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = number_of("FAKE_CUDA_VERSION");
    return DONE;
}

int cuGetExportTable(const void **table, const void *id);
int cuGetExportTable(const void **table, const void *id)
{
    *table = NULL;
    return NO_DEVICE;
}

int cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *status);

int cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
    const struct {
        const char *name;
        void *fn;
    } known[] = {
        {"cuInit", (void *)cuInit},
        {"cuDriverGetVersion", (void *)cuDriverGetVersion},
        {"cuGetExportTable", (void *)cuGetExportTable},
        {"cuGetProcAddress", version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress},
    };
    *fn = (void *)fail;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) *fn = known[i].fn;
    return DONE;
}

int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *status)
{
    if (status) *status = 0;
    return cuGetProcAddress(name, fn, version, flags);
}
