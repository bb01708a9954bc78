/* server_keepers.c: the other servers, as the chief sees them: they join, get their parts of the store, are told which
 * pushes count, and give their parts back when the store is to be read. Without all of them there is no training.
 */
#include "base/clock.h"
#include "base/control.h"
#include "base/log.h"
#include "elastic/server_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int number_of(const struct ls_server *s, const struct server_keeper *k)
{
    return (int)(k - s->keepers) + 1;
}

static void say(struct ls_server *s, struct server_keeper *k, enum ls_talk_kind kind, int64_t step, const void *body,
                struct ls_wire_buffer *payload, size_t bytes)
{
    size_t sent;
    if (ls__server_send(s, k->peer, 0, kind, step, body, payload, bytes, &sent) != LS_OK)
        ls__log(LS_LOG_DEBUG, "server %d: %s", number_of(s, k), ls_error_message()); /* it is going, or gone */
}

struct server_keeper *ls__server_find_keeper(struct ls_server *s, uint64_t peer)
{
    for (int i = 0; i < s->n_keepers; i++)
        if (s->keepers[i].is_here && s->keepers[i].peer == peer) return &s->keepers[i];
    return NULL;
}

bool ls__server_has_keeper_here(const struct ls_server *s)
{
    for (int i = 0; i < s->n_keepers; i++)
        if (s->keepers[i].is_here) return true;
    return false;
}

/* --- coming and going --- */

static void refuse(struct ls_server *s, uint64_t peer, const char *why)
{
    struct ls_talk_end end = {.status = LS_USAGE};
    size_t sent;
    snprintf(end.text, sizeof end.text, "%s", why);
    if (ls__server_welcome(s, peer, 0, 0) != LS_OK ||
        ls__server_send(s, peer, 0, LS_TALK_OVER, s->round.step, &end, NULL, 0, &sent) != LS_OK)
        ls__log(LS_LOG_DEBUG, "%s", ls_error_message());
}

/* It joins, or joins again because it has not heard yet that it was taken. Who was started as a certain one is that
 * one, whoever came first; others take the places that are left. */
static struct server_keeper *place_for(struct ls_server *s, uint64_t peer, uint32_t number)
{
    struct server_keeper *k = ls__server_find_keeper(s, peer);
    if (!k && number >= 1 && number <= (uint32_t)s->n_keepers && !s->keepers[number - 1].is_here)
        k = &s->keepers[number - 1];
    for (int i = 0; !k && i < s->n_keepers; i++)
        if (!s->keepers[i].is_here) k = &s->keepers[i];
    return k;
}

void ls__server_add_keeper(struct ls_server *s, uint64_t peer, const struct ls_talk_join *join)
{
    char why[128];
    struct server_keeper *k = s->is_seen_off || s->failure.status != LS_OK ? NULL : place_for(s, peer, join->number);
    if (strcmp(join->version, LOCKSTEP_VERSION) != 0) {
        refuse(s, peer, "the server is lockstep " LOCKSTEP_VERSION "; install the same here");
        return;
    }
    if (!k) {
        snprintf(why, sizeof why, "the training there has %d server%s and needs no more (--servers)", s->n_keepers + 1,
                 s->n_keepers ? "s" : "");
        refuse(s, peer, why);
        return;
    }
    *k = (struct server_keeper){
        .peer = peer, .is_here = true, .pid = join->pid, .slot = join->slot, .heard_ns = ls__now_ns()};
    snprintf(k->address, sizeof k->address, "%s", join->serves);
    snprintf(k->told.host, sizeof k->told.host, "%.63s", join->host);
    if (ls__server_welcome(s, peer, 0, number_of(s, k)) != LS_OK)
        ls__log(LS_LOG_WARN, "a server on %s was not taken: %s", join->host, ls_error_message());
}

void ls__server_lose_keeper(struct ls_server *s, struct server_keeper *k, const char *why)
{
    const int number = number_of(s, k);
    k->is_here = false;
    if (s->is_seen_off) return;
    if (!s->is_handed_out) { /* another one may take its place */
        if (k->is_ready) ls__log(LS_LOG_WARN, "server %d on %s (pid %u) %s", number, k->told.host, k->pid, why);
        return;
    }
    if (s->failure.status == LS_OK)
        s->failure =
            ls__keep(ls_fail(LS_REMOTE,
                             "server %d of %d on %s (pid %u) %s at step %lld, and its part of the parameters "
                             "with it; go on from the newest checkpoint with --resume",
                             number, s->n_keepers + 1, k->told.host, k->pid, why, (long long)ls__server_step(s) + 1));
}

