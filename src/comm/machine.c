/* machine.c: the ranks of one machine: their shared memory, barriers, and who takes what.
 *
 * The shared memory is one memfd, made by the leader and opened by the others through /proc/PID/fd. It has no name that
 * could be left behind, does not count against the size of /dev/shm, and ends with the last process. It begins with the
 * board; every ls_comm_share appends a piece that each rank maps where it likes.
 *
 * Where the ranks of a machine cannot open each other's memory (containers), each counts as a machine of its own.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "comm/comm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPIN_NS = 50000, PAGE = 4096 };

void ls__futex_wait(atomic_uint *word, unsigned seen, int64_t ns)
{
    const struct timespec slice = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &slice, NULL, 0);
}

void ls__futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* --- the segment --- */

/* How to find a machine's memory. */
struct address {
    uint64_t token;
    int32_t pid, fd;
};

static size_t board_bytes(void)
{
    return (sizeof(struct board) + PAGE - 1) / PAGE * PAGE;
}

static struct board *map_board(int fd)
{
    void *at = mmap(NULL, board_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool make_segment(struct ls_comm *c, struct address *a)
{
    a->pid = (int32_t)getpid();
    a->token = (uint64_t)ls__now_ns() * 2654435761u ^ (uint64_t)getpid();
    c->segment = memfd_create("lockstep", MFD_CLOEXEC);
    if (c->segment < 0 || ftruncate(c->segment, (off_t)board_bytes()) != 0) return false;
    c->board = map_board(c->segment);
    a->fd = c->segment;
    if (!c->board) return false;
    c->board->token = a->token;
    c->board->n_local = c->place.n_local;
    return true;
}

static bool open_segment(struct ls_comm *c, const struct address *a)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", a->pid, a->fd);
    c->segment = open(path, O_RDWR | O_CLOEXEC);
    if (c->segment < 0) return false;
    c->board = map_board(c->segment);
    return c->board && c->board->token == a->token;
}

/* Leaders make, the others open; rank 0 hears from all whether it went well and tells them. arg: bool, all well? */
static enum ls_status share_segment(struct ls_comm *c, void *arg)
{
    struct address a = {0};
    int leader = c->leaders[c->place.machine];
    uint8_t is_good = 1, others = 1;
    if (c->place.local_rank == 0) {
        is_good = make_segment(c, &a);
        for (int r = leader + 1; r < c->place.n_ranks; r++)
            if (c->peers[r].machine == c->place.machine)
                TRY(ls__link_send(c, &a, sizeof a, r, TAG_SEGMENT, c->timeout));
    } else {
        TRY(ls__link_receive(c, &a, sizeof a, leader, TAG_SEGMENT, c->timeout));
        is_good = open_segment(c, &a);
    }
    if (c->place.rank > 0) {
        TRY(ls__link_send(c, &is_good, 1, 0, TAG_SEGMENT, c->timeout));
        TRY(ls__link_receive(c, &is_good, 1, 0, TAG_SEGMENT, c->timeout + 2));
    } else {
        for (int r = 1; r < c->place.n_ranks; r++) {
            TRY(ls__link_receive(c, &others, 1, r, TAG_SEGMENT, c->timeout));
            is_good &= others;
        }
        for (int r = 1; r < c->place.n_ranks; r++) TRY(ls__link_send(c, &is_good, 1, r, TAG_SEGMENT, c->timeout));
    }
    *(bool *)arg = is_good;
    return LS_OK;
}

static void drop_segment(struct ls_comm *c)
{
    if (c->segment >= 0 && c->board) munmap(c->board, board_bytes());
    if (c->segment < 0) ls__free_aligned(c->board, sizeof *c->board);
    if (c->segment >= 0) close(c->segment);
    c->segment = -1;
    c->board = NULL;
}

static void take_place(struct ls_comm *c)
{
    struct board_rank *s = &c->board->ranks[c->place.local_rank];
    atomic_store(&s->pid, (int)getpid());
    ls_comm_note(c, 0, "start");
}

/* The ranks that share memory take the leader's board instead of their own. */
static enum ls_status open_board(struct ls_comm *c, struct board *own)
{
    bool is_shared = false, is_wanted = c->place.n_machines < c->place.n_ranks;
    if (c->place.n_local > MAX_LOCAL_RANKS)
        return ls_fail(LS_UNSUPPORTED, "%d ranks on %s; at most %d", c->place.n_local, c->place.host, MAX_LOCAL_RANKS);
    if (is_wanted) TRY(ls__comm_thread_call(c, share_segment, &is_shared));
    if (is_wanted && !is_shared) {
        for (int r = 0; r < c->place.n_ranks; r++)
            snprintf(c->peers[r].machine_key, sizeof c->peers[r].machine_key, "rank %d", r);
        ls__cards_number(c);
    }
    if (c->place.n_local == 1) {
        drop_segment(c);
        own->n_local = 1;
        c->board = own;
    }
    c->segment_bytes = board_bytes();
    take_place(c);
    return LS_OK;
}

/* On the communication thread, which from now on keeps the other leaders informed. */
static enum ls_status begin_heartbeats(struct ls_comm *c, void *arg)
{
    struct heard *heard = arg;
    for (int n = 0; n < c->place.n_machines; n++) heard[n].heard_ns = ls__now_ns();
    c->heard = heard;
    return LS_OK;
}

/* Who is there, once all memory for it is. */
static enum ls_status assemble(struct ls_comm *c, struct board *own, struct heard *heard)
{
    TRY(ls__cards_exchange(c));
    TRY(open_board(c, own));
    ls__wait_count(c, NULL);
    TRY(ls__route_choose(c));
    return c->place.n_machines > 1 && c->place.local_rank == 0 ? ls__comm_thread_call(c, begin_heartbeats, heard)
                                                               : LS_OK;
}

/* Until there is a board a rank cannot tell the others why it leaves, so nothing may fail between its first word to
 * them and the board: what can fail comes before. */
enum ls_status ls__comm_machine_open(struct ls_comm *c)
{
    size_t n = (size_t)c->place.n_ranks;
    struct board *own = NULL;
    struct heard *heard = NULL;
    enum ls_status status = ls__calloc(&c->peers, n, sizeof *c->peers);
    if (status == LS_OK) status = ls__calloc(&c->leaders, n, sizeof *c->leaders);
    if (status == LS_OK) status = ls__calloc(&heard, n, sizeof *heard);
    if (status == LS_OK) status = ls__alloc_aligned(&own, sizeof *own);
    if (status == LS_OK) status = assemble(c, own, heard);
    if (c->board != own) ls__free_aligned(own, sizeof *own);
    if (c->heard != heard) free(heard);
    return status;
}

void ls__comm_machine_close(struct ls_comm *c)
{
    for (int i = 0; i < c->n_shares; i++) {
        if (c->segment >= 0)
            munmap(c->shares[i].data, c->shares[i].bytes);
        else
            ls__free_aligned(c->shares[i].data, c->shares[i].bytes);
    }
    free(c->shares);
    drop_segment(c);
    free(c->heard);
    free(c->peers);
    free(c->leaders);
}

/* --- memory for all --- */

static enum ls_status map_share(struct ls_comm *c, size_t bytes, void **out)
{
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    enum ls_status status = LS_OK;
    if (c->place.local_rank == 0) {
        c->board->share_bytes = bytes;
        if (ftruncate(c->segment, (off_t)(c->segment_bytes + whole)) != 0)
            status = ls_fail(LS_NOMEM, "shared memory of %zu bytes: %s", c->segment_bytes + whole, strerror(errno));
    }
    TRY(ls_comm_barrier(c, status, c->place.local_rank));
    if (c->board->share_bytes != bytes)
        status = ls_fail(LS_REMOTE, "rank %d wants %zu bytes where rank %d wants %zu: they run different plans",
                         c->place.rank, bytes, c->leaders[c->place.machine], (size_t)c->board->share_bytes);
    *out = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, c->segment, (off_t)c->segment_bytes);
    if (status == LS_OK && *out == MAP_FAILED)
        status = ls_fail(LS_NOMEM, "map %zu bytes of shared memory: %s", whole, strerror(errno));
    TRY(ls_comm_barrier(c, status, c->place.local_rank));
    madvise(*out, whole, MADV_HUGEPAGE); /* a wish */
    c->segment_bytes += whole;
    c->shares[c->n_shares++] = (struct share){*out, whole};
    return LS_OK;
}

