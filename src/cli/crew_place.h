/* crew_place.h: where the workers of a crew run, and how one is started there. See crew.h.
 *
 *     here     children of the server, over loopback
 *     nodes    machines made on this one (nodes/nodes.h): the server is on the first, a child enters its node
 *     hosts    other machines: a child is the remote shell (ssh), which starts the worker there
 *     by hand  this is rank 0 of nodes that a person starts (meet.h): one worker here, the others come by themselves
 *
 * Who comes over loopback or the network of nodes, on which nobody else is, shows a ticket. A server of hosts has keys
 * that are made for this job. They are in no file and on no command line: the server reads its own from memory, a
 * worker from its standard input, which the server holds open. When that is closed, the server is gone, and the worker
 * ends.
 *
 * Where a network is between, the workers of a machine are one process with the threads of all of them: their sums are
 * one push, and parameters come once. (Of --sync ps; with async and ssp:K every worker has a batch of its own.)
 *
 * Environment, for a worker: LOCKSTEP_SLOT=SLOT:K+W/N:NODE:near|beside|node|far: which of the job's processes it is; of
 * those N workers that share a machine's cores (of a server: which of the servers besides the first), it is the K-th
 * and W in all; its node, from 1; how far it is: no network is between it and any server; it is on the first one's
 * machine, and others are elsewhere; on another node made on this machine, which sees the server's files; on a machine
 * that need not. LOCKSTEP_TICKET.
 */
#ifndef LS_CLI_CREW_PLACE_H
#define LS_CLI_CREW_PLACE_H

#include "base/file.h"
#include "cli/options.h"
#include "nodes/nodes.h"
#include "wire/keys.h"

enum { LS_TICKET_BYTES = 33, LS_SLOT_TEXT = 64, LS_HOST_TEXT = 96 };
extern const char ls__ticket_variable[], ls__slot_variable[];

struct ls_places {
    const struct ls_options *o;
    int n, n_keepers;             /* processes of workers; servers besides this one, slots from n up */
    int first_keeper;             /* of them this many are started elsewhere, and come first */
    int each;                     /* workers on a machine that has cores of its own */
    int width;                    /* workers that a process is */
    struct ls_nodes nodes;        /* n 0: none with a network of its own */
    char *host_text, **hosts;     /* of --hosts, cut apart */
    char (*toward)[LS_HOST_TEXT]; /* [n_hosts] our address, as the host sees it: "192.168.0.7" */
    int n_hosts;
    char listen[300];  /* where the server is to */
    char address[300]; /* where it does */
    char key_text[16];
    const char *key;                       /* the server's, as ls_wire_key_read takes it; NULL: none */
    int key_file;                          /* in memory; -1 */
    char worker_key[LS_WIRE_KEY_TEXT + 2]; /* for standard input, with the empty line that ends it */
    size_t worker_key_bytes;
    char server_key[LS_WIRE_KEY_TEXT + 2]; /* the same for the other servers, who have this one's */
    size_t server_key_bytes;
    char ticket[LS_TICKET_BYTES], exe[LS_PATH_BYTES];
};

/* Makes what is needed. This process becomes one of node 1's, if there are nodes with a network: no threads yet. */
enum ls_status ls__places_open(struct ls_places *p, const struct ls_options *o) LS_MUST_CHECK;
void ls__places_close(struct ls_places *p); /* also a zeroed one */

/* The command that starts a worker or a server; argv[0] is a path or a program to be found. */
void ls__places_command(const struct ls_places *p, int slot, struct ls_words *w);
void ls__places_slot(const struct ls_places *p, int slot, char out[LS_SLOT_TEXT]);
/* " on node2", or "" where there are none. */
void ls__places_name(const struct ls_places *p, int slot, char *out, size_t size);
/* What to look at when it ended with this exit code before it came: " (does `ssh b true` work?)", or "". */
void ls__places_advise(const struct ls_places *p, int slot, int exit_code, char *out, size_t size);

#endif
