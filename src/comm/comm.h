/* comm.h: many processes, one training: who is there, memory they share, and sums over all of them.
 *
 * A job is a number of ranks, started by mpirun or srun. Ranks of one machine share the store (parameters, sums,
 * optimizer state) in memory and take shards from one counter, as threads do, so that within a machine nothing is ever
 * sent. Between machines the sums travel once per machine: the leader, local rank 0 of each, has a communication thread
 * that adds them up while shards are still being computed, in a ring or in pairs.
 *
 *     machine 0: rank 0 (leader)  rank 1       machine 1: rank 2 (leader)  rank 3
 *                \--- shared memory ---/                  \--- shared memory ---/
 *                        ^----------- sums of the leaders -----------^
 *
 * A machine here is ranks that share memory. Usually that is a computer; containers or devices may cut one into
 * several.
 *
 * What keeps a job from hanging: every rank makes the same calls in the same order (they are collective over the job,
 * or over the machine where a function says so). A rank that fails may leave at any point, between any two of them: it
 * goes through ls_comm_end, by which every wait of every other rank ends within a moment with LS_REMOTE and the cause.
 * So TRY is always right. What a rank may not do is go on alone: to skip a collective call, or to make one more,
 * because of something only it knows. Such a decision goes through ls_comm_agree, a gather or a broadcast first. A rank
 * that dies or stops without a word is found by the others after the timeout at the latest, and named.
 *
 * A program that was started alone gets a job of one rank, in which every call is trivial and no plug-in is loaded.
 */
#ifndef LS_COMM_H
#define LS_COMM_H

#include "base/status.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ls_comm;

struct ls_comm_options {
    double timeout; /* seconds that a wait for a peer may take */
    bool is_apart;  /* ranks of one machine share no memory (that of their devices is their own): each counts as a
                       machine */
    /* (optional) Whether the launcher is ending this process. It does when a rank has died, but does not say which; the
     * ranks find out in the second they have. */
    bool (*is_ended)(void *context);
    /* (optional) Asked while the ranks of a job that nobody launched as a whole are still coming: true: do not wait. */
    bool (*is_stopped)(void *context);
    void *context;
};

struct ls_comm_place {
    int rank, n_ranks;
    int machine, n_machines; /* numbered by their lowest rank */
    int local_rank, n_local; /* this rank on its machine */
    int n_nodes;             /* machines that are made on one computer and share its cores; 1: none are */
    int turn;                /* this rank among those of its host, in whichever machines they are */
    char host[64];
    char transport[96]; /* "Open MPI 4.1.4"; "" for a job of one */
};

/* Whether this process was started as one of several: by mpirun, srun or the like, or by hand with its number
 * (ls_comm_be_node). */
bool ls_comm_is_launched(void);
bool ls_comm_is_node(void); /* the latter */
/* This process is rank `rank` of n, which find each other at rank 0's address over ZeroMQ, without MPI. Before the job
 * is opened; n > 1. key_file: NULL for none, which only loopback may do. It is kept in the environment
 * (LOCKSTEP_WORLD_SIZE, LOCKSTEP_RANK, LOCKSTEP_MASTER, LOCKSTEP_KEY), where a program that uses the library can put it
 * too. */
enum ls_status ls_comm_be_node(int rank, int n, const char *master, const char *key_file) LS_MUST_CHECK;
bool ls_comm_is_first(void); /* rank 0 by the same variables, or alone; before there is a job to ask */

/* Whether this build has the plug-in for an MPI ("openmpi", "mpich"). */
bool ls_comm_has_plugin(const char *mpi);
/* What $LOCKSTEP_MPI asks for, "" if it is not set; LS_USAGE if it is neither of the two. */
enum ls_status ls_comm_wanted_mpi(const char **name) LS_MUST_CHECK;

