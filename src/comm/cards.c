/* cards.c: who is where: every rank's card to all, and the machines that follow from them.
 *
 * A card says which machine a rank belongs to, and what computer, network and CPUs it has, which may be the same for
 * ranks that count as different machines (devices with their own memory, --nodes, containers, tests).
 */
#include "comm/comm_internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void ls__cards_number(struct ls_comm *c)
{
    struct peer *p = c->peers;
    c->place.n_machines = 0;
    for (int r = 0; r < c->place.n_ranks; r++) {
        int first = 0;
        while (strcmp(p[first].machine_key, p[r].machine_key) != 0) first++;
        p[r].machine = first == r ? c->place.n_machines++ : p[first].machine;
        p[r].local_rank = 0;
        for (int q = first; q < r; q++) p[r].local_rank += p[q].machine == p[r].machine;
        if (p[r].local_rank == 0) c->leaders[p[r].machine] = r;
    }
    c->place.machine = p[c->place.rank].machine;
    c->place.local_rank = p[c->place.rank].local_rank;
    c->place.n_local = c->place.turn = 0;
    for (int r = 0; r < c->place.n_ranks; r++) c->place.n_local += p[r].machine == c->place.machine;
    for (int r = 0; r < c->place.rank; r++) c->place.turn += strcmp(p[r].host, p[c->place.rank].host) == 0;
}

/* Everyone's card to rank 0, and all cards from rank 0 to everyone. */
static enum ls_status exchange_cards(struct ls_comm *c, void *arg)
{
    struct broadcast all = {
        .data = (char *)c->peers, .bytes = (size_t)c->place.n_ranks * sizeof *c->peers, .more_seconds = 2};
    if (c->place.rank > 0) TRY(ls__link_send(c, &c->peers[c->place.rank], sizeof *c->peers, 0, TAG_HELLO, c->timeout));
    for (int r = 1; c->place.rank == 0 && r < c->place.n_ranks; r++)
        TRY(ls__link_receive(c, &c->peers[r], sizeof *c->peers, r, TAG_HELLO, c->timeout));
    return ls__broadcast(c, &all);
}

/* The launcher has cut this computer into nodes of as many ranks each. Nodes with a network of their own have a host
 * name of their own, too. */
static void find_node(struct ls_comm *c)
{
    const char *text = getenv("LOCKSTEP_NODES");
    int n = text ? (int)strtol(text, NULL, 10) : 1, n_ranks = c->place.n_ranks;
    if (n < 2 || n_ranks % n != 0) return;
    c->place.n_nodes = n;
    if (!getenv("LOCKSTEP_NODE"))
        snprintf(c->place.host, sizeof c->place.host, "node%d", c->place.rank / (n_ranks / n) + 1);
}

/* Where it runs and where its messages go. Unknown: alone. */
static void write_computer(struct peer *me)
{
    struct stat network, pids;
    cpu_set_t allowed;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!f || !fgets(me->computer, sizeof me->computer, f)) me->computer[0] = '\0';
    if (f) fclose(f);
    if (stat("/proc/self/ns/net", &network) == 0) me->network = (uint64_t)network.st_ino;
    if (stat("/proc/self/ns/pid", &pids) == 0) me->pids = (uint64_t)pids.st_ino;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) memcpy(me->cpus, &allowed, sizeof me->cpus);
}

static void write_card(struct ls_comm *c)
{
    struct peer *me = &c->peers[c->place.rank];
    const char *sums = getenv("LOCKSTEP_SUMS"); /* tests and measurements choose a way */
    write_computer(me);
    if (sums) snprintf(me->sums, sizeof me->sums, "%s", sums);
    const char *key = getenv("LOCKSTEP_MACHINE"); /* tests cut one machine into several */
    memcpy(me->host, c->place.host, sizeof me->host);
    snprintf(me->machine_key, sizeof me->machine_key, "%s", key && *key ? key : c->place.host);
    if (key && *key) snprintf(me->host, sizeof me->host, "%.63s", key);
    if (c->is_apart) snprintf(me->machine_key, sizeof me->machine_key, "rank %d", c->place.rank);
    me->pid = (int32_t)getpid();
}

enum ls_status ls__cards_exchange(struct ls_comm *c)
{
    find_node(c);
    write_card(c);
    if (c->place.n_ranks > 1) TRY(ls__comm_thread_call(c, exchange_cards, NULL));
    memcpy(c->place.host, c->peers[c->place.rank].host, sizeof c->place.host);
    ls__cards_number(c);
    return LS_OK;
}
