/* test_wire.c: endpoints over ZeroMQ (src/wire): messages, payloads that are shared, peers that come and go, wake,
 * keys. */
#include "wire/wire.h"

#include "scratch.h"
#include "wire/frame.h"
#include "wire/keys.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 30000 }; /* for what is bound to come */

static void must(enum ls_status status)
{
    if (status != LS_OK) fail_msg("%s: %s", ls_status_name(status), ls_error_message());
}

static struct ls_wire *listen_at(const char *address, const struct ls_wire_key *key, size_t max_bytes)
{
    struct ls_wire *w;
    must(ls_wire_listen(&w, &(struct ls_wire_options){.address = address, .key = key, .max_bytes = max_bytes}));
    return w;
}

static struct ls_wire *connect_to(const char *address, const struct ls_wire_key *key)
{
    struct ls_wire *w;
    must(ls_wire_connect(&w, &(struct ls_wire_options){.address = address, .key = key}));
    return w;
}

/* The next thing that happens, which is to be this. */
static struct ls_wire_message expect(struct ls_wire *w, enum ls_wire_event event)
{
    struct ls_wire_message m;
    must(ls_wire_receive(w, PATIENCE_MS, &m));
    assert_int_equal(m.event, event);
    return m;
}

static void expect_text(struct ls_wire *w, const char *text, uint64_t *peer)
{
    struct ls_wire_message m = expect(w, LS_WIRE_MESSAGE);
    assert_int_equal(m.head_bytes, strlen(text));
    assert_memory_equal(m.head, text, m.head_bytes);
    if (peer) *peer = m.peer;
    ls_wire_message_release(&m);
    ls_wire_message_release(&m);
}

static void say(struct ls_wire *w, uint64_t peer, const char *text)
{
    must(ls_wire_send(w, peer, text, strlen(text), NULL, 0));
}

static void there_and_back(const struct ls_wire_key *server_key, const struct ls_wire_key *worker_key)
{
    struct ls_wire *server = listen_at("127.0.0.1:0", server_key, 0);
    struct ls_wire *a = connect_to(ls_wire_address(server), worker_key);
    struct ls_wire *b = connect_to(ls_wire_address(server), worker_key);
    uint64_t peer_a, peer_b;
    expect(a, LS_WIRE_CONNECTED);
    expect(b, LS_WIRE_CONNECTED);
    say(a, LS_WIRE_SERVER, "I am a");
    expect_text(server, "I am a", &peer_a);
    say(b, LS_WIRE_SERVER, "I am b");
    expect_text(server, "I am b", &peer_b);
    assert_true(peer_a != peer_b);
    say(server, peer_b, "to b");
    say(server, peer_a, "to a");
    expect_text(a, "to a", NULL);
    expect_text(b, "to b", NULL);
    say(b, LS_WIRE_SERVER, "last words");
    ls_wire_close(&b, 1000);
    expect_text(server, "last words", NULL);
    struct ls_wire_message m = expect(server, LS_WIRE_GONE);
    assert_int_equal(m.peer, peer_b);
    assert_int_equal(ls_wire_send(server, peer_b, "x", 1, NULL, 0), LS_REMOTE);
    say(server, peer_a, "still there");
    expect_text(a, "still there", NULL);
    assert_int_equal(ls_wire_stats(server).messages_received, 3);
    assert_int_equal(ls_wire_stats(server).n_dropped, 0);
    ls_wire_close(&a, 0);
    ls_wire_close(&server, 0);
    assert_null(server);
}

static void without_keys(void **unused)
{
    there_and_back(NULL, NULL);
}

static void with_keys(void **unused)
{
    struct ls_wire_key server, worker, node;
    must(ls_wire_keys_make(&server, &worker));
    there_and_back(&server, &worker);
    must(ls_wire_keys_make(&node, NULL));
    there_and_back(&node, &node);
}

/* Until something else than REFUSED happens, or so often; one failed connection is told once. */
static enum ls_wire_event after_refusals(struct ls_wire *w, int most)
{
    struct ls_wire_message m = {.event = LS_WIRE_REFUSED};
    for (int i = 0; i < most && m.event == LS_WIRE_REFUSED; i++) must(ls_wire_receive(w, PATIENCE_MS, &m));
    return m.event;
}

