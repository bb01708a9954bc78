/* journey.h: sums on their way: when do those that were complete at some time arrive everywhere? */
#ifndef LS_PREDICT_JOURNEY_H
#define LS_PREDICT_JOURNEY_H

#include "comm/comm.h"
#include "predict/predict.h"

struct journey {
    enum ls_predict_algorithm algorithm;
    const struct ls_predict_profile *profile;
    const struct ls_predict_cluster *cluster;
    int n_peers, n_machines;                      /* that exchange; machines they sit on */
    double slots[LS_COMM_WINDOW];                 /* when the chunk in a slot arrives */
    int64_t n_chunks;                             /* so far */
    double arrived;                               /* the last chunk */
    double busy_until;                            /* threads compute until then */
    double wire_seconds, wire_bytes, cpu_seconds; /* so far, of one machine */
};

/* The sums of a bucket, complete at `ready`; returns when they have arrived. Buckets must come in their order. */
double ls__journey_send(struct journey *j, int64_t n, double bytes, double ready);

#endif
