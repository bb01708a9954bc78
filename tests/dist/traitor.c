/* traitor.c: somebody who has a worker's key of a parameter server (src/elastic) and does not deserve it. For tests.
 *
 *     traitor member ADDRESS N KEY                  joins as a worker does, then sends N messages: pushes of shards
 *                                                   that it was not given, cut, too long, with sums that are none,
 *                                                   twice, of other sessions; and what a worker says at other times
 *     traitor between ADDRESS N KEY SERVER_KEY      stands between a worker and its server, both of whom trust it, and
 *                                                   sends every push again and again: cut, enlarged, old ones, the same
 *                                                   one before and after it counted; N such messages, then it only
 *                                                   passes on what is said. Prints the address at which it listens.
 *
 * Out: a line with what was sent; exit code 1 if a member was given work. Whether anything was believed the weights
 * tell.
 */
#include "elastic/talk.h"
#include "wire/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_SESSION = 8, AT_SEQUENCE = 24, AT_PAYLOAD_BYTES = 40, MOST = 1 << 20, TOO_LONG = 80 << 20 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void die(const char *what)
{
    fprintf(stderr, "traitor: %s: %s\n", what, ls_error_message());
    exit(2);
}

static struct ls_wire *connect_with(const char *address, const char *path)
{
    struct ls_wire_key key;
    struct ls_wire *w;
    if (ls_wire_key_read(&key, path) != LS_OK) die("key");
    if (ls_wire_connect(&w, &(struct ls_wire_options){.address = address, .key = &key}) != LS_OK) die("connect");
    return w;
}

/* Numbers of a head are little-endian, as this machine's. */
static void put_u64(uint8_t *head, size_t at, uint64_t x)
{
    memcpy(head + at, &x, sizeof x);
}

/* --- one who joined --- */

struct member {
    struct ls_wire *wire;
    uint64_t session, sequence;
    uint32_t number;
    bool is_joined, is_connected;
    int n_sent, n_joined, n_answers, n_given;
    uint8_t head[LS_TALK_HEAD_BYTES];
    size_t bytes; /* of the last head */
    uint8_t payload[MOST];
};

static void write_head(struct member *b, enum ls_talk_kind kind, const void *body, size_t payload_bytes)
{
    const struct ls_frame f = {.session = b->session,
                               .step = (int64_t)(next_random() % 200),
                               .sender = b->number,
                               .sequence = ++b->sequence,
                               .payload_bytes = payload_bytes};
    if (ls__talk_write(b->head, sizeof b->head, f, kind, body, &b->bytes) != LS_OK) die("write");
}

/* Not when the server has cut it off. */
static void put(struct member *b, size_t bytes, size_t payload_bytes)
{
    b->n_sent += ls_wire_send_copy(b->wire, LS_WIRE_SERVER, b->head, bytes, b->payload, payload_bytes) == LS_OK;
}

static void hear(struct member *b, int ms)
{
    static union ls_talk_body body;
    struct ls_wire_message m;
    struct ls_frame f;
    struct ls_frame_reader r;
    if (ls_wire_receive(b->wire, ms, &m) != LS_OK) die("receive");
    if (m.event == LS_WIRE_CONNECTED) b->is_connected = true;
    if (m.event == LS_WIRE_GONE) b->is_connected = b->is_joined = false;
    if (m.event == LS_WIRE_MESSAGE && ls_frame_read(m.head, m.head_bytes, m.payload_bytes, &f, &r) &&
        ls__talk_read(&f, &r, &body)) {
        b->n_answers++;
        if (f.kind == LS_TALK_WELCOME) {
            b->session = f.session;
            b->number = body.welcome.worker;
            b->is_joined = true;
        }
        if (f.kind == LS_TALK_OVER) b->is_joined = false; /* it said something that is no worker's */
        if (f.kind == LS_TALK_WORK) b->n_given += (int)body.work.n_items;
    }
    ls_wire_message_release(&m);
}

static void join(struct member *b)
{
    static struct ls_talk_join j = {.pid = 1, .threads = 1, .slot = -1, .version = LOCKSTEP_VERSION, .host = "traitor"};
    for (int i = 0; i < 300 && !b->is_connected; i++) hear(b, 100);
    if (!b->is_connected) die("nobody took the key");
    write_head(b, LS_TALK_JOIN, &j, 0);
    put(b, b->bytes, 0);
    for (int i = 0; i < 300 && !b->is_joined && b->is_connected; i++) hear(b, 100);
    b->n_joined += b->is_joined;
}