void ls__server_look_at_keepers(struct ls_server *s)
{
    char why[64];
    const int64_t now = ls__now_ns();
    snprintf(why, sizeof why, "has not answered for %.3g s (--timeout)", s->o.timeout);
    for (int i = 0; i < s->n_keepers; i++)
        if (s->keepers[i].is_here && (double)(now - s->keepers[i].heard_ns) > 1e9 * s->o.timeout)
            ls__server_lose_keeper(s, &s->keepers[i], why);
}

void ls__server_see_keepers_off(struct ls_server *s, const struct ls_talk_end *end)
{
    s->is_seen_off = true;
    for (int i = 0; i < s->n_keepers; i++)
        if (s->keepers[i].is_here) say(s, &s->keepers[i], LS_TALK_OVER, s->round.step, end, NULL, 0);
}

/* --- what they say --- */

static void on_ready(struct ls_server *s, struct server_keeper *k, const struct ls_talk_ready *ready)
{
    if (k->is_ready) return;
    if (ready->n_sums != (uint64_t)s->o.n_sums) {
        refuse(s, k->peer, "its plan is not the chief's");
        k->is_here = false;
        return;
    }
    k->is_ready = true;
    if (s->o.on_joined && k->slot >= 0) s->o.on_joined(s->o.context, k->slot);
    ls__log(LS_LOG_INFO, "server %d joined: %s at %s, pid %u", number_of(s, k), k->told.host, k->address, k->pid);
}

static void on_state(struct ls_server *s, struct server_keeper *k, const struct ls_talk_state *state,
                     struct ls_wire_message *m)
{
    ls_wire_message_release(&k->state);
    k->state = *m;
    *m = (struct ls_wire_message){0};
    k->told.bytes_sent = (int64_t)state->bytes_sent;
    k->told.bytes_received = (int64_t)state->bytes_received;
}

static void on_end(struct ls_server *s, struct server_keeper *k, const char *verb, const char *text)
{
    char why[LS_TALK_TEXT + 32];
    snprintf(why, sizeof why, "%s%s%s", verb, *text ? ": " : "", text);
    ls__server_lose_keeper(s, k, why);
}

void ls__server_hear_keeper(struct ls_server *s, struct server_keeper *k, const struct ls_frame *f,
                            struct ls_wire_message *m)
{
    const union ls_talk_body *b = &s->body;
    k->heard_ns = ls__now_ns();
    if (f->kind == LS_TALK_READY) on_ready(s, k, &b->ready);
    if (f->kind == LS_TALK_BEAT) say(s, k, LS_TALK_BEAT, s->round.step, NULL, NULL, 0);
    if (f->kind == LS_TALK_STATE) on_state(s, k, &b->state, m);
    if (f->kind == LS_TALK_LEAVE) on_end(s, k, "left", b->end.text);
    if (f->kind == LS_TALK_FAILED) on_end(s, k, "failed", b->end.text);
}

/* --- what they are told --- */

void ls__server_tell_places(struct ls_server *s, struct server_worker *w)
{
    struct ls_talk_places *places = &s->reply.places;
    if (s->n_keepers == 0 || w->has_places) return;
    places->n = (uint32_t)s->n_keepers;
    for (int i = 0; i < s->n_keepers; i++)
        memcpy(places->addresses[i], s->keepers[i].address, sizeof places->addresses[i]);
    ls__server_say(s, w, LS_TALK_PLACES, s->round.step, places, NULL, 0);
    w->has_places = true;
}

static int n_ready(const struct ls_server *s)
{
    int n = 0;
    for (int i = 0; i < s->n_keepers; i++) n += s->keepers[i].is_here && s->keepers[i].is_ready;
    return n;
}

static enum ls_status await_keepers(struct ls_server *s, bool *is_stopped)
{
    enum { LOOK_MS = 100 };
    const int64_t began = ls__now_ns();
    while (n_ready(s) < s->n_keepers) {
        bool is_something;
        *is_stopped = ls__control_stop_wanted(s->o.control);
        if (*is_stopped) return LS_OK;
        if (s->o.is_hopeless && s->o.is_hopeless(s->o.context))
            return ls_fail(LS_REMOTE, "a server or all workers ended before the first step");
        if (ls__seconds_since(began) > s->o.timeout)
            return ls_fail(LS_TIMEOUT,
                           "%d of %d servers are here after %.3g s (--timeout); start the others with: lockstep server "
                           "--chief %s",
                           n_ready(s) + 1, s->n_keepers + 1, s->o.timeout, ls_wire_address(s->wire));
        TRY(ls__server_pump(s, LOOK_MS, &is_something));
    }
    return LS_OK;
}

