/* checksum.c: the hash over a whole checkpoint file.
 *
 * In: the file as pieces. Out: 32 lower-case hex digits, the same that `xxhsum -H2` prints for the file with the 32
 * digits of the checksum replaced by '0'. One pass, nothing copied; runs at memory speed.
 */
#include "checkpoint/internal.h"

#include <string.h>
#include <xxhash.h>

static void update(XXH3_state_t *state, const void *data, size_t len)
{
    if (len) XXH3_128bits_update(state, data, len);
}

static void to_hex(XXH128_hash_t hash, char hex[LS_CKPT_CHECKSUM_DIGITS + 1])
{
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, hash);
    for (size_t i = 0; i < LS_CKPT_CHECKSUM_DIGITS / 2; i++) {
        hex[2 * i] = "0123456789abcdef"[bytes.digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[bytes.digest[i] & 15];
    }
    hex[LS_CKPT_CHECKSUM_DIGITS] = '\0';
}

enum ls_status ls__ckpt_checksum(const struct ls_piece *pieces, size_t n_pieces, char hex[LS_CKPT_CHECKSUM_DIGITS + 1])
{
    char zeros[LS_CKPT_CHECKSUM_DIGITS];
    size_t after = LS_CKPT_CHECKSUM_AT + LS_CKPT_CHECKSUM_DIGITS;
    if (n_pieces == 0 || pieces[0].len < after) return ls_fail(LS_INTERNAL, "no place for a checksum");
    XXH3_state_t *state = XXH3_createState();
    if (!state) return ls_fail(LS_NOMEM, "out of memory for a checksum");
    memset(zeros, '0', sizeof zeros);
    XXH3_128bits_reset(state);
    update(state, pieces[0].data, LS_CKPT_CHECKSUM_AT);
    update(state, zeros, sizeof zeros);
    update(state, (const char *)pieces[0].data + after, pieces[0].len - after);
    for (size_t i = 1; i < n_pieces; i++) update(state, pieces[i].data, pieces[i].len);
    to_hex(XXH3_128bits_digest(state), hex);
    XXH3_freeState(state);
    return LS_OK;
}
