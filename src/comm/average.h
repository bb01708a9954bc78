/* average.h: the mean of many copies of a tensor, in integers, so that the order of the copies does not matter.
 *
 * The elements are cut into blocks of 128. The largest exponent of a block over all copies decides its unit:
 *
 *     1. ls__average_exponents   over every copy: per block the largest exponent, joined by the integer max
 *     2. ls__average_add         every copy to the sums, in units of 2^-44 of the power of two above the largest
 * element
 *     3. ls__average_take        sums / number of copies, as float32
 *
 * So the precision is relative to the neighbours: elements of at least 2^-20 of the largest in their block keep all
 * bits of a float, however small the block is as a whole. Smaller ones are rounded, but never to zero: a second moment
 * of AdamW that vanished while the first did not would make weights jump. 512 copies add up to less than 2^53 units,
 * which a double still holds exactly.
 */
#ifndef LS_COMM_AVERAGE_H
#define LS_COMM_AVERAGE_H

#include <stdbool.h>
#include <stdint.h>

enum { LS_AVERAGE_BLOCK = 128, LS_AVERAGE_BITS = 44, LS_AVERAGE_NOT_FINITE = 255 };

/* Blocks of n elements. */
int64_t ls__average_n_blocks(int64_t n);
/* Raises exponents[block] (as float32 stores them: 0 to 254) to those of x. An element that is not finite raises its
 * block's to LS_AVERAGE_NOT_FINITE. */
void ls__average_exponents(const float *x, int64_t n, uint8_t *exponents);
/* The same for two lists of exponents. */
void ls__average_join(uint8_t *exponents, const uint8_t *others, int64_t n_blocks);
void ls__average_add(const float *x, int64_t n, const uint8_t *exponents, int64_t *sum);
void ls__average_take(const int64_t *sum, int64_t n, const uint8_t *exponents, int n_copies, float *x);

#endif
