/* local.h: what the files of --sync local:H share: sync_local.c, the way itself, and local_average.c, the average of
 * its replicas.
 */
#ifndef LS_TRAIN_LOCAL_H
#define LS_TRAIN_LOCAL_H

#include "base/pool.h"
#include "train/sync.h"

/* Words behind the averaged values in the block. */
enum { WORD_LOSS, WORD_CORRECT, WORD_SAMPLES, WORD_STOP, WORD_SAVE, N_WORDS = 8 };

struct piece {
    int entry;
    int64_t begin, end;      /* elements of the entry */
    int64_t at, at_exponent; /* of the block; of the list of exponents */
};

struct local {
    struct session *s;
    struct ls_comm *comm;
    int64_t period;
    bool is_averaged;             /* all replicas are equal: no step since the last average */
    int n_replicas, first, n_own; /* in all; this rank's */
    struct session *replicas;     /* [n_own] */
    struct ls_exec_stats *stats;  /* [n_own] of the present step */
    struct ls_exec_stats sum;     /* since the last barrier */
    struct ls_pool *pool;
    struct piece *pieces;
    int n_pieces;
    int64_t n_values, n_exponents;
    uint8_t *exponents;           /* [n_exponents] of the pieces' blocks of elements */
    uint8_t *gathered;            /* [n_ranks] of these; rank 0's */
    int64_t *block;               /* [n_values + N_WORDS], the machine's */
    struct ls_stored_part *saved; /* [n_saved] all that is averaged, whole, in the order of the pieces */
    int n_saved;
    float *plain; /* [n_values] where the device has memory of its own: a copy of one replica's, or the mean */
};

/* Every replica takes over the session's values. */
enum ls_status ls__local_hand_out(struct local *l) LS_MUST_CHECK;
/* The average of all replicas becomes the session's values and, unless is_view, every replica's. Collective. */
enum ls_status ls__local_average(struct local *l, bool is_view, struct ls_exec_stats *stats) LS_MUST_CHECK;

#endif
