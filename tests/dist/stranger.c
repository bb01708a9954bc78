/* stranger.c: somebody who should not be listened to, for tests of what listens (src/wire).
 *
 *     stranger raw ADDRESS N
 *         N connections that send bytes: noise, ZeroMQ's greeting cut short, lengths beyond all bounds
 *     stranger keyless ADDRESS N
 *         N messages by ZeroMQ without a key, and with a key that nobody knows
 *     stranger replay ADDRESS N KEY
 *         records what a process with the key sends, and sends it again N times
 *     stranger insider ADDRESS N KEY
 *         a process with the key that sends N messages that are none: noise, cut, too long, with wrong lengths, of
 *         other jobs, twice
 *
 * Out: a line with what came back; exit code 1 if that was more than ZeroMQ's own greeting (raw, keyless) or any
 * message. Raw and replay read what comes back and look for our name and version in it.
 */
#include "base/clock.h"
#include "wire/frame.h"
#include "wire/keys.h"
#include "wire/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GREETING = 64, WELCOME = 256 /* ZeroMQ's answer to a first word that is new or repeated */, ROOM = 1 << 16 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void noise(uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)next_random();
}

static void die(const char *what)
{
    fprintf(stderr, "stranger: %s: %s\n", what, ls_error_message());
    exit(2);
}

/* --- bytes --- */

static int dial(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[64];
    int port, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sscanf(address, "%63[^:]:%d", host, &port) != 2) die("an address is HOST:PORT");
    to.sin_port = htons((uint16_t)port);
    inet_pton(AF_INET, host, &to.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        if (fd >= 0) close(fd);
        return -1;
    }
    return fd;
}

static void send_all(int fd, const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t w = send(fd, bytes + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (w <= 0) return; /* cut off: that is what ought to happen */
        at += (size_t)w;
    }
}

static bool tells(const uint8_t *bytes, size_t n, const char *word)
{
    return memmem(bytes, n, word, strlen(word)) != NULL;
}

/* What comes back within a moment; -1 if it names us. */
static long hear(int fd, int ms)
{
    static uint8_t back[ROOM];
    size_t n = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (n < sizeof back && poll(&p, 1, ms) > 0) {
        ssize_t r = recv(fd, back + n, sizeof back - n, MSG_DONTWAIT);
        if (r <= 0) break;
        n += (size_t)r;
    }
    return tells(back, n, "ockstep") || tells(back, n, "LSW") || tells(back, n, LOCKSTEP_VERSION) ? -1 : (long)n;
}

/* ZeroMQ's greeting as a client says it, with a mechanism. */
static size_t greeting(uint8_t *out, const char *mechanism)
{
    memset(out, 0, GREETING);
    out[0] = 0xff;
    out[8] = 1;
    out[9] = 0x7f;
    out[10] = 3;
    memcpy(out + 12, mechanism, strlen(mechanism));
    return GREETING;
}

static size_t hostile_bytes(uint8_t *out, int kind)
{
    static const char *const mechanisms[] = {"NULL", "CURVE", "PLAIN"};
    size_t n = greeting(out, mechanisms[next_random() % 3]);
    if (kind == 0) { /* noise */
        n = next_random() % 2000;
        noise(out, n);
    } else if (kind == 1) { /* cut short */
        n = next_random() % GREETING;
    } else if (kind == 2) { /* a frame of 2^60 bytes */
        memcpy(out + n, "\x06\x10\0\0\0\0\0\0\0", 9);
        n += 9;
        noise(out + n, 500);
        n += 500;
    } else { /* commands of noise */
        size_t bytes = next_random() % 250;
        out[n++] = 4;
        out[n++] = (uint8_t)bytes;
        noise(out + n, bytes);
        n += bytes;
        if (next_random() % 2 && bytes > 6) memcpy(out + n - bytes, "\x05READY", 6);
    }
    return n;
}