static enum ls_status give_part(struct ls_server *s, struct server_keeper *k, const struct ls_parameters *part,
                                int64_t step)
{
    const struct ls_talk_state state = {.version = s->version};
    struct ls_wire_buffer *buffer;
    TRY(ls_wire_buffer_create(&buffer, part->bytes));
    enum ls_status status = ls__parameters_get(part, ls_wire_buffer_data(buffer));
    if (status == LS_OK) say(s, k, LS_TALK_STATE, step, &state, buffer, part->bytes);
    ls_wire_buffer_drop(&buffer);
    for (int i = 0; i < part->n; i++)
        if (part->s->store->entries[part->parts[i].entry].kind != LS_VALUE_STATE)
            k->told.parameters += part->parts[i].n;
    return status;
}

static enum ls_status hand_out(struct ls_server *s, const struct ls_parameters *parts, int64_t step, bool *is_stopped)
{
    s->round.step = step;
    TRY(await_keepers(s, is_stopped));
    if (*is_stopped) return LS_OK;
    s->is_handed_out = true;
    for (int i = 0; i < s->n_keepers; i++) TRY(give_part(s, &s->keepers[i], &parts[i], step));
    return LS_OK;
}

enum ls_status ls__server_hand_out(struct ls_server *s, const struct ls_parameters *parts, int64_t step,
                                   bool *is_stopped)
{
    *is_stopped = false;
    pthread_mutex_lock(&s->lock);
    enum ls_status status = hand_out(s, parts, step, is_stopped);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum ls_status ls__server_apply(struct ls_server *s, const struct ls_exec_step *step)
{
    pthread_mutex_lock(&s->lock);
    struct ls_talk_apply *apply = &s->reply.apply;
    *apply = (struct ls_talk_apply){.version = s->version + 1,
                                    .epoch = step->batch->epoch,
                                    .lr = step->lr,
                                    .batch_n = (uint32_t)step->batch->n,
                                    .n_pushes = s->n_counted};
    memcpy(apply->pushes, s->counted, s->n_counted * sizeof *s->counted);
    for (int i = 0; i < s->n_keepers; i++) say(s, &s->keepers[i], LS_TALK_APPLY, step->step, apply, NULL, 0);
    enum ls_status status = ls__fail_again(&s->failure);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static enum ls_status await_state(struct ls_server *s, struct server_keeper *k, const struct ls_parameters *part)
{
    enum { LOOK_MS = 100 };
    const int64_t began = ls__now_ns();
    while (!k->state.payload) {
        bool is_something;
        TRY(ls__fail_again(&s->failure));
        if (ls__seconds_since(began) > s->o.timeout) ls__server_lose_keeper(s, k, "does not send its part");
        TRY(ls__server_pump(s, LOOK_MS, &is_something));
    }
    if (k->state.payload_bytes != part->bytes)
        return ls_fail(LS_REMOTE, "server %d sent a part of another size", number_of(s, k));
    enum ls_status status = ls__parameters_set(part, k->state.payload);
    ls_wire_message_release(&k->state);
    return status;
}

static enum ls_status collect(struct ls_server *s, const struct ls_parameters *parts)
{
    const struct ls_talk_version now = {.version = s->version};
    TRY(ls__fail_again(&s->failure));
    for (int i = 0; i < s->n_keepers; i++) {
        ls_wire_message_release(&s->keepers[i].state);
        say(s, &s->keepers[i], LS_TALK_COLLECT, s->round.step, &now, NULL, 0);
    }
    for (int i = 0; i < s->n_keepers; i++) TRY(await_state(s, &s->keepers[i], &parts[i]));
    return LS_OK;
}

enum ls_status ls__server_collect(struct ls_server *s, const struct ls_parameters *parts)
{
    pthread_mutex_lock(&s->lock);
    enum ls_status status = collect(s, parts);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void ls__server_report_keepers(const struct ls_server *s, struct ls_elastic_result *out)
{
    const struct ls_wire_stats own = ls_wire_stats(s->wire);
    out->servers = s->n_keepers + 1;
    out->each[0] = (struct ls_elastic_server){.bytes_sent = own.bytes_sent, .bytes_received = own.bytes_received};
    out->each[0].parameters = (int64_t)(s->o.parameters_bytes / sizeof(float));
    if (gethostname(out->each[0].host, sizeof out->each[0].host - 1) != 0) out->each[0].host[0] = '\0';
    for (int i = 0; i < s->n_keepers; i++) out->each[i + 1] = s->keepers[i].told;
}
