/* comm_internal.h: the data of a job, shared by the files of src/comm.
 *
 * Threads: the caller's (main) and the communication thread's. Only the communication thread talks to the transport.
 * Processes: the ranks of a machine share struct board.
 */
#ifndef LS_COMM_INTERNAL_H
#define LS_COMM_INTERNAL_H

#include "base/status_kept.h"
#include "comm/comm.h"
#include "comm/pack.h"
#include "comm/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { MAX_LOCAL_RANKS = 256, MAX_BUCKETS = 512, COMM_MESSAGE = 1024, WHAT_BYTES = 32 };

/* Tags of messages. */
enum {
    TAG_HELLO = 1,
    TAG_SEGMENT,
    TAG_VERDICT,
    TAG_AGREE,
    TAG_BROADCAST,
    TAG_HEARTBEAT,
    TAG_PROBE,
    TAG_GATHER,
    TAG_SUM = 64 /* and the LS_COMM_WINDOW after it */
};

/* A rank as the others know it. */
struct peer {
    char host[64];
    char machine_key[96]; /* ranks with equal keys share a machine */
    char computer[40];    /* ranks with equal ones share CPUs: the boot's id */
    char sums[32];        /* LOCKSTEP_SUMS; rank 0's counts for all */
    uint64_t network;  /* number of its network namespace; of one computer and one network: messages stay in memory */
    uint64_t pids;     /* number of its pid namespace; of one computer and one of these: a pid says who lives */
    uint64_t cpus[16]; /* bit by bit those it may use */
    int32_t pid, machine, local_rank;
};

/* Why the job ends. How sure: of two endings the surer counts, of equal ones on different machines the lower rank's. */
enum sureness {
    ENDING_GUESSED, /* a call failed, probably because a rank is gone */
    ENDING_LIKELY,  /* a machine does not answer */
    ENDING_SURE,    /* a rank says so of itself, or the kernel of a neighbour */
    ENDING_AGREED   /* all have heard it in ls_comm_agree */
};

struct ending {
    int32_t by;       /* the rank that found it, and tells it */
    int32_t sureness; /* enum sureness */
    int32_t status;   /* enum ls_status: what all ranks end with */
    char message[COMM_MESSAGE];
};

/* A rank's place on its machine's board. Written by that rank, but for what its neighbours only read. */
struct board_rank {
    _Alignas(64) atomic_int pid;
    atomic_bool has_left;               /* all agreed to end: nobody waits for it, and it may be gone */
    atomic_uint n_barriers;             /* barriers it has come to */
    atomic_llong step;                  /* where it is, by its own word */
    atomic_ullong what[WHAT_BYTES / 8]; /* text, in words: read at any time by others. ls__board_rank_what */
};

/* What the ranks of a machine share besides the store. In a machine of one rank it is ordinary memory. */
struct board {
    uint64_t token;  /* written by the leader before the others see the board */
    int32_t n_local; /* the same */
    /* barriers: the last to come raises `generation`, on which the others wait */
    _Alignas(64) atomic_uint generation;
    _Alignas(64) atomic_int n_arrived;
    _Alignas(64) atomic_int next_item;
    /* the first failure handed in since the last barrier: under failure_lock */
    _Alignas(64) atomic_int failure_lock;
    int32_t pending_order;
    struct ls_kept pending;
    /* the outcome of the last barrier: written before `generation` rises, by the one who raises it */
    struct ls_kept outcome;
    uint64_t share_bytes; /* what the leader asked for in the present ls_comm_share; between two barriers */
    /* ending.c: why the job ends; the text under its lock, has_ending after it is there */
    _Alignas(64) atomic_int ending_lock;
    atomic_bool has_ending;
    atomic_bool is_told;
    atomic_int n_spread; /* rounds of heartbeats that carried it: the leader's communication thread counts */
    struct ending ending;
    /* sums over the machines */
    _Alignas(64) atomic_llong summed; /* elements [0, summed) are in */
    atomic_llong awaited;             /* the least `end` that a sleeper waits for; LLONG_MAX: none */
    atomic_uint summed_word;          /* raised when it is reached: what waiters sleep on */
    atomic_int n_waiting;             /* threads of all ranks in ls_comm_sum_wait: their cores are free */
    atomic_bool has_sum_failed;
    struct ls_kept sum_failure;          /* the leader's communication thread, before has_sum_failed */
    _Alignas(64) atomic_uint parts_word; /* raised when a bucket is complete: what the communication thread sleeps on */
    atomic_int parts[MAX_BUCKETS];
    int32_t n_parts[MAX_BUCKETS]; /* that complete a bucket: the leader's, between two barriers */
    struct {
        _Alignas(64) atomic_int taken;
    } locks[LS_COMM_LOCKS];
    struct board_rank ranks[MAX_LOCAL_RANKS];
};