static int be_raw(const char *address, int n)
{
    uint8_t bytes[4096];
    long most = 0;
    int n_named = 0, n_refused = 0;
    for (int i = 0; i < n; i++) {
        int fd = dial(address);
        if (fd < 0) {
            n_refused++;
            continue;
        }
        send_all(fd, bytes, hostile_bytes(bytes, i % 4));
        long back = i % 17 ? 0 : hear(fd, 20); /* the others leave at once */
        n_named += back < 0;
        if (back > most) most = back;
        close(fd);
    }
    printf("raw: %d connections, %d not made, at most %ld bytes back, named us %d times\n", n, n_refused, most,
           n_named);
    return most > GREETING || n_named > 0;
}

/* --- messages --- */

/* How many messages come back within a moment. */
static int n_answers(struct ls_wire *w, int ms)
{
    struct ls_wire_message m;
    int n = 0;
    for (int64_t start = ls__now_ns(); (ls__now_ns() - start) / 1000000 < ms;) {
        if (ls_wire_receive(w, ms, &m) != LS_OK) die("receive");
        n += m.event == LS_WIRE_MESSAGE;
        ls_wire_message_release(&m);
    }
    return n;
}

static int be_keyless(const char *address, int n)
{
    struct ls_wire_key key, unused;
    struct ls_wire *ends[2];
    uint8_t bytes[200];
    int n_answered = 0, n_taken = 0;
    if (ls_wire_keys_make(&unused, &key) != LS_OK) die("make keys");
    if (ls_wire_connect(&ends[0], &(struct ls_wire_options){.address = address}) != LS_OK) die("connect");
    if (ls_wire_connect(&ends[1], &(struct ls_wire_options){.address = address, .key = &key}) != LS_OK) die("connect");
    for (int i = 0; i < n; i++) {
        noise(bytes, sizeof bytes);
        n_taken += ls_wire_send(ends[i % 2], LS_WIRE_SERVER, bytes, sizeof bytes, NULL, 0) == LS_OK;
        if (i % 100 == 0) n_answered += n_answers(ends[i % 2], 5);
    }
    for (int i = 0; i < 2; i++) {
        n_answered += n_answers(ends[i], 300);
        ls_wire_close(&ends[i], 0);
    }
    printf("keyless: %d messages, %d left, %d answers\n", n, n_taken, n_answered);
    return n_answered > 0 || n_taken > 0;
}

/* The key file's, as one who connects. */
static struct ls_wire *connect_with(const char *address, const char *path)
{
    struct ls_wire_key key;
    struct ls_wire *w;
    if (ls_wire_key_read(&key, path) != LS_OK) die("key");
    if (ls_wire_connect(&w, &(struct ls_wire_options){.address = address, .key = &key}) != LS_OK) die("connect");
    return w;
}

static void await_connection(struct ls_wire *w)
{
    struct ls_wire_message m = {.event = LS_WIRE_NOTHING};
    for (int i = 0; i < 100 && m.event != LS_WIRE_CONNECTED; i++)
        if (ls_wire_receive(w, 300, &m) != LS_OK) die("receive");
    if (m.event != LS_WIRE_CONNECTED) die("nobody took the key");
}

/* A head that is whole but for what `kind` does to it. */
static size_t hostile_head(uint8_t *out, size_t size, int kind)
{
    struct ls_frame f = {.kind = (uint16_t)(1 + next_random() % 20),
                         .session = next_random(),
                         .step = (int64_t)(next_random() % 200),
                         .sequence = next_random() % 1000,
                         .sender = (uint32_t)(next_random() % 4)};
    struct ls_frame_writer w = ls_frame_begin(out, size);
    size_t bytes = 0;
    if (kind == 0) { /* noise, half of it with the right first letters */
        bytes = 1 + next_random() % 300;
        noise(out, bytes);
        if (next_random() % 2 && bytes > 4) memcpy(out, "LSW\1", 4);
        return bytes;
    }
    for (uint64_t i = next_random() % 8; i > 0; i--) ls_frame_put_u32(&w, (uint32_t)next_random());
    if (kind == 1) ls_frame_put_u32(&w, UINT32_MAX); /* a list longer than any message */
    if (ls_frame_end(&w, &f, &bytes) != LS_OK) die("frame");
    if (kind == 2) bytes = 1 + next_random() % bytes;                                  /* cut */
    if (kind == 3) out[36 + next_random() % 12] ^= (uint8_t)(1 + next_random() % 255); /* lengths that lie */
    return bytes;
}

