/* carry.h: what a shard carries from one step to the next besides what the store holds, in and out of checkpoints.
 *
 *     --compress         what rounding left over of each gradient; nothing at the beginning of an epoch
 *     --sync local:H     its own copy of everything that is saved; nothing right after an average
 *
 * What it is the way to synchronise says, in a struct carry_kind (sync.h). It belongs to the shard, not to who computes
 * it, and so it lies in a checkpoint: for each tensor NAME of the store one "remainder/NAME" or "local/NAME" of
 * [shards, elements], and which shards in the metadata. (No layer's name has a slash.) The checkpoint on disk has all
 * shards, gathered by rank 0. A copy in the memory of a machine has only those whose state lies there anyway; together
 * the machines have them all.
 *
 *     ls__carry_open                          once, by all ranks
 *     ls__carry_take                          after a resume, from whichever ranks have a part
 *     ls__carry_gather, ls__carry_release     around the writing of a checkpoint
 *     ls__carry_copy, ls__carry_barrier          around the writing of a copy in memory
 *     ls__carry_close
 */
#ifndef LS_TRAIN_CARRY_H
#define LS_TRAIN_CARRY_H

#include "session/session.h"
#include "session/state.h"
#include "train/sync.h"

/* Entries are those of the session's store. */
struct carry_kind {
    const char *prefix;                           /* of a tensor's name in a checkpoint: "local/" */
    const char *stripped;                         /* from the front of an entry's name before; NULL: nothing */
    const char *what;                             /* for the user who misses it */
    bool (*may_carry)(const struct ls_stored *e); /* known before anything is open; perhaps more than is_carried */
    bool (*is_carried)(const struct sync *sync, int entry); /* once open */
    /* Of which shards [*first, *first + *n) this rank can get and set the state. */
    enum ls_status (*open)(struct sync *sync, int *first, int *n);
    bool (*is_due)(const struct sync *sync, const struct train_state *st); /* the same on all ranks */
    enum ls_status (*get)(struct sync *sync, int shard, int entry, float *out);
    enum ls_status (*set)(struct sync *sync, int shard, int entry, const float *in);
};

struct carry;

/* *out stays NULL where nothing is ever carried; every call takes that. Collective. */
enum ls_status ls__carry_open(struct carry **out, struct sync *sync) LS_MUST_CHECK;
void ls__carry_close(struct carry **carry);

/* Tensors for a checkpoint, and of which shards: perhaps of none, on a machine that has none. */
struct carried {
    bool is_due; /* false: nothing is carried at this step */
    struct ls_ckpt_tensor *tensors;
    int n;
    int first, n_shards;
    char *names;
    float *data;
    size_t bytes;
};
/* What a checkpoint may have to hold at the most, without the values (data NULL). Also before ls__carry_open. */
enum ls_status ls__carry_outline(const struct session *s, const struct carry_kind *kind,
                                 struct carried *out) LS_MUST_CHECK;
/* Adds the tensors to a snapshot's list. They stay where they are. */
enum ls_status ls__carry_join(struct snapshot *snap, const struct carried *carried) LS_MUST_CHECK;
/* Collective: rank 0 gets all shards, the others nothing. */
enum ls_status ls__carry_gather(struct carry *carry, const struct train_state *st, struct carried *out) LS_MUST_CHECK;
/* Those that this rank has. Then, however it went, ls__carry_barrier: the next step of any rank of the machine changes
 * what is read here. */
enum ls_status ls__carry_copy(struct carry *carry, const struct train_state *st, struct carried *out) LS_MUST_CHECK;
enum ls_status ls__carry_barrier(struct carry *carry, const struct train_state *st) LS_MUST_CHECK;
void ls__carry_release(struct carried *carried);

/* The shards whose state a checkpoint has, of n_shards; all of them where nothing is carried. False: malformed. */
bool ls__carry_shards_of(const struct ls_ckpt *ckpt, int n_shards, int *first, int *n);

/* Collective. Every rank hands in the checkpoint it has, or NULL; each shard's state is taken from the first rank that
 * has it. Where a checkpoint of an older version has none a warning says what that means. */
enum ls_status ls__carry_take(struct carry *carry, const struct train_state *st, const struct ls_ckpt *ckpt,
                              const char *path) LS_MUST_CHECK;

#endif
