/* winograd_points.h: the one-dimensional transforms on 6 points, for the vectors of the including file.
 *
 * Points 0, +a, -a, +b, -b, infinity. The pairs share their even and odd parts. In the terms of winograd.h:
 *
 *     to_points     B'    6 inputs -> 6 values
 *     evaluate      A, G  a polynomial of `count` coefficients at the points (G also divides by its norms)
 *     interpolate   A',G' the transpose of that: 6 values -> `count` results
 */
#define POINT_A 0.625f
#define POINT_B 1.5f
#define A2 (POINT_A * POINT_A)
#define B2 (POINT_B * POINT_B)
/* What G divides by: the product of a point's distances from the others. */
#define NORM_0 (1 / (A2 * B2))
#define NORM_A (1 / (2 * A2 * (A2 - B2)))
#define NORM_B (1 / (2 * B2 * (B2 - A2)))

VEC_TARGET INLINE void to_points(const V(float) x[6], V(float) out[6])
{
    const V(float) even_a = V(fnma)(V(all)(B2), x[2], x[4]), odd_a = V(fnma)(V(all)(B2), x[1], x[3]);
    const V(float) even_b = V(fnma)(V(all)(A2), x[2], x[4]), odd_b = V(fnma)(V(all)(A2), x[1], x[3]);
    out[0] = V(fma)(V(all)(A2 * B2), x[0], V(fnma)(V(all)(A2 + B2), x[2], x[4]));
    out[1] = V(fma)(V(all)(POINT_A), odd_a, even_a);
    out[2] = V(fnma)(V(all)(POINT_A), odd_a, even_a);
    out[3] = V(fma)(V(all)(POINT_B), odd_b, even_b);
    out[4] = V(fnma)(V(all)(POINT_B), odd_b, even_b);
    out[5] = V(fma)(V(all)(A2 * B2), x[1], V(fnma)(V(all)(A2 + B2), x[3], x[5]));
}

/* Values at +p and -p, of which `square` is the square, times norm. */
VEC_TARGET INLINE void evaluate_pair(const V(float) * x, const int count, float p, float square, float norm,
                                     V(float) * plus, V(float) * minus)
{
    V(float) even = V(mul)(V(all)(norm), x[0]), odd = V(mul)(V(all)(p * norm), x[1]);
    if (count > 2) even = V(fma)(V(all)(square * norm), x[2], even);
    if (count > 3) odd = V(fma)(V(all)(p * square * norm), x[3], odd);
    if (count > 4) even = V(fma)(V(all)(square * square * norm), x[4], even);
    *plus = V(add)(even, odd);
    *minus = V(sub)(even, odd);
}

VEC_TARGET INLINE void evaluate(const V(float) * x, const int count, const bool has_norm, V(float) out[6])
{
    out[0] = has_norm ? V(mul)(V(all)(NORM_0), x[0]) : x[0];
    evaluate_pair(x, count, POINT_A, A2, has_norm ? NORM_A : 1, &out[1], &out[2]);
    evaluate_pair(x, count, POINT_B, B2, has_norm ? NORM_B : 1, &out[3], &out[4]);
    out[5] = x[count - 1];
}

VEC_TARGET INLINE void interpolate(const V(float) x[6], const int count, const bool has_norm, V(float) * out)
{
    const float norm_a = has_norm ? NORM_A : 1, norm_b = has_norm ? NORM_B : 1;
    const V(float) even_a = V(add)(x[1], x[2]), odd_a = V(sub)(x[1], x[2]);
    const V(float) even_b = V(add)(x[3], x[4]), odd_b = V(sub)(x[3], x[4]);
    float power_a = norm_a, power_b = norm_b;
#pragma GCC unroll 5
    for (int i = 0; i < count; i++) {
        const V(float) from_a = i % 2 ? odd_a : even_a, from_b = i % 2 ? odd_b : even_b;
        out[i] = V(fma)(V(all)(power_a), from_a, V(mul)(V(all)(power_b), from_b));
        power_a *= POINT_A;
        power_b *= POINT_B;
    }
    out[0] = has_norm ? V(fma)(V(all)(NORM_0), x[0], out[0]) : V(add)(x[0], V(add)(even_a, even_b));
    out[count - 1] = V(add)(out[count - 1], x[5]);
}

/* --- both dimensions: rows of `count` or 6, columns likewise --- */

VEC_TARGET INLINE void to_points_2d(const V(float) x[6][6], float *out, ptrdiff_t stride)
{
    V(float) half[6][6]; /* [column][point] */
#pragma GCC unroll 6
    for (int j = 0; j < 6; j++) {
        const V(float) column[6] = {x[0][j], x[1][j], x[2][j], x[3][j], x[4][j], x[5][j]};
        to_points(column, half[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) {
        const V(float) row[6] = {half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i]};
        V(float) values[6];
        to_points(row, values);
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) V(store)(out + (i * 6 + j) * stride, values[j]);
    }
}

VEC_TARGET INLINE void evaluate_2d(const V(float) x[WINO_MAX_KERNEL][WINO_MAX_KERNEL], const int count,
                                   const bool has_norm, float *out, ptrdiff_t stride)
{
    V(float) half[WINO_MAX_KERNEL][6]; /* [column][point] */
#pragma GCC unroll 5
    for (int j = 0; j < count; j++) {
        V(float) column[WINO_MAX_KERNEL];
#pragma GCC unroll 5
        for (int i = 0; i < count; i++) column[i] = x[i][j];
        evaluate(column, count, has_norm, half[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) {
        V(float) row[WINO_MAX_KERNEL], values[6];
#pragma GCC unroll 5
        for (int j = 0; j < count; j++) row[j] = half[j][i];
        evaluate(row, count, has_norm, values);
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) V(store)(out + (i * 6 + j) * stride, values[j]);
    }
}

VEC_TARGET INLINE void interpolate_2d(const float *x, ptrdiff_t stride, const int count, const bool has_norm,
                                      V(float) out[WINO_MAX_KERNEL][WINO_MAX_KERNEL])
{
    V(float) half[6][WINO_MAX_KERNEL]; /* [column][result] */
#pragma GCC unroll 6
    for (int j = 0; j < 6; j++) {
        V(float) column[6];
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++) column[i] = V(load)(x + (i * 6 + j) * stride);
        interpolate(column, count, has_norm, half[j]);
    }
#pragma GCC unroll 5
    for (int i = 0; i < count; i++) {
        const V(float) row[6] = {half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i]};
        interpolate(row, count, has_norm, out[i]);
    }
}
