/* test_meet_words.c: nodes that do not find each other (comm/meet_join.c, meet_words.c), as processes of their own;
 * this one plays the node that is in the way. Who is asked in rank 0's place says so; who joined and then fell silent
 * is named, with what the others said.
 */
#include "comm/meet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "expect.h"

enum { LONG_S = 600 };

struct node {
    pid_t pid;
    int fd; /* its last words */
};

/* This program again, as a node: a copy of a process whose other threads hold locks could wait for ever. */
static struct node start(int rank, int n, const char *master, double timeout)
{
    int fds[2];
    char numbers[4][32];
    assert_int_equal(pipe(fds), 0);
    snprintf(numbers[0], sizeof numbers[0], "%d", fds[1]);
    snprintf(numbers[1], sizeof numbers[1], "%d", rank);
    snprintf(numbers[2], sizeof numbers[2], "%d", n);
    snprintf(numbers[3], sizeof numbers[3], "%g", timeout);
    char *const words[] = {"test_meet_words", (char *)master, numbers[0], numbers[1], numbers[2], numbers[3], NULL};
    struct node node = {.pid = fork(), .fd = fds[0]};
    if (node.pid == 0) {
        execv("/proc/self/exe", words);
        _exit(LS_INTERNAL);
    }
    close(fds[1]);
    return node;
}

/* MASTER FD RANK N TIMEOUT: joins, says why it could not, and ends with that status. */
static int be_node(char **words)
{
    int own, all;
    const struct ls__meet_config config = {
        .rank = atoi(words[2]), .n = atoi(words[3]), .master = words[0], .timeout = atof(words[4])};
    ls__meet_configure(&config);
    const int status = ls__meet_transport.open(&own, &all);
    const char *said = status == LS_OK ? "" : ls__meet_transport.error();
    _exit(write(atoi(words[1]), said, strlen(said)) < 0 ? LS_INTERNAL : status);
}

/* How it ended, and what it said. */
static int end_of(struct node *node, char words[LS__MEET_ERROR])
{
    int status;
    size_t at = 0;
    for (ssize_t n; (n = read(node->fd, words + at, LS__MEET_ERROR - 1 - at)) > 0;) at += (size_t)n;
    words[at] = '\0';
    close(node->fd);
    assert_int_equal(waitpid(node->pid, &status, 0), node->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_said(const char *words, const char *part)
{
    if (!strstr(words, part)) fail_msg("'%s' is not in: %s", part, words);
}

/* The address at which the node that asks us to join listens itself. */
static void hear_join(struct ls_wire *w, char address[LS__MEET_ADDRESS])
{
    struct ls_wire_message m;
    struct ls_frame f;
    struct ls_frame_reader body;
    do check_ok(ls_wire_receive(w, -1, &m));
    while (m.event != LS_WIRE_MESSAGE);
    assert_true(ls_frame_read(m.head, m.head_bytes, m.payload_bytes, &f, &body));
    assert_int_equal(f.kind, MEET_JOIN);
    assert_int_equal(ls_frame_get_u32(&body), 2);
    assert_int_equal(ls_frame_get_u32(&body), 1);
    ls_frame_get_u64(&body);
    ls_frame_get_text(&body, address, LS__MEET_ADDRESS);
    ls_wire_message_release(&m);
}

static void test_not_rank_0(void **state)
{
    struct ls_wire *w;
    char address[LS__MEET_ADDRESS], words[LS__MEET_ERROR], expected[256];
    check_ok(ls_wire_listen(&w, &(struct ls_wire_options){.address = "127.0.0.1:0"}));
    struct node waits = start(1, 2, ls_wire_address(w), LONG_S);
    hear_join(w, address);
    struct node astray = start(1, 2, address, LONG_S);
    assert_int_equal(end_of(&astray, words), LS_USAGE);
    snprintf(expected, sizeof expected, "rank 1 of 2 nodes listens at %s, not rank 0", address);
    check_said(words, expected);
    kill(waits.pid, SIGKILL);
    end_of(&waits, words);
    ls_wire_close(&w, 0);
}

/* A port that nobody else is given while this socket holds it; who names it may listen beside it. */
static int hold_port(char master[64])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&at, &len), 0);
    snprintf(master, 64, "127.0.0.1:%d", ntohs(at.sin_port));
    return s;
}

static bool has_ended(const struct node *node)
{
    return poll(&(struct pollfd){.fd = node->fd, .events = POLLIN}, 1, 0) > 0;
}

static void join_as_rank_1(struct ls_wire *w, uint64_t peer, const struct node *rank_0)
{
    uint8_t head[512];
    size_t bytes;
    struct ls_wire_message m = {.event = LS_WIRE_NOTHING};
    while (m.event != LS_WIRE_CONNECTED && !has_ended(rank_0)) check_ok(ls_wire_receive(w, 20, &m));
    if (m.event != LS_WIRE_CONNECTED) return;
    struct ls_frame_writer body = ls_frame_begin(head, sizeof head);
    ls_frame_put_u32(&body, 3);
    ls_frame_put_u32(&body, 1);
    ls_frame_put_u64(&body, 77);
    ls_frame_put_text(&body, ls_wire_address(w));
    ls_frame_put_text(&body, "mute");
    check_ok(ls_frame_end(&body, &(struct ls_frame){.kind = MEET_JOIN, .sender = 1}, &bytes));
    check_ok(ls_wire_send(w, peer, head, bytes, NULL, 0));
}

/* Whether rank 2 came to say whom it lacks within the timeout, which a busy machine may not let it. */
static bool is_mute_named(double timeout)
{
    struct ls_wire *w;
    uint64_t peer;
    char master[64], words[2][LS__MEET_ERROR], host[64] = "", expected[128];
    int port = hold_port(master);
    gethostname(host, sizeof host - 1);
    check_ok(ls_wire_listen(&w, &(struct ls_wire_options){.address = "127.0.0.1:0"}));
    struct node first = start(0, 3, master, timeout), last = start(2, 3, master, timeout);
    check_ok(ls_wire_dial(w, master, &peer));
    join_as_rank_1(w, peer, &first);
    assert_int_equal(end_of(&first, words[0]), LS_TIMEOUT);
    assert_int_equal(end_of(&last, words[1]), LS_TIMEOUT);
    ls_wire_close(&w, 0);
    close(port);
    snprintf(expected, sizeof expected, "rank 2 on %.40s waits for rank 1", host);
    if (!strstr(words[0], expected)) return false;
    check_said(words[0], "all 3 nodes joined at ");
    check_said(words[0], "rank 1 on mute has said nothing since");
    check_said(words[1], "rank 1"); /* what rank 0 said, or that it did not meet it */
    return true;
}

static void test_who_fell_silent(void **state)
{
    for (double timeout = 1; timeout < LONG_S; timeout *= 4)
        if (is_mute_named(timeout)) return;
    fail_msg("rank 2 never says that it waits for rank 1");
}

int main(int argc, char **argv)
{
    if (argc == 6) return be_node(argv + 1);
    if (ls_wire_load() != LS_OK) {
        printf("skipped: %s\n", ls_error_message());
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_not_rank_0), cmocka_unit_test(test_who_fell_silent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