/* The last word of another leader. */
struct heartbeat {
    int64_t step;
    int32_t rank;
    int16_t is_ended;   /* its launcher ends it: answer at once */
    int16_t is_answer;  /* to such a word. Neither can come from a rank that died before. */
    int16_t is_last;    /* it closes the job */
    int16_t has_ending; /* it knows why the job ends */
    char what[WHAT_BYTES];
    struct ending ending;
};

/* The communication thread's. */
struct heard {
    struct ls_request sending, receiving;
    struct heartbeat out, in; /* lent to the transport while a request is open */
    struct heartbeat last;    /* whole */
    int64_t heard_ns;
    bool is_listening; /* receiving was begun */
    bool is_asked;     /* it was sent word that the launcher ends the job */
    bool has_answered; /* since the launcher ends the job: it lives */
    bool is_broken;    /* the transport refuses: it is not asked again */
};

/* Main's. */
struct share {
    void *data;
    size_t bytes;
};

/* Whose it is says who has one. */
struct sum_job {
    int64_t *block;
    struct ls_comm_bucket buckets[MAX_BUCKETS];
    int n_buckets;
    enum ls_span_kind kind; /* as what its travel is measured */
};

/* Whether cores are left for waiting. wait.c says how they are counted. */
struct spare {
    atomic_bool has_core;  /* for every thread that computes and every communication thread of this computer */
    atomic_bool has_waits; /* for every thread that computes: one that waits leaves its own */
    atomic_int n_turns;    /* threads that compute, per core, rounded up */
};

typedef enum ls_status comm_thread_fn(struct ls_comm *c, void *arg);

/* The thread that talks to the transport. One call at a time; a sum runs when no call does. Under `lock` where nothing
 * else is said. */
struct comm_thread {
    pthread_t thread;     /* main's */
    pthread_mutex_t lock; /* made and destroyed by main, as wake and done */
    pthread_cond_t wake, done;
    bool is_started;         /* main's */
    bool is_ending;          /* main writes */
    bool is_open, is_closed; /* the communication thread writes */
    bool is_given_up;        /* main writes: it waits no longer for the transport to open */
    comm_thread_fn *fn;      /* the present call, or NULL */
    void *arg;
    struct ls_kept outcome; /* of the last call */
    bool sum_wanted;
    struct sum_job sum; /* the last one asked for */
    /* the communication thread's own */
    bool is_under_way, is_awaited;   /* as measured: sums travel, and somebody waits for them */
    struct ls_begun travel, awaited; /* since when */
    int64_t last_heartbeat_ns, listened_ns, watched_ns;
    int64_t hurried_until_ns; /* somebody wants to hear from us often */
    int64_t lost_ns;          /* when the transport first said that a rank is gone, or 0 */
    int64_t ended_ns;         /* when the launcher was seen to end us, or 0: the others are asked to answer */
};

/* --- ways to sum --- */

/* What a machine does in one hop of a chunk of n numbers. */
struct ls__sum_hop {
    int to, from; /* machines; -1: none */
    int64_t out_begin, out_end, in_begin, in_end;
    bool add; /* what comes in, to what is there; else it replaces it */
};

/* A way to add a chunk up over the machines: who sends what to whom, as arithmetic that every machine does for itself
 * and all alike. A file that ends in one of these, and a line in route.c. travel.c does the rest. */
struct ls__sum_way {
    const char *name;
    /* Whether it is the best for a bucket of n numbers; of the list the first that is. is_near: messages stay in the
     * memory of one computer. */
    bool (*suits)(int64_t n, int n_machines, bool is_near);
    int64_t (*chunk)(int64_t n, int n_machines, bool is_near); /* how many numbers of it travel as one */
    int (*n_hops)(int64_t n, int machine, int n_machines);     /* of a chunk of n */
    struct ls__sum_hop (*hop)(int64_t n, int machine, int n_machines, int hop);
};
extern const struct ls__sum_way ls__sum_ring, ls__sum_doubling;

/* Numbers in a message: few enough that MPI sends it without asking first, 5 bytes each; many enough to pay. Near,
 * where nothing is packed, fewer and larger ones are quicker. */
