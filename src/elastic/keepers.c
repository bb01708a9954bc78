/* keepers.c: see keepers.h. */
#include "elastic/keepers.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LISTEN_MS = 50 };

struct place {
    struct ls_wire *wire;
    bool is_connected;
    char address[LS_TALK_NAME];
    struct ls_wire_buffer *sent[2]; /* one may still be on its way */
};

struct ls_keepers {
    struct ls_contact *contact; /* borrowed */
    double timeout;
    int n;
    struct place all[LS_MAX_SERVERS - 1];
    uint64_t sequence;
    uint8_t *head;
    union ls_talk_body body;
};

static enum ls_status build(struct ls_keepers *p, const struct ls_talk_places *where, const struct ls_wire_key *key)
{
    TRY(ls__calloc(&p->head, LS_TALK_HEAD_BYTES, 1));
    for (p->n = 0; p->n < (int)where->n; p->n++) {
        struct place *at = &p->all[p->n];
        memcpy(at->address, where->addresses[p->n], sizeof at->address);
        const struct ls_wire_options wo = {.address = at->address, .key = key, .max_bytes = LS_TALK_MAX_PART};
        TRY(ls_wire_connect(&at->wire, &wo));
    }
    return LS_OK;
}

enum ls_status ls__keepers_open(struct ls_keepers **out, const struct ls_talk_places *where,
                                const struct ls_wire_key *key, struct ls_contact *contact, double timeout)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->contact = contact;
    (*out)->timeout = timeout;
    enum ls_status status = build(*out, where, key);
    if (status != LS_OK) ls__keepers_close(out);
    return status;
}

void ls__keepers_close(struct ls_keepers **keepers)
{
    struct ls_keepers *p = *keepers;
    if (!p) return;
    for (int i = 0; i < p->n; i++) {
        ls_wire_close(&p->all[i].wire, 0);
        for (int k = 0; k < 2; k++) ls_wire_buffer_drop(&p->all[i].sent[k]);
    }
    free(p->head);
    free(p);
    *keepers = NULL;
}

/* --- talking --- */

/* One event, or none for a while; *is_void: the work under way does not count any more. */
static enum ls_status look(struct ls_keepers *p, int i, int64_t began, struct ls_wire_message *m, bool *is_void)
{
    struct place *at = &p->all[i];
    *m = (struct ls_wire_message){0};
    if (ls__seconds_since(began) > p->timeout)
        return ls_fail(LS_TIMEOUT, "no word from server %d at %s for %.3g s (--timeout)", i + 1, at->address,
                       p->timeout);
    TRY(ls_wire_receive(at->wire, LISTEN_MS, m));
    if (m->event == LS_WIRE_CONNECTED) at->is_connected = true;
    if (m->event == LS_WIRE_GONE) {
        at->is_connected = false;
        *is_void = true;
    }
    if (m->event != LS_WIRE_MESSAGE && !ls__contact_is_valid(p->contact)) *is_void = true;
    return LS_OK;
}

static enum ls_status await_connection(struct ls_keepers *p, int i, bool *is_void)
{
    const int64_t began = ls__now_ns();
    while (!p->all[i].is_connected && !*is_void) {
        struct ls_wire_message m;
        TRY(look(p, i, began, &m, is_void));
        ls_wire_message_release(&m);
    }
    return LS_OK;
}

static enum ls_status say(struct ls_keepers *p, int i, enum ls_talk_kind kind, int64_t step, const void *body,
                          struct ls_wire_buffer *payload, size_t bytes, bool *is_void)
{
    struct ls_frame frame = {.step = step, .sequence = ++p->sequence, .payload_bytes = payload ? bytes : 0};
    size_t head_bytes;
    TRY(await_connection(p, i, is_void));
    if (*is_void) return LS_OK;
    (void)ls__contact_push_number(p->contact, &frame.sender, &frame.session);
    TRY(ls__talk_write(p->head, LS_TALK_HEAD_BYTES, frame, kind, body, &head_bytes));
    if (ls_wire_send(p->all[i].wire, LS_WIRE_SERVER, p->head, head_bytes, payload, bytes) != LS_OK) {
        ls__log(LS_LOG_DEBUG, "server %d: %s", i + 1, ls_error_message());
        *is_void = true;
    }
    return LS_OK;
}