static void write_push(struct member *b, size_t *payload_bytes)
{
    static struct ls_talk_push p;
    p = (struct ls_talk_push){.version = (int64_t)(next_random() % 100), .form = (uint32_t)next_random() % 5};
    p.n_pieces = next_random() % 4 ? 1 : (uint32_t)(1 + next_random() % LS_MAX_PIECES);
    p.piece = (uint32_t)(next_random() % p.n_pieces);
    p.n_items = (uint32_t)(next_random() % 9);
    for (uint32_t i = 0; i < p.n_items; i++)
        p.items[i] = next_random() % 3 ? (uint32_t)(next_random() % 8) : (uint32_t)next_random();
    *payload_bytes = next_random() % 8 ? next_random() % 2000 : next_random() % MOST;
    write_head(b, LS_TALK_PUSH, &p, *payload_bytes);
}

/* Whatever a joined worker may say; what it says wrong makes the server forget it. */
static void say_other(struct member *b)
{
    static const enum ls_talk_kind kinds[] = {LS_TALK_ASK, LS_TALK_BEAT, LS_TALK_ASK, LS_TALK_READY, LS_TALK_LEAVE};
    static union ls_talk_body body;
    const enum ls_talk_kind kind = kinds[next_random() % 5];
    memset(&body, 0, sizeof body);
    write_head(b, kind, &body, 0);
    put(b, b->bytes, 0);
    if (kind == LS_TALK_READY || kind == LS_TALK_LEAVE) b->is_joined = false;
}

static void say_something(struct member *b, int i)
{
    size_t bytes;
    write_push(b, &bytes);
    switch (i % 6) {
    case 0: /* of shards that nobody gave it */
        put(b, b->bytes, bytes);
        break;
    case 1: /* twice */
        put(b, b->bytes, bytes);
        put(b, b->bytes, bytes);
        break;
    case 2: /* cut */
        put(b, 1 + next_random() % (b->bytes - 1), bytes);
        put(b, b->bytes, bytes / 2);
        break;
    case 3: /* longer than it says */
        put(b, b->bytes, bytes < MOST - 100 ? bytes + 100 : bytes - 100);
        break;
    case 4: /* of another session */
        put_u64(b->head, AT_SESSION, next_random());
        put(b, b->bytes, bytes);
        break;
    default:
        say_other(b);
        break;
    }
}

/* Beyond what the server takes from anybody: it hangs up. */
static void say_too_much(struct member *b)
{
    struct ls_wire_buffer *long_one;
    size_t bytes;
    write_push(b, &bytes);
    put_u64(b->head, AT_PAYLOAD_BYTES, TOO_LONG);
    if (ls_wire_buffer_create(&long_one, TOO_LONG) != LS_OK) die("memory");
    b->n_sent += ls_wire_send(b->wire, LS_WIRE_SERVER, b->head, b->bytes, long_one, TOO_LONG) == LS_OK;
    for (int i = 0; i < 300 && b->is_connected; i++) hear(b, 100);
    if (b->is_connected) die("the server listens to 80 MiB");
    ls_wire_buffer_drop(&long_one);
}

static int be_member(const char *address, int n, const char *key)
{
    static struct member b;
    b.wire = connect_with(address, key);
    for (size_t i = 0; i < sizeof b.payload; i++) b.payload[i] = (uint8_t)next_random();
    for (int i = 0; b.n_sent < n; i++) {
        if (!b.is_joined) join(&b);
        say_something(&b, i);
        hear(&b, 0);
        hear(&b, 0);
    }
    say_too_much(&b);
    for (int i = 0; i < 10; i++) hear(&b, 10);
    ls_wire_close(&b.wire, 0);
    printf("member: joined %d times, %d messages, %d answers, %d shards given\n", b.n_joined, b.n_sent, b.n_answers,
           b.n_given);
    return b.n_given > 0 || b.n_sent < n;
}

/* --- one who stands between --- */

struct between {
    struct ls_wire *near, *far; /* to the worker, to the server */
    uint64_t worker, sequence;
    int n_pushes, n_hostile, n_left;
    uint8_t head[LS_TALK_HEAD_BYTES], old[LS_TALK_HEAD_BYTES];
    size_t old_bytes;
};

static void tell_server(struct between *b, const uint8_t *head, size_t bytes, const void *payload, size_t payload_bytes)
{
    if (ls_wire_send_copy(b->far, LS_WIRE_SERVER, head, bytes, payload, payload_bytes) != LS_OK)
        fprintf(stderr, "traitor: %s\n", ls_error_message());
}

static void spoil(struct between *b, const uint8_t *head, size_t bytes, const void *payload, size_t payload_bytes)
{
    b->n_hostile++;
    b->n_left--;
    tell_server(b, head, bytes, payload, payload_bytes);
}

