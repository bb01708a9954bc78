/* allreduce.c: the time of a sum of int64 over processes, for bench/allreduce and bench/scaling. Started by mpirun.
 *
 *     allreduce mpi   REPEATS N...    MPI's own MPI_Allreduce, in place
 *     allreduce ours  REPEATS N...    ls_comm_sum_begin, _flush, _wait. Processes with different LOCKSTEP_MACHINE are
 *                                     machines of their own
 *     allreduce barrier REPEATS       ls_comm_barrier between processes of one machine: what is left of communication
 *                                     there
 *
 * Out: one line of JSON per size from rank 0: for each repeat the seconds of the slowest rank and the CPU seconds of
 * all, and the bytes that all sent. The numbers are as gradients' sums are: two's complement of about 37 bits, in the
 * buckets that training makes. Every sum is checked. Each rank keeps to a CPU of its own where there are enough.
 */
#include "comm/comm.h"

#include <inttypes.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { BUCKET = 1 << 16, MAX_N_BUCKETS = 400, MAX_REPEATS = 1000, MAX_RANKS = 64, N_BARRIERS = 2000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of all threads of this process. */
static double cpu_now(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "allreduce: %s\n", what);
    _Exit(1); /* mpirun ends the others */
}

static void check(enum ls_status status)
{
    if (status != LS_OK) give_up(ls_error_message());
}

static int number_in(const char *variable)
{
    const char *text = getenv(variable);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

/* The rank-th of the CPUs this process may use, if every rank can have one. Before MPI starts threads. */
static void keep_to_one_cpu(void)
{
    int left = number_in("OMPI_COMM_WORLD_LOCAL_RANK");
    cpu_set_t allowed, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    if (number_in("OMPI_COMM_WORLD_LOCAL_SIZE") > CPU_COUNT(&allowed)) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
        CPU_SET(cpu, &own);
        sched_setaffinity(0, sizeof own, &own);
        return;
    }
}

/* About a bell, with a deviation near 2^36; the same for the same rank and place. */
static int64_t value_at(int rank, int64_t i)
{
    uint64_t x = ((uint64_t)i * 64 + (uint64_t)rank + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return (int64_t)(x >> 28) + (int64_t)(x << 36 >> 28) - ((int64_t)1 << 36);
}

static void fill(int64_t *block, int64_t n, int rank)
{
    for (int64_t i = 0; i < n; i++) block[i] = value_at(rank, i);
}

static void verify(const int64_t *block, int64_t n, int n_ranks, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t expected = 0;
        for (int r = 0; r < n_ranks; r++) expected += value_at(r, i);
        if (block[i] == expected) continue;
        fprintf(stderr, "allreduce: %s: element %" PRId64 " of %" PRId64 " is %" PRId64 ", expected %" PRId64 "\n",
                what, i, n, block[i], expected);
        _Exit(1);
    }
}

static int64_t *make_block(int64_t n)
{
    int64_t *block = aligned_alloc(64, ((size_t)n * sizeof *block + 63) / 64 * 64);
    if (!block) give_up("out of memory");
    return block;
}

/* What a repeat took: the slowest rank's seconds, and all ranks' of CPUs. */
struct took {
    double seconds, cpu;
};

static void print_result(const char *what, int64_t n, int64_t bytes_sent, const struct took *took, int n_repeats)
{
    printf("{\"what\": \"%s\", \"elements\": %" PRId64 ", \"bytes_sent\": %" PRId64 ", \"seconds\": [", what, n,
           bytes_sent);
    for (int i = 0; i < n_repeats; i++) printf("%s%.9f", i ? ", " : "", took[i].seconds);
    printf("], \"cpu_seconds\": [");
    for (int i = 0; i < n_repeats; i++) printf("%s%.6f", i ? ", " : "", took[i].cpu);
    printf("]}\n");
    fflush(stdout);
}

/* --- MPI's own --- */

