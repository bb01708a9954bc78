/* comm_internal.h: the data of a job, shared by the files of src/comm.
 *
 * Threads: the caller's (main) and the courier's. Only the courier talks to the transport. Processes: the ranks of a
 * node share struct board.
 */
#ifndef LS_COMM_INTERNAL_H
#define LS_COMM_INTERNAL_H

#include "comm/transport.h"
#include "lockstep/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { MAX_SEATS = 256, MAX_BUCKETS = 512, COMM_MESSAGE = 1024, WHAT_BYTES = 32 };

/* Tags of messages. */
enum {
    TAG_HELLO = 1,
    TAG_SEGMENT,
    TAG_VERDICT,
    TAG_AGREE,
    TAG_BROADCAST,
    TAG_BEAT,
    TAG_PROBE,
    TAG_GATHER,
    TAG_RING = 64
};

/* A rank as the others know it. */
struct peer {
    char host[64];
    char node_key[96]; /* ranks with equal keys share a machine */
    int32_t pid, node, seat;
};

/* A rank's place on its node's board. */
struct seat {
    _Alignas(64) atomic_int pid;
    atomic_uint n_met; /* meetings it has come to */
    atomic_llong step; /* where it is, by its own word */
    char what[WHAT_BYTES];
};

/* What the ranks of a node share besides the store. In a node of one rank it is ordinary memory. */
struct board {
    uint64_t token;
    int32_t n_seats;
    /* meetings: the last to come raises `generation`, on which the others wait */
    _Alignas(64) atomic_uint generation;
    _Alignas(64) atomic_int n_arrived;
    _Alignas(64) atomic_int next_item;
    /* the first failure handed in since the last meeting, and the outcome of the last meeting */
    _Alignas(64) atomic_int failure_lock;
    int32_t pending_status, pending_order;
    char pending[COMM_MESSAGE];
    int32_t outcome_status;
    char outcome[COMM_MESSAGE];
    atomic_int is_told;
    uint64_t share_bytes; /* what the leader asked for in the present ls_comm_share */
    /* sums over the nodes */
    _Alignas(64) atomic_llong summed; /* elements [0, summed) are in */
    atomic_uint summed_word;          /* raised with it: what waiters sleep on */
    atomic_int sum_status;
    char sum_message[COMM_MESSAGE];
    atomic_int parts[MAX_BUCKETS];
    struct {
        _Alignas(64) atomic_int taken;
    } locks[LS_COMM_LOCKS];
    struct seat seats[MAX_SEATS];
};

/* The last word of another leader. */
struct beat {
    int64_t step;
    int32_t rank;
    int16_t is_hurried; /* answer at once */
    int16_t is_leaving; /* it ends, and has said why */
    int32_t is_last;    /* it closes the job */
    char what[WHAT_BYTES];
};

struct heard {
    struct ls_request sending, receiving;
    struct beat in, last;
    int64_t heard_ns;
};

struct share {
    void *data;
    size_t bytes;
};

struct sum_job {
    int64_t *block;
    struct ls_comm_bucket buckets[MAX_BUCKETS];
    int n_buckets;
};

typedef enum ls_status courier_fn(struct ls_comm *c, void *arg);

/* The thread that talks to the transport. One call at a time; a sum runs when no call does. */
struct courier {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    bool is_started, is_ending, is_open;
    courier_fn *fn; /* the present call, or NULL */
    void *arg;
    enum ls_status status;
    char message[COMM_MESSAGE];
    bool sum_wanted;
    int64_t last_beat_ns, listened_ns;
    struct beat out;
    int64_t hurried_until_ns; /* somebody wants to hear from us often */
    atomic_int n_last_words;  /* beats sent since the main thread is leaving */
};

struct ring; /* ring.c */

/* Who says why the job ends. */
enum telling {
    TELL_FIRST,  /* whoever comes first; the launcher ends the others */
    TELL_CHIEF,  /* all know the same: rank 0 */
    TELL_SELF,   /* this node knows best */
    TELL_NOTHING /* another does */
};

