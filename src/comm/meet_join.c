/* meet_join.c: how ranks that were started one by one find each other; the picture is in meet.h, what they say of it
 * to their users in meet_words.c.
 *
 * A rank may come before rank 0 or long after; whoever waits says so after a moment, and for whom. A wrong rank, one
 * that is there already or another number of nodes is refused with the reason, and the job goes on waiting for the
 * right one. Once the table of addresses is out nobody may be missing any more.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status_kept.h"
#include "comm/meet.h"
#include "wire/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 1024,
    LOOK_MS = 50,
    MOST_REFUSALS = 3,
    MOST_BUSY = 6, /* the one before may not be gone yet */
    BUSY_NS = 500000000,
    LACKS_NS = 1000000000,
    FAREWELL_MS = 500,
    PATIENCE_S = 2,
    MAX_WAITING = 1 << 20 /* messages: who sends is held back by who sums */
};
#define SAY_NS INT64_C(1500000000)
#define REFUSED_NS INT64_C(3000000000)

/* --- words --- */

static struct ls_frame frame_of(const struct ls__meet *j, enum ls__meet_kind kind)
{
    return (struct ls_frame){.kind = (uint16_t)kind, .session = j->session, .sender = (uint32_t)j->config.rank};
}

static enum ls_status say(struct ls__meet *j, uint64_t peer, enum ls__meet_kind kind, struct ls_frame_writer *w)
{
    const struct ls_frame f = frame_of(j, kind);
    size_t bytes;
    TRY(ls_frame_end(w, &f, &bytes));
    enum ls_status status = ls_wire_send(j->wire, peer, w->out, bytes, NULL, 0);
    return status == LS_REMOTE ? LS_OK : status; /* it is gone: the wire tells */
}

static enum ls_status say_word(struct ls__meet *j, uint64_t peer, enum ls__meet_kind kind)
{
    uint8_t head[HEAD_BYTES];
    struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
    return say(j, peer, kind, &w);
}

static enum ls_status refuse(struct ls__meet *j, uint64_t peer, enum ls_status why, bool is_busy, const char *text)
{
    uint8_t head[HEAD_BYTES + LS__MEET_ERROR];
    struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
    ls_frame_put_u32(&w, (uint32_t)why);
    ls_frame_put_u8(&w, is_busy);
    ls_frame_put_text(&w, text);
    return say(j, peer, MEET_REFUSE, &w);
}

/* --- rank 0 hears --- */

static bool has_all(const struct ls__meet *j, int from, bool with_ready)
{
    for (int r = from; r < j->config.n; r++)
        if (!j->nodes[r].is_known || (with_ready && !j->nodes[r].is_ready)) return false;
    return true;
}

struct card {
    uint32_t n, rank;
    uint64_t instance;
    char address[LS__MEET_ADDRESS], host[64];
};

/* Why a rank cannot join, or "". *is_busy: it may be better in a moment. */
static void find_fault(const struct ls__meet *j, const struct card *c, bool *is_busy, char *why, size_t size)
{
    const struct ls__meet_node *there = c->rank < (uint32_t)j->config.n ? &j->nodes[c->rank] : NULL;
    bool is_other = there && there->is_known && !there->is_lost && there->instance != c->instance;
    *is_busy = false;
    why[0] = '\0';
    if (c->n != (uint32_t)j->config.n)
        snprintf(why, size, "rank %u on %s was started with --nodes %u, rank 0 with --nodes %d", c->rank, c->host, c->n,
                 j->config.n);
    else if (!there || c->rank == 0)
        snprintf(why, size, "--rank %u on %s: the other nodes of %d have ranks 1 to %d", c->rank, c->host, j->config.n,
                 j->config.n - 1);
    else if (is_other) {
        snprintf(why, size, "there is a rank %u already, on %s: give each node another --rank", c->rank, there->host);
        *is_busy = true;
    } else if (j->has_table)
        snprintf(why, size, "the job has begun without this rank %u", c->rank);
}

