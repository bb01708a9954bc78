/* crew_worker.c: `lockstep train --server`: a worker, and what it knows of the crew it is one of (crew_place.h). */
#include "base/log.h"
#include "base/pool.h"
#include "cli/crew.h"
#include "cli/crew_place.h"
#include "cli/signals.h"
#include "elastic/worker.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ls_crew_place ls__crew_place(void)
{
    const char *text = getenv(ls__slot_variable);
    struct ls_crew_place p;
    char distance[8] = "";
    const bool is_one = text && sscanf(text, "%d:%d/%d:%d:%7s", &p.slot, &p.at, &p.n, &p.node, distance) == 5 &&
                        p.at >= 0 && p.at < p.n;
    if (!is_one) return (struct ls_crew_place){.slot = -1};
    p.is_near = strcmp(distance, "near") == 0;
    return p;
}

/* Its threads and cores among those of its crew on this machine. */
static void take_cores(const struct ls_crew_place *p, int64_t *threads)
{
    cpu_set_t allowed, own;
    if (p->slot < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    const int n_cores = CPU_COUNT(&allowed);
    if (*threads <= 0) *threads = n_cores / p->n > 0 ? n_cores / p->n : 1;
    if (*threads * p->n > n_cores) return;
    CPU_ZERO(&own);
    for (int cpu = 0, at = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        if (at >= p->at * *threads && at < (p->at + 1) * *threads) CPU_SET(cpu, &own);
        at++;
    }
    sched_setaffinity(0, sizeof own, &own); /* a wish */
}

/* Who started us holds the other end of standard input. Nothing is read: the key may still lie there. */
static void *mind_server(void *arg)
{
    enum { GRACE_S = 5 };
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLRDHUP};
    while (poll(&p, 1, -1) <= 0) continue;
    kill(getpid(), SIGTERM); /* leaves in peace, if there is anybody to leave */
    sleep(GRACE_S);
    _exit(ls_status_exit_code(LS_REMOTE));
    return NULL;
}

enum ls_status ls__cmd_worker(const struct ls_options *o)
{
    const struct ls_crew_place place = ls__crew_place();
    struct ls_worker_options w = {.address = o->server,
                                  .key = o->key,
                                  .ticket = getenv(ls__ticket_variable),
                                  .slot = place.slot,
                                  .is_near = place.slot >= 0 && place.is_near,
                                  .own = o->train};
    pthread_t minder;
    w.own.control = &ls__signals_control;
    take_cores(&place, &w.own.threads);
    const bool is_held = place.slot >= 0 && o->key && strcmp(o->key, "fd:0") == 0;
    if (is_held) TRY(ls__thread_start(&minder, "the thread that minds the server", mind_server, NULL));
    bool is_told;
    enum ls_status status = ls__worker_run(&w, &is_told);
    if (is_told && w.slot >= 0) ls__log_set_level(LS_LOG_NOTHING); /* the server says it on the same terminal */
    return status;
}