static void measure_mpi(int64_t n, int n_repeats)
{
    int rank, n_ranks;
    static struct took took[MAX_REPEATS];
    int64_t *block = make_block(n);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    for (int k = -1; k < n_repeats; k++) { /* the first opens connections and touches memory */
        fill(block, n, rank);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now(), cpu_start = cpu_now();
        MPI_Allreduce(MPI_IN_PLACE, block, (int)n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        double mine = now() - start, cpu = cpu_now() - cpu_start;
        struct took all;
        MPI_Allreduce(&mine, &all.seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&cpu, &all.cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        verify(block, n, n_ranks, "mpi");
        if (k >= 0) took[k] = all;
    }
    /* MPI does not tell what it sends; a ring, or an exchange of halves, sends 2 (P - 1) / P of the block per rank. */
    if (rank == 0) print_result("mpi", n, 2 * (n_ranks - 1) * n * (int64_t)sizeof *block, took, n_repeats);
    free(block);
}

static void run_mpi(int n_repeats, char **sizes, int n_sizes)
{
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    for (int i = 0; i < n_sizes; i++) measure_mpi(strtoll(sizes[i], NULL, 10), n_repeats);
    MPI_Finalize();
}

/* --- ours --- */

/* The buckets of exec/sums.c, if layers were all small. */
static int make_buckets(int64_t n, struct ls_comm_bucket *buckets)
{
    int64_t size = n / MAX_N_BUCKETS > BUCKET ? (n + MAX_N_BUCKETS - 1) / MAX_N_BUCKETS : BUCKET;
    int count = 0;
    for (int64_t at = 0; at < n; at += size)
        buckets[count++] = (struct ls_comm_bucket){.begin = at, .end = at + size < n ? at + size : n, .n_parts = 1};
    return count;
}

static struct took took_by_all(struct ls_comm *comm, struct took mine)
{
    struct took all[MAX_RANKS] = {0};
    check(ls_comm_gather(comm, &mine, sizeof mine, all));
    for (int r = 1; r < ls_comm_place(comm)->n_ranks; r++) {
        if (all[r].seconds > all[0].seconds) all[0].seconds = all[r].seconds;
        all[0].cpu += all[r].cpu;
    }
    return all[0];
}

static int64_t sum_of(struct ls_comm *comm, int64_t mine)
{
    int64_t all[MAX_RANKS] = {0};
    check(ls_comm_gather(comm, &mine, sizeof mine, all));
    for (int r = 1; r < ls_comm_place(comm)->n_ranks; r++) all[0] += all[r];
    return all[0];
}

static void measure_ours(struct ls_comm *comm, int64_t n, int n_repeats)
{
    const struct ls_comm_place *at = ls_comm_place(comm);
    static struct ls_comm_bucket buckets[MAX_N_BUCKETS + 1];
    static struct took took[MAX_REPEATS];
    int64_t *block = make_block(n), sent = 0;
    int n_buckets = make_buckets(n, buckets);
    for (int k = -1; k < n_repeats; k++) {
        fill(block, n, at->rank);
        check(ls_comm_agree(comm, LS_OK, "ready"));
        int64_t before = ls_comm_stats(comm).bytes_sent;
        double start = now(), cpu_start = cpu_now();
        check(ls_comm_sum_begin(comm, block, buckets, n_buckets, LS_SPAN_SUM));
        ls_comm_sum_flush(comm);
        check(ls_comm_sum_wait(comm, n));
        struct took mine = {now() - start, cpu_now() - cpu_start};
        sent = sum_of(comm, ls_comm_stats(comm).bytes_sent - before);
        struct took all = took_by_all(comm, mine);
        verify(block, n, at->n_ranks, "ours");
        if (k >= 0) took[k] = all;
    }
    if (at->rank == 0) print_result("ours", n, sent, took, n_repeats);
    free(block);
}

static void measure_barriers(struct ls_comm *comm, int n_repeats)
{
    static struct took took[MAX_REPEATS];
    for (int k = -1; k < n_repeats; k++) {
        check(ls_comm_barrier(comm, LS_OK, 0));
        double start = now(), cpu_start = cpu_now();
        for (int i = 0; i < N_BARRIERS; i++) check(ls_comm_barrier(comm, LS_OK, 0));
        if (k >= 0) took[k] = (struct took){(now() - start) / N_BARRIERS, (cpu_now() - cpu_start) / N_BARRIERS};
    }
    if (ls_comm_place(comm)->rank == 0) print_result("barrier", 0, 0, took, n_repeats);
}

static void run_ours(bool is_barrier, int n_repeats, char **sizes, int n_sizes)
{
    const struct ls_comm_options options = {.timeout = 60};
    struct ls_comm *comm;
    check(ls_comm_open(&comm, &options));
    const struct ls_comm_place *at = ls_comm_place(comm);
    if (at->n_ranks < 2 || at->n_ranks > MAX_RANKS) give_up("expected 2 to 64 processes; start it with mpirun -n 2");
    if (is_barrier && at->n_machines != 1) give_up("barriers are within one machine; unset LOCKSTEP_MACHINE");
    if (!is_barrier && at->n_machines != at->n_ranks) give_up("each process needs a LOCKSTEP_MACHINE of its own");
    if (is_barrier) measure_barriers(comm, n_repeats);
    for (int i = 0; !is_barrier && i < n_sizes; i++) measure_ours(comm, strtoll(sizes[i], NULL, 10), n_repeats);
    check(ls_comm_end(comm, LS_OK));
    ls_comm_close(&comm);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    bool is_mpi = strcmp(what, "mpi") == 0, is_barrier = strcmp(what, "barrier") == 0;
    int n_repeats = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    if ((!is_mpi && !is_barrier && strcmp(what, "ours") != 0) || n_repeats < 1 || n_repeats > MAX_REPEATS)
        give_up("expected: mpi|ours|barrier REPEATS(1..1000) N...");
    for (int i = 3; i < argc; i++)
        if (strtoll(argv[i], NULL, 10) < 1 || strtoll(argv[i], NULL, 10) > INT32_MAX) give_up("N: 1 to 2^31 - 1");
    keep_to_one_cpu();
    if (is_mpi)
        run_mpi(n_repeats, argv + 3, argc - 3);
    else
        run_ours(is_barrier, n_repeats, argv + 3, argc - 3);
    return 0;
}
