/* tables.c: see tables.h. The files may hold anything: what is no number is an empty cell. */
#include "report/tables.h"

#include "report/words.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How a number is told. */
enum told { COUNT, NUMBER, PERCENT, SECONDS, BYTES };

static const char *tell(struct ls_page *p, double value, enum told as)
{
    switch (as) {
    case COUNT:
        return ls__say_count(p, value);
    case NUMBER:
        return ls__say_number(p, value);
    case PERCENT:
        return ls__say_percent(p, value, 2);
    case SECONDS:
        return value == 0 ? "0 s" : ls__say_seconds(p, value);
    case BYTES:
        return ls__say_bytes(p, value);
    }
    return "";
}

struct column {
    const char *head, *name;
    enum told as;
};

/* --- ranks --- */

enum { MOST_ROWS = 64 };

static int n_ranks_of(const struct ls_curve *c)
{
    const double *ranks = ls_curve_values(c, "rank");
    double most = 0;
    for (size_t i = 0; ranks && i < c->n; i++)
        if (ranks[i] > most) most = ranks[i];
    return 1 + (int)fmin(most, 1e6);
}

static void add_epochs(struct ls_page *p, const struct ls_curve *c)
{
    static const struct column columns[] = {
        {"epoch", "epoch", COUNT},         {"rank", "rank", COUNT},         {"loss", "loss", NUMBER},
        {"accuracy", "accuracy", PERCENT}, {"learning rate", "lr", NUMBER}, {"images", "images", COUNT},
        {"wall time", "seconds", SECONDS}, {"compute", "compute", SECONDS}, {"comm.", "communicate", SECONDS},
        {"wait", "wait", SECONDS},         {"sent", "bytes_sent", BYTES},   {"received", "bytes_received", BYTES}};
    enum { N = sizeof columns / sizeof columns[0] };
    const char *cells[N];
    const size_t n_ranks = (size_t)n_ranks_of(c), fit = MOST_ROWS / n_ranks ? MOST_ROWS / n_ranks * n_ranks : n_ranks,
                 first = c->n > fit ? c->n - fit : 0;
    for (int k = 0; k < N; k++) cells[k] = columns[k].head;
    ls__page_row(p, cells, N);
    for (size_t i = first; i < c->n && i < first + MOST_ROWS; i++) {
        for (int k = 0; k < N; k++) {
            const double *values = ls_curve_values(c, columns[k].name);
            cells[k] = values ? tell(p, values[i], columns[k].as) : "";
        }
        ls__page_row(p, cells, N);
    }
    if (first > 0 || c->n > first + MOST_ROWS || c->every > 1)
        ls__page_note(p, "The last rows of %zu; all are in ranks.csv.", c->n_seen);
}

/* What each did in all, over the last sitting. */
static void add_sums(struct ls_page *p, json_t *ranks)
{
    static const struct column columns[] = {{"images", "images", COUNT},   {"wall time", "total_seconds", SECONDS},
                                            {"load", "load", SECONDS},     {"compute", "compute", SECONDS},
                                            {"update", "update", SECONDS}, {"comm.", "communicate", SECONDS},
                                            {"hidden", "hidden", SECONDS}, {"wait", "wait", SECONDS},
                                            {"sent", "bytes_sent", BYTES}, {"received", "bytes_received", BYTES}};
    enum { N = sizeof columns / sizeof columns[0] };
    const char *cells[N + 2] = {"rank", "host"};
    if (json_array_size(ranks) < 2) return;
    for (int k = 0; k < N; k++) cells[k + 2] = columns[k].head;
    ls__page_text(p, "In all:");
    ls__page_row(p, cells, N + 2);
    for (size_t i = 0; i < json_array_size(ranks) && i < MOST_ROWS; i++) {
        json_t *rank = json_array_get(ranks, i);
        const char *host = json_string_value(json_object_get(rank, "host"));
        cells[0] = ls__page_format(p, "%zu", i);
        cells[1] = host ? ls__page_format(p, "%.64s", host) : "";
        for (int k = 0; k < N; k++) {
            json_t *value = json_object_get(rank, columns[k].name);
            cells[k + 2] = json_is_number(value) ? tell(p, json_number_value(value), columns[k].as) : "";
        }
        ls__page_row(p, cells, N + 2);
    }
}

void ls__table_ranks(struct ls_page *p, const struct ls_history *h)
{
    const struct ls_curve *rows = ls_history_rank_rows(h);
    json_t *ranks = json_object_get((json_t *)ls_history_result(h), "ranks");
    if (rows) {
        ls__page_heading(p, n_ranks_of(rows) > 1 ? "Epochs and ranks" : "Epochs");
        add_epochs(p, rows);
    } else if (json_array_size(ranks) > 1) {
        ls__page_heading(p, "Ranks");
    }
    add_sums(p, ranks);
}

/* --- layers --- */

