/* options.h: the command line as data: one table of commands, one table of options.
 *
 * From the two tables come the parser (args.c), the help texts, the man page and the shell completion (help.c). Adding
 * an option is one entry in options.c; its setting is the library's (settings/setting.h) or, with a member in struct
 * ls_options, the command line's own. The tests walk the table and check the rest.
 *
 *     struct ls_options o;
 *     TRY(ls__options_parse(&o, LS_CMD_TRAIN, argc, argv));     argv without program and command
 *     TRY(ls__options_resolve(&o, LS_CMD_TRAIN));               cross-checks, values that follow from others
 *     ls__options_release(&o);                                  after a failure too
 *
 * All strings in the result are borrowed from argv, the tables and a run that is resumed. Every failure of the first
 * two is LS_USAGE.
 */
#ifndef LS_CLI_OPTIONS_H
#define LS_CLI_OPTIONS_H

#include "lockstep/measure.h"
#include "lockstep/train.h"
#include "nodes/cable.h"
#include "settings/setting.h"

enum ls_cmd {
    LS_CMD_TRAIN,
    LS_CMD_EVAL,
    LS_CMD_CLASSIFY,
    LS_CMD_EXPORT,
    LS_CMD_BENCH,
    LS_CMD_PLAN,
    LS_CMD_TUNE,
    LS_CMD_PREDICT,
    LS_CMD_MODELS,
    LS_CMD_DATA,
    LS_CMD_INSPECT,
    LS_CMD_REPORT,
    LS_CMD_SHOW,
    LS_CMD_WATCH,
    LS_CMD_DIFF,
    LS_CMD_SERVE,
    LS_CMD_SERVER,
    LS_CMD_PLOT,
    LS_CMD_RECORD,
    LS_CMD_LAB,
    LS_CMD_SWEEP,
    LS_CMD_DOCTOR,
    LS_CMD_HELP,
    LS_N_CMDS
};

struct ls_example {
    const char *line, *what;
};

struct ls_command {
    const char *name;
    const char *args; /* "MODEL DATA", for the usage line */
    int min_args, max_args;
    bool takes_rest;               /* what follows "--" is a command of its own */
    const char *summary;           /* one line, for the list of commands */
    const char *text;              /* what it does and where its results go; paragraphs apart by '\n' */
    struct ls_example examples[7]; /* ends with line NULL */
};
extern const struct ls_command ls__commands[LS_N_CMDS];

enum { LS_MAX_ARGS = 256, LS_MAX_VARIES = 16, LS_ANY_ARGS = 1 << 30 /* of max_args: as many as there are */ };

/* The values of all options. Commands share members: eval's --batch-size is train.batch_size too. */
struct ls_options {
    struct ls_train_options train; /* first: see options.c */
    int64_t procs_per_node, max_restarts;
    int64_t nodes;            /* train; 0: not told */
    int64_t repeat;           /* train, sweep */
    int64_t batch_per_worker; /* train; 0: --batch-size counts */
    const char *slow;         /* train */
    const char *hosts, *mpi_args;
    int64_t rank; /* train: of nodes that are started one by one */
    const char *master, *key;
    char served_at[300]; /* train, meet.h: such a node of a job with a parameter server, which is rank 0's; or "" */
    int64_t served_nodes;
    int64_t steps, warmup_steps; /* bench */
    double seconds;
    bool layers;
    const char *output;              /* tune, predict, plot */
    const char *network;             /* predict, train */
    const char *latency, *bandwidth; /* predict */
    bool probe;
    int64_t classes; /* models, plan; 0: the model's usual */
    const char *input;
    const char *log, *log_format, *plot; /* record */
    double interval, duration;
    bool include_children, include_io;
    const char *model; /* eval: the network of a file that does not name its own */
    const char *url;   /* data fetch */
    int64_t top;       /* eval, classify */
    const char *csv;   /* classify */
    bool per_class;    /* eval */
    const char *confusion;
    const char *onnx, *safetensors, *pixels; /* export */
    bool fold, force;
    const char *title, *marks; /* plot */
    const char *scale, *only;  /* lab */
    bool stand_in, is_public;
    const char *vary; /* sweep: the last; all: */
    const char *varies[LS_MAX_VARIES];
    int n_varies;
    int64_t port; /* serve */
    const char *listen, *token;
    const char *server; /* train: of a worker */
    const char *keygen; /* server */
    const char *chief;  /* server: of one more */
    bool man;           /* help */
    const char *completion;
    bool verbose, help;