struct ls_comm {
    struct ls_comm_place place;
    double timeout;
    bool has_failed;     /* the job is broken: leave without a word */
    struct peer *peers;  /* [n_ranks] */
    int *leaders;        /* [n_nodes] ranks */
    struct heard *heard; /* [n_nodes], the leader's */
    void *library;       /* the plug-in, or NULL for a job of one */
    const struct ls_transport *transport;
    struct courier courier;
    struct board *board;
    int segment; /* memfd of the node, or -1 */
    size_t segment_bytes;
    struct share *shares;
    int n_shares;
    struct sum_job sum, running; /* the last one asked for; the courier's own copy of the one it works on */
    int n_buckets;               /* of the present sum */
    struct ring *rings;
    struct ls_comm_stats stats;
    bool may_spin; /* every thread of the node has a CPU */
    bool (*is_ended)(void);
    int64_t ended_ns;       /* when that was seen, or 0: the others are asked to answer at once */
    atomic_bool is_leaving; /* ls_comm_may_tell was asked */
    enum telling telling;
    bool has_lost_lock; /* its holder does not get on */
};

/* plugin.c */
enum ls_status ls__plugin_load(struct ls_comm *c) LS_MUST_CHECK;
void ls__plugin_unload(struct ls_comm *c);

/* courier.c: the functions of the link may be called by the courier's thread only. */
enum ls_status ls__courier_start(struct ls_comm *c) LS_MUST_CHECK;
void ls__courier_stop(struct ls_comm *c);
enum ls_status ls__courier_call(struct ls_comm *c, courier_fn *fn, void *arg) LS_MUST_CHECK;
/* Begins a sum. The one before has been waited for, but the courier may still be leaving it. */
void ls__courier_sum(struct ls_comm *c, const struct sum_job *job);

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
enum ls_status ls__link_pump(struct ls_comm *c) LS_MUST_CHECK;
/* Says good-bye to the other leaders and hears theirs, so that no message is open when the transport closes. */
void ls__link_close(struct ls_comm *c);
void ls__link_idle(struct ls_comm *c, int *n_idle); /* sleeps a little, longer when nothing has moved for long */

/* late.c: who is missing, in words, as LS_TIMEOUT or LS_REMOTE; LS_OK while nobody can be named */
enum ls_status ls__late_node(struct ls_comm *c, double seconds) LS_MUST_CHECK; /* of this node's ranks */
bool ls__late_is_any_dead(const struct ls_comm *c);                            /* of them, besides this one */
/* Of the other leaders, after more than the timeout. One that lives but waits for its own ranks gets a second more, in
 * which its node names them. */
enum ls_status ls__late_peers(struct ls_comm *c, double seconds) LS_MUST_CHECK;
/* The launcher ends everyone when a rank dies but does not say which: the leader that does not answer now. */
enum ls_status ls__late_ended(struct ls_comm *c) LS_MUST_CHECK;
/* The state letter of a process, as in /proc: 'Z' dead, 'T' stopped, 0 gone. */
char ls__process_state(pid_t pid);

/* node.c */
enum ls_status ls__node_open(struct ls_comm *c) LS_MUST_CHECK; /* finds who shares a machine, and the board */
void ls__node_close(struct ls_comm *c);
/* Sleeps until *word is no longer `seen`, or for at most `ns`. */
void ls__futex_wait(atomic_uint *word, unsigned seen, int64_t ns);
void ls__futex_wake(atomic_uint *word);

/* pack.c: integers of few bytes, exactly. `out` needs ls__pack_bound(n) bytes. */
size_t ls__pack_bound(size_t n);
size_t ls__pack(const int64_t *x, size_t n, uint8_t *out);
/* False if the message is not n packed numbers. add: x += them, else x = them. */
bool ls__unpack(const uint8_t *in, size_t bytes, int64_t *x, size_t n, bool add);

/* ring.c: the sum job, on the courier's thread */
enum ls_status ls__ring_run(struct ls_comm *c) LS_MUST_CHECK;
void ls__ring_release(struct ls_comm *c);

#endif
