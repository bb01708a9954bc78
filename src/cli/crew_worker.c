/* crew_worker.c: `lockstep train --server` and `lockstep server --chief`: a worker or one more server, and what it
 * knows of the crew it is one of (crew_place.h).
 */
#include "base/log.h"
#include "base/pool.h"
#include "base/status_kept.h"
#include "cli/cmd.h"
#include "cli/crew.h"
#include "cli/crew_place.h"
#include "cli/meet.h"
#include "cli/signals.h"
#include "elastic/keeper.h"
#include "wire/wire.h"

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
    const bool is_one = text &&
                        sscanf(text, "%d:%d+%d/%d:%d:%7s", &p.slot, &p.at, &p.width, &p.n, &p.node, distance) == 6 &&
                        p.at >= 0 && p.at < p.n && p.width >= 1 && p.width <= p.n - p.at;
    if (!is_one) return (struct ls_crew_place){.slot = -1, .width = 1};
    p.is_near = strcmp(distance, "near") == 0;
    p.is_beside = p.is_near || strcmp(distance, "beside") == 0;
    p.is_here = p.is_beside || strcmp(distance, "node") == 0;
    return p;
}

/* Its threads and cores among those of its crew on this machine. */
static void take_cores(const struct ls_crew_place *p, int64_t *threads)
{
    cpu_set_t allowed, own;
    if (p->n == 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    const int n_cores = CPU_COUNT(&allowed);
    const int64_t each = *threads > 0 ? *threads : n_cores / p->n > 0 ? n_cores / p->n : 1; /* of one worker */
    *threads = each * p->width;
    if (each * p->n > n_cores) return;
    CPU_ZERO(&own);
    for (int cpu = 0, at = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        if (at >= p->at * each && at < (p->at + p->width) * each) CPU_SET(cpu, &own);
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

typedef enum ls_status run_fn(const struct ls_worker_options *o, bool *is_told);

static enum ls_status run(const struct ls_options *o, const struct ls_crew_place *place, struct ls_worker_options *w,
                          run_fn *fn)
{
    pthread_t minder;
    bool is_told;
    w->key = o->key;
    w->ticket = getenv(ls__ticket_variable);
    w->slot = place->slot;
    w->turn = place->slot >= 0 || o->served_at[0] ? place->at : 0;
    w->own.control = &ls__signals_control;
    const bool is_held = place->slot >= 0 && o->key && strcmp(o->key, "fd:0") == 0;
    if (is_held) TRY(ls__thread_start(&minder, "the thread that minds the server", mind_server, NULL));
    enum ls_status status = fn(w, &is_told);
    if (is_told && w->slot >= 0) ls__log_set_level(LS_LOG_NOTHING); /* the server says it on the same terminal */
    return status;
}

enum ls_status ls__cmd_worker(const struct ls_options *o)
{
    struct ls_crew_place place = ls__crew_place();
    if (o->served_at[0]) (void)ls__meet_share(o, &place.at, &place.n);
    struct ls_worker_options w = {.address = o->server,
                                  .is_near = place.slot >= 0 && place.is_near,
                                  .is_beside = place.slot >= 0 && place.is_beside,
                                  .is_here = place.slot >= 0 && place.is_here,
                                  .typed = o->served_at[0] && o->n_args > 0 && !o->train.resume,
                                  .own = o->train};
    take_cores(&place, &w.own.threads);
    return run(o, &place, &w, ls__worker_run);
}

/* Where workers can reach it: any free port of the address from which this machine reaches the chief. */
static enum ls_status choose_listen(const struct ls_options *o, char *out, size_t size)
{
    char host[128];
    if (!ls__option_is_given(o, "listen")) {
        TRY(ls_wire_own_host(o->chief, host, sizeof host));
        snprintf(out, size, "%s:0", host);
        return LS_OK;
    }
    snprintf(out, size, "%s%s", o->listen, ls__address_has_port(o->listen) ? "" : ":0");
    return LS_OK;
}

enum ls_status ls__cmd_keeper(const struct ls_options *o)
{
    char listen[256];
    const struct ls_crew_place place = ls__crew_place();
    TRY(choose_listen(o, listen, sizeof listen));
    const int number = place.slot >= 0 ? place.at + 1 : o->served_at[0] ? (int)o->rank : 0;
    struct ls_worker_options w = {.address = o->chief, .listen = listen, .number = number, .own = o->train};
    return run(o, &place, &w, ls__keeper_run);
}

/* --- a node that is started by hand: a worker, and perhaps a server beside it --- */

static void *keep(void *arg)
{
    const struct ls_options *o = arg;
    const enum ls_status status = ls__cmd_keeper(o);
    const bool is_own = status == LS_USAGE || status == LS_IO || status == LS_DATA; /* else the job's, told there */
    if (is_own) ls__log(LS_LOG_WARN, "the server of this node: %s", ls_error_message());
    return NULL;
}

enum ls_status ls__cmd_node(const struct ls_options *o)
{
    struct ls_options keeper = *o;
    pthread_t thread;
    keeper.chief = o->served_at;
    const bool has_keeper = o->rank < o->train.servers;
    if (has_keeper) TRY(ls__thread_start(&thread, "the thread of this node's server", keep, &keeper));
    enum ls_status status = ls__cmd_worker(o);
    const struct ls_kept kept = ls__keep(status);
    if (has_keeper) pthread_join(thread, NULL);
    return ls__fail_again(&kept);
}
