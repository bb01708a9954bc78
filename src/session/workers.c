/* workers.c: what the ranks of a job tell each other around the loop (workers.h). */
#include "session/workers.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "session/identity.h"
#include "session/usage.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* --- cores --- */

/* CPUs [first, first + n) of the allowed ones. */
static void take_cores(const cpu_set_t *allowed, int first, int n)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    for (int cpu = 0, at = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed)) continue;
        if (at >= first && at < first + n) CPU_SET(cpu, &own);
        at++;
    }
    sched_setaffinity(0, sizeof own, &own); /* a wish */
}

/* mpirun's default gives every rank one core, and its threads with it. */
static void warn_if_bound(const struct ls_comm_place *at, int64_t wanted, int n)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (at->rank > 0 || at->n_ranks == 1 || (long)n * at->n_local >= online) return;
    if (wanted > n)
        ls__log(LS_LOG_WARN,
                "%lld threads share %d core%s: the launcher has bound this rank; give mpirun --bind-to none",
                (long long)wanted, n, n == 1 ? "" : "s");
    else if (wanted <= 0)
        ls__log(LS_LOG_WARN,
                "the launcher has bound each rank to %d of %ld cores; mpirun --bind-to none lets them use all", n,
                online);
}

/* All machines of the job are this one. */
static enum ls_status share_cores_of_nodes(const struct ls_comm_place *at, int64_t wanted, int *threads)
{
    cpu_set_t allowed;
    int n = ls__cpu_count(), share = n / at->n_ranks > 0 ? n / at->n_ranks : 1;
    *threads = wanted > 0 ? (int)wanted : share;
    if (*threads * at->n_ranks <= n && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        take_cores(&allowed, at->rank * *threads, *threads);
    return LS_OK;
}

enum ls_status ls__workers_share_cores(struct ls_comm *comm, int64_t wanted, int *threads)
{
    const struct ls_comm_place *at = ls_comm_place(comm);
    uint64_t *masks;
    cpu_set_t allowed;
    bool is_common = true;
    int n = ls__cpu_count();
    *threads = wanted > 0 ? (int)wanted : n;
    if (at->n_nodes > 1) return share_cores_of_nodes(at, wanted, threads);
    if (at->n_local == 1) warn_if_bound(at, wanted, n);
    if (at->n_local == 1 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return LS_OK;
    TRY(ls_comm_share(comm, (size_t)at->n_local * sizeof *masks, (void **)&masks));
    masks[at->local_rank] = XXH3_64bits(&allowed, sizeof allowed);
    TRY(ls_comm_barrier(comm, LS_OK, 0));
    for (int i = 0; i < at->n_local; i++) is_common &= masks[i] == masks[0];
    if (!is_common) { /* somebody has shared them out */
        warn_if_bound(at, wanted, n);
        return LS_OK;
    }
    int share = n / at->n_local > 0 ? n / at->n_local : 1;
    if (wanted <= 0) *threads = share;
    if (*threads * at->n_local <= n) take_cores(&allowed, at->local_rank * *threads, *threads);
    return LS_OK;
}

/* --- agreement --- */

enum ls_status ls__workers_agree_inputs(struct ls_comm *comm, enum ls_status status, const struct session *s)
{
    struct ls_buf text = LS_BUF_INIT;
    struct ls_backend_id id;
    if (ls_comm_place(comm)->n_ranks == 1) return status;
    if (status == LS_OK) {
        size_t len;
        const char *model = ls_model_text(s->model, &len);
        s->backend->identify(s->device, &id);
        ls__buf_addf(
            &text, "version: %s\nmodel: %s %016llx\nlibrary: %s\ninstruction set: %s\nbatch size: %lld\nshards: %lld\n",
            LOCKSTEP_VERSION, ls_model_name(s->model), (unsigned long long)XXH3_64bits(model, len), id.software, id.isa,
            (long long)s->batch_size, (long long)s->shards);
        if (s->train) ls__buf_addf(&text, "training data: %s %s\n", s->train->name, s->train->checksum);
        if (s->validation) ls__buf_addf(&text, "validation data: %s\n", s->validation->checksum);
        if (s->test) ls__buf_addf(&text, "test data: %s %s\n", s->test->name, s->test->checksum);
        status = ls__buf_check(&text);
    }
    status = ls_comm_agree(comm, status, text.text);
    ls__buf_release(&text);
    return status;
}

/* Key by key, notes left out: tables may lie at different paths. */
static enum ls_status add_identity(struct ls_buf *text, const struct ls_train_options *o, const struct session *s)
{
    struct identity id = {0};
    enum ls_status status = ls__identity_of(&id, o, s);
    for (int i = 0; status == LS_OK && i < N_IDENTITY; i++)
        if (id.values[i] && i != IDENTITY_TUNE && i != IDENTITY_KERNELS)
            ls__buf_addf(text, "%s: %s\n", ls__identity_key_name(i), id.values[i]);
    ls__identity_release(&id);
    return status == LS_OK ? ls__buf_check(text) : status;
}

enum ls_status ls__workers_agree_run(struct ls_comm *comm, const struct ls_train_options *o, const struct session *s)
{
    struct ls_buf text = LS_BUF_INIT;
    if (ls_comm_place(comm)->n_ranks == 1) return LS_OK;
    enum ls_status status = add_identity(&text, o, s);
    status = ls_comm_agree(comm, status, text.text);
    ls__buf_release(&text);
    return status;
}

enum ls_status ls__workers_take_state(struct ls_comm *comm, int root, enum ls_status status, struct session *s,
                                      struct train_state *st, int64_t *saved_step)
{
    if (ls_comm_place(comm)->n_ranks == 1) return status;
    TRY(ls_comm_agree(comm, status, "started"));
    TRY(ls_comm_broadcast(comm, root, st, sizeof *st));
    TRY(ls_comm_broadcast(comm, root, saved_step, sizeof *saved_step));
    return st->step > 0 ? ls_exec_sync_store(s->exec, ls_comm_machine_of(comm, root)) : LS_OK;
}

/* --- the end --- */

struct used {
    int64_t peak_rss_bytes, bytes_sent;
    double cpu_seconds;
};

enum ls_status ls__workers_total(struct ls_comm *comm, double seconds, struct ls_result *r)
{
    const struct ls_comm_place *at = ls_comm_place(comm);
    struct used *all;
    char hash[64];
    const struct used mine = {.peak_rss_bytes = r->peak_rss_bytes - (at->local_rank > 0 ? ls__shared_rss_bytes() : 0),
                              .bytes_sent = ls_comm_stats(comm).bytes_sent,
                              .cpu_seconds = ls__cpu_seconds()};
    r->workers = at->n_ranks;
    if (at->n_ranks == 1) return LS_OK;
    snprintf(hash, sizeof hash, "weights_hash: %s\n", r->weights_hash);
    TRY(ls_comm_agree(comm, LS_OK, hash));
    TRY(ls__calloc(&all, (size_t)at->n_ranks, sizeof *all));
    enum ls_status status = ls_comm_gather(comm, &mine, sizeof mine, all);
    if (status == LS_OK && at->rank == 0) {
        double cpu_seconds = 0;
        r->peak_rss_bytes = r->bytes_sent = 0;
        for (int i = 0; i < at->n_ranks; i++) {
            r->peak_rss_bytes += all[i].peak_rss_bytes;
            r->bytes_sent += all[i].bytes_sent;
            cpu_seconds += all[i].cpu_seconds;
        }
        r->cpu_percent_mean = 100 * cpu_seconds / seconds;
    }
    free(all);
    return status;
}

void ls__workers_name_slowest(struct ls_comm *comm, const struct ls_exec *exec)
{
    const struct ls_comm_place *at = ls_comm_place(comm);
    double least = 0, most = 0;
    int slowest = 0;
    for (int k = 0; k < at->n_machines; k++) {
        double seconds = ls_exec_machine_shard_seconds(exec, k);
        if (k == 0 || seconds < least) least = seconds;
        if (k == 0 || seconds > most) {
            most = seconds;
            slowest = k;
        }
    }
    if (at->n_machines > 1 && most > 1.2 * least && least > 0)
        ls__log(LS_LOG_INFO, "the slowest machine was %s: %.1f times the fastest one's time per shard",
                ls_comm_host(comm, slowest), most / least);
}
