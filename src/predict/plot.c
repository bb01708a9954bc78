/* plot.c: speed-up over workers as an SVG picture, both axes in powers of two.
 *
 * Above the line of 1 more workers help, below it (shaded) they harm. A dot marks each line's best point, and the label
 * at the right names its line in the same colour.
 */
#include "base/buf.h"
#include "predict/predict.h"

#include <math.h>

enum { WIDTH = 880, HEIGHT = 520, LEFT = 70, RIGHT = 230, TOP = 56, BOTTOM = 60 };
#define LOWEST 0.125

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
static const char *const dashes[] = {"", "7 4", "2 3", "9 3 2 3", "", "7 4"};

static double x_of(double workers)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * log2(workers) / log2(LS_PREDICT_MAX_WORKERS);
}

static double y_of(double speedup, double highest)
{
    double s = speedup < LOWEST ? LOWEST : speedup > highest ? highest : speedup;
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * log2(s / LOWEST) / log2(highest / LOWEST);
}

/* The next power of two above all lines, with room for the ideal one. */
static double highest_of(const struct ls_predict_series *series, int n)
{
    double most = 2;
    for (int k = 0; k < n; k++)
        if (series[k].points[series[k].best].speedup > most) most = series[k].points[series[k].best].speedup;
    return exp2(ceil(log2(most) + 0.5));
}

/* A name goes into the picture as text: no markup in it. */
static void add_text(struct ls_buf *b, const char *text)
{
    for (; *text; text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch == '<' || ch == '>' || ch == '&' || ch < ' ' || ch > '~')
            ls__buf_adds(b, "?");
        else
            ls__buf_add(b, text, 1);
    }
}

static void add_axes(struct ls_buf *b, double highest)
{
    double bottom = HEIGHT - BOTTOM, right = WIDTH - RIGHT, one = y_of(1, highest);
    ls__buf_addf(b, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#f3e3e0\"/>\n", LEFT, one,
                 right - LEFT, bottom - one);
    ls__buf_addf(b, "<text x=\"%d\" y=\"%.1f\" fill=\"#a0543f\">slower than one worker</text>\n", LEFT + 8, bottom - 9);
    for (double s = LOWEST; s <= highest; s *= 2) {
        double y = y_of(s, highest);
        ls__buf_addf(b, "<path d=\"M%d %.1fH%.1f\" stroke=\"%s\" stroke-width=\"%s\"/>\n", LEFT, y, right,
                     s == 1 ? "#555" : "#ddd", s == 1 ? "1.5" : "1");
        ls__buf_addf(b,
                     s < 1 ? "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">1/%.0f</text>\n"
                           : "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n",
                     LEFT - 8, y + 4, s < 1 ? 1 / s : s);
    }
    for (double w = 1; w <= LS_PREDICT_MAX_WORKERS; w *= 2) {
        ls__buf_addf(b, "<path d=\"M%.1f %dV%.1f\" stroke=\"#eee\"/>\n", x_of(w), TOP, bottom);
        ls__buf_addf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", x_of(w), bottom + 18, w);
    }
    ls__buf_addf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">workers</text>\n", (LEFT + right) / 2,
                 HEIGHT - 16);
    ls__buf_addf(b,
                 "<text transform=\"translate(20 %.1f) rotate(-90)\" text-anchor=\"middle\">times as fast as one "
                 "worker</text>\n",
                 (TOP + bottom) / 2);
    double end = highest < LS_PREDICT_MAX_WORKERS ? highest : LS_PREDICT_MAX_WORKERS;
    ls__buf_addf(b, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#999\" stroke-dasharray=\"1 4\" stroke-width=\"2\"/>\n",
                 x_of(1), one, x_of(end), y_of(end, highest));
    ls__buf_addf(b, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#777\">ideal</text>\n", x_of(end / 2) + 8,
                 y_of(end / 2, highest) - 2);
}

static void add_line(struct ls_buf *b, const struct ls_predict_series *s, int k, double highest)
{
    int c = k % (int)(sizeof colours / sizeof colours[0]);
    const struct ls_predict_point *best = &s->points[s->best];
    ls__buf_addf(b, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" stroke-dasharray=\"%s\" d=\"", colours[c],
                 dashes[c]);
    for (int i = 0; i < LS_PREDICT_POINTS; i++)
        ls__buf_addf(b, "%c%.1f %.1f", i ? 'L' : 'M', x_of(s->points[i].workers), y_of(s->points[i].speedup, highest));
    ls__buf_addf(b,
                 "\"/>\n<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"%s\" stroke=\"white\" stroke-width=\"1.5\"/>\n",
                 x_of(best->workers), y_of(best->speedup, highest), colours[c]);
}

/* Names in the order of the lines, with their best point in words. */
static void add_legend(struct ls_buf *b, const struct ls_predict_series *s, int k)
{
    int c = k % (int)(sizeof colours / sizeof colours[0]), x = WIDTH - RIGHT + 18, y = TOP + 14 + 46 * k;
    const struct ls_predict_point *best = &s->points[s->best];
    ls__buf_addf(b, "<path d=\"M%d %dh26\" stroke=\"%s\" stroke-width=\"2.5\" stroke-dasharray=\"%s\"/>\n", x, y - 4,
                 colours[c], dashes[c]);
    ls__buf_addf(b, "<text x=\"%d\" y=\"%d\" fill=\"%s\" font-weight=\"bold\">", x + 34, y, colours[c]);
    add_text(b, s->label);
    ls__buf_adds(b, "</text>\n");
    if (best->workers == 1)
        ls__buf_addf(b, "<text x=\"%d\" y=\"%d\">never pays</text>\n", x + 34, y + 17);
    else
        ls__buf_addf(b, "<text x=\"%d\" y=\"%d\">best: %d workers, %.2gx</text>\n", x + 34, y + 17, best->workers,
                     best->speedup);
}

enum ls_status ls_predict_plot(const char *title, const struct ls_predict_series *series, int n, char **svg)
{
    struct ls_buf b = LS_BUF_INIT;
    double highest = highest_of(series, n);
    *svg = NULL;
    ls__buf_addf(&b,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                 "font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n<rect width=\"%d\" height=\"%d\" "
                 "fill=\"white\"/>\n<text x=\"%d\" y=\"30\" font-size=\"16\" font-weight=\"bold\">",
                 WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    add_text(&b, title);
    ls__buf_adds(&b, "</text>\n");
    add_axes(&b, highest);
    for (int k = n - 1; k >= 0; k--) add_line(&b, &series[k], k, highest);
    for (int k = 0; k < n; k++) add_legend(&b, &series[k], k);
    ls__buf_adds(&b, "</svg>\n");
    enum ls_status status = ls__buf_check(&b);
    if (status == LS_OK) *svg = ls__buf_take(&b);
    ls__buf_release(&b);
    return status;
}