/* A key on one side only is told for certain, as soon as the other end is heard; another key is only refused. */
static void keys_that_do_not_fit(void **unused)
{
    enum { MANY = 60 };
    struct ls_wire_key server, worker, others, other;
    must(ls_wire_keys_make(&server, &worker));
    must(ls_wire_keys_make(&others, &other));
    struct ls_wire *open = listen_at("127.0.0.1:0", NULL, 0), *closed = listen_at("127.0.0.1:0", &server, 0);
    struct ls_wire *w = connect_to(ls_wire_address(closed), NULL);
    assert_int_equal(after_refusals(w, MANY), LS_WIRE_MISMATCH);
    ls_wire_close(&w, 0);
    w = connect_to(ls_wire_address(open), &worker);
    assert_int_equal(after_refusals(w, MANY), LS_WIRE_MISMATCH);
    ls_wire_close(&w, 0);
    w = connect_to(ls_wire_address(closed), &other);
    assert_int_equal(after_refusals(w, 4), LS_WIRE_REFUSED);
    ls_wire_close(&w, 0);
    worker = other;
    memcpy(worker.server_key, server.public_key, sizeof worker.server_key); /* the right server, not its worker */
    w = connect_to(ls_wire_address(closed), &worker);
    assert_int_equal(after_refusals(w, 4), LS_WIRE_REFUSED);
    ls_wire_close(&w, 0);
    ls_wire_close(&open, 0);
    ls_wire_close(&closed, 0);
}

static void shared_payload(void **unused)
{
    enum { BYTES = 3 << 20 };
    struct ls_wire *server = listen_at("127.0.0.1:0", NULL, 0), *ends[3];
    struct ls_wire_buffer *b;
    uint64_t peers[3];
    must(ls_wire_buffer_create(&b, BYTES));
    uint8_t *data = ls_wire_buffer_data(b);
    for (size_t i = 0; i < BYTES; i++) data[i] = (uint8_t)(i * 7 + i / 1000);
    for (int i = 0; i < 3; i++) {
        ends[i] = connect_to(ls_wire_address(server), NULL);
        expect(ends[i], LS_WIRE_CONNECTED);
        say(ends[i], LS_WIRE_SERVER, "me");
        expect_text(server, "me", &peers[i]);
    }
    assert_false(ls_wire_buffer_is_shared(b));
    for (int i = 0; i < 3; i++) must(ls_wire_send(server, peers[i], "params", 6, b, BYTES - (size_t)i));
    for (int i = 0; i < 3; i++) {
        struct ls_wire_message m = expect(ends[i], LS_WIRE_MESSAGE);
        assert_int_equal(m.payload_bytes, BYTES - i);
        assert_memory_equal(m.payload, data, m.payload_bytes);
        ls_wire_message_release(&m);
    }
    for (int i = 0; ls_wire_buffer_is_shared(b) && i < 1000; i++) usleep(10000); /* ZeroMQ drops it in a moment */
    assert_false(ls_wire_buffer_is_shared(b));
    assert_int_equal(ls_wire_send(server, peers[0], "x", 1, b, BYTES + 1), LS_INTERNAL);
    ls_wire_buffer_drop(&b);
    assert_null(b);
    for (int i = 0; i < 3; i++) ls_wire_close(&ends[i], 0);
    ls_wire_close(&server, 0);
}

static void server_comes_back(void **unused)
{
    char address[64];
    struct ls_wire *server = listen_at("127.0.0.1:0", NULL, 0);
    snprintf(address, sizeof address, "%s", ls_wire_address(server));
    struct ls_wire *w = connect_to(address, NULL);
    expect(w, LS_WIRE_CONNECTED);
    say(w, LS_WIRE_SERVER, "one");
    expect_text(server, "one", NULL);
    ls_wire_close(&server, 0);
    expect(w, LS_WIRE_GONE);
    assert_int_equal(ls_wire_send(w, LS_WIRE_SERVER, "lost", 4, NULL, 0), LS_REMOTE);
    server = listen_at(address, NULL, 0);
    expect(w, LS_WIRE_CONNECTED);
    say(w, LS_WIRE_SERVER, "two");
    expect_text(server, "two", NULL);
    struct ls_wire *second;
    assert_int_equal(ls_wire_listen(&second, &(struct ls_wire_options){.address = address}), LS_IO);
    assert_null(second);
    ls_wire_close(&w, 0);
    ls_wire_close(&server, 0);
}

static void *wake_it(void *arg)
{
    ls_wire_wake(arg);
    return NULL;
}

static void wake_and_time(void **unused)
{
    struct ls_wire *w = listen_at("127.0.0.1:0", NULL, 0);
    struct ls_wire_message m;
    pthread_t thread;
    must(ls_wire_receive(w, 0, &m));
    assert_int_equal(m.event, LS_WIRE_NOTHING);
    must(ls_wire_receive(w, 20, &m));
    assert_int_equal(m.event, LS_WIRE_NOTHING);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(pthread_create(&thread, NULL, wake_it, w), 0);
        must(ls_wire_receive(w, -1, &m));
        assert_int_equal(m.event, LS_WIRE_WOKEN);
        pthread_join(thread, NULL);
    }
    ls_wire_close(&w, 0);
}

