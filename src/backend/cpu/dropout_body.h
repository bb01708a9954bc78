/* dropout_body.h: the loop of dropout.c, written once for vectors of VEC floats. Included there once for each width,
 * with
 *
 *     VEC, VEC_TARGET   width and instruction set (vec.h)
 *     GROUPS            groups of counters at once: as many as fill the time that a multiplication takes
 *
 * A group is VEC / 2 counters, one to an element of 64 bits: 2 VEC elements of the tensor.
 */

/* Elements e to e + 2 VEC n_groups. */
VEC_TARGET INLINE void V(span)(const float *src, float *dst, int64_t e, const struct draw *d, const int n_groups)
{
    const V(int) m0 = V(all_int64)(multiplier0), m1 = V(all_int64)(multiplier1);
    V(int) c[GROUPS][4], k0 = V(all_int64)(d->key0), k1 = V(all_int64)(d->key1);
    for (int g = 0; g < n_groups; g++) {
        c[g][0] = V(all_int64)(d->step);
        c[g][1] = V(all_int64)(d->layer);
        c[g][2] = V(add64)(V(all_int64)(e / 4 + VEC / 2 * g), V(count64)());
        c[g][3] = V(all_int64)(d->sample);
    }
    for (int r = 0; r < ROUNDS; r++) {
        for (int g = 0; g < n_groups; g++) {
            const V(int) p0 = V(mul_halves)(c[g][0], m0), p1 = V(mul_halves)(c[g][2], m1);
            c[g][0] = V(xor3)(V(shift_right64)(p1, 32), c[g][1], k0);
            c[g][2] = V(xor3)(V(shift_right64)(p0, 32), c[g][3], k1);
            c[g][1] = p1;
            c[g][3] = p0;
        }
        k0 = V(add32)(k0, V(all_int64)(weyl0));
        k1 = V(add32)(k1, V(all_int64)(weyl1));
    }
    for (int g = 0; g < n_groups; g++, e += 2 * VEC) {
        V(int) words[2];
        V(words)(c[g], words);
        V(keep)(src + e, dst + e, words[0], d);
        V(keep)(src + e + VEC, dst + e + VEC, words[1], d);
    }
}

VEC_TARGET static int64_t V(run)(const float *src, float *dst, int64_t n, const struct draw *d)
{
    int64_t e = 0;
    for (; e + 2 * VEC * GROUPS <= n; e += 2 * VEC * GROUPS) V(span)(src, dst, e, d, GROUPS);
    for (; e + 2 * VEC <= n; e += 2 * VEC) V(span)(src, dst, e, d, 1);
    return e;
}