/* Whether it is the answer to a pull of this version, or to the push of this number. */
static bool is_answer(const struct ls_frame *f, const union ls_talk_body *b, enum ls_talk_kind kind, int64_t what)
{
    if (kind == LS_TALK_PART) return f->kind == LS_TALK_PART && b->version.version >= what;
    return (f->kind == LS_TALK_HELD || f->kind == LS_TALK_ACK) && (int64_t)b->ack.push == what;
}

/* PART for a version, or HELD for a push; older ones are dropped. *is_void also where it is refused. */
static enum ls_status await(struct ls_keepers *p, int i, enum ls_talk_kind kind, int64_t what,
                            struct ls_wire_message *m, bool *is_void)
{
    const int64_t began = ls__now_ns();
    while (!*is_void) {
        struct ls_frame f;
        struct ls_frame_reader r;
        TRY(look(p, i, began, m, is_void));
        const bool is_read = m->event == LS_WIRE_MESSAGE &&
                             ls_frame_read(m->head, m->head_bytes, m->payload_bytes, &f, &r) &&
                             ls__talk_read(&f, &r, &p->body) && is_answer(&f, &p->body, kind, what);
        if (is_read && f.kind == kind) return LS_OK;
        if (is_read) *is_void = true;
        ls_wire_message_release(m);
    }
    return LS_OK;
}

/* --- parts --- */

enum ls_status ls__keepers_pull(struct ls_keepers *p, int64_t version, const struct ls_parameters *parameters,
                                bool *is_void)
{
    const struct ls_talk_version pull = {.version = version};
    *is_void = false;
    for (int i = 0; i < p->n && !*is_void; i++) TRY(say(p, i, LS_TALK_PULL, 0, &pull, NULL, 0, is_void));
    for (int i = 0; i < p->n && !*is_void; i++) {
        struct ls_wire_message m = {0};
        TRY(await(p, i, LS_TALK_PART, version, &m, is_void));
        enum ls_status status = LS_OK;
        if (!*is_void && (p->body.version.version != version || m.payload_bytes != parameters[i].bytes))
            *is_void = true; /* it is further already: so is the chief */
        if (!*is_void) status = ls__parameters_set(&parameters[i], m.payload);
        ls_wire_message_release(&m);
        TRY(status);
    }
    return LS_OK;
}

static enum ls_status free_buffer(struct place *at, size_t bytes, struct ls_wire_buffer **out)
{
    for (int k = 0; k < 2; k++) {
        if (at->sent[k] && ls_wire_buffer_is_shared(at->sent[k])) continue;
        if (!at->sent[k]) TRY(ls_wire_buffer_create(&at->sent[k], bytes));
        *out = at->sent[k];
        return LS_OK;
    }
    ls_wire_buffer_drop(&at->sent[0]);
    TRY(ls_wire_buffer_create(&at->sent[0], bytes));
    *out = at->sent[0];
    return LS_OK;
}

enum ls_status ls__keepers_push(struct ls_keepers *p, struct ls_exec *exec, const struct ls_sum_split *split,
                                enum ls_sums_form form, int64_t step, bool *is_void)
{
    struct ls_talk_push push = {.form = form, .n_pieces = 1};
    uint32_t worker;
    uint64_t session;
    push.number = ls__contact_push_number(p->contact, &worker, &session);
    *is_void = false;
    for (int i = 0; i < p->n; i++) { /* void or not: the sums are zero afterwards */
        const struct ls_sum_range range = split->ranges[i + 1];
        struct ls_wire_buffer *buffer;
        size_t bytes;
        TRY(free_buffer(&p->all[i], ls__sums_bound(form, range.end - range.begin), &buffer));
        TRY(ls__sums_write(exec, range, form, ls_wire_buffer_data(buffer), &bytes));
        if (!*is_void) TRY(say(p, i, LS_TALK_PUSH, step, &push, buffer, bytes, is_void));
    }
    for (int i = 0; i < p->n && !*is_void; i++) {
        struct ls_wire_message m = {0};
        TRY(await(p, i, LS_TALK_HELD, push.number, &m, is_void));
        ls_wire_message_release(&m);
    }
    return LS_OK;
}
