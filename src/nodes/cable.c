/* cable.c: frames under way, in a heap by when they are due (cable.h).
 *
 * Large segments (TSO) pass in one piece while nothing is lost or reordered: a packet then costs little, and 10 Gbit/s
 * work.
 */
#include "nodes/cable.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_FRAME = 70000, HEADER = 10, MAX_QUEUED = 1 << 20, MAX_FRAMES = 1 << 16, BATCH = 32 };

struct frame {
    int64_t due_ns;
    uint64_t number; /* of equals the first that came is the first that goes */
    int to, from;
    size_t bytes;
    unsigned char data[];
};

struct port {
    int fd;
    int64_t out_free_ns, in_free_ns; /* when the last frame has passed */
    size_t n_queued;                 /* bytes of this sender under way */
};

struct ls_cable {
    struct ls_cable_shape shape;
    struct port ports[LS_CABLE_PORTS];
    int n_ports;
    struct frame *heap[MAX_FRAMES];
    int n_frames;
    uint64_t n_seen, random;
    unsigned char data[MAX_FRAME];
};

static double chance(struct ls_cable *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (double)(w->random >> 11) * 0x1p-53;
}

/* --- the heap --- */

static bool is_before(const struct frame *a, const struct frame *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void push(struct ls_cable *w, struct frame *f)
{
    int i = w->n_frames++;
    for (; i > 0 && is_before(f, w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = f;
}

static struct frame *pop(struct ls_cable *w)
{
    struct frame *first = w->heap[0], *last = w->heap[--w->n_frames];
    int i = 0;
    for (int child; (child = 2 * i + 1) < w->n_frames; i = child) {
        if (child + 1 < w->n_frames && is_before(w->heap[child + 1], w->heap[child])) child++;
        if (!is_before(w->heap[child], last)) break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return first;
}

/* --- frames --- */

static void send_copy(struct ls_cable *w, size_t bytes, int from, int to, int64_t sent_ns)
{
    const struct ls_cable_shape *s = &w->shape;
    struct port *out = &w->ports[to];
    int64_t busy_ns = s->bits_per_second > 0 ? (int64_t)((double)bytes * 8e9 / s->bits_per_second) : 0;
    double wait = s->delay + s->jitter * (2 * chance(w) - 1);
    if (chance(w) < s->loss || w->n_frames == MAX_FRAMES) return;
    if (chance(w) < s->reorder) wait = 0;
    int64_t due_ns = sent_ns + (int64_t)((wait > 0 ? wait : 0) * 1e9);
    if (s->jitter <= 0 && s->reorder <= 0) { /* else what comes last may go first, and there is no line to stand in */
        if (due_ns < out->in_free_ns + busy_ns) due_ns = out->in_free_ns + busy_ns;
        out->in_free_ns = due_ns;
    }
    struct frame *f = malloc(sizeof *f + bytes);
    if (!f) return; /* one more that is lost */
    *f = (struct frame){due_ns, w->n_seen++, to, from, bytes};
    memcpy(f->data, w->data, bytes);
    w->ports[from].n_queued += bytes;
    push(w, f);
}

/* By the receiver's hardware address; a group's goes to everyone. */
static void take(struct ls_cable *w, size_t bytes, int from)
{
    const unsigned char *address = w->data + HEADER;
    struct port *p = &w->ports[from];
    int64_t now = ls__now_ns();
    if (bytes < HEADER + 14) return;
    if (p->out_free_ns < now) p->out_free_ns = now;
    if (w->shape.bits_per_second > 0) p->out_free_ns += (int64_t)((double)bytes * 8e9 / w->shape.bits_per_second);
    int is_group = address[0] & 1, to = address[5] - 1;
    for (int i = 0; i < w->n_ports; i++)
        if (i != from && (is_group || i == to)) send_copy(w, bytes, from, i, p->out_free_ns);
}

/* A write that fails is a frame lost: the other end may be down. */
static void deliver(struct ls_cable *w)
{
    int64_t now = ls__now_ns();
    while (w->n_frames > 0 && w->heap[0]->due_ns <= now) {
        struct frame *f = pop(w);
        w->ports[f->from].n_queued -= f->bytes;
        (void)!write(w->ports[f->to].fd, f->data, f->bytes);
        free(f);
    }
}

void ls__cable_turn(struct ls_cable *w, int64_t wait_ns)
{
    struct pollfd polls[LS_CABLE_PORTS];
    int64_t due_ns = w->n_frames > 0 ? w->heap[0]->due_ns - ls__now_ns() : wait_ns;
    if (due_ns > wait_ns) due_ns = wait_ns;
    if (due_ns < 0) due_ns = 0;
    const struct timespec pause = {due_ns / 1000000000, due_ns % 1000000000};
    for (int i = 0; i < w->n_ports; i++)
        polls[i] = (struct pollfd){w->ports[i].fd, w->ports[i].n_queued < MAX_QUEUED ? POLLIN : 0, 0};
    if (ppoll(polls, (nfds_t)w->n_ports, &pause, NULL) < 0) return;
    for (int i = 0; i < w->n_ports; i++) {
        if (!(polls[i].revents & POLLIN)) continue;
        for (int n = 0; n < BATCH; n++) {
            ssize_t bytes = read(w->ports[i].fd, w->data, sizeof w->data);
            if (bytes <= 0) break;
            take(w, (size_t)bytes, i);
        }
    }
    deliver(w);
}

/* --- set-up --- */

enum ls_status ls__cable_create(struct ls_cable **out)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->random = 88172645463325252u;
    return LS_OK;
}

void ls__cable_destroy(struct ls_cable **w)
{
    if (!*w) return;
    for (int i = 0; i < (*w)->n_ports; i++) close((*w)->ports[i].fd);
    for (int i = 0; i < (*w)->n_frames; i++) free((*w)->heap[i]);
    free(*w);
    *w = NULL;
}

enum ls_status ls__cable_tap(const char *name, int *fd)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    *fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0) return ls_fail(LS_UNSUPPORTED, "open /dev/net/tun: %s", strerror(errno));
    if (ioctl(*fd, TUNSETIFF, &request) == 0) return LS_OK;
    enum ls_status status = ls_fail(LS_UNSUPPORTED, "make the network device %s: %s", name, strerror(errno));
    close(*fd);
    *fd = -1;
    return status;
}

enum ls_status ls__cable_add(struct ls_cable *w, int fd)
{
    if (w->n_ports == LS_CABLE_PORTS) {
        close(fd);
        return ls_fail(LS_USAGE, "a network joins at most %d nodes", LS_CABLE_PORTS);
    }
    w->ports[w->n_ports++].fd = fd;
    return LS_OK;
}

enum ls_status ls__cable_shape(struct ls_cable *w, const struct ls_cable_shape *shape)
{
    bool is_plain = shape->loss <= 0 && shape->reorder <= 0 && shape->jitter <= 0;
    w->shape = *shape;
    for (int i = 0; i < w->n_ports; i++)
        if (ioctl(w->ports[i].fd, TUNSETOFFLOAD, is_plain ? TUN_F_CSUM | TUN_F_TSO4 : 0) < 0)
            return ls_fail(LS_UNSUPPORTED, "TUNSETOFFLOAD: %s", strerror(errno));
    return LS_OK;
}

void ls__cable_hurry(void)
{
    prctl(PR_SET_TIMERSLACK, 1000);
    setpriority(PRIO_PROCESS, 0, -10);
}
