/* main.c: lockstep COMMAND ...: finds the command, reads its options, runs it, and turns the status into the exit code.
 *
 * The only place that prints a failure (one line, "lockstep: ...") and that decides the exit code. stdout is flushed
 * and checked at the end: a result that could not be written is a failure, unless its reader left (`| head`).
 */
#include "base/log.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "cli/cmd.h"
#include "cli/crew.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "cli/launch_report.h"
#include "cli/launch_state.h"
#include "cli/meet.h"
#include "cli/repeat.h"
#include "cli/signals.h"
#include "cli/slow.h"
#include "comm/comm.h"
#include "nodes/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum ls_status (*const functions[LS_N_CMDS])(const struct ls_options *o) = {
    [LS_CMD_TRAIN] = ls__cmd_train,       [LS_CMD_EVAL] = ls__cmd_eval,     [LS_CMD_BENCH] = ls__cmd_bench,
    [LS_CMD_PLAN] = ls__cmd_plan,         [LS_CMD_TUNE] = ls__cmd_tune,     [LS_CMD_PREDICT] = ls__cmd_predict,
    [LS_CMD_MODELS] = ls__cmd_models,     [LS_CMD_DATA] = ls__cmd_data,     [LS_CMD_INSPECT] = ls__cmd_inspect,
    [LS_CMD_PLOT] = ls__cmd_plot,         [LS_CMD_DOCTOR] = ls__cmd_doctor, [LS_CMD_HELP] = ls__cmd_help,
    [LS_CMD_CLASSIFY] = ls__cmd_classify, [LS_CMD_EXPORT] = ls__cmd_export, [LS_CMD_REPORT] = ls__cmd_report,
    [LS_CMD_SHOW] = ls__cmd_show,         [LS_CMD_WATCH] = ls__cmd_watch,   [LS_CMD_DIFF] = ls__cmd_diff,
    [LS_CMD_SERVE] = ls__cmd_serve,       [LS_CMD_SERVER] = ls__cmd_server, [LS_CMD_LAB] = ls__cmd_lab,
    [LS_CMD_SWEEP] = ls__cmd_sweep,
};

static enum ls_status unknown_command(const char *word)
{
    const char *best = NULL;
    int best_distance = -1;
    for (int i = 0; i < LS_N_CMDS; i++) ls__suggest(word, ls__commands[i].name, &best, &best_distance);
    if (*word == '-') return ls_fail(LS_USAGE, "%s: a command comes first; `lockstep help` lists them", word);
    if (best)
        return ls_fail(LS_USAGE, "unknown command '%s'; did you mean '%s'? (`lockstep help` lists all)", word, best);
    return ls_fail(LS_USAGE, "unknown command '%s'; `lockstep help` lists them", word);
}

/* What is trained, and how, is the server's to say: these are a machine's own. */
static const char *const own_of_worker[] = {"server",  "key",  "data-dir", "isa",     "tune", "threads",
                                            "timeout", "slow", "quiet",    "verbose", NULL};
static const char *const own_of_keeper[] = {"chief",   "listen",  "key",   "data-dir", "isa", "tune",
                                            "threads", "timeout", "quiet", "verbose",  NULL};
static const char *const own_of_helper[] = {"sync",    "servers",  "nodes", "rank",    "master",
                                            "key",     "data-dir", "isa",   "tune",    "threads",
                                            "timeout", "slow",     "quiet", "verbose", NULL};

static enum ls_status run_worker(const struct ls_options *o)
{
    if (o->n_args > 0)
        return ls_fail(LS_USAGE, "--server %s says what is trained: leave '%s' out", o->server, o->args[0]);
    TRY(ls__options_only(o, own_of_worker, "--server", o->server));
    ls__signals_install();
    TRY(ls__slow_begin(o, ls__crew_place().node));
    return ls__cmd_worker(o);
}

static enum ls_status run_keeper(const struct ls_options *o)
{
    if (o->n_args > 0)
        return ls_fail(LS_USAGE, "--chief %s says what is trained: leave '%s' out", o->chief, o->args[0]);
    TRY(ls__options_only(o, own_of_keeper, "--chief", o->chief));
    ls__signals_install();
    return ls__cmd_keeper(o);
}

/* A node of a parameter server's job. What it was told to train is compared with what the server trains; one that was
 * told nothing hears all of it there. */
static enum ls_status run_helper(struct ls_options *o)
{
    if (o->n_args > 0) TRY(ls__options_resolve(o, LS_CMD_TRAIN));
    if (o->n_args == 0 && !o->train.resume) TRY(ls__options_only(o, own_of_helper, "rank 0 at", o->served_at));
    o->server = o->served_at;
    ls__signals_install();
    TRY(ls__slow_begin(o, o->rank + 1));
    return ls__cmd_node(o);
}

