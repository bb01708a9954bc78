/* fuzz_meet.c: any messages to a rank that waits for the others (comm/meet_join.c, meet_words.c): a byte for its rank
 * and the number of nodes, then messages:
 *
 *     peer    1 byte; from 128 up: not a message, but what happened to its connection (the next byte)
 *     kind    1 byte
 *     session 1 byte; 0: the job's
 *     sender  1 byte
 *     length  2 bytes, and as many of the body
 *
 * Nothing is sent: what would be must be a message that can be read. After each: lists and texts are within their
 * bounds, no two ranks are one connection, a rank counts as met only if it said so; of a body and the same body with a
 * byte behind it at most one is believed, and the other changes nothing. At the end it can say for whom it waits. */
#include "comm/meet.h"

#include "base/log.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static enum ls_status sends(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                            struct ls_wire_buffer *payload, size_t payload_bytes);
static enum ls_status dials(struct ls_wire *w, const char *address, uint64_t *peer);
#define ls_wire_send sends
#define ls_wire_dial dials
#include "comm/meet_join.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { MOST = 6, DIALLED = 200, SESSION = 7 };

static uint64_t n_dialled;

static void must(bool is_so)
{
    if (!is_so) __builtin_trap();
}

static enum ls_status sends(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                            struct ls_wire_buffer *payload, size_t payload_bytes)
{
    struct ls_frame f;
    struct ls_frame_reader body;
    must(!w && !payload && payload_bytes == 0);
    must(ls_frame_read(head, head_bytes, 0, &f, &body) && f.kind >= MEET_JOIN && f.kind <= MEET_LACKS);
    return peer % 5 == 4 ? ls_fail(LS_REMOTE, "it is gone") : LS_OK;
}

static enum ls_status dials(struct ls_wire *w, const char *address, uint64_t *peer)
{
    must(!w && strlen(address) < LS__MEET_ADDRESS);
    if (address[0] == '!') return ls_fail(LS_USAGE, "'%s' is no address", address);
    *peer = DIALLED + n_dialled++;
    return LS_OK;
}

struct rank {
    struct ls__meet j;
    struct ls__meet_node nodes[MOST];
};

static void check(const struct rank *r)
{
    const struct ls__meet *j = &r->j;
    for (int i = 0; i < j->config.n; i++) {
        const struct ls__meet_node *node = &r->nodes[i];
        must(memchr(node->address, 0, sizeof node->address) && memchr(node->host, 0, sizeof node->host));
        must(node->n_lacks <= LS__MEET_NAMED);
        must(!node->is_met || (node->is_known && i > 0 && i != j->config.rank));
        must(!node->is_known || ls__meet_rank_of(j, node->peer) == i);
        must(!node->is_met || i < j->config.rank || node->session == j->session);
    }
    must(!j->has_begun || j->has_table);
    must(j->session != 0 || !j->is_welcome);
}

static enum ls_status deliver(struct rank *r, uint64_t peer, const struct ls_frame *f, const uint8_t *body,
                              size_t bytes)
{
    struct ls_frame_reader reader = {.in = body, .size = bytes};
    return ls__meet_join_hear(&r->j, peer, f, &reader);
}

static bool is_same(const struct rank *a, const struct rank *b)
{
    return memcmp(&a->j, &b->j, sizeof a->j) == 0 && memcmp(a->nodes, b->nodes, sizeof a->nodes) == 0;
}

/* With a byte behind it, then as it is. */
static enum ls_status hear(struct rank *r, uint64_t peer, const struct ls_frame *f, const uint8_t *body, size_t bytes)
{
    static uint8_t longer[UINT16_MAX + 1];
    const struct rank before = *r;
    const uint64_t n = n_dialled;
    memcpy(longer, body, bytes);
    longer[bytes] = 0;
    enum ls_status status = deliver(r, peer, f, longer, bytes + 1);
    const bool is_believed = status != LS_OK || !is_same(r, &before);
    *r = before;
    n_dialled = n;
    status = deliver(r, peer, f, body, bytes);
    must(!is_believed || (status == LS_OK && is_same(r, &before)));
    return status;
}

static void start(struct rank *r, uint8_t how)
{
    memset(r, 0, sizeof *r);
    const int n = 2 + how / 16 % (MOST - 1);
    r->j.config = (struct ls__meet_config){.rank = how % n, .n = n, .master = "127.0.0.1:4711", .timeout = 1};
    r->j.nodes = r->nodes;
    r->j.instance = 3;
    if (r->j.config.rank == 0) {
        r->j.is_welcome = true;
        r->j.session = SESSION;
    } else {
        r->nodes[0].is_known = true; /* peer 0 */
    }
}

/* Whether it goes on. */
static bool take(struct rank *r, const uint8_t **data, size_t *len)
{
    static const enum ls_wire_event events[] = {LS_WIRE_CONNECTED, LS_WIRE_REFUSED, LS_WIRE_MISMATCH};
    const uint8_t *in = *data;
    if (*len < 6) return false;
    if (in[0] >= 128) {
        *data += 2;
        *len -= 2;
        return ls__meet_join_event(&r->j, in[0] - 128u, events[in[1] % 3]) == LS_OK;
    }
    size_t bytes = in[4] | (size_t)in[5] << 8;
    if (bytes > *len - 6) bytes = *len - 6;
    const struct ls_frame f = {.kind = in[1], .session = in[2] ? in[2] : SESSION, .sender = in[3]};
    *data += 6 + bytes;
    *len -= 6 + bytes;
    return hear(r, in[0], &f, in + 6, bytes) == LS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct rank r;
    if (len == 0) return 0;
    ls__log_set_level(LS_LOG_NOTHING);
    n_dialled = 0;
    start(&r, data[0]);
    data++;
    len--;
    bool is_going = true;
    while (is_going) {
        is_going = take(&r, &data, &len);
        check(&r);
        if (is_going) is_going = go_on(&r.j) == LS_OK;
        check(&r);
    }
    if (r.j.has_begun) return 0;
    ls__meet_say_waiting(&r.j);
    must(ls__meet_too_late(&r.j) == LS_TIMEOUT && ls_error_message()[0]);
    return 0;
}
