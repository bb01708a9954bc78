/* test_comm_end.c: how a job ends for a rank that is slow to hear of it (comm/ending.c, late.c): two ranks of one
 * machine, as two processes over a transport of this test, which holds the last message back until its sender is gone
 * and has been looked for. One that had left is not taken for dead, one that died is.
 */
#include "base/clock.h"
#include "comm/comm_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* link.c looks for the dead at most this often while it waits. */
enum { BETWEEN_LOOKS_NS = 20000000 };

/* Rank 1's end of the transport knows the process of rank 0: it waits for its end before it hands anything over. */
struct held {
    pid_t sender; /* 0: nothing is held back */
    bool is_gone;
    int64_t gone_ns;
    int n_late_polls; /* made when a look was due: each was followed by one */
};

static struct {
    int rank, fd;
    struct held held;
    struct {
        void *data;
        size_t bytes;
    } wanted;
} end;

static int open_end(int *rank, int *n_ranks)
{
    *rank = end.rank;
    *n_ranks = 2;
    return 0;
}

static void close_end(void)
{
}

static const char *name_of_end(void)
{
    return "a test";
}

static int send_at_once(const void *data, size_t bytes, int to, int tag, struct ls_request *request)
{
    *request = (struct ls_request){.is_open = true, .opaque = 1};
    return send(end.fd, data, bytes, MSG_NOSIGNAL) < 0; /* to one that is gone: fails */
}

static int want(void *data, size_t bytes, int from, int tag, struct ls_request *request)
{
    *request = (struct ls_request){.is_open = true};
    end.wanted.data = data;
    end.wanted.bytes = bytes;
    return 0;
}

/* Whether what has come may be handed over. */
static bool is_let_go(struct held *h)
{
    if (h->sender == 0) return true;
    if (!h->is_gone) {
        h->is_gone = waitpid(h->sender, NULL, 0) == h->sender;
        h->gone_ns = ls__now_ns();
    }
    if (h->n_late_polls > 0) return true;
    h->n_late_polls += ls__now_ns() - h->gone_ns > BETWEEN_LOOKS_NS;
    return false;
}

static int poll_end(struct ls_request *const *requests, int n)
{
    assert_int_equal(n, 1);
    if (requests[0]->opaque == 1) { /* a send */
        requests[0]->is_open = false;
        return 0;
    }
    if (!is_let_go(&end.held)) return 0;
    ssize_t got = recv(end.fd, end.wanted.data, end.wanted.bytes, MSG_DONTWAIT);
    if (got <= 0) return 0;
    requests[0]->bytes = (size_t)got;
    requests[0]->is_open = false;
    return 0;
}

static const struct ls_transport transport = {.abi = LS_TRANSPORT_ABI,
                                              .name = "test",
                                              .open = open_end,
                                              .close = close_end,
                                              .describe = name_of_end,
                                              .error = name_of_end,
                                              .send = send_at_once,
                                              .receive = want,
                                              .poll = poll_end,
                                              .is_bounded = true};

/* This process as one of two ranks of a machine. */
static struct ls_comm *rank_of_two(int rank, int fd, struct board *board)
{
    struct ls_comm *c = calloc(1, sizeof *c);
    end.rank = rank;
    end.fd = fd;
    c->place = (struct ls_comm_place){.rank = rank, .n_ranks = 2, .n_machines = 1, .n_local = 2, .host = "here"};
    c->place.local_rank = rank;
    c->timeout = 600;
    c->segment = -1;
    c->board = board;
    c->transport = &transport;
    c->peers = calloc(2, sizeof *c->peers);
    c->leaders = calloc(1, sizeof *c->leaders);
    for (int r = 0; r < 2; r++) c->peers[r].local_rank = r;
    atomic_store(&board->ranks[rank].pid, getpid());
    ls_comm_note(c, 4, "sums");
    if (ls__comm_thread_start(c) != LS_OK) abort();
    return c;
}

static void let_go(struct ls_comm *c)
{
    c->has_failed = false; /* nothing hangs here */
    ls__comm_thread_stop(c);
    free(c->peers);
    free(c->leaders);
    free(c);
}

/* Rank 0, as a process: ends well, or dies before. */
static void be_rank_0(int fd, struct board *board, bool dies)
{
    struct ls_comm *c = rank_of_two(0, fd, board);
    _exit(dies || ls_comm_end(c, LS_OK) != LS_OK);
}

/* How the job ends for rank 1. */
static enum ls_status end_of_rank_1(bool dies)
{
    int fds[2];
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    board->n_local = 2;
    const pid_t pid = fork();
    if (pid == 0) be_rank_0(fds[0], board, dies);
    struct ls_comm *c = rank_of_two(1, fds[1], board);
    atomic_store(&board->ranks[0].pid, pid); /* it may not have come to it yet */
    end.held = (struct held){.sender = pid};
    enum ls_status status = ls_comm_end(c, LS_OK);
    assert_true(end.held.is_gone);
    let_go(c);
    munmap(board, sizeof *board);
    close(fds[0]);
    close(fds[1]);
    return status;
}

static void test_who_left_is_not_dead(void **state)
{
    enum ls_status status = end_of_rank_1(false);
    if (status != LS_OK) print_error("%s: %s\n", ls_status_name(status), ls_error_message());
    assert_int_equal(status, LS_OK);
    assert_true(end.held.n_late_polls > 0); /* it was looked for before its word was heard */
}

static void test_who_died_is(void **state)
{
    assert_int_equal(end_of_rank_1(true), LS_REMOTE);
    assert_non_null(strstr(ls_error_message(), "rank 0 on here"));
    assert_non_null(strstr(ls_error_message(), "died at step 4, sums"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_who_left_is_not_dead), cmocka_unit_test(test_who_died_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
