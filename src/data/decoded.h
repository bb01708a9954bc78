/* decoded.h: pictures that were decoded once, kept as bytes for every process of this machine. Internal to src/data.
 *
 * One file per set of pictures and size in the cache folder (~/.cache/lockstep/pictures), mapped by all who read that
 * set: ranks of a job share it, and the next run finds it full. Its name has the set's checksum, so changed pictures
 * are another file. It is made when it takes at most a quarter of the disk's free space; otherwise, and whenever
 * anything about it fails, pictures are decoded as they are read, as if there were no cache.
 *
 *     if (ls__decoded_get(cache, i, out)) return LS_OK;      the bytes, whoever decoded them
 *     status = decode(..., out);                             it is ours to do
 *     ls__decoded_put(cache, i, status == LS_OK ? out : NULL);
 *
 * Invariants:
 *   1. Bytes are compared with the hash beside them whenever they are read: a file that was cut, damaged or
 * half-written before a crash costs time, never a wrong picture. They are read and written by calls that can fail, not
 * through a mapping: a full disk is no signal.
 *   2. A claim is a wish: one whose owner died, or takes too long, is taken over. Both write the same bytes.
 */
#ifndef LS_DATA_DECODED_H
#define LS_DATA_DECODED_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_decoded_cache;

/* NULL: there is none, and why is of no interest to anybody (at debug level it is told). */
struct ls_decoded_cache *ls__decoded_open(const char *checksum, int64_t n, int c, int h, int w);
void ls__decoded_close(struct ls_decoded_cache **cache); /* NULL is fine */

/* True: out has the picture. False: the caller decodes it and puts it. Waits while another process or thread is at it.
 * Always false without a cache. */
bool ls__decoded_get(struct ls_decoded_cache *cache, int64_t sample, uint8_t *out);
void ls__decoded_put(struct ls_decoded_cache *cache, int64_t sample, const uint8_t *bytes); /* NULL: it failed */

#endif
