/* identity.h: what decides the bits of a run, as a list of texts that two runs or two workers can compare.
 *
 * Three classes of keys, compared in this order:
 *   RUN      what is computed: model, data, seed, batch, optimizer, ... Another value is another run.
 *   BITS     how it is computed: version, library, instruction set, chosen kernels. Another value gives other rounding;
 *            a user may accept that when he resumes (--accept-other-bits), workers of one run may not.
 *   TOGETHER what workers of one run must agree on besides, and a resumed run may change: epochs, evaluation.
 * Keys of class NOTE are never compared; they explain a difference of another key: the list of kernels says which layer
 * chose otherwise, the table why.
 *
 * Nothing here depends on the number of threads or workers, nor on the name of the host.
 *
 *     struct identity mine = {0}, theirs = {0};
 *     TRY(ls__identity_of(&mine, o, s));                       and for the wire: ls__identity_to_text,
 * ls__identity_from_text if (ls__identity_differs(&mine, &theirs, IDENTITY_WORKERS, &d))
 *         ... d.key, d.mine, d.theirs, d.advice
 *     ls__identity_release(&mine);
 */
#ifndef LS_TRAIN_IDENTITY_H
#define LS_TRAIN_IDENTITY_H

#include "lockstep/options.h"
#include "session/session.h"

/* enum suffix, key in the metadata of a checkpoint and in JSON, class; in the order of comparison */
#define IDENTITY_MAP(X)                                                                                                \
    X(MODEL, "model", RUN)                                                                                             \
    X(MODEL_HASH, "model_hash", RUN)                                                                                   \
    X(DATA, "data", RUN)                                                                                               \
    X(VALIDATION, "validation", RUN)                                                                                   \
    X(DATA_CHECKSUM, "data_checksum", RUN)                                                                             \
    X(INIT, "init", RUN)                                                                                               \
    X(FREEZE, "freeze", RUN)                                                                                           \
    X(LR_OF, "lr-of", RUN)                                                                                             \
    X(SEED, "seed", RUN)                                                                                               \
    X(BATCH_SIZE, "batch_size", RUN)                                                                                   \
    X(SHARDS, "shards", RUN)                                                                                           \
    X(DEVICE, "device", RUN)                                                                                           \
    X(PRECISION, "precision", RUN) /* absent: f32, as in all runs of before there was another */                       \
    X(OPTIMIZER, "optimizer", RUN)                                                                                     \
    X(SCHEDULE, "schedule", RUN)                                                                                       \
    X(REGULARIZATION, "regularization", RUN)                                                                           \
    X(INPUT, "input", RUN)                                                                                             \
    X(AUGMENT, "augment", RUN) /* absent: nothing beyond crops, as in all runs of before there was more */             \
    X(SUM, "sum", RUN)                                                                                                 \
    X(VERSION, "lockstep.version", BITS)                                                                               \
    X(LIBRARY, "library", BITS)                                                                                        \
    X(ISA, "isa", BITS)                                                                                                \
    X(PLAN_HASH, "plan_hash", BITS)                                                                                    \
    X(OTHER_PLAN_HASHES, "other_plan_hashes", BITS)                                                                    \
    X(EVAL_PLAN_HASH, "eval_plan_hash", TOGETHER)                                                                      \
    X(TEST_CHECKSUM, "test_data_checksum", TOGETHER)                                                                   \
    X(EPOCHS, "epochs", TOGETHER)                                                                                      \
    X(ITERATIONS, "iterations", TOGETHER)                                                                              \
    X(EVENTS, "events", TOGETHER)                                                                                      \
    X(TUNE, "tune", NOTE)                                                                                              \
    X(KERNELS, "kernels", NOTE)

enum identity_key {
#define IDENTITY_ENUM(NAME, key, class) IDENTITY_##NAME,
    IDENTITY_MAP(IDENTITY_ENUM)
#undef IDENTITY_ENUM
        N_IDENTITY
};

struct identity {
    char *values[N_IDENTITY]; /* owned; NULL: not recorded */
};

const char *ls__identity_key_name(enum identity_key key);
/* Stands in checkpoints: all but what a resumed run may change; of that only the epochs, for a warning. */
bool ls__identity_key_is_kept(enum identity_key key);

/* Belongs to runs with an option of that name only. */
bool ls__identity_key_is_optional(enum identity_key key);

/* Of an open session. On failure too, ls__identity_release ends it. */
enum ls_status ls__identity_of(struct identity *id, const struct ls_train_options *o,
                               const struct session *s) LS_MUST_CHECK;
/* What a checkpoint's metadata hold of it. */
enum ls_status ls__identity_of_checkpoint(struct identity *id, const struct ls_ckpt *ckpt) LS_MUST_CHECK;
void ls__identity_release(struct identity *id);

/* As a JSON object of strings, free() it; and back. Keys nobody knows are ignored; anything else than an object of
 * strings is LS_DATA. */
enum ls_status ls__identity_to_text(const struct identity *id, char **json) LS_MUST_CHECK;
enum ls_status ls__identity_from_text(struct identity *id, const char *json, size_t len) LS_MUST_CHECK;

enum identity_scope {
    IDENTITY_RUN,     /* RUN only: what --accept-other-bits still insists on */
    IDENTITY_RESUME,  /* RUN and BITS */
    IDENTITY_WORKERS, /* RUN, BITS and TOGETHER */
};

struct identity_difference {
    enum identity_key key;
    bool is_bits;     /* of class BITS: only the rounding differs */
    char what[32];    /* in words: "instruction set" */
    char mine[160];   /* cut where they are longer; "(not recorded)" */
    char theirs[160]; /* a difference of plans names the first layer: "conv1 (conv2d): dnnl:jit:avx2" */
    char advice[224]; /* what to do on this side: "--isa avx2 ..." */
};

/* The first key, in the order of the list, that is not equal on both sides. A key of class TOGETHER that one side does
 * not have is not compared. */
bool ls__identity_differs(const struct identity *mine, const struct identity *theirs, enum identity_scope scope,
                          struct identity_difference *d);

#endif
