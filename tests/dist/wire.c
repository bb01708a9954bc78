/* wire.c: a network cable in a program: joins network namespaces through TAP devices, as slow and as bad as wanted.
 *
 *     wire SHAPE TAP...      for kernels without tc's netem; tests/dist/netns starts it
 *
 * In:  SHAPE, a file of one line "RATE DELAY JITTER LOSS REORDER": bits per second (0: no limit), seconds, seconds, and
 * two shares from 0 to 1; read again at SIGHUP. The devices are made here and go with this program; netns moves the
 * k-th into its namespace and gives it the hardware address 02:00:00:00:00:k, by which frames find their way. Out:
 * "ready" on stdout. Frames leave a host one after the other at RATE, arrive DELAY +- JITTER later, one after the other
 * at RATE; a share LOSS never does, a share REORDER does not wait for the delay.
 *
 * Large segments (TSO) pass in one piece while nothing is lost or reordered: a packet then costs little, and 10 Gbit/s
 * work.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PORTS = 64, MAX_FRAME = 70000, HEADER = 10, MAX_QUEUED = 1 << 20, MAX_FRAMES = 1 << 16, BATCH = 32 };

struct shape {
    double rate, delay, jitter, loss, reorder;
};

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

struct wire {
    const char *path;
    struct shape shape;
    struct port ports[MAX_PORTS];
    int n_ports;
    struct frame *heap[MAX_FRAMES]; /* by due_ns */
    int n_frames;
    uint64_t n_seen, random;
};

static volatile sig_atomic_t is_changed;

static void on_change(int number)
{
    (void)number;
    is_changed = 1;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double chance(struct wire *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (double)(w->random >> 11) * 0x1p-53;
}

static int fail(const char *what)
{
    fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    return 1;
}

/* --- the queue: a heap --- */

static int is_before(const struct frame *a, const struct frame *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void push(struct wire *w, struct frame *f)
{
    int i = w->n_frames++;
    for (; i > 0 && is_before(f, w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = f;
}

static struct frame *pop(struct wire *w)
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

static void send_copy(struct wire *w, const unsigned char *data, size_t bytes, int from, int to, int64_t sent_ns)
{
    const struct shape *s = &w->shape;
    struct port *out = &w->ports[to];
    int64_t busy_ns = s->rate > 0 ? (int64_t)((double)bytes * 8e9 / s->rate) : 0;
    double wait = s->delay + s->jitter * (2 * chance(w) - 1);
    if (chance(w) < s->loss || w->n_frames == MAX_FRAMES) return;
    if (chance(w) < s->reorder) wait = 0;
    int64_t due_ns = sent_ns + (int64_t)((wait > 0 ? wait : 0) * 1e9);
    if (s->jitter <= 0 && s->reorder <= 0) { /* else what comes last may go first, and there is no line to stand in */
        if (due_ns < out->in_free_ns + busy_ns) due_ns = out->in_free_ns + busy_ns;
        out->in_free_ns = due_ns;
    }
    struct frame *f = malloc(sizeof *f + bytes);
    if (!f) return;
    *f = (struct frame){due_ns, w->n_seen++, to, from, bytes};
    memcpy(f->data, data, bytes);
    w->ports[from].n_queued += bytes;
    push(w, f);
}

/* By the receiver's hardware address; a group's goes to everyone. */
static void take(struct wire *w, const unsigned char *data, size_t bytes, int from)
{
    const unsigned char *address = data + HEADER;
    struct port *p = &w->ports[from];
    int64_t now = now_ns();
    if (bytes < HEADER + 14) return;
    if (p->out_free_ns < now) p->out_free_ns = now;
    if (w->shape.rate > 0) p->out_free_ns += (int64_t)((double)bytes * 8e9 / w->shape.rate);
    int is_group = address[0] & 1, to = address[5] - 1;
    for (int i = 0; i < w->n_ports; i++)
        if (i != from && (is_group || i == to)) send_copy(w, data, bytes, from, i, p->out_free_ns);
}

static void deliver(struct wire *w)
{
    int64_t now = now_ns();
    while (w->n_frames > 0 && w->heap[0]->due_ns <= now) {
        struct frame *f = pop(w);
        w->ports[f->from].n_queued -= f->bytes;
        if (write(w->ports[f->to].fd, f->data, f->bytes) < 0 && errno != EAGAIN && errno != EIO) fail("write");
        free(f);
    }
}

/* --- set-up --- */

static int read_shape(struct wire *w)
{
    FILE *file = fopen(w->path, "r");
    struct shape s;
    if (!file) return fail(w->path);
    int n = fscanf(file, "%lf %lf %lf %lf %lf", &s.rate, &s.delay, &s.jitter, &s.loss, &s.reorder);
    fclose(file);
    if (n != 5) {
        fprintf(stderr, "wire: %s: expected rate, delay, jitter, loss, reorder\n", w->path);
        return 1;
    }
    w->shape = s;
    unsigned offload = s.loss > 0 || s.reorder > 0 || s.jitter > 0 ? 0 : TUN_F_CSUM | TUN_F_TSO4;
    for (int i = 0; i < w->n_ports; i++)
        if (ioctl(w->ports[i].fd, TUNSETOFFLOAD, offload) < 0) return fail("TUNSETOFFLOAD");
    return 0;
}

static int add_port(struct wire *w, const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return fail("/dev/net/tun");
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, TUNSETIFF, &request) < 0) return fail(name);
    w->ports[w->n_ports++].fd = fd;
    return 0;
}

static void wait_for_frames(struct wire *w, struct pollfd *polls)
{
    struct timespec pause = {0, 0};
    int64_t ns = w->n_frames > 0 ? w->heap[0]->due_ns - now_ns() : 1000000000;
    if (ns > 0) pause = (struct timespec){ns / 1000000000, ns % 1000000000};
    for (int i = 0; i < w->n_ports; i++)
        polls[i] = (struct pollfd){w->ports[i].fd, w->ports[i].n_queued < MAX_QUEUED ? POLLIN : 0, 0};
    if (ppoll(polls, (nfds_t)w->n_ports, &pause, NULL) < 0) memset(polls, 0, (size_t)w->n_ports * sizeof *polls);
}

int main(int argc, char **argv)
{
    static struct wire w = {.random = 88172645463325252u};
    static unsigned char data[MAX_FRAME];
    struct pollfd polls[MAX_PORTS];
    if (argc < 4 || argc - 2 > MAX_PORTS) {
        fprintf(stderr, "usage: wire SHAPE TAP TAP...\n");
        return 2;
    }
    w.path = argv[1];
    for (int i = 2; i < argc; i++)
        if (add_port(&w, argv[i])) return 1;
    if (read_shape(&w)) return 1;
    sigaction(SIGHUP, &(struct sigaction){.sa_handler = on_change}, NULL);
    prctl(PR_SET_TIMERSLACK, 1000);
    setpriority(PRIO_PROCESS, 0, -10); /* a wish */
    puts("ready");
    fflush(stdout);
    for (;;) {
        wait_for_frames(&w, polls);
        if (is_changed) {
            is_changed = 0;
            if (read_shape(&w)) return 1;
        }
        for (int i = 0; i < w.n_ports; i++) {
            if (!(polls[i].revents & POLLIN)) continue;
            for (int n = 0; n < BATCH; n++) {
                ssize_t bytes = read(w.ports[i].fd, data, sizeof data);
                if (bytes <= 0) break;
                take(&w, data, (size_t)bytes, i);
            }
        }
        deliver(&w);
    }
}
