/* setting.h: a setting as data: what a value is called, which values are good, what it means, whom it concerns.
 *
 * ls__settings[] has one entry for each member of struct ls_train_options. Everything else that knows settings reads
 * it: the defaults, the checks and the names of the API (include/lockstep/options.h), the command line with its help,
 * man page and completion (src/cli/options.c, which adds settings of its own), manifest.json, the identity of a run and
 * what a checkpoint records of it.
 *
 * A value lies in a struct at the setting's offset: bool, int64_t, double or const char *. `base` below is the struct.
 * "Not given" is NULL for texts, LS_NOT_GIVEN for reals that say so, and never happens to the others.
 */
#ifndef LS_SETTINGS_SETTING_H
#define LS_SETTINGS_SETTING_H

#include "base/status.h"
#include "lockstep/options.h"

#include <stddef.h>

struct json_t;
struct ls_buf;

enum ls_setting_type {
    LS_SETTING_FLAG,  /* bool; typed as on or off */
    LS_SETTING_INT,   /* int64_t */
    LS_SETTING_REAL,  /* double */
    LS_SETTING_TEXT,  /* const char *, borrowed */
    LS_SETTING_CHOICE /* the same, one of a few words */
};

/* Whom a setting concerns. What the kernels and the instruction set say for themselves (isa, tune) is free here: the
 * identity compares what came of it. */
enum ls_setting_role {
    LS_ROLE_RUN = 1,      /* decides the weights: part of the run's identity */
    LS_ROLE_TOGETHER = 2, /* the workers of a run must agree; a resumed run may change it */
    LS_ROLE_FREE = 4,     /* anybody's own affair */
    LS_ROLE_ALL = 7
};

struct ls_setting {
    const char *name;       /* as typed, without "--": "batch-size" */
    const char *key;        /* in JSON: the member's name, "batch_size" */
    char letter;            /* short, or '\0' */
    const char *aliases[3]; /* other long names */
    const char *arg;        /* name of the value in the help: "N"; NULL for a flag */
    enum ls_setting_type type;
    double min, max;     /* INT, REAL: both inclusive */
    bool is_max_open;    /* REAL: max itself is too much */
    const char *choices; /* CHOICE: "sgd|adamw" */
    /* (optional) TEXT: whether the value is well formed, and in words what it should be */
    bool (*is_valid)(const char *text);
    const char *expected;
    const char *alone;   /* TEXT: the value when none is given; a next word is the value only if is_valid likes it */
    bool takes_dash;     /* TEXT: the value may begin with '-', as arguments for another program do */
    bool follows_others; /* REAL: LS_NOT_GIVEN until ls_options_check; `def` is what it mostly becomes */
    const char *def;     /* default as it would be typed; NULL: not given (flags: off) */
    const char *help;    /* one sentence */
    const char *group;   /* headline in the help; NULL: no option of the command line */
    bool is_of_sitting;  /* of one call: a resumed run does not take it over */
    enum ls_setting_role role;
    const char *part; /* key of the identity that tells it among others: "optimizer"; NULL: none */
    size_t offset;    /* into the struct */
};

