/* suggest.h: what was probably meant by a misspelt name. */
#ifndef LS_BASE_SUGGEST_H
#define LS_BASE_SUGGEST_H

/* The candidate nearest to word, or NULL if none is near. Call with *best = NULL and *best_distance = -1 first, then
 * for each candidate. */
void ls__suggest(const char *word, const char *candidate, const char **best, int *best_distance);

#endif