struct layer {
    const char *name, *op;
    double forward, backward, update, share;
    size_t place; /* in the network */
};

static double number_of(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_number(value) && json_number_value(value) > 0 ? json_number_value(value) : 0;
}

static size_t take_layers(struct ls_page *p, json_t *list, struct layer *out)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *row = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(row, "layer")),
                   *op = json_string_value(json_object_get(row, "op"));
        if (!name) continue;
        out[n] = (struct layer){.name = ls__page_format(p, "%.100s", name),
                                .op = op ? ls__page_format(p, "%.40s", op) : "",
                                .forward = number_of(row, "forward_seconds"),
                                .backward = number_of(row, "backward_seconds"),
                                .update = number_of(row, "update_seconds"),
                                .share = number_of(row, "share"),
                                .place = n};
        n++;
    }
    return n;
}

static int dearest_first(const void *a, const void *b)
{
    const struct layer *l = a, *r = b;
    if (l->share != r->share) return l->share > r->share ? -1 : 1;
    return l->place < r->place ? -1 : 1;
}

static int as_in_network(const void *a, const void *b)
{
    const struct layer *l = a, *r = b;
    return l->place < r->place ? -1 : 1;
}

static const struct ls_draw_picture *figure_layers(struct ls_page *p, const struct layer *layers, size_t n)
{
    static const char *const labels[] = {"forward", "backward", "update"};
    struct ls_draw_picture *picture = ls__page_alloc(p, 1, sizeof *picture);
    struct ls_draw_panel *panel = ls__page_alloc(p, 1, sizeof *panel);
    struct ls_draw_series *series = ls__page_alloc(p, 3, sizeof *series);
    const char **names = ls__page_alloc(p, n, sizeof *names);
    if (!picture || !panel || !series || !names) return NULL;
    for (int k = 0; k < 3; k++) {
        double *y = ls__page_alloc(p, n, sizeof *y);
        for (size_t i = 0; y && i < n; i++)
            y[i] = k == 0 ? layers[i].forward : k == 1 ? layers[i].backward : layers[i].update;
        series[k] = (struct ls_draw_series){.label = labels[k], .n = y ? n : 0, .y = y};
    }
    for (size_t i = 0; i < n; i++) names[i] = layers[i].name;
    *panel = (struct ls_draw_panel){.kind = LS_DRAW_BARS,
                                    .y = {.label = "CPU time of a step", .unit = LS_DRAW_SECONDS},
                                    .series = series,
                                    .n_series = 3,
                                    .names = names,
                                    .is_stacked = true};
    *picture = (struct ls_draw_picture){.panels = panel, .n_panels = 1, .n_columns = 1};
    return picture;
}

static void add_layer_rows(struct ls_page *p, const struct layer *layers, size_t n)
{
    static const char *const head[] = {"layer", "op", "forward", "backward", "update", "share"};
    ls__page_row(p, head, 6);
    for (size_t i = 0; i < n; i++) {
        const struct layer *l = &layers[i];
        const char *const cells[] = {l->name,
                                     l->op,
                                     tell(p, l->forward, SECONDS),
                                     l->backward > 0 ? tell(p, l->backward, SECONDS) : "",
                                     l->update > 0 ? tell(p, l->update, SECONDS) : "",
                                     ls__say_percent(p, l->share, 1)};
        ls__page_row(p, cells, 6);
    }
}

bool ls__table_layers(struct ls_page *p, const struct ls_history *h)
{
    enum { DRAWN = 24, LISTED = 48 };
    json_t *list = json_object_get((json_t *)ls_history_result(h), "layers");
    struct layer *layers = ls__page_alloc(p, json_array_size(list) + 1, sizeof *layers);
    size_t n = layers ? take_layers(p, list, layers) : 0, listed = n < LISTED ? n : LISTED;
    double rest = 0;
    if (n == 0) return false;
    qsort(layers, n, sizeof *layers, dearest_first);
    for (size_t i = listed; i < n; i++) rest += layers[i].share;
    struct layer *drawn = ls__page_alloc(p, DRAWN, sizeof *drawn);
    const size_t n_drawn = n < DRAWN ? n : DRAWN;
    if (!drawn) return false;
    memcpy(drawn, layers, n_drawn * sizeof *drawn);
    qsort(drawn, n_drawn, sizeof *drawn, as_in_network);
    ls__page_figure(p, "layers", figure_layers(p, drawn, n_drawn));
    qsort(layers, listed, sizeof *layers, as_in_network);
    add_layer_rows(p, layers, listed);
    if (listed < n)
        ls__page_note(p, "The %zu that cost most, in the order of the network; the other %zu have %.1f %% of the time.",
                      listed, n - listed, 100 * rest);
    ls__page_note(
        p, "CPU time of a step, all threads together, measured in a few steps of the run. `(layouts)` are copies "
           "between the orders in memory that neighbours want.");
    return true;
}