/* Joins the job this process was started in, or makes a job of one. */
enum ls_status ls_comm_open(struct ls_comm **out, const struct ls_comm_options *options) LS_MUST_CHECK;
/* How this rank fared, as the last collective call of every rank, made exactly once however it went. Returns how the
 * job ends, the same on all ranks: `mine` if all fared well, else the status of the rank whose failure came first, and
 * its message, which names it. LS_INTERRUPTED counts as well, all have it together. May take a second after a failure.
 */
enum ls_status ls_comm_end(struct ls_comm *comm, enum ls_status mine) LS_MUST_CHECK;
/* Then: whether this rank is the one to say it. */
bool ls_comm_may_tell(const struct ls_comm *comm);
/* After ls_comm_end; without it the job ends with LS_INTERNAL. After a failure it leaves without waiting for the
 * others, and the process is to end by _exit: what is left of the job may hang in the communication library's clean-up.
 */
void ls_comm_close(struct ls_comm **comm);
/* From here on, before the first sum: when sums travel is in a lane of the trace, "communication". The trace outlives
 * the job; after a failure it is never freed, as little as the job itself. */
enum ls_status ls_comm_measure(struct ls_comm *comm, struct ls_trace *trace) LS_MUST_CHECK;
const struct ls_comm_place *ls_comm_place(const struct ls_comm *comm);
const char *ls_comm_host(const struct ls_comm *comm, int machine);
int ls_comm_machine_of(const struct ls_comm *comm, int rank);
/* How many threads of this rank compute from now on; until then it counts as one. Collective. It decides whether
 * anybody may wait without sleeping. */
enum ls_status ls_comm_crew(struct ls_comm *comm, int n_threads) LS_MUST_CHECK;
/* Whether messages between its machines stay in the memory of one computer; sums travel unpacked then. */
bool ls_comm_is_near(const struct ls_comm *comm);
/* --- agreement --- */

/* Every rank hands in how it fares and a text (NULL if it fares badly). LS_OK when all are well and all texts are
 * equal. Otherwise the job ends: every rank gets LS_REMOTE and the first difference or trouble, by rank and host, to
 * hand up to ls_comm_end. Texts are lines "key: value"; a difference is shown by line. */
enum ls_status ls_comm_agree(struct ls_comm *comm, enum ls_status mine, const char *text) LS_MUST_CHECK;

/* `bytes` of every rank to rank 0, in the order of ranks; `all` is used there only. */
enum ls_status ls_comm_gather(struct ls_comm *comm, const void *mine, size_t bytes, void *all) LS_MUST_CHECK;
/* `bytes` at data of rank `root` to all ranks. */
enum ls_status ls_comm_broadcast(struct ls_comm *comm, int root, void *data, size_t bytes) LS_MUST_CHECK;
/* The same among the leaders only, from the machine `root`: for what lies in the memory of a machine. The other ranks
 * return at once. */
enum ls_status ls_comm_broadcast_machines(struct ls_comm *comm, int root, void *data, size_t bytes) LS_MUST_CHECK;

/* In a loop that waits for other ranks by other means, after `seconds` of it: LS_OK while they may still come. After
 * the timeout somebody is named. */
enum ls_status ls_comm_check(struct ls_comm *comm, double seconds) LS_MUST_CHECK;

/* --- the machine --- */

/* Memory that all ranks of the machine see, zeroed, 64-byte aligned; the job's until it is closed. Collective: all ask
 * for the same sizes in the same order. In a machine of one rank it is ordinary memory. */
enum ls_status ls_comm_share(struct ls_comm *comm, size_t bytes, void **out) LS_MUST_CHECK;

/* Where this rank is, for the messages of those who wait for it. step < 0: still at the one before. `what` is a string
 * constant. */
void ls_comm_note(struct ls_comm *comm, int64_t step, const char *what);

/* Waits for all ranks of the machine. If any hands in a failure all return it, with its message: of several the one
 * with the lowest `order`. Also begins the next round of ls_comm_claim. */
enum ls_status ls_comm_barrier(struct ls_comm *comm, enum ls_status mine, int order) LS_MUST_CHECK;
/* The next number, from 0 up, that no rank of the machine has had since the last barrier. */
int ls_comm_claim(struct ls_comm *comm);

