/* digits_glyphs.h: the ways people write 0 to 9, as pen movements. For digits.c alone.
 *
 * A glyph is a list of points in a box 60 wide and 100 high, y pointing down. The pen follows a smooth curve
 * (Catmull-Rom) through them. A point given twice is a corner; UP lifts the pen. Every glyph ends with END.
 * Changing a number here changes the data set: raise DIGITS_VERSION in digits.c and renew the known answers in the
 * test.
 */
#ifndef LS_DATA_FORMATS_DIGITS_GLYPHS_H
#define LS_DATA_FORMATS_DIGITS_GLYPHS_H

#include <stdint.h>

enum { GLYPH_W = 60, GLYPH_H = 100, GLYPH_STYLES = 4, GLYPH_POINTS = 20 };

struct glyph_point {
    int8_t x, y;
};

/* clang-format off */
#define P(x, y) {x, y}
#define CORNER(x, y) {x, y}, {x, y}
#define UP {-1, 0}
#define END {-1, -1}

static const struct glyph_point glyphs[10][GLYPH_STYLES][GLYPH_POINTS] = {
    [0] = {
        {P(38,3), P(22,3), P(6,22), P(2,52), P(10,84), P(30,100), P(50,86), P(58,50), P(53,20), P(38,4), P(24,3), END}, /* oval */
        {P(34,0), P(18,14), P(12,48), P(18,86), P(32,100), P(44,84), P(50,46), P(44,12), P(32,0), END}, /* narrow */
        {P(44,8), P(24,0), P(4,18), P(0,50), P(6,86), P(28,100), P(54,88), P(60,50), P(54,16), P(34,4), P(22,10), END}, /* open top */
        {P(30,0), P(8,14), P(2,50), P(8,86), P(30,100), P(52,86), P(58,50), P(52,14), P(30,0), UP, P(16,80), P(44,20), END}, /* slashed */
    },
    [1] = {
        {P(30,0), P(30,50), P(30,100), END}, /* a bar */
        {P(10,24), CORNER(31,0), P(31,52), P(31,100), END}, /* with a flag */
        {P(14,18), CORNER(31,0), CORNER(31,100), UP, P(8,100), P(54,100), END}, /* flag and foot */
        {P(4,38), P(20,22), CORNER(34,0), P(33,50), P(32,100), END}, /* long flag */
    },
    [2] = {
        {P(6,22), P(16,4), P(34,0), P(52,12), P(52,34), P(34,62), CORNER(4,100), P(30,99), P(58,100), END}, /* printed */
        {P(8,20), P(24,1), P(46,6), P(50,30), P(34,62), P(12,91), P(4,94), P(7,81), P(21,82), P(38,97), P(58,93), END}, /* looped */
        {P(6,24), P(20,2), P(44,2), P(55,22), P(44,48), P(18,78), CORNER(3,98), P(22,91), P(40,99), P(60,92), END}, /* waved foot */
        {P(4,8), P(26,0), P(50,4), P(56,24), P(48,46), P(14,56), P(4,76), CORNER(4,100), P(58,100), END}, /* square */
    },
    [3] = {
        {P(6,12), P(26,0), P(50,10), P(50,34), CORNER(24,47), P(52,57), P(56,82), P(34,100), P(4,88), END}, /* two bowls */
        {P(6,0), CORNER(54,0), CORNER(25,40), P(50,50), P(56,76), P(36,100), P(4,88), END}, /* flat top */
        {P(8,10), P(34,0), P(52,18), P(38,42), P(22,48), P(21,43), P(40,46), P(56,68), P(46,94), P(22,100), P(2,88), END}, /* looped */
        {P(4,6), P(30,0), P(54,16), P(46,42), P(22,47), UP, P(22,47), P(50,54), P(58,78), P(38,98), P(2,96), END}, /* wide */
    },
    [4] = {
        {P(42,100), CORNER(42,0), CORNER(2,66), P(30,66), P(60,66), END}, /* closed */
        {P(12,2), CORNER(4,54), P(30,54), P(58,52), UP, P(46,4), P(44,50), P(42,100), END}, /* open */
        {P(10,0), P(7,30), P(14,51), P(34,53), P(49,38), UP, P(51,0), P(48,50), P(44,100), END}, /* curved */
        {P(47,100), CORNER(48,0), P(26,30), CORNER(6,58), P(46,59), END}, /* no overhang */
    },
    [5] = {
        {P(54,0), CORNER(11,0), CORNER(7,44), P(28,36), P(54,50), P(54,82), P(30,100), P(4,90), END}, /* printed */
        {P(12,4), CORNER(8,43), P(34,38), P(56,60), P(45,92), P(20,100), P(2,90), UP, P(12,4), P(55,0), END}, /* hat last */
        {P(54,5), P(30,0), P(10,14), P(14,38), P(38,52), P(54,72), P(40,98), P(4,94), END}, /* like an S */
        {P(56,2), CORNER(8,0), CORNER(4,50), P(36,44), P(58,58), P(56,86), P(34,99), P(2,98), END}, /* square */
    },
    [6] = {
        {P(46,2), P(20,26), P(4,66), P(14,96), P(40,98), P(56,76), P(44,54), P(20,54), P(6,72), END}, /* swung */
        {P(36,0), P(12,46), P(4,76), P(22,100), P(48,92), P(54,70), P(36,54), P(10,66), END}, /* straight stem */
        {P(54,14), P(36,0), P(12,18), P(3,56), P(12,92), P(34,100), P(56,82), P(52,56), P(30,46), P(6,60), END}, /* hooked */
        {P(24,0), P(10,36), P(5,74), P(16,98), P(38,98), P(50,82), P(40,64), P(20,66), P(8,84), END}, /* small bowl */
    },
    [7] = {
        {P(4,0), CORNER(56,0), P(38,50), P(20,100), END}, /* plain */
        {P(4,2), CORNER(56,0), P(36,50), P(22,100), UP, P(14,53), P(52,48), END}, /* crossed */
        {P(4,6), P(28,2), CORNER(57,2), P(36,44), P(26,100), END}, /* bent */
        {P(4,20), CORNER(5,1), CORNER(58,0), P(34,48), P(26,100), END}, /* serif */
    },
    [8] = {
        {P(52,14), P(30,0), P(8,14), P(14,36), P(44,56), P(56,78), P(30,100), P(4,80), P(14,56), P(46,36), P(53,15), END}, /* one go */
        {P(30,0), P(10,10), P(9,36), P(30,47), P(51,36), P(50,10), P(30,0), UP,
         P(30,47), P(6,60), P(5,88), P(30,100), P(55,88), P(54,60), P(30,47), END}, /* two rings */
        {P(46,6), P(24,1), P(12,20), P(28,44), P(48,66), P(44,94), P(20,98), P(8,76), P(26,50), P(46,26), P(50,6), END}, /* narrow */
        {P(56,8), P(34,0), P(10,8), P(12,34), P(42,54), P(52,80), P(32,99), P(10,86), P(14,62), P(40,40), P(60,4), END}, /* open */
    },
    [9] = {
        {P(52,24), P(34,2), P(8,10), P(4,36), P(22,52), P(46,44), CORNER(54,18), P(52,60), P(46,100), END}, /* swung */
        {P(54,30), P(36,46), P(10,42), P(4,18), P(24,0), P(48,8), P(56,40), P(48,84), P(24,100), P(6,92), END}, /* hooked */
        {P(52,8), P(30,0), P(6,14), P(6,42), P(28,54), P(52,40), UP, P(54,0), P(53,50), P(52,100), END}, /* straight stem */
        {P(48,14), P(28,2), P(12,16), P(16,36), P(34,36), CORNER(50,10), P(44,54), P(28,100), END}, /* small bowl */
    },
};
#undef P
#undef CORNER
#undef UP
#undef END
/* clang-format on */

#endif
