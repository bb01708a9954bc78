/* curve.c: columns of numbers that grow and stay bounded. */
#include "base/mem.h"
#include "history/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int ls__curve_column(struct ls_curve *c, const char *name, size_t len)
{
    if (len >= LS_NAME_BYTES) len = LS_NAME_BYTES - 1;
    for (int i = 0; i < c->n_values; i++)
        if (strlen(c->names[i]) == len && memcmp(c->names[i], name, len) == 0) return i;
    if (c->n_values == LS_MAX_VALUES) return -1;
    int i = c->n_values;
    if (c->cap && ls__calloc(&c->values[i], c->cap, sizeof(double)) != LS_OK) return -1;
    for (size_t k = 0; k < c->n; k++) c->values[i][k] = NAN;
    memcpy(c->names[i], name, len);
    c->names[i][len] = '\0';
    return c->n_values++;
}

/* Every other point goes. */
static void halve(struct ls_curve *c)
{
    for (int i = 0; i < c->n_values; i++)
        for (size_t k = 0; 2 * k < c->n; k++) c->values[i][k] = c->values[i][2 * k];
    c->n = (c->n + 1) / 2;
    c->every *= 2;
}

enum ls_status ls__curve_add(struct ls_curve *c, const double *values)
{
    if (c->every == 0) c->every = 1;
    if (c->n_seen++ % c->every != 0) return LS_OK;
    if (c->n == LS_CURVE_POINTS) {
        halve(c);
        if ((c->n_seen - 1) % c->every != 0) return LS_OK;
    }
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 64;
        for (int i = 0; i < c->n_values; i++) TRY(ls__grow(&c->values[i], c->cap, cap, sizeof(double)));
        c->cap = cap;
    }
    for (int i = 0; i < c->n_values; i++) c->values[i][c->n] = values[i];
    c->n++;
    return LS_OK;
}

void ls__curve_release(struct ls_curve *c)
{
    for (int i = 0; i < c->n_values; i++) free(c->values[i]);
    memset(c, 0, sizeof *c);
}

const double *ls_curve_values(const struct ls_curve *c, const char *name)
{
    for (int i = 0; c && i < c->n_values; i++)
        if (strcmp(c->names[i], name) == 0) return c->values[i];
    return NULL;
}

double ls_curve_last(const struct ls_curve *c, const char *name)
{
    const double *values = ls_curve_values(c, name);
    return values && c->n ? values[c->n - 1] : NAN;
}
