/* picture.c: speed-up over workers, both axes in powers of two. What is below 1 is tinted: there more workers harm. A
 * name tells the best point of its line. Of lines that coincide the later is drawn wider, below the other.
 */
#include "draw/draw.h"
#include "predict/predict.h"

#include <math.h>
#include <stdio.h>

enum { MAX_LINES = 8 };

struct picture {
    double workers[LS_PREDICT_POINTS], speedups[MAX_LINES][LS_PREDICT_POINTS];
    char names[MAX_LINES][128];
    struct ls_draw_series lines[MAX_LINES + 1];
};

static bool is_same(const struct ls_predict_series *a, const struct ls_predict_series *b)
{
    for (int i = 0; i < LS_PREDICT_POINTS; i++)
        if (fabs(a->points[i].speedup / b->points[i].speedup - 1) > 0.03) return false;
    return true;
}

static void name_line(char *out, size_t size, const struct ls_predict_series *s)
{
    const struct ls_predict_point *best = &s->points[s->best];
    if (best->workers == 1)
        snprintf(out, size, "%.60s: never pays", s->label);
    else
        snprintf(out, size, "%.60s: %.3gx with %d", s->label, best->speedup, best->workers);
}

/* From 1/16, where nobody wants to be (lines go on below), to the power of two above all lines. */
static struct ls_draw_axis speed_axis(const struct ls_predict_series *series, int n)
{
    double most = 2;
    for (int k = 0; k < n; k++) most = fmax(most, series[k].points[series[k].best].speedup);
    return (struct ls_draw_axis){.label = "times as fast as one worker",
                                 .scale = LS_DRAW_LOG2,
                                 .is_given = true,
                                 .from = 0.0625,
                                 .to = exp2(ceil(log2(most) + 0.5))};
}

enum ls_status ls_predict_draw(const char *title, const struct ls_predict_series *series, int n, const char *path)
{
    struct picture p = {0};
    if (n > MAX_LINES) n = MAX_LINES;
    for (int i = 0; i < LS_PREDICT_POINTS; i++) p.workers[i] = series[0].points[i].workers;
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < LS_PREDICT_POINTS; i++) p.speedups[k][i] = series[k].points[i].speedup;
        name_line(p.names[k], sizeof p.names[k], &series[k]);
        p.lines[k] = (struct ls_draw_series){
            .label = p.names[k], .n = LS_PREDICT_POINTS, .x = p.workers, .y = p.speedups[k], .has_points = true};
        for (int j = 0; j < k; j++) p.lines[k].behind += is_same(&series[j], &series[k]);
        if (p.lines[k].behind) p.lines[k].has_points = false;
    }
    p.lines[n] = (struct ls_draw_series){
        .label = "ideal", .mode = LS_DRAW_IDEAL, .n = LS_PREDICT_POINTS, .x = p.workers, .y = p.workers};
    const struct ls_draw_level one = {.at = 1, .text = "slower than one worker", .is_shaded = true};
    const struct ls_draw_panel panel = {.x = {.label = "workers", .scale = LS_DRAW_LOG2},
                                        .y = speed_axis(series, n),
                                        .series = p.lines,
                                        .n_series = n + 1,
                                        .levels = &one,
                                        .n_levels = 1,
                                        .height = 420};
    const struct ls_draw_picture picture = {.title = title, .panels = &panel, .n_panels = 1};
    return ls_draw_write(&picture, path);
}
