/* suggest.c: see suggest.h. Near is counted in edits, more of them for longer words. */
#include "base/suggest.h"

#include <stdbool.h>
#include <string.h>

/* Edits (insert, delete, replace, swap of neighbours) from a to b; both are cut at 39 bytes. */
static int distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    int d[MAX][MAX], na = (int)strnlen(a, MAX - 1), nb = (int)strnlen(b, MAX - 1);
    for (int i = 0; i <= na; i++) d[i][0] = i;
    for (int j = 0; j <= nb; j++) d[0][j] = j;
    for (int i = 1; i <= na; i++) {
        for (int j = 1; j <= nb; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (is_swap && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[na][nb];
}

void ls__suggest(const char *word, const char *candidate, const char **best, int *best_distance)
{
    size_t len = strlen(word);
    int limit = len < 4 ? 1 : len < 8 ? 2 : 3;
    int d = distance(word, candidate);
    /* "--batch" for "--batch-size": the beginning of a name is near, whatever is left. */
    if (len >= 3 && strncmp(word, candidate, len) == 0 && d > limit) d = limit;
    if (d > limit || (*best_distance >= 0 && d >= *best_distance)) return;
    *best = candidate;
    *best_distance = d;
}
