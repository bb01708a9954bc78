/* eval_tables.c: tables on the terminal; see eval_tables.h. */
#include "cli/eval_tables.h"

#include "cli/cmd.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 80, MAX_NAME = 24, MATRIX_NAME = 12, MAX_PAIRS = 20 };

static int name_width(const struct predictions *p, int most)
{
    int width = 5;
    char number[LS_CLASS_TEXT];
    for (int i = 0; i < p->n_classes; i++) {
        int own = ls__columns_of(ls__classes_show(&p->classes, i, number));
        width = own > width ? own : width;
    }
    return width < most ? width : most;
}

/* At most `width` columns; a longer name loses its end. */
static void print_name(const struct predictions *p, int label, int width)
{
    char number[LS_CLASS_TEXT], cut[4 * MAX_NAME + 1];
    const char *name = ls__classes_show(&p->classes, label, number);
    size_t n = 0;
    for (int left = width; n < sizeof cut - 1 && name[n]; n++) {
        left -= ((unsigned char)name[n] & 0xc0) != 0x80;
        if (left < 0) break;
        cut[n] = name[n];
    }
    cut[n] = '\0';
    ls__print_plain(cut, width);
}

static void print_percent(double share)
{
    if (isnan(share))
        printf("  %10s", "-");
    else
        printf("  %8.2f %%", 100 * share);
}

enum ls_status ls__eval_print_classes(const struct predictions *p)
{
    struct class_tally *tallies;
    int width = name_width(p, MAX_NAME);
    double sums[3] = {0}, counts[3] = {0};
    TRY(ls__predictions_tally(p, &tallies));
    printf("\n  %-*s  %8s  %10s  %10s  %10s\n", width, "class", "images", "accuracy", "precision", "F1");
    for (int i = 0; i < p->n_classes; i++) {
        const double shares[3] = {ls__tally_recall(&tallies[i]), ls__tally_precision(&tallies[i]),
                                  ls__tally_f1(&tallies[i])};
        printf("  ");
        print_name(p, i, width);
        printf("  %8" PRId64, tallies[i].support);
        for (int k = 0; k < 3; k++) {
            print_percent(shares[k]);
            if (isnan(shares[k])) continue;
            sums[k] += shares[k];
            counts[k]++;
        }
        printf("\n");
    }
    printf("  %-*s  %8" PRId64, width, "mean", p->n);
    for (int k = 0; k < 3; k++) print_percent(sums[k] / counts[k]);
    printf("\n  (accuracy: the share of the class that was recognised, its recall;\n"
           "   precision: the share of what was taken for it that is it)\n");
    free(tallies);
    return LS_OK;
}

static int digits(int64_t n)
{
    char text[32];
    return snprintf(text, sizeof text, "%" PRId64, n);
}

static enum ls_status print_pairs(const struct predictions *p)
{
    struct confused *pairs;
    size_t n;
    int width = name_width(p, MAX_NAME);
    TRY(ls__predictions_confused(p, &pairs, &n));
    printf("\n  confused most%s\n  %-*s  %-*s  %8s\n", n > MAX_PAIRS ? " (--json has all)" : "", width, "truth", width,
           "taken for", "images");
    for (size_t i = 0; i < n && i < MAX_PAIRS; i++) {
        printf("  ");
        print_name(p, pairs[i].truth, width);
        printf("  ");
        print_name(p, pairs[i].predicted, width);
        printf("  %8" PRId64 "\n", pairs[i].n);
    }
    if (n == 0) printf("  nothing: every answer was right\n");
    free(pairs);
    return LS_OK;
}

/* Whether a name says more than its number. */
static bool has_other_names(const struct predictions *p)
{
    char number[LS_CLASS_TEXT];
    for (int i = 0; i < p->n_classes; i++) {
        const char *name = ls__classes_name(&p->classes, i);
        snprintf(number, sizeof number, "%d", i);
        if (name && strcmp(name, number) != 0) return true;
    }
    return false;
}

static void print_matrix(const struct predictions *p, const int64_t *matrix, int width, int cell)
{
    int number = digits(p->n_classes - 1);
    bool has_names = has_other_names(p);
    printf("\n  rows: the truth; columns: what it was taken for\n  %*s", number + 1 + (has_names ? width + 1 : 0), "");
    for (int i = 0; i < p->n_classes; i++) printf("%*d", cell, i);
    printf("\n");
    for (int i = 0; i < p->n_classes; i++) {
        printf("  %*d ", number, i);
        if (has_names) print_name(p, i, width);
        if (has_names) printf(" ");
        for (int k = 0; k < p->n_classes; k++) {
            int64_t n = matrix[(int64_t)i * p->n_classes + k];
            if (n > 0)
                printf("%*" PRId64, cell, n);
            else
                printf("%*s", cell, ".");
        }
        printf("\n");
    }
}

/* Whether the matrix fits; *cell: columns of a number. */
static bool fits(const struct predictions *p, int width, int *cell)
{
    int64_t largest = p->n_classes - 1, *matrix = NULL;
    if (p->n_classes > COLUMNS / 2 || ls__predictions_matrix(p, &matrix) != LS_OK) return false;
    for (int i = 0; i < p->n_classes * p->n_classes; i++) largest = matrix[i] > largest ? matrix[i] : largest;
    free(matrix);
    *cell = digits(largest) + 1;
    return 2 + digits(p->n_classes - 1) + 1 + width + 1 + p->n_classes * *cell <= COLUMNS;
}

enum ls_status ls__eval_print_confusion(const struct predictions *p)
{
    int width = name_width(p, MATRIX_NAME), cell;
    int64_t *matrix;
    if (!fits(p, width, &cell)) return print_pairs(p);
    TRY(ls__predictions_matrix(p, &matrix));
    print_matrix(p, matrix, width, cell);
    free(matrix);
    return LS_OK;
}
