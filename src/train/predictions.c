/* predictions.c: counts over the guesses of predictions.h: top-k, recall, precision, F1, the confusion matrix. */
#include "train/predictions.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

void ls__predictions_release(struct predictions *p)
{
    free(p->labels);
    free(p->guesses);
    ls__names_release(&p->files);
    ls__classes_release(&p->classes);
    *p = (struct predictions){.n = 0};
}

static int said(const struct predictions *p, int64_t sample)
{
    return p->guesses[sample * p->k].label;
}

double ls__predictions_top(const struct predictions *p, int k)
{
    int64_t n_right = 0;
    for (int64_t i = 0; i < p->n; i++)
        for (int j = 0; j < k && j < p->k; j++) n_right += p->guesses[i * p->k + j].label == p->labels[i];
    return (double)n_right / (double)p->n;
}

static double share(int64_t part, int64_t of)
{
    return of > 0 ? (double)part / (double)of : NAN;
}

double ls__tally_recall(const struct class_tally *t)
{
    return share(t->right, t->support);
}

double ls__tally_precision(const struct class_tally *t)
{
    return share(t->right, t->predicted);
}

double ls__tally_f1(const struct class_tally *t)
{
    return share(2 * t->right, t->support + t->predicted);
}

enum ls_status ls__predictions_tally(const struct predictions *p, struct class_tally **tallies)
{
    TRY(ls__calloc(tallies, (size_t)p->n_classes, sizeof **tallies));
    for (int64_t i = 0; i < p->n; i++) {
        (*tallies)[p->labels[i]].support++;
        (*tallies)[said(p, i)].predicted++;
        (*tallies)[said(p, i)].right += said(p, i) == p->labels[i];
    }
    return LS_OK;
}

enum ls_status ls__predictions_matrix(const struct predictions *p, int64_t **matrix)
{
    TRY(ls__calloc(matrix, (size_t)p->n_classes * (size_t)p->n_classes, sizeof **matrix));
    for (int64_t i = 0; i < p->n; i++) (*matrix)[(int64_t)p->labels[i] * p->n_classes + said(p, i)]++;
    return LS_OK;
}

static int by_classes(const void *a, const void *b)
{
    const struct confused *x = a, *y = b;
    return x->truth != y->truth ? x->truth - y->truth : x->predicted - y->predicted;
}

static int by_count(const void *a, const void *b)
{
    const struct confused *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : by_classes(a, b);
}

enum ls_status ls__predictions_confused(const struct predictions *p, struct confused **pairs, size_t *n_pairs)
{
    size_t n_wrong = 0, n = 0;
    TRY(ls__calloc(pairs, (size_t)p->n + 1, sizeof **pairs));
    struct confused *all = *pairs;
    for (int64_t i = 0; i < p->n; i++)
        if (said(p, i) != p->labels[i]) all[n_wrong++] = (struct confused){p->labels[i], said(p, i), 1};
    qsort(all, n_wrong, sizeof *all, by_classes);
    for (size_t i = 0; i < n_wrong; i++) {
        if (n > 0 && by_classes(&all[n - 1], &all[i]) == 0)
            all[n - 1].n++;
        else
            all[n++] = all[i];
    }
    qsort(all, n, sizeof *all, by_count);
    *n_pairs = n;
    return LS_OK;
}
