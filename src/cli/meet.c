/* meet.c: see meet.h. */
#include "cli/meet.h"

#include "base/log.h"
#include "base/parse.h"
#include "comm/comm.h"
#include "settings/sync_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASTER_BYTES = sizeof((struct ls_options *)NULL)->served_at, MOST_NODES = 4096 };

/* What the options or the variables say; -1 and "": nothing. */
struct place {
    int64_t nodes, rank;
    char master[MASTER_BYTES];
};

static int64_t number_in(const char *variable)
{
    const char *text = getenv(variable);
    int64_t n;
    return text && ls__parse_i64(text, 0, MOST_NODES, &n) ? n : -1;
}

/* torchrun itself listens at the port it tells, where this variable is True: the next one is ours. */
static bool is_port_taken(void)
{
    const char *text = getenv("TORCHELASTIC_USE_AGENT_STORE");
    return text && strcmp(text, "True") == 0;
}

static void master_in_variables(char out[MASTER_BYTES])
{
    const char *host = getenv("MASTER_ADDR"), *text = getenv("MASTER_PORT");
    bool is_v6 = host && strchr(host, ':');
    int64_t port;
    out[0] = '\0';
    if (!host || !*host || !text || !ls__parse_i64(text, 1, 65535, &port) || strlen(host) + 16 > MASTER_BYTES) return;
    if (is_port_taken()) port = port < 65535 ? port + 1 : port - 1;
    snprintf(out, MASTER_BYTES, is_v6 ? "[%s]:%d" : "%s:%d", host, (int)port);
}

static struct place find_place(const struct ls_options *o)
{
    struct place p = {.nodes = ls__option_is_given(o, "nodes") ? o->nodes : number_in("WORLD_SIZE"),
                      .rank = ls__option_is_given(o, "rank") ? o->rank : number_in("RANK")};
    master_in_variables(p.master);
    if (o->master && strlen(o->master) < MASTER_BYTES) snprintf(p.master, sizeof p.master, "%s", o->master);
    return p;
}

static bool has_options(const struct ls_options *o)
{
    return ls__option_is_given(o, "rank") || ls__option_is_given(o, "master");
}

static bool starts_a_job(const struct ls_options *o)
{
    return o->hosts || ls__option_is_given(o, "workers") || (!has_options(o) && ls__option_is_given(o, "nodes"));
}

static enum ls_status check(const struct ls_options *o, const struct place *p)
{
    if (ls_comm_is_launched())
        return ls_fail(LS_USAGE,
                       "mpirun or srun started this process as one of several: --nodes, --rank and --master are "
                       "for processes that are started one by one");
    if (starts_a_job(o))
        return ls_fail(LS_USAGE, "%s starts the processes itself; with --nodes each is started by hand: give one",
                       o->hosts ? "--hosts" : "--workers");
    if (p->nodes < 0 || p->rank < 0 || !p->master[0])
        return ls_fail(LS_USAGE,
                       "a node needs all three: --nodes N, --rank R (0 to N-1) and --master HOST:PORT; %s is "
                       "missing",
                       p->nodes < 0  ? "--nodes"
                       : p->rank < 0 ? "--rank"
                                     : "--master");
    if (p->nodes == 0 || p->rank >= p->nodes)
        return ls_fail(LS_USAGE, "--rank %lld of %lld nodes: expected 0 to %lld", (long long)p->rank,
                       (long long)p->nodes, (long long)p->nodes - 1);
    return LS_OK;
}

/* Who sets all four starts several processes: one that cannot be read must not let each of them train alone. */
static enum ls_status check_variables(const struct place *p)
{
    static const char *const names[] = {"WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"};
    const char *expected = "1 to 4096", *wrong = names[0];
    for (int i = 0; i < 4; i++) {
        const char *text = getenv(names[i]);
        if (!text || !*text) return LS_OK;
    }
    if (p->nodes == 1) return LS_OK;
    if (p->nodes > 1 && (p->rank < 0 || p->rank >= p->nodes)) {
        wrong = names[1];
        expected = "0 to WORLD_SIZE - 1";
    } else if (p->nodes > 1 && strlen(getenv("MASTER_ADDR")) + 16 > MASTER_BYTES) {
        wrong = names[2];
        expected = "the name or address of a machine";
    } else if (p->nodes > 1 && !p->master[0]) {
        wrong = names[3];
        expected = "1 to 65535";
    } else if (p->nodes > 1) {
        return LS_OK;
    }
    return ls_fail(LS_USAGE,
                   "the variable %s is '%.100s': expected %s. With RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT this "
                   "is one of several processes; --nodes 1: alone",
                   wrong, getenv(wrong), expected);
}

enum ls_status ls__meet_take_place(struct ls_options *o)
{
    const struct place p = find_place(o);
    bool is_told = has_options(o);
    if (!is_told && (starts_a_job(o) || ls_comm_is_launched())) return LS_OK;
    if (!is_told) TRY(check_variables(&p));
    if (!is_told && (p.nodes < 2 || p.rank < 0 || !p.master[0])) return LS_OK;
    TRY(check(o, &p));
    o->nodes = 0; /* of its own meaning none are left */
    if (p.nodes == 1) return LS_OK;
    if (!is_told)
        ls__log(LS_LOG_INFO,
                "rank %lld of %lld at %s, as RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say (--nodes 1: alone)",
                (long long)p.rank, (long long)p.nodes, p.master);
    if (!ls__sync_is_served(o->train.sync)) return ls_comm_be_node((int)p.rank, (int)p.nodes, p.master, o->key);
    o->rank = p.rank;
    o->served_nodes = p.nodes;
    memcpy(o->served_at, p.master, sizeof p.master);
    return LS_OK;
}

bool ls__meet_is_helper(const struct ls_options *o)
{
    return o->served_at[0] && o->rank > 0;
}

bool ls__meet_share(const struct ls_options *o, int *at, int *n)
{
    const int64_t local = number_in("LOCAL_RANK"), all = number_in("LOCAL_WORLD_SIZE");
    if (ls__option_is_given(o, "rank") || local < 0 || all <= local) return false;
    *at = (int)local;
    *n = (int)all;
    return true;
}

enum ls_status ls__meet_check_resumed(const struct ls_options *o)
{
    if (!ls_comm_is_node() || !ls__sync_is_served(o->train.sync)) return LS_OK;
    return ls_fail(LS_USAGE, "the run has --sync %s: give that on every node", o->train.sync);
}
