/* crew.h: the workers that `lockstep train --sync ps` starts for itself: on this machine, on nodes made on it, on other
 * hosts.
 *
 *     lockstep train MODEL DATA -w 3 --sync ps          the server
 *       lockstep train --server 127.0.0.1:PORT -q       its workers, which show it a ticket
 *
 *       lockstep server --chief 127.0.0.1:PORT -q       with --servers K: K-1 of these besides
 *
 * A worker that dies is started again while --max-restarts allows; otherwise the others go on. With a server a part of
 * the parameters is lost: the training ends, and begins again from its checkpoint while --max-restarts allows.
 */
#ifndef LS_CLI_CREW_H
#define LS_CLI_CREW_H

#include "cli/options.h"

struct ls_crew;

/* For o.train.elastic; the workers are started when the server listens. */
enum ls_status ls__crew_create(struct ls_crew **out, const struct ls_options *o) LS_MUST_CHECK;
const struct ls_elastic *ls__crew_elastic(const struct ls_crew *crew);
/* After a failure: how often it may be started again because another server was lost; -1: none was, or it cannot be. */
int64_t ls__crew_restarts_after_server(const struct ls_crew *crew);
/* The training has ended: so do they. */
void ls__crew_destroy(struct ls_crew **crew);

/* In a worker: which it is (crew_place.h). */
struct ls_crew_place {
    int slot;       /* -1: it is of no crew */
    int at, n;      /* of those workers that share the machine */
    int width;      /* of them it is so many, from `at` */
    int node;       /* from 1; 0: none */
    bool is_near;   /* no network is between it and any server */
    bool is_beside; /* none is between it and the first one: is_near, or that one's machine */
    bool is_here;   /* it sees the server's files: is_beside, or a node made on the same machine */
};
struct ls_crew_place ls__crew_place(void);

/* `lockstep train --server`. */
enum ls_status ls__cmd_worker(const struct ls_options *o) LS_MUST_CHECK;
/* The same on a node that is started by hand (cli/meet.h): with --servers K the first K nodes have a server besides. */
enum ls_status ls__cmd_node(const struct ls_options *o) LS_MUST_CHECK;
/* `lockstep server --chief`. */
enum ls_status ls__cmd_keeper(const struct ls_options *o) LS_MUST_CHECK;

#endif