static enum ls_status hear_join(struct ls__meet *j, uint64_t peer, struct ls_frame_reader *body)
{
    struct card c = {.n = ls_frame_get_u32(body), .rank = ls_frame_get_u32(body), .instance = ls_frame_get_u64(body)};
    char why[LS__MEET_ERROR];
    bool is_busy;
    ls_frame_get_text(body, c.address, sizeof c.address);
    ls_frame_get_text(body, c.host, sizeof c.host);
    if (!ls_frame_done(body)) return LS_OK;
    find_fault(j, &c, &is_busy, why, sizeof why);
    if (why[0]) {
        if (!is_busy) ls__log(LS_LOG_WARN, "a node was refused: %s", why);
        return refuse(j, peer, LS_USAGE, is_busy, why);
    }
    const int before = ls__meet_rank_of(j, peer); /* a connection is one rank's */
    if (before > 0) j->nodes[before] = (struct ls__meet_node){0};
    struct ls__meet_node *node = &j->nodes[c.rank];
    *node = (struct ls__meet_node){.peer = peer, .is_known = true, .instance = c.instance};
    memcpy(node->address, c.address, sizeof node->address);
    memcpy(node->host, c.host, sizeof node->host);
    return say_word(j, peer, MEET_WELCOME);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0;
}

/* Addresses that only this machine knows do not go together with others. */
static enum ls_status check_addresses(const struct ls__meet *j)
{
    int near = -1, far = -1;
    for (int r = 1; r < j->config.n; r++) *(is_loopback(j->nodes[r].address) ? &near : &far) = r;
    if (near < 0 || far < 0) return LS_OK;
    return ls_fail(
        LS_USAGE,
        "rank %d on %s reaches %s by loopback, where rank %d on %s cannot reach it: give --master an address "
        "that means the same on every machine",
        near, j->nodes[near].host, j->config.master, far, j->nodes[far].host);
}

static enum ls_status send_table(struct ls__meet *j)
{
    size_t size = HEAD_BYTES + (size_t)j->config.n * (LS__MEET_ADDRESS + 8);
    uint8_t *head;
    TRY(check_addresses(j));
    TRY(ls__calloc(&head, size, 1));
    struct ls_frame_writer w = ls_frame_begin(head, size);
    ls_frame_put_u32(&w, (uint32_t)j->config.n);
    for (int r = 0; r < j->config.n; r++) ls_frame_put_text(&w, j->nodes[r].address);
    enum ls_status status = LS_OK;
    for (int r = 1; r < j->config.n && status == LS_OK; r++) status = say(j, j->nodes[r].peer, MEET_TABLE, &w);
    free(head);
    j->has_table = true;
    return status;
}

/* --- the others hear --- */

static enum ls_status ask_to_join(struct ls__meet *j)
{
    uint8_t head[HEAD_BYTES];
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
    ls_frame_put_u32(&w, (uint32_t)j->config.n);
    ls_frame_put_u32(&w, (uint32_t)j->config.rank);
    ls_frame_put_u64(&w, j->instance);
    ls_frame_put_text(&w, j->nodes[j->config.rank].address);
    ls_frame_put_text(&w, host);
    j->ask_ns = 0;
    return say(j, j->nodes[0].peer, MEET_JOIN, &w);
}

static enum ls_status hear_refusal(struct ls__meet *j, struct ls_frame_reader *body)
{
    char text[LS__MEET_ERROR];
    enum ls_status status = (enum ls_status)ls_frame_get_u32(body);
    bool is_busy = ls_frame_get_u8(body);
    ls_frame_get_text(body, text, sizeof text);
    if (!ls_frame_done(body)) return LS_OK;
    if (is_busy && ++j->n_busy < MOST_BUSY) {
        j->ask_ns = ls__now_ns() + BUSY_NS;
        return LS_OK;
    }
    return ls_fail(status == LS_USAGE || status == LS_TIMEOUT ? status : LS_REMOTE, "%s", text);
}

/* Looked through before the first address is taken over. */
static bool is_table(struct ls_frame_reader body, int n)
{
    char address[LS__MEET_ADDRESS];
    if (ls_frame_get_u32(&body) != (uint32_t)n) return false;
    for (int r = 0; r < n; r++) ls_frame_get_text(&body, address, sizeof address);
    return ls_frame_done(&body);
}