/* Before a push: what looks like it. The server must neither believe it nor forget what the worker has. */
static void go_before(struct between *b, size_t bytes, const struct ls_wire_message *m)
{
    static uint8_t other[LS_TALK_HEAD_BYTES];
    memcpy(other, b->head, bytes);
    put_u64(other, AT_SESSION, next_random());
    spoil(b, b->head, 1 + next_random() % (bytes - 1), m->payload, m->payload_bytes); /* cut */
    spoil(b, b->head, bytes, m->payload, m->payload_bytes / 2);
    spoil(b, b->head, bytes, NULL, 0);
    spoil(b, other, bytes, m->payload, m->payload_bytes);                               /* another server's */
    if (b->old_bytes > 0) spoil(b, b->old, b->old_bytes, m->payload, m->payload_bytes); /* said before */
}

/* With a number that nobody has used: only what is in it tells. The worker it speaks for loses what it has, no more. */
static void say_anew(struct between *b, size_t bytes, const uint8_t *payload, size_t payload_bytes)
{
    put_u64(b->head, AT_SEQUENCE, ++b->sequence);
    put_u64(b->head, AT_PAYLOAD_BYTES, payload_bytes);
    spoil(b, b->head, bytes, payload, payload_bytes);
}

static void pass_to_server(struct between *b, const struct ls_wire_message *m)
{
    struct ls_frame f;
    struct ls_frame_reader r;
    if (m->head_bytes > sizeof b->head || !ls_frame_read(m->head, m->head_bytes, m->payload_bytes, &f, &r)) return;
    const bool is_push = f.kind == LS_TALK_PUSH, is_spoilt = is_push && b->n_left > 0;
    b->worker = m->peer;
    b->n_pushes += is_push;
    memcpy(b->head, m->head, m->head_bytes);
    put_u64(b->head, AT_SEQUENCE, ++b->sequence);
    if (is_spoilt) go_before(b, m->head_bytes, m);
    if (is_spoilt && b->n_pushes % 8 == 1) say_anew(b, m->head_bytes, m->payload, m->payload_bytes / 2);
    put_u64(b->head, AT_SEQUENCE, ++b->sequence);
    put_u64(b->head, AT_PAYLOAD_BYTES, m->payload_bytes);
    tell_server(b, b->head, m->head_bytes, m->payload, m->payload_bytes);
    if (!is_spoilt) return;
    memcpy(b->old, b->head, m->head_bytes);
    b->old_bytes = m->head_bytes;
    spoil(b, b->head, m->head_bytes, m->payload, m->payload_bytes); /* twice */
    if (b->n_pushes % 8 == 5) say_anew(b, m->head_bytes, m->payload, m->payload_bytes);
}

static int be_between(const char *address, int n, const char *worker_key, const char *server_key)
{
    static struct between b;
    struct ls_wire_key key;
    struct ls_wire_message m = {0};
    b.n_left = n;
    if (ls_wire_key_read(&key, server_key) != LS_OK) die("key");
    if (ls_wire_listen(&b.near, &(struct ls_wire_options){.address = "127.0.0.1:0", .key = &key}) != LS_OK)
        die("listen");
    b.far = connect_with(address, worker_key);
    for (int i = 0; i < 300 && m.event != LS_WIRE_CONNECTED; i++)
        if (ls_wire_receive(b.far, 100, &m) != LS_OK) die("receive");
    printf("%s\n", ls_wire_address(b.near));
    fflush(stdout);
    for (bool is_over = false; !is_over;) {
        if (ls_wire_receive(b.near, 1, &m) != LS_OK) die("receive");
        if (m.event == LS_WIRE_MESSAGE) pass_to_server(&b, &m);
        is_over = m.event == LS_WIRE_GONE;
        ls_wire_message_release(&m);
        if (ls_wire_receive(b.far, 1, &m) != LS_OK) die("receive");
        if (m.event == LS_WIRE_MESSAGE &&
            ls_wire_send_copy(b.near, b.worker, m.head, m.head_bytes, m.payload, m.payload_bytes) != LS_OK)
            fprintf(stderr, "traitor: %s\n", ls_error_message());
        ls_wire_message_release(&m);
    }
    ls_wire_close(&b.near, 0);
    ls_wire_close(&b.far, 500);
    printf("between: %d pushes, %d messages beside them\n", b.n_pushes, b.n_hostile);
    return 0;
}

int main(int argc, char **argv)
{
    const int n = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    if (argc > 4 && strcmp(argv[1], "member") == 0) return be_member(argv[2], n, argv[4]);
    if (argc > 5 && strcmp(argv[1], "between") == 0) return be_between(argv[2], n, argv[4], argv[5]);
    die("usage: traitor member ADDRESS N KEY, or between ADDRESS N KEY SERVER_KEY");
}