/* *exit_code: of a job that was launched; 0 otherwise. */
static enum ls_status run_with(struct ls_options *o, enum ls_cmd cmd, int *exit_code)
{
    if (o->help) {
        struct ls_buf b = LS_BUF_INIT;
        ls__help_command(&b, cmd);
        return ls__print_buf(&b);
    }
    if (o->verbose) ls__log_set_level(LS_LOG_DEBUG);
    if (o->train.quiet) ls__log_set_level(LS_LOG_WARN);
    if (cmd == LS_CMD_TRAIN && o->server) return run_worker(o);
    if (cmd == LS_CMD_SERVER && o->chief) return run_keeper(o);
    const bool is_training = cmd == LS_CMD_TRAIN || (cmd == LS_CMD_SERVER && !o->keygen);
    if (cmd == LS_CMD_TRAIN) TRY(ls__meet_take_place(o));
    if (ls__meet_is_helper(o)) return run_helper(o);
    if (is_training) TRY(ls__options_go_on(o));
    TRY(ls__meet_check_resumed(o));
    TRY(ls__options_resolve(o, cmd));
    if (cmd == LS_CMD_TRAIN && o->repeat > 1) return ls__repeat(o, exit_code);
    if (!ls__report_is_wanted()) ls__options_warn_unused(o, cmd); /* the launcher has said it */
    if (ls__launch_is_wanted(cmd, o)) return ls__launch(cmd, o, exit_code);
    if (cmd == LS_CMD_TRAIN) ls__state_remove_left(); /* perhaps no launcher is ever started on this machine */
    if (is_training) ls__signals_install();
    if (cmd == LS_CMD_TRAIN) TRY(ls__slow_begin(o, o->served_at[0] ? o->rank + 1 : 0));
    ls__report_here();
    if (cmd == LS_CMD_RECORD) return ls__cmd_record(o, exit_code);
    return functions[cmd](o);
}

static enum ls_status run_command(enum ls_cmd cmd, int argc, char **argv, int *exit_code)
{
    struct ls_options o;
    enum ls_status status = ls__options_parse(&o, cmd, argc, argv);
    if (status == LS_OK) status = run_with(&o, cmd, exit_code);
    ls__options_release(&o);
    return status;
}

static enum ls_status run(int argc, char **argv, int *exit_code)
{
    if (argc < 2) return ls_fail(LS_USAGE, "a command is missing; `lockstep help` lists them");
    const char *word = argv[1];
    if (!strcmp(word, "--version") || !strcmp(word, "-V")) return ls__cmd_version();
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) return run_command(LS_CMD_HELP, argc - 2, argv + 2, exit_code);
    enum ls_cmd cmd = ls__command_find(word);
    if (cmd == LS_N_CMDS) return unknown_command(word);
    return run_command(cmd, argc - 2, argv + 2, exit_code);
}

static void print_failure(enum ls_status status)
{
    char line[1100];
    const char *message = ls_error_message();
    snprintf(line, sizeof line, "%s", *message ? message : ls_status_text(status));
    ls__make_printable(line);
    const bool is_loss = status == LS_REMOTE || status == LS_TIMEOUT;
    if (is_loss && ls__report_is_wanted())
        ls__report_cause(line);
    else
        ls__log(LS_LOG_ERROR, "%s", line);
}

/* A closed stdin, stdout or stderr would be the number of the next file we open, and messages would go into that file.
 * What stands in for stdout is not writable, so that a result nobody gets stays a failure. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd) return;
    }
}

/* Whether stdout is a pipe whose reader is gone: he has seen what he wanted. */
static bool reader_has_left(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error we report, not a death in the middle of a training */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file over the limit */
    int exit_code = 0;
    bool is_shell = ls__nodes_is_shell(argc, argv);
    enum ls_status status = is_shell ? ls__nodes_shell(argc, argv) : run(argc, argv, &exit_code);
    if (status != LS_OK) print_failure(status);
    if ((fflush(stdout) != 0 || ferror(stdout)) && !reader_has_left()) {
        ls__log(LS_LOG_ERROR, "write the result to stdout: %s", strerror(errno));
        if (status == LS_OK) status = LS_IO;
    }
    if (status != LS_OK) exit_code = ls_status_exit_code(status);
    if (!ls_comm_is_launched()) return exit_code;
    /* What is left of a broken job may still use the communication library, or hang in its clean-up: no exit handlers
     * while another thread is in there. */
    ls__report_end(exit_code);
    _exit(exit_code);
}
