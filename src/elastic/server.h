/* server.h: the server's side of an elastic training: who is there, who has which work, whose pushes count.
 *
 *     TRY(ls__server_open(&server, &options));            listens; workers may come from now on
 *     TRY(ls__server_publish(server, session));           parameters of now
 *     TRY(ls__server_begin(server, &round));              shards of a step, or batches of an epoch
 *     for (;;) {
 *         TRY(ls__server_wait(server, &event, &push, &piece));
 *         if (event == LS_SERVER_PUSH) ...                add push.sums, then ls__server_settle(server, &push)
 *         if (event == LS_SERVER_PIECE) ...               add piece.parts, update, then ls__server_tell_ahead
 *         if (event == LS_SERVER_DONE) break;             update, unless that was done by pieces
 *     }
 *     ls__server_close(&server, outcome);                 the workers hear how it ended
 *
 * The thread that calls these does all the work while it waits. A second thread of the server answers heartbeats and
 * newcomers while the first is busy elsewhere (an update, an evaluation); it never hands out work of a round that has
 * not begun.
 */
#ifndef LS_ELASTIC_SERVER_H
#define LS_ELASTIC_SERVER_H

#include "elastic/parameters.h"
#include "elastic/sums.h"
#include "elastic/talk.h"
#include "lockstep/control.h"
#include "lockstep/result.h"
#include "session/session.h"
#include "wire/keys.h"

struct ls_server;

struct ls_server_options {
    const char *address;           /* to listen on */
    const struct ls_wire_key *key; /* NULL: loopback only */
    const char *ticket;            /* what a worker has to know besides; NULL: nothing */
    double lease, timeout;         /* seconds */
    int64_t step;                  /* steps that were done before: of a run that goes on */
    int64_t staleness;             /* the bound; -1: none */
    int n_backup;                  /* workers whose shards may be out twice */
    int n_servers;                 /* this one, and n_servers - 1 keepers that join it */
    /* What a worker is told: options and identity as JSON, the model's name and text. Borrowed until close. */
    const char *options, *model_name, *model, *identity;
    int64_t n_sums, n_own_sums;                 /* in all; of this server's range */
    const struct ls_sum_split *pieces;          /* of that range: how pushes come, unless they lie in the box */
    size_t parameters_bytes;                    /* of this server's range */
    const struct ls_control *control;           /* (optional) */
    bool (*is_hopeless)(void *context);         /* (optional) no worker will come any more */
    bool (*is_coming)(void *context);           /* (optional) some are being started */
    void (*on_joined)(void *context, int slot); /* (optional) one can compute (-1: of no slot); under the lock */
    void *context;
};

/* Listens at once. */
enum ls_status ls__server_open(struct ls_server **out, const struct ls_server_options *o) LS_MUST_CHECK;
/* Tells the workers; outcome and, of a failure, its message. */
void ls__server_close(struct ls_server **server, enum ls_status outcome);
/* Until those that are being started are there: they need not come one by one, each in the middle of a step. */
enum ls_status ls__server_await(struct ls_server *s) LS_MUST_CHECK;
const char *ls__server_address(const struct ls_server *s);

/* A copy of the parameters of now, which goes to whoever gets work from now on. */
enum ls_status ls__server_publish(struct ls_server *s, const struct ls_parameters *parameters) LS_MUST_CHECK;

/* Before the first step, of the workers that are there: how fast they compute, all at once, and what the network
 * between them and this process gives. No workers are told of, and nothing is tried, where all share memory with this
 * process and that is not wanted (is_apart). */
struct ls_server_trial {
    int n_workers, threads;            /* threads: of a worker, the mean */
    int n_beside;                      /* of them share memory with this process; all: latency and bandwidth are 0 */
    double latency;                    /* seconds, one way, while all the others talk at once */
    double bandwidth;                  /* bytes per second that this process hears, or says, meanwhile */
    struct ls_exec_rehearsal together; /* means; shard_seconds: of workers who share by speed; 0: some did not tell */
};
enum ls_status ls__server_try(struct ls_server *s, bool is_apart, struct ls_server_trial *out) LS_MUST_CHECK;