enum ls_status ls_comm_share(struct ls_comm *c, size_t bytes, void **out)
{
    if (bytes == 0) bytes = 64;
    TRY(ls__grow(&c->shares, (size_t)c->n_shares, (size_t)c->n_shares + 1, sizeof *c->shares));
    if (c->segment >= 0) return map_share(c, bytes, out);
    TRY(ls__alloc_aligned(out, bytes));
    c->shares[c->n_shares++] = (struct share){*out, bytes};
    return LS_OK;
}

/* --- barriers --- */

static void hand_in(struct board *b, enum ls_status status, int order)
{
    ls__lock_briefly(&b->failure_lock);
    if (b->pending.status == LS_OK || order < b->pending_order) {
        b->pending = ls__keep(status);
        b->pending_order = order;
    }
    atomic_store_explicit(&b->failure_lock, 0, memory_order_release);
}

/* The last to come settles the outcome and lets the others go. */
static void conclude(struct board *b)
{
    b->outcome.status = b->pending.status;
    if (b->pending.status != LS_OK) b->outcome = b->pending;
    b->pending.status = LS_OK;
    atomic_store(&b->n_arrived, 0);
    atomic_store(&b->next_item, 0);
    atomic_fetch_add_explicit(&b->generation, 1, memory_order_release);
    if (b->n_local > 1) ls__futex_wake(&b->generation);
}

