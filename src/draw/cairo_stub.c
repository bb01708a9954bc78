/* cairo_stub.c: in the place of cairo_real.c where cairo is missing: SVG only. */
#include "draw/painter.h"

const struct ls_painter_ops ls__cairo_painter; /* never used: ls__cairo_load refuses */

enum ls_status ls__cairo_load(void)
{
    return ls_fail(LS_UNSUPPORTED,
                   "PNG and PDF need cairo, which this build has not; draw .svg, or install libcairo2-dev "
                   "and build again");
}