static enum ls_status hear_table(struct ls__meet *j, struct ls_frame_reader *body)
{
    if (!j->is_welcome || j->has_table || !is_table(*body, j->config.n)) return LS_OK;
    (void)ls_frame_get_u32(body);
    for (int r = 0; r < j->config.n; r++) ls_frame_get_text(body, j->nodes[r].address, sizeof j->nodes[r].address);
    j->has_table = true;
    for (int r = 1; r < j->config.rank; r++) {
        struct ls__meet_node *node = &j->nodes[r];
        TRY(ls_wire_dial(j->wire, node->address, &node->peer));
        node->is_known = true;
        TRY(say_word(j, node->peer, MEET_MEET));
    }
    return LS_OK;
}

/* A connection is one rank's. */
static enum ls_status greet(struct ls__meet *j, struct ls__meet_node *node)
{
    if (ls__meet_rank_of(j, node->peer) >= 0) return LS_OK;
    node->is_known = node->is_met = true;
    return say_word(j, node->peer, MEET_MET);
}

/* Another connection may be faster than rank 0's: who is not welcome yet answers when it is. */
static enum ls_status hear_meet(struct ls__meet *j, uint64_t peer, const struct ls_frame *f)
{
    if (f->sender <= (uint32_t)j->config.rank || f->sender >= (uint32_t)j->config.n) return LS_OK;
    struct ls__meet_node *node = &j->nodes[f->sender];
    if (node->is_known || (j->is_welcome && f->session != j->session)) return LS_OK;
    node->peer = peer;
    node->session = f->session;
    return j->is_welcome ? greet(j, node) : LS_OK;
}

static enum ls_status hear_welcome(struct ls__meet *j, const struct ls_frame *f)
{
    if (f->session == 0) return LS_OK; /* no job has it */
    if (!j->has_table) j->session = f->session;
    j->is_welcome = true;
    for (int r = j->config.rank + 1; r < j->config.n; r++) {
        struct ls__meet_node *node = &j->nodes[r];
        if (node->session != j->session) *node = (struct ls__meet_node){0}; /* of a rank 0 that is gone */
        if (!node->is_known && node->session == j->session) TRY(greet(j, node));
    }
    return LS_OK;
}

static enum ls_status hear_master(struct ls__meet *j, const struct ls_frame *f, struct ls_frame_reader *body)
{
    switch (f->kind) {
    case MEET_WELCOME:
        return hear_welcome(j, f);
    case MEET_REFUSE:
        return hear_refusal(j, body);
    case MEET_TABLE:
        return f->session == j->session ? hear_table(j, body) : LS_OK;
    case MEET_GO:
        j->has_begun = j->is_ready && f->session == j->session;
        return LS_OK;
    default:
        return LS_OK;
    }
}

/* Whoever gave another node's address, or a free port that became another node's, would wait in vain. */
static enum ls_status turn_away(struct ls__meet *j, uint64_t peer)
{
    char why[LS__MEET_ERROR];
    snprintf(why, sizeof why,
             "rank %d of %d nodes listens at %s, not rank 0: give --master the address of rank 0, with a port that is "
             "free there",
             j->config.rank, j->config.n, j->nodes[j->config.rank].address);
    return refuse(j, peer, LS_USAGE, false, why);
}

/* The others are a kind and nothing else. */
static bool has_body(uint16_t kind)
{
    return kind == MEET_JOIN || kind == MEET_REFUSE || kind == MEET_TABLE || kind == MEET_LACKS;
}

enum ls_status ls__meet_join_hear(struct ls__meet *j, uint64_t peer, const struct ls_frame *f,
                                  struct ls_frame_reader *body)
{
    int from = ls__meet_rank_of(j, peer);
    if (j->has_begun && f->kind != MEET_JOIN) return LS_OK;
    if (!has_body(f->kind) && !ls_frame_done(body)) return LS_OK;
    if (j->config.rank == 0) {
        if (f->kind == MEET_JOIN) return hear_join(j, peer, body);
        if (f->kind == MEET_READY && from > 0 && f->session == j->session) j->nodes[from].is_ready = true;
        if (f->kind == MEET_LACKS && from > 0 && f->session == j->session) ls__meet_hear_lacks(&j->nodes[from], body);
        return LS_OK;
    }
    if (f->kind == MEET_JOIN) return turn_away(j, peer);
    if (from == 0) return hear_master(j, f, body);
    if (f->kind == MEET_MEET) return hear_meet(j, peer, f);
    if (f->kind == MEET_MET && from > 0 && f->session == j->session) j->nodes[from].is_met = true;
    return LS_OK;
}

