/* launch_nodes.c: --nodes: machines made on this one, for a job.
 *
 * With --network each is a network namespace, and they are reached as --hosts are: mpirun runs on the first, and its
 * remote shell is this program (nodes/nodes.h). Without it, or where the system does not allow namespaces, workers are
 * processes of one mpirun that count as so many machines: nothing but TCP through loopback is between them.
 *
 * Environment, for the ranks: LOCKSTEP_NODES=N; ranks in groups of equal size are machines that share this one's cores.
 */
#include "base/log.h"
#include "base/mem.h"
#include "cli/launch_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As --hosts: the addresses. */
static enum ls_status name_hosts(struct launch *l)
{
    enum { ADDRESS = 16 };
    TRY(ls__calloc(&l->host_text, (size_t)l->nodes.n, ADDRESS));
    TRY(ls__calloc(&l->hosts, (size_t)l->nodes.n, sizeof *l->hosts));
    for (int k = 0; k < l->nodes.n; k++) {
        l->hosts[k] = l->host_text + (size_t)ADDRESS * (size_t)k;
        ls__nodes_address(k, l->hosts[k]);
    }
    l->n_hosts = l->nodes.n;
    /* MPICH with UCX would find out that all hosts are one machine, and go around the network. */
    setenv("UCX_TLS", "tcp,self", 0);
    setenv("UCX_NET_DEVICES", ls__nodes_device, 0);
    return LS_OK;
}

void ls__launch_make_nodes(const struct ls_options *o, struct ls_nodes *nodes)
{
    int n = (int)o->nodes;
    long long each = (long long)o->train.workers / n;
    char link[96];
    struct ls_cable_shape shape;
    if (o->network && ls__option_network(o->network, &shape)) {
        if (ls__nodes_open(nodes, n, &shape) == LS_OK) {
            ls__cable_shape_print(&shape, link, sizeof link);
            ls__log(LS_LOG_INFO, "%d nodes on this machine, %lld worker%s each, in network namespaces joined by: %s", n,
                    each, each == 1 ? "" : "s", link);
            return;
        }
        ls__log(LS_LOG_WARN, "--network %s cannot be had here: %s; nothing is shaped", o->network, ls_error_message());
    }
    ls__log(LS_LOG_INFO, "%d nodes on this machine, %lld worker%s each: plain processes that count as machines", n,
            each, each == 1 ? "" : "s");
}

enum ls_status ls__launch_open_nodes(struct launch *l)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (int)l->o->nodes);
    setenv("LOCKSTEP_NODES", number, 1);
    ls__launch_make_nodes(l->o, &l->nodes);
    if (l->nodes.n == 0) return LS_OK;
    if (strcmp(l->mpi, "mpich") == 0 && !ls__nodes_show_device(&l->nodes))
        return ls_fail(
            LS_UNSUPPORTED,
            "MPICH looks for the networks of nodes in /sys, which does not show them here (a chroot, or /sys "
            "is not mounted): take Open MPI (LOCKSTEP_MPI=openmpi), or leave --network out");
    return name_hosts(l);
}
