/* crc32c.c: a table of 256 entries, made when first used; a few hundred bytes per event are no work worth more. */
#include "record/crc32c.h"

#include <pthread.h>

static uint32_t table[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    const uint32_t polynomial = 0x82f63b78; /* 0x1edc6f41, the lowest bit first */
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ (c & 1 ? polynomial : 0);
        table[i] = c;
    }
}

uint32_t ls__crc32c(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t c = 0xffffffff;
    pthread_once(&once, fill);
    for (size_t i = 0; i < n; i++) c = (c >> 8) ^ table[(c ^ p[i]) & 255];
    return ~c;
}

uint32_t ls__crc32c_masked(const void *data, size_t n)
{
    uint32_t c = ls__crc32c(data, n);
    return ((c >> 15) | (c << 17)) + 0xa282ead8;
}