enum ls_status ls__meet_join_event(struct ls__meet *j, uint64_t peer, enum ls_wire_event event)
{
    int with = ls__meet_rank_of(j, peer);
    if (j->has_begun || with < 0) return LS_OK;
    if (event == LS_WIRE_CONNECTED) {
        j->n_refused = 0;
        if (with != 0 || j->has_table) return LS_OK;
        j->nodes[0].is_lost = false;
        return ask_to_join(j);
    }
    j->refused_by = with;
    if (event == LS_WIRE_MISMATCH) {
        const char *address = with == 0 ? j->config.master : j->nodes[with].address;
        if (!j->config.key_file)
            return ls_fail(LS_USAGE, "%s does not take this node: it wants a key; give --key FILE (node.key)", address);
        return ls_fail(LS_USAGE,
                       "%s does not take this node: rank %d has no key; give --key FILE (node.key) on every "
                       "node or on none",
                       address, with);
    }
    if (!j->n_refused++) j->refused_ns = ls__now_ns();
    return LS_OK;
}

/* --- waiting --- */

/* Before the table is out somebody else may come in his place; after it all are needed. */
static enum ls_status mind_the_lost(struct ls__meet *j)
{
    for (int r = 0; r < j->config.n; r++) {
        struct ls__meet_node *node = &j->nodes[r];
        if (!node->is_lost) continue;
        if (j->has_table)
            return ls_fail(LS_REMOTE, "rank %d%s%s left while the job was starting", r, node->host[0] ? " on " : "",
                           node->host);
        if (j->config.rank > 0) continue; /* rank 0: the connection is made again by itself */
        ls__log(LS_LOG_WARN, "rank %d on %s left before the job began; waiting for it again", r, node->host);
        *node = (struct ls__meet_node){0};
    }
    return LS_OK;
}

/* A connection may break in the middle of the handshake, but then the next one is made. After a mistake in the
 * handshake ZeroMQ does not try again. */
static enum ls_status mind_refusals(const struct ls__meet *j)
{
    if (j->n_refused == 0) return LS_OK;
    if (j->n_refused < MOST_REFUSALS && ls__now_ns() - j->refused_ns < REFUSED_NS) return LS_OK;
    return ls_fail(LS_USAGE, "%s does not take this node: %s",
                   j->refused_by == 0 ? j->config.master : j->nodes[j->refused_by].address,
                   j->config.key_file ? "give the same --key FILE (node.key) on every node, also on that one"
                                      : "it wants a key (--key FILE), or another program listens there");
}

/* Now and then to rank 0, which is the one to say why they do not find each other. */
static enum ls_status tell_lacks(struct ls__meet *j)
{
    uint8_t head[HEAD_BYTES];
    uint32_t lacks[LS__MEET_NAMED];
    if (ls__now_ns() < j->lacks_ns) return LS_OK;
    j->lacks_ns = ls__now_ns() + LACKS_NS;
    size_t n = ls__meet_lacks(j, lacks);
    struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
    ls_frame_put_u32s(&w, lacks, n);
    return say(j, j->nodes[0].peer, MEET_LACKS, &w);
}

/* What can be done now. */
static enum ls_status go_on(struct ls__meet *j)
{
    TRY(mind_the_lost(j));
    TRY(mind_refusals(j));
    if (j->ask_ns && ls__now_ns() >= j->ask_ns) TRY(ask_to_join(j));
    if (j->config.rank == 0) {
        if (!j->has_table && has_all(j, 1, false)) TRY(send_table(j));
        if (!j->has_table || !has_all(j, 1, true)) return LS_OK;
        for (int r = 1; r < j->config.n; r++) TRY(say_word(j, j->nodes[r].peer, MEET_GO));
        j->has_begun = true;
        return LS_OK;
    }
    if (!j->has_table || j->is_ready) return LS_OK;
    for (int r = 1; r < j->config.n; r++)
        if (r != j->config.rank && !j->nodes[r].is_met) return tell_lacks(j);
    j->is_ready = true;
    return say_word(j, j->nodes[0].peer, MEET_READY);
}