static void too_long_a_message(void **unused)
{
    char longer[1001] = {1};
    struct ls_wire *server = listen_at("127.0.0.1:0", NULL, 1000);
    struct ls_wire *w = connect_to(ls_wire_address(server), NULL);
    expect(w, LS_WIRE_CONNECTED);
    must(ls_wire_send(w, LS_WIRE_SERVER, longer, 1000, NULL, 0));
    struct ls_wire_message m = expect(server, LS_WIRE_MESSAGE);
    uint64_t peer = m.peer;
    assert_int_equal(m.head_bytes, 1000);
    ls_wire_message_release(&m);
    must(ls_wire_send(w, LS_WIRE_SERVER, longer, 1001, NULL, 0));
    m = expect(server, LS_WIRE_GONE);
    assert_int_equal(m.peer, peer);
    expect(w, LS_WIRE_GONE);
    ls_wire_close(&w, 0);
    ls_wire_close(&server, 0);
}

/* Ranks: everyone listens, the higher dials the lower; both can talk, both hear of the other's end. */
static void dial(void **unused)
{
    struct ls_wire_key key;
    uint64_t to_a, of_b;
    must(ls_wire_keys_make(&key, NULL));
    struct ls_wire *a = listen_at("127.0.0.1:0", &key, 0), *b = listen_at("127.0.0.1:0", &key, 0);
    must(ls_wire_dial(b, ls_wire_address(a), &to_a));
    say(b, to_a, "early"); /* before there is a connection */
    expect_text(a, "early", &of_b);
    say(a, of_b, "back");
    struct ls_wire_message m;
    for (int seen = 0; seen != 3; ls_wire_message_release(&m)) { /* in either order */
        must(ls_wire_receive(b, PATIENCE_MS, &m));
        assert_int_equal(m.peer, to_a);
        assert_true(m.event == LS_WIRE_MESSAGE || m.event == LS_WIRE_CONNECTED);
        seen |= m.event == LS_WIRE_MESSAGE ? 1 : 2;
    }
    ls_wire_close(&a, 0);
    m = expect(b, LS_WIRE_GONE);
    assert_int_equal(m.peer, to_a);
    ls_wire_close(&b, 0);
}

static void addresses(void **unused)
{
    static const char *const bad[] = {"",       "localhost",   ":4711", "127.0.0.1:",   "127.0.0.1:70000",
                                      "::1:80", "127.0.0.1:x", "[::1]", "[127.0.0.1:1", "no such host.invalid:1"};
    static const char *const outside[] = {"0.0.0.0:0", "*:0", "192.0.2.1:4711", "[::]:0"};
    struct ls_wire *w;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ls_wire_listen(&w, &(struct ls_wire_options){.address = bad[i]}), LS_USAGE);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_int_equal(ls_wire_listen(&w, &(struct ls_wire_options){.address = outside[i]}), LS_USAGE);
        assert_non_null(strstr(ls_error_message(), "--keygen"));
    }
    assert_int_equal(ls_wire_connect(&w, &(struct ls_wire_options){.address = "192.0.2.1:4711"}), LS_USAGE);
    assert_int_equal(ls_wire_connect(&w, &(struct ls_wire_options){.address = "127.0.0.1:0"}), LS_USAGE);
    must(ls_wire_listen(&w, &(struct ls_wire_options){.address = "localhost:0"}));
    ls_wire_close(&w, 0);
    if (ls_wire_listen(&w, &(struct ls_wire_options){.address = "[::1]:0"}) == LS_OK) { /* where there is IPv6 */
        struct ls_wire *c = connect_to(ls_wire_address(w), NULL);
        expect(c, LS_WIRE_CONNECTED);
        ls_wire_close(&c, 0);
        ls_wire_close(&w, 0);
    }
}

/* Nothing in the environment lets a process of the normal network go without a key. */
static void variables_waive_no_key(void **unused)
{
    char name[64] = "";
    assert_int_equal(gethostname(name, sizeof name - 1), 0);
    setenv("LOCKSTEP_NODE", name, 1);
    assert_int_equal(ls_wire_check("10.77.0.1:4711", NULL), LS_USAGE);
    setenv("LOCKSTEP_NODE_OUTSIDE", "1", 1);
    assert_int_equal(ls_wire_check("10.77.0.1:4711", NULL), LS_USAGE);
    unsetenv("LOCKSTEP_NODE_OUTSIDE");
    unsetenv("LOCKSTEP_NODE");
}

/* --- key files --- */

