/* sums.h: the sums of a step as they travel: integers, cut into pieces that threads take apart.
 *
 *     PLAIN    the numbers, little-endian
 *     PACKED   u32 bytes of every piece, then the pieces (comm/pack.h), LS_SUMS_PIECE numbers each, the last one fewer
 *     BOXED    they do not: PLAIN, in the memory that worker and server share (box.h)
 *
 * What comes in is looked through before a number of it is added: sums are added whole or not at all.
 */
#ifndef LS_ELASTIC_SUMS_H
#define LS_ELASTIC_SUMS_H

#include "exec/exec.h"

enum ls_sums_form { LS_SUMS_PLAIN, LS_SUMS_PACKED, LS_N_SUMS_FORMS, LS_SUMS_BOXED = LS_N_SUMS_FORMS };
enum { LS_SUMS_PIECE = 1 << 15 };

size_t ls__sums_bound(enum ls_sums_form form, int64_t n); /* bytes at most */
/* A range of the executor's block into out, and zeroes it there; on its threads. *bytes: written. */
enum ls_status ls__sums_write(struct ls_exec *exec, struct ls_sum_range range, enum ls_sums_form form, uint8_t *out,
                              size_t *bytes) LS_MUST_CHECK;
/* Whether it is n sums in that form. */
bool ls__sums_are_whole(enum ls_sums_form form, const uint8_t *in, size_t bytes, int64_t n);
/* Adds them to that range of the executor's block. They are whole. */
enum ls_status ls__sums_add(struct ls_exec *exec, struct ls_sum_range range, enum ls_sums_form form, const uint8_t *in,
                            size_t bytes) LS_MUST_CHECK;

#endif
