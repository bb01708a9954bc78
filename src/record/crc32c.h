/* crc32c.h: the checksum of event files (polynomial of Castagnoli), masked as they want it. */
#ifndef LS_RECORD_CRC32C_H
#define LS_RECORD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t ls__crc32c(const void *data, size_t n);
/* A checksum that is itself data under a checksum is rotated and shifted, or it would cancel out. */
uint32_t ls__crc32c_masked(const void *data, size_t n);

#endif