/* A key that a parent hands to its child: up to an empty line, or the end of the file; the pipe stays open. */
static void keys_through_pipes(void **unused)
{
    char text[LS_WIRE_KEY_TEXT + 2], name[16];
    struct ls_wire_key made, worker, read_back;
    int ends[2];
    must(ls_wire_keys_make(&made, &worker));
    const size_t n = ls_wire_key_print(&made, text);
    text[n] = '\n';
    text[n + 1] = 'x';
    assert_int_equal(pipe(ends), 0);
    snprintf(name, sizeof name, "fd:%d", ends[0]);
    assert_int_equal(write(ends[1], text, n + 2), n + 2);
    must(ls_wire_key_read(&read_back, name));
    assert_memory_equal(&read_back, &made, sizeof made);
    assert_int_equal(read(ends[0], text, 1), 1); /* what follows is left */
    assert_int_equal(text[0], 'x');
    assert_int_equal(write(ends[1], text, n / 2), n / 2);
    close(ends[1]);
    assert_int_equal(ls_wire_key_read(&read_back, name), LS_USAGE); /* half a key */
    close(ends[0]);
    assert_int_equal(ls_wire_key_read(&read_back, name), LS_IO);
}

static void key_files(void **unused)
{
    char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 32], link[SCRATCH_BYTES + 32];
    struct ls_wire_key key, worker;
    struct stat st;
    assert_non_null(mkdtemp(scratch_name(dir, "keys", "")));
    must(ls_wire_keygen(dir));
    assert_int_equal(ls_wire_keygen(dir), LS_IO); /* never replaced */
    snprintf(path, sizeof path, "%s/server.key", dir);
    snprintf(link, sizeof link, "%s/link.key", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    must(ls_wire_key_read(&key, path));
    assert_int_equal(key.n_allowed, 1);
    assert_string_equal(key.server_key, "");
    struct ls_wire *w;
    assert_int_equal(ls_wire_connect(&w, &(struct ls_wire_options){.address = "127.0.0.1:1", .key = &key}), LS_USAGE);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(ls_wire_key_read(&key, link), LS_USAGE);
    for (int mode = 0601; mode <= 0677; mode++) {
        if ((mode & 077) == 0) continue;
        assert_int_equal(chmod(path, (mode_t)mode), 0);
        assert_int_equal(ls_wire_key_read(&key, path), LS_USAGE);
        assert_string_equal(key.secret_key, "");
    }
    assert_non_null(strstr(ls_error_message(), "chmod 600"));
    chmod(path, 0400);
    must(ls_wire_key_read(&key, path));
    unlink(path);
    unlink(link);
    snprintf(path, sizeof path, "%s/worker.key", dir);
    must(ls_wire_key_read(&worker, path));
    assert_string_equal(worker.server_key, key.public_key);
    assert_string_equal(worker.public_key, key.allowed[0]);
    assert_int_equal(ls_wire_listen(&w, &(struct ls_wire_options){.address = "127.0.0.1:0", .key = &worker}), LS_USAGE);
    unlink(path);
    snprintf(path, sizeof path, "%s/node.key", dir);
    unlink(path);
    assert_int_equal(ls_wire_key_read(&key, dir), LS_USAGE);
    rmdir(dir);
}

static void bad_key_files(void **unused)
{
#define K40 "qLHvV/!spg]dG&%P?flj607uCVgDL@(9Rvs8ghJ)"
    static const char *const texts[] = {"",
                                        "public: " K40 "\n",
                                        "secret: " K40 "\n",
                                        "public: " K40 "\nsecret: short\n",
                                        "public: " K40 "\nsecret: " K40 "x\n",
                                        "public: " K40 "\nsecret: " K40 "\nsecret: " K40 "\n",
                                        "public: " K40 "\nsecret: " K40 "\nother: " K40 "\n",
                                        "public: " K40 "\nsecret: qLHvV/!spg]dG&%P?flj607uCVgDL@(9Rvs8gh\"J\n"};
    char path[SCRATCH_BYTES];
    struct ls_wire_key key;
    int fd = mkstemps(scratch_name(path, "bad", ".key"), 4);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, texts[i], strlen(texts[i]), 0), strlen(texts[i]));
        assert_int_equal(ls_wire_key_read(&key, path), LS_USAGE);
    }
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_keys),
        cmocka_unit_test(with_keys),
        cmocka_unit_test(shared_payload),
        cmocka_unit_test(server_comes_back),
        cmocka_unit_test(wake_and_time),
        cmocka_unit_test(too_long_a_message),
        cmocka_unit_test(keys_that_do_not_fit),
        cmocka_unit_test(variables_waive_no_key),
        cmocka_unit_test(dial),
        cmocka_unit_test(addresses),
        cmocka_unit_test(key_files),
        cmocka_unit_test(keys_through_pipes),
        cmocka_unit_test(bad_key_files),
    };
    if (ls_wire_load() != LS_OK) {
        puts("ZeroMQ is not installed");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