/* Locks in the memory of the machine, by number. Held for microseconds. */
enum { LS_COMM_LOCKS = 256 };
void ls_comm_lock(struct ls_comm *comm, int which);
void ls_comm_unlock(struct ls_comm *comm, int which);

/* --- sums over the machines --- */

/* A piece of the block of sums. It may travel when `n_parts` contributions on this machine are in. */
struct ls_comm_bucket {
    int64_t begin, end; /* elements; buckets lie one after the other */
    int n_parts;
};

/* How a bucket of n sums travels: in chunks, LS_COMM_WINDOW of them under way at once. */
enum { LS_COMM_WINDOW = 8 };
struct ls_comm_route {
    const char *way; /* "ring", "doubling" */
    int64_t chunk;   /* sums */
    int n_hops;      /* messages of a chunk, one after the other */
    double volume;   /* what a machine sends, as a multiple of the chunk */
};
/* way: NULL for the one a job takes; there is one of that name. */
struct ls_comm_route ls_comm_route(int64_t n, int n_machines, bool is_near, const char *way);

/* Begins the sum over the machines of block[0, end of the last bucket), in place, bucket after bucket, while the
 * machine is still contributing. Every leader gives the same buckets but for n_parts. Ranks that are not leaders only
 * note the number of buckets. A job of one machine has nothing to do. kind: as what its travel is measured. */
enum ls_status ls_comm_sum_begin(struct ls_comm *comm, int64_t *block, const struct ls_comm_bucket *buckets,
                                 int n_buckets, enum ls_span_kind kind) LS_MUST_CHECK;
/* One contribution to a bucket is in. Any thread of any rank of the machine. */
void ls_comm_sum_part(struct ls_comm *comm, int bucket);
/* No more contributions will come (all are in, or some failed): every bucket may travel. The leader's. */
void ls_comm_sum_flush(struct ls_comm *comm);
/* Waits until the block's elements [0, end) are sums over all machines. Any thread of any rank of the machine. */
enum ls_status ls_comm_sum_wait(struct ls_comm *comm, int64_t end) LS_MUST_CHECK;

struct ls_comm_stats {
    int64_t bytes_sent, bytes_received, n_sums; /* of this rank */
};
struct ls_comm_stats ls_comm_stats(const struct ls_comm *comm);
/* `bytes` were summed over all ranks by other means (the devices' own); counted as a ring sends them. */
void ls_comm_count_sum(struct ls_comm *comm, int64_t bytes);

/* The network between the machines, as a sum finds it. */
struct ls_comm_network {
    double latency;   /* seconds of a small message to the next machine, one way */
    double bandwidth; /* bytes per second that a machine sends and hears at the same time */
    /* while n_threads of each machine compute: */
    double busy_bandwidth; /* the same */
    double cpu;            /* cores of the machine that they lose to the sum */
};
/* Takes about `seconds`. Collective; all ranks get the same numbers, zero in a job of one machine. */
enum ls_status ls_comm_probe(struct ls_comm *comm, double seconds, int n_threads,
                             struct ls_comm_network *network) LS_MUST_CHECK;

/* The clock of this machine against that of machine 0, of which rank 0 is one: offset_ns added to ls__now_ns() here is
 * what it says there, give or take error_ns. */
struct ls_comm_clock {
    int64_t offset_ns, error_ns;
};
/* Collective. Zero in a job of one machine. */
enum ls_status ls_comm_clock(struct ls_comm *comm, struct ls_comm_clock *clock) LS_MUST_CHECK;

/* What n sums cost to travel: bytes on the wire, and seconds of one thread to pack and to add them. */
struct ls_comm_weight {
    double bytes, pack_seconds, unpack_seconds;
};
enum ls_status ls_comm_weigh(const int64_t *sums, int64_t n, bool is_near, struct ls_comm_weight *weight) LS_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
