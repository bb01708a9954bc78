/* theme.c: the colours. The palette is Okabe and Ito's, a little darker on white and lighter on black, so that thin
 * lines and their names can be read; neighbours differ in lightness too.
 */
#include "draw/painter.h"

static const unsigned light[LS_N_INKS] = {
    [LS_INK_BACK] = 0xffffff,       [LS_INK_EDGE] = 0xd7dce2,       [LS_INK_GRID] = 0xe6e9ed,
    [LS_INK_AXIS] = 0x8a939e,       [LS_INK_TEXT] = 0x1f2328,       [LS_INK_FAINT] = 0x59636e,
    [LS_INK_BAD] = 0xb8432f,        [LS_INK_SERIES] = 0x0072b2,     [LS_INK_SERIES + 1] = 0xd55e00,
    [LS_INK_SERIES + 2] = 0x008f68, [LS_INK_SERIES + 3] = 0xb0508c, [LS_INK_SERIES + 4] = 0xc98600,
    [LS_INK_SERIES + 5] = 0x3a9bdc, [LS_INK_SERIES + 6] = 0x4b5563, [LS_INK_SERIES + 7] = 0x8a6d3b,
};

static const unsigned dark[LS_N_INKS] = {
    [LS_INK_BACK] = 0x0d1117,       [LS_INK_EDGE] = 0x30363d,       [LS_INK_GRID] = 0x262c36,
    [LS_INK_AXIS] = 0x7d8590,       [LS_INK_TEXT] = 0xe6edf3,       [LS_INK_FAINT] = 0x9198a1,
    [LS_INK_BAD] = 0xf0806a,        [LS_INK_SERIES] = 0x4ba3e3,     [LS_INK_SERIES + 1] = 0xf5813f,
    [LS_INK_SERIES + 2] = 0x2fbf94, [LS_INK_SERIES + 3] = 0xdb86bd, [LS_INK_SERIES + 4] = 0xf0b429,
    [LS_INK_SERIES + 5] = 0x9ad1f5, [LS_INK_SERIES + 6] = 0xc3ccd6, [LS_INK_SERIES + 7] = 0xc9a66b,
};

const double ls__dashes[5][4] = {{0}, {5, 4}, {1.5, 3.5}, {10, 4}, {9, 3, 2, 3}};

unsigned ls__ink_rgb(enum ls_ink ink, bool is_dark)
{
    return is_dark ? dark[ink] : light[ink];
}