static int be_insider(const char *address, int n, const char *path)
{
    struct ls_wire *w = connect_with(address, path);
    uint8_t head[1024];
    int n_answered = 0, n_left = 0;
    await_connection(w);
    for (int i = 0; i < n; i++) {
        size_t bytes = hostile_head(head, sizeof head, i % 5);
        for (int twice = 0; twice < 1 + (i % 7 == 0); twice++)
            n_left += ls_wire_send_copy(w, LS_WIRE_SERVER, head, bytes, head, next_random() % 3 ? 0 : 100) == LS_OK;
        if (i % 100 == 0) n_answered += n_answers(w, 1);
    }
    n_answered += n_answers(w, 300);
    ls_wire_close(&w, 1000);
    printf("insider: %d messages left, %d answers\n", n_left, n_answered);
    return n_answered > 0 || n_left < n;
}

/* --- the same bytes again --- */

struct relay {
    int listening, to, from; /* sockets: for the client, of the server, of the client */
    uint8_t bytes[ROOM];
    size_t n;
};

static void *relay_main(void *arg)
{
    struct relay *r = arg;
    uint8_t bytes[4096];
    r->from = accept(r->listening, NULL, NULL);
    for (;;) {
        struct pollfd p[] = {{.fd = r->from, .events = POLLIN}, {.fd = r->to, .events = POLLIN}};
        if (poll(p, 2, -1) < 0) return NULL;
        for (int i = 0; i < 2; i++) {
            if (!p[i].revents) continue;
            ssize_t n = recv(p[i].fd, bytes, sizeof bytes, 0);
            if (n <= 0) return NULL;
            send_all(p[1 - i].fd, bytes, (size_t)n);
            if (i == 0 && r->n + (size_t)n <= sizeof r->bytes) {
                memcpy(r->bytes + r->n, bytes, (size_t)n);
                r->n += (size_t)n;
            }
        }
    }
}

static int be_replay(const char *address, int n, const char *path)
{
    static struct relay r;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    char near[64];
    uint8_t head[256];
    pthread_t thread;
    r.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    r.to = dial(address);
    if (r.to < 0 || bind(r.listening, (struct sockaddr *)&here, sizeof here) != 0 || listen(r.listening, 1) != 0 ||
        getsockname(r.listening, (struct sockaddr *)&here, &len) != 0)
        die("relay");
    snprintf(near, sizeof near, "127.0.0.1:%d", ntohs(here.sin_port));
    if (pthread_create(&thread, NULL, relay_main, &r) != 0) die("thread");
    struct ls_wire *w = connect_with(near, path);
    await_connection(w);
    for (int i = 0; i < 20; i++) {
        size_t bytes = hostile_head(head, sizeof head, 4);
        if (ls_wire_send(w, LS_WIRE_SERVER, head, bytes, NULL, 0) != LS_OK) die("send");
    }
    n_answers(w, 200);
    ls_wire_close(&w, 500);
    pthread_join(thread, NULL);
    long most = 0;
    for (int i = 0; i < n; i++) {
        int fd = dial(address);
        if (fd < 0) continue;
        send_all(fd, r.bytes, i % 2 ? r.n : 1 + next_random() % r.n);
        long back = i % 8 ? 0 : hear(fd, 20);
        if (back < 0 || back > most) most = back < 0 ? ROOM : back;
        close(fd);
    }
    printf("replay: %zu bytes %d times, at most %ld bytes back\n", r.n, n, most);
    return most > GREETING + WELCOME;
}

int main(int argc, char **argv)
{
    if (argc < 4) die("usage: stranger raw|keyless|replay|insider ADDRESS N [KEY]");
    int n = (int)strtol(argv[3], NULL, 10);
    if (strcmp(argv[1], "raw") == 0) return be_raw(argv[2], n);
    if (strcmp(argv[1], "keyless") == 0) return be_keyless(argv[2], n);
    if (argc > 4 && strcmp(argv[1], "replay") == 0) return be_replay(argv[2], n, argv[4]);
    if (argc > 4 && strcmp(argv[1], "insider") == 0) return be_insider(argv[2], n, argv[4]);
    die("usage: stranger raw|keyless|replay|insider ADDRESS N [KEY]");
}