/* Between two looks for the dead. mpirun ends all ranks some 60 ms after the first one's death, and one of them has to
 * say before that what it saw; but a look at each of many ranks takes its time. */
static int64_t look_ns(const struct board *b)
{
    enum { MS = 1000000, MOST_MS = 50 };
    return (int64_t)(4 + b->n_local < MOST_MS ? 4 + b->n_local : MOST_MS) * MS;
}

static enum ls_status await_others(struct ls_comm *c, unsigned seen)
{
    struct board *b = c->board;
    int64_t start = ls__now_ns();
    while (atomic_load(&c->spare.has_waits) && ls__now_ns() - start < SPIN_NS) {
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&b->generation, memory_order_acquire) != seen) return LS_OK;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    }
    while (atomic_load_explicit(&b->generation, memory_order_acquire) == seen) {
        double seconds = ls__seconds_since(start) + (c->has_lost_lock ? c->timeout : 0);
        ls__futex_wait(&b->generation, seen, look_ns(b));
        if (atomic_load_explicit(&b->generation, memory_order_acquire) != seen) break;
        TRY(ls__late_machine(c, seconds > c->timeout ? seconds : 0));
    }
    return LS_OK;
}

enum ls_status ls_comm_barrier(struct ls_comm *c, enum ls_status mine, int order)
{
    struct board *b = c->board;
    unsigned seen = atomic_load_explicit(&b->generation, memory_order_acquire);
    if (mine != LS_OK) hand_in(b, mine, order);
    atomic_fetch_add(&b->ranks[c->place.local_rank].n_barriers, 1);
    if (atomic_fetch_add(&b->n_arrived, 1) == b->n_local - 1)
        conclude(b);
    else
        TRY(await_others(c, seen));
    return ls__fail_again(&b->outcome);
}

int ls_comm_claim(struct ls_comm *c)
{
    return atomic_fetch_add_explicit(&c->board->next_item, 1, memory_order_relaxed);
}

void ls_comm_note(struct ls_comm *c, int64_t step, const char *what)
{
    struct board_rank *s = &c->board->ranks[c->place.local_rank];
    if (step >= 0) atomic_store_explicit(&s->step, step, memory_order_relaxed);
    unsigned long long words[WHAT_BYTES / 8] = {0};
    strncpy((char *)words, what, WHAT_BYTES - 1);
    for (int i = 0; i < WHAT_BYTES / 8; i++) atomic_store_explicit(&s->what[i], words[i], memory_order_relaxed);
}

void ls__board_rank_what(const struct board_rank *s, char what[WHAT_BYTES])
{
    for (size_t i = 0; i < WHAT_BYTES / 8; i++) {
        unsigned long long word = atomic_load_explicit(&s->what[i], memory_order_relaxed);
        memcpy(what + 8 * i, &word, 8);
    }
    what[WHAT_BYTES - 1] = '\0';
}

void ls_comm_lock(struct ls_comm *c, int which)
{
    atomic_int *taken = &c->board->locks[which % LS_COMM_LOCKS].taken;
    int64_t start = 0, looked = 0;
    for (int spins = 0; atomic_exchange_explicit(taken, 1, memory_order_acquire) && !c->has_lost_lock; spins++) {
        if (spins <= 200) continue;
        sched_yield();
        if (!start) start = looked = ls__now_ns();
        if (spins % 64 || ls__now_ns() - looked < look_ns(c->board)) continue;
        looked = ls__now_ns();
        /* dead or stopped with the lock: go on without it, to the barrier it will not come to */
        if (ls__seconds_since(start) > c->timeout || ls__late_is_any_dead(c)) c->has_lost_lock = true;
    }
}

void ls_comm_unlock(struct ls_comm *c, int which)
{
    atomic_store_explicit(&c->board->locks[which % LS_COMM_LOCKS].taken, 0, memory_order_release);
}