static enum ls_status await_all(struct ls__meet *j)
{
    const struct ls__meet_config *o = &j->config;
    int64_t start = ls__now_ns(), since = start;
    bool is_said = false, was_welcome = j->is_welcome;
    for (;;) {
        TRY(go_on(j));
        if (j->has_begun) break;
        TRY(ls__meet_pump(j, LOOK_MS));
        if (o->is_stopped && o->is_stopped(o->context))
            return ls_fail(LS_INTERRUPTED, "stopped while the nodes were still coming");
        if (j->is_welcome && !was_welcome) since = ls__now_ns(); /* from now on rank 0 knows who is missing */
        was_welcome = j->is_welcome;
        if (ls__seconds_since(since) > o->timeout + (o->rank > 0 && j->is_welcome ? PATIENCE_S : 0))
            return ls__meet_too_late(j);
        if (is_said || ls__now_ns() - start < SAY_NS) continue;
        ls__meet_say_waiting(j);
        is_said = true;
    }
    if (o->rank > 0)
        ls__log(LS_LOG_INFO, "rank %d of %d has joined at %s; rank 0 tells how it goes", o->rank, o->n, o->master);
    else if (is_said)
        ls__log(LS_LOG_INFO, "all %d nodes are there", o->n);
    return LS_OK;
}

/* --- the beginning --- */

static enum ls_status draw(uint64_t *number)
{
    if (getrandom(number, sizeof *number, 0) != (ssize_t)sizeof *number)
        return ls_fail(LS_ERROR, "getrandom: %s", strerror(errno));
    if (*number == 0) *number = 1;
    return LS_OK;
}

/* Rank 0 listens on every address if it has a key: what --master means elsewhere may not be what it means here. */
static enum ls_status open_master(struct ls__meet *j, struct ls_wire_options *o)
{
    const char *master = j->config.master, *colon = strrchr(master, ':');
    char every[16];
    bool is_near = is_loopback(master) || strncmp(master, "localhost:", 10) == 0;
    snprintf(every, sizeof every, "*%s", colon && strlen(colon) < 8 ? colon : "");
    o->address = o->key && !is_near ? every : master;
    enum ls_status status = ls_wire_listen(&j->wire, o);
    o->address = NULL; /* it was ours */
    if (status == LS_IO) return ls_fail_in(status, "rank 0 (is there another rank 0 on this machine?)");
    TRY(status);
    snprintf(j->nodes[0].address, sizeof j->nodes[0].address, "%s", master);
    j->is_welcome = true;
    return draw(&j->session);
}

static enum ls_status open_other(struct ls__meet *j, struct ls_wire_options *o)
{
    char host[96], address[LS__MEET_ADDRESS];
    TRY(ls_wire_check(j->config.master, o->key));
    TRY(ls_wire_own_host(j->config.master, host, sizeof host));
    snprintf(address, sizeof address, "%s:0", host);
    o->address = address;
    enum ls_status status = ls_wire_listen(&j->wire, o);
    o->address = NULL; /* it was ours */
    TRY(status);
    snprintf(j->nodes[j->config.rank].address, sizeof j->nodes[0].address, "%s", ls_wire_address(j->wire));
    TRY(ls_wire_dial(j->wire, j->config.master, &j->nodes[0].peer));
    j->nodes[0].is_known = true;
    return draw(&j->instance);
}

static enum ls_status begin(struct ls__meet *j)
{
    struct ls_wire_key key;
    struct ls_wire_options o = {.max_waiting = MAX_WAITING};
    TRY(ls__calloc(&j->nodes, (size_t)j->config.n, sizeof *j->nodes));
    if (j->config.key_file) {
        TRY(ls_wire_key_read(&key, j->config.key_file));
        o.key = &key;
    }
    enum ls_status status = j->config.rank == 0 ? open_master(j, &o) : open_other(j, &o);
    if (o.key) ls_wire_key_forget(&key);
    TRY(status);
    return await_all(j);
}

enum ls_status ls__meet_join(struct ls__meet *j)
{
    enum ls_status status = begin(j);
    if (status == LS_OK) return LS_OK;
    struct ls_kept why = ls__keep(status);
    for (int r = 1; j->wire && j->config.rank == 0 && r < j->config.n; r++) { /* they need not wait any longer */
        if (!j->nodes[r].is_known) continue;
        status = refuse(j, j->nodes[r].peer, why.status, false, why.message);
        if (status != LS_OK) break;
    }
    ls_wire_close(&j->wire, FAREWELL_MS);
    return ls__fail_again(&why);
}
