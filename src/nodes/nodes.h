/* nodes.h: several machines on one: network namespaces, each with a name and an address, joined by a cable (cable.h).
 *
 *     ls__nodes_open      namespaces and their devices; a process that carries the frames
 *     ls__nodes_enter     this process becomes one of node k's
 *     ls__nodes_shell     what mpirun takes for a remote shell: this program, called as PROGRAM ADDRESS COMMAND...
 *     ls__nodes_close
 *
 * Nothing has a name that could be left behind: the namespaces are held by descriptors of the process that opened them,
 * the devices by the cable's process. When the first is gone, however it ended, the cable's process ends what still
 * runs in the nodes, and then itself. Needs root and /dev/net/tun.
 *
 * Environment: LOCKSTEP_NODE_FILES=PID:FD,FD,...: where the namespaces are held; for ls__nodes_shell.
 * LOCKSTEP_NODE=node1: in a process of a node, its name; LOCKSTEP_NODE_OUTSIDE=INODE: the network namespace that the
 * nodes were opened in. src/wire goes without keys where both are there and the process has a node's network alone.
 */
#ifndef LS_NODES_NODES_H
#define LS_NODES_NODES_H

#include "nodes/cable.h"

#include <sys/types.h>

enum { LS_NODES_MAX = LS_CABLE_PORTS };

struct ls_nodes {
    int files[LS_NODES_MAX]; /* the namespaces */
    int n;
    pid_t cable;
    char shell[64]; /* a program without a space in its name */
};

/* LS_UNSUPPORTED where the system does not allow it; nothing is left then. */
enum ls_status ls__nodes_open(struct ls_nodes *nodes, int n, const struct ls_cable_shape *shape) LS_MUST_CHECK;
void ls__nodes_close(struct ls_nodes *nodes); /* also a zeroed one */
/* For good: its network, its name "node1" as the host's. After a failure the process is good for nothing. */
enum ls_status ls__nodes_enter(const struct ls_nodes *nodes, int k) LS_MUST_CHECK;
/* Whether programs on a node find its device in /sys: not where / is no mount point (a chroot), nor without /sys. */
bool ls__nodes_show_device(const struct ls_nodes *nodes);
void ls__nodes_address(int k, char out[16]);
extern const char ls__nodes_device[]; /* the network device of a node */

/* Whether this call of the program is one of mpirun's to its remote shell. */
bool ls__nodes_is_shell(int argc, char *const *argv);
/* Becomes the command on the node; returns only if that failed. */
enum ls_status ls__nodes_shell(int argc, char *const *argv) LS_MUST_CHECK;

#endif