enum ls_setting_id {
    LS_SET_MODEL,
    LS_SET_DATA,
    LS_SET_DATA_DIR,
    LS_SET_RUN,
    LS_SET_DEVICE,
    LS_SET_PRECISION,
    LS_SET_ISA,
    LS_SET_TUNE,
    LS_SET_BATCH_SIZE,
    LS_SET_SHARDS,
    LS_SET_THREADS,
    LS_SET_EPOCHS,
    LS_SET_ITERATIONS,
    LS_SET_SEED,
    LS_SET_LOADER_THREADS,
    LS_SET_VALIDATION,
    LS_SET_OPTIMIZER,
    LS_SET_LR,
    LS_SET_MOMENTUM,
    LS_SET_NESTEROV,
    LS_SET_WEIGHT_DECAY,
    LS_SET_BETA1,
    LS_SET_BETA2,
    LS_SET_EPS,
    LS_SET_LABEL_SMOOTHING,
    LS_SET_CLIP_NORM,
    LS_SET_SCHEDULE,
    LS_SET_GAMMA,
    LS_SET_STEP_EPOCHS,
    LS_SET_MILESTONES,
    LS_SET_WARMUP_EPOCHS,
    LS_SET_MIN_LR,
    LS_SET_LR_OF,
    LS_SET_FREEZE,
    LS_SET_INIT,
    LS_SET_INIT_SKIP,
    LS_SET_CROP_PAD,
    LS_SET_FLIP,
    LS_SET_CUTOUT,
    LS_SET_NORMALIZE,
    LS_SET_RESIZE,
    LS_SET_RESIZED_CROP,
    LS_SET_BRIGHTNESS,
    LS_SET_CONTRAST,
    LS_SET_SATURATION,
    LS_SET_HUE,
    LS_SET_ERASING,
    LS_SET_MIXUP,
    LS_SET_CUTMIX,
    LS_SET_RESUME,
    LS_SET_ACCEPT_OTHER_BITS,
    LS_SET_NO_EVAL,
    LS_SET_EVAL_EVERY,
    LS_SET_PATIENCE,
    LS_SET_TARGET,
    LS_SET_CHECKPOINT_EVERY,
    LS_SET_KEEP,
    LS_SET_LOG_EVERY,
    LS_SET_RECORD,
    LS_SET_HISTOGRAMS,
    LS_SET_TRACE,
    LS_SET_TRACE_STEPS,
    LS_SET_QUIET,
    LS_SET_JSON,
    LS_SET_DETERMINISTIC_ONLY,
    LS_SET_MEMORY,
    LS_SET_SYNC,
    LS_SET_WORKERS,
    LS_SET_GPUS,
    LS_SET_TIMEOUT,
    LS_SET_BALANCE,
    LS_SET_RESCUE_EVERY,
    LS_SET_COMPRESS,
    LS_SET_LEASE,
    LS_SET_BACKUP,
    LS_SET_SERVERS,
    LS_SET_SUM,
    LS_N_SETTINGS
};
extern const struct ls_setting ls__settings[LS_N_SETTINGS];

/* --- one setting --- */

/* `name` has `len` bytes and is the setting's name or an alias; '_' counts as '-'. */
bool ls__setting_is_named(const struct ls_setting *s, const char *name, size_t len);
/* Texts are borrowed. LS_USAGE for a value that is not good: "--lr x: expected a number from 0 to 1000000". */
enum ls_status ls__setting_store(const struct ls_setting *s, void *base, const char *value) LS_MUST_CHECK;
/* The same check for a value that is there already. */
enum ls_status ls__setting_check(const struct ls_setting *s, const void *base) LS_MUST_CHECK;
void ls__setting_reset(const struct ls_setting *s, void *base); /* to its default */
bool ls__setting_is_there(const struct ls_setting *s, const void *base);
/* As it would be typed, so that ls__setting_store gives the same again; nothing if it is not given. Returns the length,
 * as snprintf does. */
size_t ls__setting_print(const struct ls_setting *s, const void *base, char *text, size_t size);
/* null if it is not given; NULL if memory is short. */
struct json_t *ls__setting_json(const struct ls_setting *s, const void *base);
/* From an object that ls__options_json made. Texts are borrowed from it; a key that is not there, or null, changes
 * nothing. */
enum ls_status ls__setting_from_json(const struct ls_setting *s, void *base, const struct json_t *object) LS_MUST_CHECK;

/* --- all of a training --- */

const struct ls_setting *ls__setting_find(const char *name); /* NULL: none */
/* Those of the roles, by key; NULL if memory is short. */
struct json_t *ls__options_json(const struct ls_train_options *o, unsigned roles);
/* What is not given gets its default, `auto` becomes a device: nothing that could fail. */
void ls__options_complete(struct ls_train_options *o);
/* LS_USAGE if this build has no such device. */
enum ls_status ls__options_check_device(struct ls_train_options *o) LS_MUST_CHECK;
/* The settings of one part of the identity: "sgd lr=0.050000000000000003 momentum=..."; the setting that gives the part
 * its name stands without it. Checkpoints keep and compare these texts: the form never changes, and neither does the
 * order. */
void ls__options_add_part(struct ls_buf *b, const struct ls_train_options *o, const char *part);

#endif