enum { SUM_LEAST = 1 << 11, SUM_MOST = 1 << 13, SUM_MOST_NEAR = 1 << 15 };

/* route.c */
/* The way for a bucket of n. forced: NULL, or the one that was asked for. */
const struct ls__sum_way *ls__sum_way(int64_t n, int n_machines, bool is_near, const struct ls__sum_way *forced);
enum ls_status ls__route_choose(struct ls_comm *c) LS_MUST_CHECK; /* for the job, from the cards: c->is_raw, c->way */

/* travel.c: all buckets of c->running, as their parts come in (board->parts), publishing how far the sums are
 * (board->summed). The communication thread's. */
enum ls_status ls__travel(struct ls_comm *c) LS_MUST_CHECK;
void ls__travel_release(struct ls_comm *c);
bool ls__travel_sends_to(const struct ls_comm *c, int machine); /* has not got rid of a message to it */

/* Threads: main is the one that opened the job; workers are its pool, which only claim, lock, contribute and wait. The
 * communication thread is ours. "Set up": written while the job opens, before the communication thread reads it by a
 * call; constant then. */
struct ls_comm {
    struct ls_comm_place place;           /* set up */
    double timeout;                       /* set up */
    bool is_apart;                        /* ranks share no memory: each is a machine of its own; set up */
    bool (*is_ended)(void *context);      /* set up; any thread calls it */
    bool (*is_stopped)(void *context);    /* set up; while the transport opens */
    void *is_ended_context;               /* set up; of both */
    struct peer *peers;                   /* [n_ranks] set up */
    int *leaders;                         /* [n_machines] ranks; set up */
    const struct ls_transport *transport; /* NULL for a job of one; set up; only the communication thread calls it */
    struct board *board;                  /* set up; see there */
    struct spare spare;                   /* set up; again by ls_comm_crew, of main */
    struct heard *heard;                  /* [n_machines], the leader's, else NULL; the communication thread's */
    struct sum_job running;               /* the communication thread's: what it works on */
    bool is_raw;                          /* sums travel unpacked; set up */
    const struct ls__sum_way *way;        /* that all buckets take, or NULL: the best for each; set up */
    struct chunk *chunks;                 /* travel.c's; the communication thread's */
    struct ls_lane *lane;      /* NULL: nobody measures; set before the first sum, then the communication thread's */
    struct comm_thread thread; /* see there */
    atomic_llong bytes_sent, bytes_received, n_sums; /* the communication thread counts, main reads */
    atomic_int n_waiting;                            /* any thread of this rank: in ls_comm_sum_wait */
    atomic_bool has_failed;    /* any thread: the job is broken, leave without waiting for anybody */
    atomic_bool has_lost_lock; /* any thread: a lock's holder does not get on */
    int segment;               /* main's: memfd of the machine, or -1 */
    size_t segment_bytes;      /* main's */
    struct share *shares;      /* main's */
    int n_shares;              /* main's */
    int n_buckets;             /* main's: of the present sum */
    bool has_ended, may_tell;  /* main's: ls_comm_end was called; what it found */
};

/* transport.c */
enum ls_status ls__transport_load(struct ls_comm *c) LS_MUST_CHECK;

/* comm_thread.c: the functions of the link may be called by the communication thread only. */
enum ls_status ls__comm_thread_start(struct ls_comm *c) LS_MUST_CHECK;
void ls__comm_thread_stop(struct ls_comm *c);
enum ls_status ls__comm_thread_call(struct ls_comm *c, comm_thread_fn *fn, void *arg) LS_MUST_CHECK;
/* Begins a sum. The one before has been waited for, but the communication thread may still be leaving it. */
void ls__comm_thread_sum(struct ls_comm *c, const struct sum_job *job);
/* Whether anything is on its way now; call it whenever that may have changed, or whether somebody waits: it is
 * measured. The communication thread's. */
void ls__sum_travels(struct ls_comm *c, bool is_under_way);

/* comm.c: from `root` to all ranks, or from the leader of machine `root` to all leaders. A comm_thread_fn. */
struct broadcast {
    char *data;
    size_t bytes;
    int root;
    bool is_among_machines;
    double more_seconds; /* than the timeout: the root itself may have to wait for somebody, and is the one to say so */
};
enum ls_status ls__broadcast(struct ls_comm *c, void *arg /* struct broadcast */) LS_MUST_CHECK;

/* link.c */
enum ls_status ls__link_begin_send(struct ls_comm *c, const void *data, size_t bytes, int to, int tag,
                                   struct ls_request *request) LS_MUST_CHECK;
