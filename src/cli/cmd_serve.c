/* cmd_serve.c: `lockstep serve DIR`: a live page until Ctrl-C. */
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/rerun.h"
#include "serve/serve.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

/* The signals that end it; all threads leave them to the loop below. */
static void hold_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

enum ls_status ls__cmd_serve(const struct ls_options *o)
{
    const struct ls_serve_options options = {.dir = o->n_args ? o->args[0] : "runs",
                                             .listen = o->listen,
                                             .port = (int)o->port,
                                             .token = o->token,
                                             .command_of = ls__rerun_command};
    const struct timespec pause = {.tv_nsec = 500000000};
    struct ls_serve *s;
    sigset_t set;
    hold_signals(&set);
    setpriority(PRIO_PROCESS, 0, 10); /* a training on this machine goes first */
    TRY(ls_serve_open(&s, &options));
    printf("%s\n", ls_serve_url(s));
    fflush(stdout);
    ls__log(LS_LOG_INFO, "%d run%s below %s; Ctrl-C ends it", ls_serve_n_runs(s), ls_serve_n_runs(s) == 1 ? "" : "s",
            options.dir);
    enum ls_status status = LS_OK;
    while (status == LS_OK && sigtimedwait(&set, NULL, &pause) < 0) status = ls_serve_poll(s);
    ls_serve_close(&s);
    return status;
}
