/* progress.h: how far along a long job is, for the person who waits.
 *
 * On a terminal one line in tqdm's look, redrawn at most ten times a second, as wide as the terminal. What does not fit
 * is left out, the least wanted first:
 *
 *     Epoch 3/90:  42%|██████▎        | 164/391 [00:31<00:43, 1:04:11 in all, 677 images/s, loss=1.23]
 *     Epoch 3/90:  42%|█████▊        | [00:43 left, 677 images/s]
 *
 * Otherwise (a file, a pipe, TERM=dumb) plain lines: at most one every ten seconds, and the one at the end.
 * All of it goes to stderr through base/log and is silent when the log level is below LS_LOG_INFO.
 *
 *     struct ls_progress p;
 *     ls__progress_begin(&p, "Epoch 3/90", n_steps);
 *     ls__progress_update(&p, done, "loss=1.23");       cheap: reads a clock
 *     ls__progress_end(&p, "Epoch 3/90: loss 1.20, accuracy 0.61, 5210 images/s");    NULL: just clear the line
 */
#ifndef LS_RUN_PROGRESS_H
#define LS_RUN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_progress {
    char label[64];
    const char *unit;    /* "it"; set after begin: "B" for bytes, shown with k, M, G; " images" */
    int64_t total, done; /* total 0: not known */
    int64_t weight;      /* units per count: images per step; 1 */
    int64_t after;       /* counts of the same kind that follow this bar's: the epochs after this one */
    int64_t first;       /* done at the first update: a resumed job's rate counts only its own work */
    int64_t start_ns, drawn_ns;
    bool is_terminal, is_ascii;
};

void ls__progress_begin(struct ls_progress *p, const char *label, int64_t total);
void ls__progress_start_at(struct ls_progress *p, int64_t done); /* work done before, not counted in the rate */
void ls__progress_update(struct ls_progress *p, int64_t done, const char *note); /* note may be NULL */
void ls__progress_end(struct ls_progress *p, const char *summary);

/* The line alone, `width` columns at most, as drawn after elapsed_ns. For the tests. */
void ls__progress_format(const struct ls_progress *p, int64_t elapsed_ns, const char *note, int width, char *out,
                         size_t size);

#endif
