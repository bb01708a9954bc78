/* options.h: the command line as data: one table of commands, one table of options.
 *
 * From the two tables come the parser (args.c), the help texts, the man page and the shell completion (help.c). Adding
 * an option is one entry in options.c and one member in struct ls_options or struct ls_train_options; the tests walk
 * the table and check the rest.
 *
 *     struct ls_options o;
 *     TRY(ls__options_parse(&o, LS_CMD_TRAIN, argc, argv));     argv without program and command
 *     TRY(ls__options_resolve(&o, LS_CMD_TRAIN));               cross-checks, values that follow from others
 *
 * All strings in the result are borrowed from argv and the tables. Every failure is LS_USAGE.
 */
#ifndef LS_CLI_OPTIONS_H
#define LS_CLI_OPTIONS_H

#include "lockstep/measure.h"
#include "lockstep/train.h"

enum ls_cmd {
    LS_CMD_TRAIN,
    LS_CMD_EVAL,
    LS_CMD_BENCH,
    LS_CMD_PLAN,
    LS_CMD_TUNE,
    LS_CMD_PREDICT,
    LS_CMD_MODELS,
    LS_CMD_DATA,
    LS_CMD_INSPECT,
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
    const char *summary;           /* one line, for the list of commands */
    const char *text;              /* what it does and where its results go; paragraphs apart by '\n' */
    struct ls_example examples[5]; /* ends with line NULL */
};
extern const struct ls_command ls__commands[LS_N_CMDS];

enum { LS_MAX_ARGS = 4 };

/* The values of all options. Commands share members: eval's --batch-size is train.batch_size too. */
struct ls_options {
    struct ls_train_options train;
    int64_t procs_per_node, max_restarts;
    const char *hosts, *mpi_args;
    int64_t steps, warmup_steps; /* bench */
    double seconds;
    bool layers;
    const char *output;                        /* tune, predict */
    const char *network, *latency, *bandwidth; /* predict */
    int64_t servers;
    bool probe;
    int64_t classes; /* models, plan; 0: the model's usual */
    const char *input;
    const char *url; /* data fetch */
    bool man;        /* help */
    const char *completion;
    bool verbose, help;

    const char *args[LS_MAX_ARGS]; /* positional */
    int n_args;
    uint64_t given[2]; /* one bit per entry of the table: on the command line */
};

enum ls_option_type { LS_OPT_FLAG, LS_OPT_INT, LS_OPT_REAL, LS_OPT_TEXT, LS_OPT_CHOICE };

struct ls_option {
    const char *name;       /* long, without "--" */
    char letter;            /* short, or '\0' */
    const char *aliases[3]; /* other long names */
    const char *arg;        /* name of the value in the help: "N"; NULL for a flag */
    enum ls_option_type type;
    double min, max;     /* INT, REAL: both inclusive */
    bool is_max_open;    /* REAL: max itself is too much */
    const char *choices; /* CHOICE: "sgd|adamw" */
    /* (optional) TEXT: whether the value is well formed, and in words what it should be */
    bool (*is_valid)(const char *text);
    const char *expected;
    bool takes_dash;   /* TEXT: the value may begin with '-', as arguments for another program do */
    const char *def;   /* default as it would be typed; NULL: not given (flags: off) */
    const char *help;  /* one sentence */
    const char *group; /* headline in the help; entries of a group stand together */
    unsigned commands; /* bit (1u << LS_CMD_x) for each command that takes it */
    size_t offset;     /* into struct ls_options: bool, int64_t, double or const char * */
};
extern const struct ls_option ls__options[]; /* ends with name NULL */

int ls__options_count(void);
bool ls__option_is_of(const struct ls_option *option, enum ls_cmd cmd);
/* By long name or alias, '_' counting as '-'; NULL if there is none. */
const struct ls_option *ls__option_find(const char *name);
bool ls__option_is_given(const struct ls_options *o, const char *name);

void ls__options_default(struct ls_options *o);
enum ls_status ls__options_parse(struct ls_options *o, enum ls_cmd cmd, int argc, char *const *argv) LS_MUST_CHECK;
enum ls_status ls__options_resolve(struct ls_options *o, enum ls_cmd cmd) LS_MUST_CHECK;
/* One warning for each option of `train` that was given and does nothing beside the others. After resolve. */
void ls__options_warn_unused(const struct ls_options *o);

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

/* LS_N_CMDS if there is no such command. */
enum ls_cmd ls__command_find(const char *name);
/* The candidate nearest to word, or NULL if none is near. Call with *best_distance = -1 first, then for each candidate.
 */
void ls__suggest(const char *word, const char *candidate, const char **best, int *best_distance);

#endif
