/* tube.c: see tube.h. */
#include "elastic/tube.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 8, PREFIX = sizeof(uint32_t) };

/* With its length before it. */
static uint32_t room_for(size_t bytes)
{
    return (uint32_t)((PREFIX + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static void copy_in(struct ls_tube_queue *q, uint32_t at, const void *from, size_t bytes)
{
    const size_t begin = at % LS_TUBE_ROOM, first = bytes < LS_TUBE_ROOM - begin ? bytes : LS_TUBE_ROOM - begin;
    memcpy(q->data + begin, from, first);
    memcpy(q->data, (const uint8_t *)from + first, bytes - first);
}

static void copy_out(const struct ls_tube_queue *q, uint32_t at, void *to, size_t bytes)
{
    const size_t begin = at % LS_TUBE_ROOM, first = bytes < LS_TUBE_ROOM - begin ? bytes : LS_TUBE_ROOM - begin;
    memcpy(to, q->data + begin, first);
    memcpy((uint8_t *)to + first, q->data, bytes - first);
}

void ls__tube_clear(struct ls_tube_memory *memory)
{
    struct ls_tube_queue *const queues[] = {&memory->to_worker, &memory->to_server};
    atomic_store(&memory->is_asleep, 0);
    for (int i = 0; i < 2; i++) {
        atomic_store(&queues[i]->put, 0);
        atomic_store(&queues[i]->taken, 0);
    }
}

static struct ls_tube end_of(struct ls_tube_queue *in, struct ls_tube_queue *out)
{
    return (struct ls_tube){.in = in, .out = out, .taken = atomic_load(&in->taken), .put = atomic_load(&out->put)};
}

struct ls_tube ls__tube_of_server(struct ls_tube_memory *memory, _Atomic uint32_t *server_flag, int server_bell,
                                  int worker_bell)
{
    struct ls_tube tube = end_of(&memory->to_server, &memory->to_worker);
    tube.is_asleep = server_flag;
    tube.is_other_asleep = &memory->is_asleep;
    tube.bell = server_bell;
    tube.other_bell = worker_bell;
    return tube;
}

struct ls_tube ls__tube_of_worker(struct ls_tube_memory *memory, _Atomic uint32_t *server_flag, int server_bell,
                                  int worker_bell)
{
    struct ls_tube tube = end_of(&memory->to_worker, &memory->to_server);
    tube.is_asleep = &memory->is_asleep;
    tube.is_other_asleep = server_flag;
    tube.bell = worker_bell;
    tube.other_bell = server_bell;
    return tube;
}

bool ls__tube_put(struct ls_tube *tube, const uint8_t *message, size_t bytes)
{
    struct ls_tube_queue *q = tube->out;
    const uint32_t used = tube->put - atomic_load_explicit(&q->taken, memory_order_acquire);
    const uint32_t length = (uint32_t)bytes;
    if (bytes == 0 || bytes > LS_TUBE_ROOM / 2 || used > LS_TUBE_ROOM || room_for(bytes) > LS_TUBE_ROOM - used)
        return false;
    copy_in(q, tube->put, &length, PREFIX);
    copy_in(q, tube->put + PREFIX, message, bytes);
    tube->put += room_for(bytes);
    atomic_store(&q->put, tube->put); /* in one order with the flag, as ls__tube_has is with raising it */
    if (atomic_load(tube->is_other_asleep) && atomic_exchange(tube->is_other_asleep, 0))
        ls__bell_ring(tube->other_bell);
    return true;
}

bool ls__tube_has(const struct ls_tube *tube)
{
    return tube->in && atomic_load(&tube->in->put) != tube->taken;
}

enum ls_tube_found ls__tube_take(struct ls_tube *tube, uint8_t *out, size_t size, size_t *bytes)
{
    struct ls_tube_queue *q = tube->in;
    const uint32_t there = q ? atomic_load_explicit(&q->put, memory_order_acquire) - tube->taken : 0;
    uint32_t length;
    if (there == 0) return LS_TUBE_NOTHING;
    if (there > LS_TUBE_ROOM || there % ALIGNMENT != 0) return LS_TUBE_BROKEN;
    copy_out(q, tube->taken, &length, PREFIX);
    if (length == 0 || length > size || length > LS_TUBE_ROOM / 2 || room_for(length) > there) return LS_TUBE_BROKEN;
    copy_out(q, tube->taken + PREFIX, out, length);
    *bytes = length;
    tube->taken += room_for(length);
    atomic_store_explicit(&q->taken, tube->taken, memory_order_release);
    return LS_TUBE_MESSAGE;
}

/* --- bells --- */

bool ls__bell_create(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) return true;
    ends[0] = ends[1] = -1;
    return false;
}

void ls__bell_close(int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0) close(ends[i]);
        ends[i] = -1;
    }
}

int ls__bell_open(uint32_t pid, uint32_t fd)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, fd);
    if (stat(path, &st) != 0 || !S_ISFIFO(st.st_mode)) return -1; /* nothing else is opened */
    return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void ls__bell_ring(int fd)
{
    ssize_t n = write(fd, "", 1); /* full: it has rung */
    (void)n;
}

void ls__bell_silence(int fd)
{
    char rings[64];
    while (read(fd, rings, sizeof rings) == (ssize_t)sizeof rings) continue;
}