enum ls_status ls__link_begin_receive(struct ls_comm *c, void *data, size_t bytes, int from, int tag,
                                      struct ls_request *request) LS_MUST_CHECK;
enum ls_status ls__link_poll(struct ls_comm *c, struct ls_request *const *requests, int n) LS_MUST_CHECK;
/* Whole messages; each wait ends after `seconds`. */
enum ls_status ls__link_send(struct ls_comm *c, const void *data, size_t bytes, int to, int tag,
                             double seconds) LS_MUST_CHECK;
enum ls_status ls__link_receive(struct ls_comm *c, void *data, size_t bytes, int from, int tag,
                                double seconds) LS_MUST_CHECK;
/* Keeps the other leaders informed that this one lives, and notes what they say. Call it in every loop that waits. */
void ls__link_pump(struct ls_comm *c);
/* Says good-bye to the other leaders and hears theirs, so that no message is open when the transport closes. */
void ls__link_close(struct ls_comm *c);

/* wait.c: how waiting is done. */
/* How many threads of every rank [n_ranks] compute, or NULL: one of each. */
void ls__wait_count(struct ls_comm *c, const int32_t *n_threads);
/* Between two looks of the communication thread at what has not come for `waited_ns`. is_awaited: a thread of this
 * machine waits for it and does nothing else. Returns at once, or sleeps. */
void ls__wait_a_little(struct ls_comm *c, int64_t waited_ns, bool is_awaited);

/* ending.c: why the job ends, known to all ranks of all machines within a moment. */
/* The calling thread's last failure breaks the job: notes it for all to see. Returns `status`, to be handed on. */
enum ls_status ls__ending_found(struct ls_comm *c, enum sureness sureness, enum ls_status status) LS_MUST_CHECK;
void ls__ending_post(struct ls_comm *c,
                     const struct ending *e); /* on the machine's board, if nothing better is there */
bool ls__ending_read(const struct ls_comm *c, struct ending *e);
/* In every loop that waits: LS_REMOTE with its message when the job ends. */
enum ls_status ls__ending_check(struct ls_comm *c) LS_MUST_CHECK;
/* Takes a lock in shared memory whose holder may have died: goes on without it after a second. */
void ls__lock_briefly(atomic_int *taken);

/* late.c: who is missing, in words, as LS_TIMEOUT or LS_REMOTE; LS_OK while nobody can be named */
enum ls_status ls__late_machine(struct ls_comm *c, double seconds) LS_MUST_CHECK; /* of this machine's ranks */
/* ": it is at step 7, sums", or nothing where that is not known */
void ls__late_where(const struct ls_comm *c, int rank, char *out, size_t size);
bool ls__late_is_dead(char state);                  /* as /proc names it */
bool ls__late_is_any_dead(const struct ls_comm *c); /* of them, besides this one */
/* Of the other leaders, after more than the timeout. One that lives but waits for its own ranks gets a second more, in
 * which its machine names them. */
enum ls_status ls__late_peers(struct ls_comm *c, double seconds) LS_MUST_CHECK;
bool ls__late_is_gone(const struct ls_comm *c, int machine); /* its leader, as far as this computer can say */
/* Posts it when the leader of the machine before or after this one is dead, where that is the same computer: long
 * before its silence says so. */
void ls__late_neighbours(struct ls_comm *c);
/* The launcher ends everyone when a rank dies but does not say which: the leader that does not answer now. */
enum ls_status ls__late_ended(struct ls_comm *c) LS_MUST_CHECK;
/* The state letter of a process, as in /proc: 'Z' dead, 'T' stopped, 0 gone. */
char ls__process_state(pid_t pid);

/* cards.c: c->peers, c->leaders and c->place. */
enum ls_status ls__cards_exchange(struct ls_comm *c) LS_MUST_CHECK;
void ls__cards_number(struct ls_comm *c); /* machines, from the keys of the cards */

/* machine.c */
enum ls_status ls__comm_machine_open(struct ls_comm *c) LS_MUST_CHECK; /* finds who shares a machine, and the board */
void ls__comm_machine_close(struct ls_comm *c);
void ls__board_rank_what(const struct board_rank *s, char what[WHAT_BYTES]);
/* Sleeps until *word is no longer `seen`, or for at most `ns`. */
void ls__futex_wait(atomic_uint *word, unsigned seen, int64_t ns);
void ls__futex_wake(atomic_uint *word);

#endif
