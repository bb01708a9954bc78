/* pack.h: sums of gradients in few bits, exactly. */
#ifndef LS_COMM_PACK_H
#define LS_COMM_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `out` needs ls__pack_bound(n) bytes. Returns how many were written. */
size_t ls__pack_bound(size_t n);
size_t ls__pack(const int64_t *x, size_t n, uint8_t *out);
/* False if the message is not n packed numbers. add: x += them, else x = them. */
bool ls__unpack(const uint8_t *in, size_t bytes, int64_t *x, size_t n, bool add);
/* Whether it is n packed numbers: what ls__unpack would say, without touching a number. */
bool ls__pack_is_whole(const uint8_t *in, size_t bytes, size_t n);

#endif