/* --- several servers: parts are the keepers' ranges with the optimizer's state, [n_servers - 1] --- */

/* Waits until all keepers are there and gives each its part of the store, as published. *is_stopped: the caller wanted
 * to stop meanwhile. */
enum ls_status ls__server_hand_out(struct ls_server *s, const struct ls_parameters *parts, int64_t step,
                                   bool *is_stopped) LS_MUST_CHECK;
/* The round is done: every keeper adds the parts of the pushes that counted, and updates as this process does. */
enum ls_status ls__server_apply(struct ls_server *s, const struct ls_exec_step *step) LS_MUST_CHECK;
/* The store becomes whole: the keepers' parts as they are now. */
enum ls_status ls__server_collect(struct ls_server *s, const struct ls_parameters *parts) LS_MUST_CHECK;

/* --- rounds --- */

struct ls_round {
    int64_t step, epoch, batch; /* batch of the epoch, where the items are its shards */
    int batch_n;                /* samples of that batch */
    int n_items;
    int item_n, last_n;        /* samples of an item, and of the last one */
    bool is_batches;           /* the items are the batches of an epoch, one for each worker */
    bool is_last;              /* nobody will compute with the parameters that it makes */
    const unsigned char *done; /* [n_items] items that are not to be done; NULL: none */
};
enum ls_status ls__server_begin(struct ls_server *s, const struct ls_round *round) LS_MUST_CHECK;
/* The round is given up: what is out is void. */
void ls__server_abandon(struct ls_server *s);

/* A piece of the sums that all shards of the step have. */
struct ls_server_piece {
    int piece, n; /* of n pushes; what else is of this step was added before */
    struct ls_server_sums {
        enum ls_sums_form form;
        struct ls_wire_message message; /* its payload is whole sums of the piece */
    } * parts;
};

struct ls_server_push {
    int worker, items[LS_TALK_MAX_ITEMS], n_items;
    int64_t staleness;
    enum ls_sums_form form;
    const uint8_t *sums; /* whole; the message's, or in the box */
    bool is_boxed;
    size_t bytes;
    int64_t begin;   /* what is before is in the store already: it came with other pushes, which were lost behind it */
    uint64_t number; /* of the message */
    uint32_t push;   /* of the worker's pushes: the same to all servers */
    struct ls_wire_message message;
};

enum ls_server_event {
    LS_SERVER_PUSH,   /* *push is to be added, then settled */
    LS_SERVER_PIECE,  /* *piece is to be added and applied, in order, then released and told ahead */
    LS_SERVER_DONE,   /* all items of the round are done, all pushes settled, all pieces applied or none */
    LS_SERVER_STOPPED /* the caller wants to stop, and there is nobody who could finish the round */
};
/* LS_TIMEOUT when no worker was there for --timeout. LS_NONFINITE and its like when a worker failed in a way that
 * another one would, too; the message is the worker's. */
enum ls_status ls__server_wait(struct ls_server *s, enum ls_server_event *event, struct ls_server_push *push,
                               struct ls_server_piece *piece) LS_MUST_CHECK;
void ls__server_settle(struct ls_server *s, struct ls_server_push *push);
void ls__server_piece_release(struct ls_server_piece *piece); /* forgiving */
/* Parameters of a piece of the version that this round makes, to those who will compute with them. Nobody will behind
 * the last round, and hardly when the caller wants to stop: should there be another, they get them whole. */
enum ls_status ls__server_tell_ahead(struct ls_server *s, int piece,
                                     const struct ls_parameters *parameters) LS_MUST_CHECK;

/* Between two rounds the training does something else, and whoever waits for work waits for that. */
struct ls_server_pause {
    double evaluate, checkpoint, other; /* seconds */
};
void ls__server_paused(struct ls_server *s, const struct ls_server_pause *pause);

int ls__server_n_workers(struct ls_server *s); /* that are there */
void ls__server_report(struct ls_server *s, struct ls_elastic_result *out);

#endif