    const char *args[LS_MAX_ARGS]; /* positional: the first of them */
    const char **all_args;         /* [n_args] of a command that was given more than that; NULL: args has all */
    int n_args;
    char *const *rest; /* behind "--", of a command that takes it; ends with NULL as argv does */
    int n_rest;
    struct json_t *recorded, *recorded_launch; /* owned: texts of a run that is resumed lie in them */
    uint64_t given[3];                         /* one bit per entry of the table: on the command line */
};

struct ls_option {
    const struct ls_setting *setting;
    unsigned commands; /* bit (1u << LS_CMD_x) for each command that takes it */
};
extern const struct ls_option ls__options[]; /* ends with setting NULL */

int ls__options_count(void);
bool ls__option_is_of(const struct ls_option *option, enum ls_cmd cmd);
/* By long name or alias, '_' counting as '-'; NULL if there is none. */
const struct ls_option *ls__option_find(const char *name);
bool ls__option_is_given(const struct ls_options *o, const char *name);

void ls__option_mark_given(struct ls_options *o, const struct ls_option *option);

void ls__options_default(struct ls_options *o);
/* --resume RUN: what was not given is as the run has it (going_on.c). Before resolve. */
enum ls_status ls__options_go_on(struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__options_parse(struct ls_options *o, enum ls_cmd cmd, int argc, char *const *argv) LS_MUST_CHECK;
void ls__options_release(struct ls_options *o); /* after a failure too */
/* The positional arguments from the i-th on; *n of them. */
const char *const *ls__options_args(const struct ls_options *o, int i, int *n);
enum ls_status ls__options_resolve(struct ls_options *o, enum ls_cmd cmd) LS_MUST_CHECK;
int64_t ls__count_hosts(const char *hosts); /* of "a,b,c"; NULL: 0 */
/* LS_USAGE for the first option that was given and is not among `names`, which ends with NULL: `who` and `where`
 * ("--server", "10.0.0.1:4711") decide it. */
enum ls_status ls__options_only(const struct ls_options *o, const char *const *names, const char *who,
                                const char *where) LS_MUST_CHECK;
/* One warning for each option that was given and does nothing beside the others (unused.c). After resolve. */
void ls__options_warn_unused(const struct ls_options *o, enum ls_cmd cmd);
/* When an option has an effect: *only in words, NULL: always. False if unused.c does not say it: every option of a
 * training stands there. */
bool ls__option_effect(const char *name, const char **only);

/* A growing list of arguments; argv ends with NULL. The first failure stays in status and ends all adding. */
struct ls_words {
    char **argv;
    int n;
    enum ls_status status;
};
void ls__words_add(struct ls_words *w, const char *word);
void ls__words_add_option(struct ls_words *w, const char *name, const char *value);
/* The arguments and the options that were given, so that parsing them gives `o` again; not those named in `without`,
 * which ends with NULL. After ls__words_add_options nothing but options may follow, unless an argument begins with '-':
 * then nothing may. */
void ls__words_add_options(struct ls_words *w, const struct ls_options *o, const char *const *without);
void ls__words_release(struct ls_words *w);

/* What --network says: a name that predict knows, or RATE,DELAY[,LOSS]. */
bool ls__option_network(const char *text, struct ls_cable_shape *shape);

/* LS_N_CMDS if there is no such command. */
enum ls_cmd ls__command_find(const char *name);

#endif
