/* predict.h: how long a step would take on more workers, from the profile of one machine and two numbers of a network.
 *
 * Pure arithmetic: nothing here measures, sends or starts anything. A profile says what a step costs on one machine
 * (src/measure/forecast.c measures it); a cluster says how many workers there are, where they sit and what joins them;
 * the answer is a point: the seconds of a step and what they are spent on. One step is played through event by event:
 *
 *     pre | shards, in waves of as many as there are threads | join |          update, bucket by bucket
 *                    ^bucket 0 is complete on this machine
 *          network:   |--- bucket 0 ---|--- bucket 1 ---|  ...  |-- last --|
 *
 * A wave takes as long as one shard. The machine's last wave completes the buckets, in the order of backward; a bucket
 * travels when it is complete and the ones before it are under way; its update begins when it has arrived. What of the
 * journey is not hidden behind shards is exposed communication. docs/guide/predict.md has the formulas.
 *
 * Laws (tests/unit/test_predict.c): one machine communicates nothing; with a perfect network the time is that of
 * ceil(shards / threads) shards; more bandwidth or less latency is never slower; no speed-up exceeds the number of
 * workers.
 */
#ifndef LS_PREDICT_H
#define LS_PREDICT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- one machine --- */

/* Sums that travel together, in the order in which a step completes them. */
struct ls_predict_bucket {
    int64_t n;             /* sums */
    double bytes;          /* that they take on the wire */
    double ready_seconds;  /* from the beginning of a shard until it has added its part to all of them */
    double join_seconds;   /* computed after the shards, one thread, the whole batch; 0: only shards add to it */
    double update_seconds; /* of the parameters they belong to, one thread */
};

struct ls_predict_profile {
    char model[128];
    int64_t n_parameters, batch_size, shards;
    double shard_seconds;                   /* one shard on one thread, as long as all threads compute */
    double pre_seconds;                     /* before the shards, one thread */
    double overhead_seconds;                /* of a step, on any number of threads */
    double pack_seconds, unpack_seconds;    /* per sum, one thread */
    double copy_seconds;                    /* per sum, one thread: as it is, within memory; adding it there, too */
    int64_t n_averaged;                     /* LS_PREDICT_LOCAL: parameters, buffers and optimizer state */
    double averaged_bytes;                  /* their sums on the wire */
    double average_seconds, spread_seconds; /* per value, one thread: a replica into the sums; the mean into it */
    bool is_near;                           /* sums travel as they are, within one computer (ls_comm_is_near) */
    struct ls_predict_bucket *buckets;
    int n_buckets;
};
void ls_predict_profile_release(struct ls_predict_profile *p);
double ls_predict_bytes(const struct ls_predict_profile *p); /* of all buckets together */

/* --- the network --- */

/* Of 1538 bytes of an Ethernet frame on the line 1448 are data. */
#define LS_LINE_TO_DATA (1448.0 / 1538.0)

struct ls_predict_network {
    char name[64];
    double latency;   /* seconds of a small message, one way */
    double bandwidth; /* bytes per second that reach the other side, each way at the same time */
    double cpu;       /* share of a core that talking takes meanwhile; felt where all cores compute */
    /* Probed while all threads of a machine computed: `cpu` is then what they lost, in cores, and the bandwidth was: */
    double busy_bandwidth; /* 0: not probed */
};

/* Common networks, slowest first; *n: how many. */
const struct ls_predict_network *ls_predict_presets(int *n);
/* By name, in any case; NULL if there is none. */
const struct ls_predict_network *ls_predict_preset(const char *name);
/* "0.1ms", "50us", "2e-5s": a number and a unit. False if it is not. */
bool ls_predict_parse_latency(const char *text, double *seconds);
/* "1Gbit", "10Gbit/s", "300Mbps" (of the line: 94 % of it carries data), "117MB", "1.2GB/s" (of data). */
bool ls_predict_parse_bandwidth(const char *text, double *bytes_per_second);

/* --- many machines --- */

enum ls_predict_algorithm {
    LS_PREDICT_RING,         /* one ring through all workers */
    LS_PREDICT_TREE,         /* halving and doubling among all workers */
    LS_PREDICT_HIERARCHICAL, /* shared memory within a machine, a ring of machines or pairs of them: what Lockstep does
                              */
    LS_PREDICT_PS,           /* --sync ps: parameter servers on machines of their own (serve.c) */
    LS_PREDICT_ASYNC,        /* --sync async and ssp:K: a step is one update, not the same training */
    LS_PREDICT_LOCAL,        /* --sync local:H: the mean of H steps, not the same training (local.c) */
    LS_N_PREDICT
};
const char *ls_predict_name(enum ls_predict_algorithm a); /* "ring", "tree", "hierarchical", "ps", "async", "local" */

struct ls_predict_cluster {
    int workers, workers_per_machine;
    int threads;   /* of a worker */
    int cores;     /* of a machine: what threads leave over is the communication's; 0: as many as threads */
    int servers;   /* LS_PREDICT_PS, LS_PREDICT_ASYNC; 0: 1 */
    int beside;    /* of the workers are on the first server's machine, and share memory with it; 0: it has its own */
    int pieces;    /* LS_PREDICT_PS: in which sums come to one server, and its parameters leave it; 0: 1 */
    int staleness; /* LS_PREDICT_ASYNC: the bound of ssp:K; -1: none */
    int period;    /* LS_PREDICT_LOCAL: H */
    /* Of the one computer on which all servers and workers are, whatever counts as a machine; 0: every machine has its
     * own. LS_PREDICT_PS, LS_PREDICT_ASYNC: shard_seconds were measured so, and know of it. */
    int shared_cores;
    const struct ls_predict_network *network;
};

struct ls_predict_point {
    int workers, machines;
    double step_seconds, images_per_second;
    double speedup;                    /* over one worker, which needs no server; LS_PREDICT_LOCAL: of local:H, too */
    double compute, communicate, wait; /* seconds of the step, mean over threads; they add up to it */
    double wire_seconds;               /* that the network alone would need */
    double wire_bytes;                 /* that leave a machine */
    int busy_threads;                  /* that ever get a shard, of workers * threads */
    double staleness;                  /* LS_PREDICT_ASYNC: updates that an update does not know of, in the mean */
};
struct ls_predict_point ls_predict_step(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                                        enum ls_predict_algorithm a);

/* 1, 2, 3, 4, 8, 16, ... 1024 */
enum { LS_PREDICT_MAX_WORKERS = 1024, LS_PREDICT_POINTS = 12 };
extern const int ls_predict_workers[LS_PREDICT_POINTS];

/* One line of the plot. c->workers is not looked at. */
struct ls_predict_series {
    char label[64];
    enum ls_predict_algorithm algorithm;
    struct ls_predict_point points[LS_PREDICT_POINTS];
    int best; /* the fastest step; of several as fast the one with fewest workers */
};
void ls_predict_sweep(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                      enum ls_predict_algorithm a, struct ls_predict_series *out);

/* --- telling it --- */

/* What follows from the sweep, in one sentence. */
void ls_predict_verdict(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                        const struct ls_predict_series *s, char *out, size_t size);
/* Speed-up over workers for each of n series (label set), into a file; its ending says the format (draw.h). */
enum ls_status ls_predict_draw(const char *title, const struct ls_predict_series *series, int n,
                               const char *path) LS_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
