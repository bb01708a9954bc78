/* cable.h: a network cable in a program: joins network namespaces through TAP devices, as slow and as bad as wanted.
 *
 *     fd = ls__cable_tap("eth0")       in the namespace where the device is to be; the descriptor is good everywhere
 *     ls__cable_add(w, fd)             the k-th port is the device with the hardware address 02:00:00:00:00:k, from 1
 *     ls__cable_shape(w, &shape)       at any time
 *     for (;;) ls__cable_turn(w, ns)   carries frames; waits for them at most so long
 *
 * Frames leave a port one after the other at the rate, arrive the delay +- jitter later, one after the other at the
 * rate; a share `loss` never does, a share `reorder` does not wait for the delay. Needs no module of the kernel but
 * tun, and a core of its own for more than about 2 Gbit/s.
 */
#ifndef LS_NODES_CABLE_H
#define LS_NODES_CABLE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_CABLE_PORTS = 64 };

/* 0 everywhere: no limits. */
struct ls_cable_shape {
    double bits_per_second; /* in each direction of each port */
    double delay, jitter;   /* seconds, one way */
    double loss, reorder;   /* shares of 1 */
};

/* "1gbit,0.1ms", "100mbit,20ms,1%": a rate, a delay, a loss, apart by commas, each at most once, at least one. */
bool ls__cable_shape_parse(const char *text, struct ls_cable_shape *shape);
/* "1 Gbit/s, 0.1 ms, 1 % lost" */
void ls__cable_shape_print(const struct ls_cable_shape *shape, char *out, size_t size);

struct ls_cable;
enum ls_status ls__cable_create(struct ls_cable **out) LS_MUST_CHECK;
void ls__cable_destroy(struct ls_cable **w); /* the devices go with it */
enum ls_status ls__cable_tap(const char *name, int *fd) LS_MUST_CHECK;
enum ls_status ls__cable_add(struct ls_cable *w,
                             int fd) LS_MUST_CHECK; /* the cable's from now on, also after a failure */
enum ls_status ls__cable_shape(struct ls_cable *w, const struct ls_cable_shape *shape) LS_MUST_CHECK;
void ls__cable_turn(struct ls_cable *w, int64_t wait_ns);
/* This process does nothing else: exact waits, and ahead of those that it carries frames for. A wish. */
void ls__cable_hurry(void);

#endif
