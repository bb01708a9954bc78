/* keeper.c: the loop of a keeper. See keeper.h; what it is told is in talk.h.
 *
 *     wait -> TASK   open what the chief trains, say READY
 *          -> ORDER  STATE: take over values and state; APPLY: add the pushes that count, update, publish;
 *                    COLLECT: send values and state
 *          -> OVER
 */
#include "elastic/keeper.h"

#include "base/log.h"
#include "base/status_kept.h"
#include "elastic/shelf.h"
#include "elastic/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct keeper {
    const struct ls_worker_options *o;
    struct ls_contact *contact;
    struct ls_shelf *shelf;
    struct ls_task task;
    int number; /* which server, from 1 */
    struct ls_sum_range range;
    struct ls_parameters sent, kept; /* for workers; with the optimizer's state */
    int64_t version, step;           /* of what is kept; the step that comes next. version -1: nothing yet */
    struct ls_wire_buffer *state;    /* as it is sent to the chief */
    char address[LS_TALK_NAME];      /* where workers find it */
    union ls_talk_body body;
};

/* --- what is trained --- */

static void close_task(struct keeper *k)
{
    ls__parameters_release(&k->sent);
    ls__parameters_release(&k->kept);
    ls_wire_buffer_drop(&k->state);
    ls__task_close(&k->task);
    k->version = -1;
}

static enum ls_status open_range(struct keeper *k, int number, uint64_t session)
{
    struct session *s = &k->task.s;
    if (number < 1 || number >= k->task.split.n || number >= LS_MAX_SERVERS)
        return ls_fail(LS_USAGE, "the server at %s has no place for this one; start it with --servers K",
                       k->o->address);
    k->number = number;
    k->range = k->task.split.ranges[number];
    k->version = -1;
    ls__parameters_release(&k->sent);
    ls__parameters_release(&k->kept);
    ls_wire_buffer_drop(&k->state);
    TRY(ls__parameters_open(&k->sent, s, k->range, false));
    TRY(ls__parameters_open(&k->kept, s, k->range, true));
    TRY(ls_exec_zero_sums(s->exec)); /* of a step that the chief did not live to see */
    return ls__shelf_begin(k->shelf, session, k->range.end - k->range.begin, k->sent.bytes);
}

/* *told is taken over. */
static enum ls_status take_task(struct keeper *k, struct ls_contact_task *told)
{
    const int number = told->server;
    const uint64_t session = told->session;
    enum ls_status status = LS_OK;
    int64_t n_sums;
    if (number == 0) { /* it is not taken: why comes next */
        ls__contact_task_release(told);
        return LS_OK;
    }
    if (!ls__task_is(&k->task, told)) {
        close_task(k);
        status = ls__task_open(&k->task, told, k->o);
    }
    ls__contact_task_release(told);
    TRY(status);
    TRY(open_range(k, number, session));
    ls_exec_sums(k->task.s.exec, &n_sums);
    ls__log(LS_LOG_INFO, "server %d of %d for %s: %s on %s, %.1f %% of the parameters; workers find it at %s", number,
            k->task.split.n, k->o->address, k->task.told.model_name, k->task.train.data,
            100.0 * (double)(k->range.end - k->range.begin) / (double)n_sums, ls__shelf_address(k->shelf));
    return ls__contact_ready(k->contact, n_sums, k->kept.bytes, k->task.s.threads, false);
}

/* --- orders --- */

static enum ls_status take_state(struct keeper *k, const struct ls_frame *f, const struct ls_wire_message *m)
{
    if (m->payload_bytes != k->kept.bytes) return ls_fail(LS_REMOTE, "the chief's state has another size");
    TRY(ls__parameters_set(&k->kept, m->payload));
    k->version = k->body.state.version;
    k->step = f->step;
    return ls__shelf_publish(k->shelf, &k->sent, k->version, k->step);
}

static enum ls_status add_pushes(struct keeper *k, const struct ls_talk_apply *a)
{
    for (uint32_t i = 0; i < a->n_pushes; i += 2) {
        struct ls_shelf_part part;
        if (!ls__shelf_take(k->shelf, a->pushes[i], a->pushes[i + 1], &part))
            return ls_fail(LS_REMOTE, "the sums of worker %u, push %u, are not here", a->pushes[i], a->pushes[i + 1]);
        enum ls_status status =
            ls__sums_add(k->task.s.exec, k->range, part.form, part.message.payload, part.message.payload_bytes);
        ls_wire_message_release(&part.message);
        TRY(status);
    }
    return LS_OK;
}

static enum ls_status apply(struct keeper *k, const struct ls_frame *f)
{
    const struct ls_talk_apply *a = &k->body.apply;
    struct session *s = &k->task.s;
    struct ls_exec_stats stats;
    if (k->version < 0 || a->version != k->version + 1 || f->step != k->step)
        return ls_fail(LS_REMOTE, "the chief applies version %lld of step %lld; here is version %lld, step %lld",
                       (long long)a->version, (long long)f->step, (long long)k->version, (long long)k->step);
    TRY(add_pushes(k, a));
    const struct ls_batch size = {.epoch = a->epoch, .n = (int)a->batch_n};
    const struct ls_exec_step step = {.batch = &size,
                                      .transform = &s->transform,
                                      .shard_size = s->shard_size,
                                      .seed = (uint64_t)k->task.train.seed,
                                      .step = f->step,
                                      .lr = a->lr,
                                      .sums = k->range};
    TRY(ls_exec_apply(s->exec, &step, &stats));
    k->version++;
    k->step++;
    return ls__shelf_publish(k->shelf, &k->sent, k->version, k->step);
}

static enum ls_status send_state(struct keeper *k)
{
    struct ls_talk_state state = {.version = k->version};
    if (k->version < 0) return ls_fail(LS_REMOTE, "the chief collects what it has not given");
    if (k->state && ls_wire_buffer_is_shared(k->state)) ls_wire_buffer_drop(&k->state);
    if (!k->state) TRY(ls_wire_buffer_create(&k->state, k->kept.bytes));
    TRY(ls__parameters_get(&k->kept, ls_wire_buffer_data(k->state)));
    ls__shelf_stats(k->shelf, &state.bytes_sent, &state.bytes_received);
    if (ls__contact_say(k->contact, LS_TALK_STATE, &state, k->state, k->kept.bytes) != LS_OK)
        ls__log(LS_LOG_DEBUG, "%s", ls_error_message()); /* the chief is gone: who waits for it will say so */
    return LS_OK;
}

static enum ls_status follow(struct keeper *k)
{
    struct ls_wire_message m;
    struct ls_frame f;
    struct ls_frame_reader r;
    enum ls_status status = LS_OK;
    ls__contact_order(k->contact, &m);
    if (m.head && ls_frame_read(m.head, m.head_bytes, m.payload_bytes, &f, &r) && ls__talk_read(&f, &r, &k->body)) {
        if (f.kind == LS_TALK_STATE) status = take_state(k, &f, &m);
        if (f.kind == LS_TALK_APPLY) status = apply(k, &f);
        if (f.kind == LS_TALK_COLLECT) status = send_state(k);
    }
    ls_wire_message_release(&m);
    return status;
}

static enum ls_status loop(struct keeper *k)
{
    for (;;) {
        struct ls_contact_task told = {0};
        struct ls_contact_work work = {0};
        enum ls_contact_event event;
        TRY(ls__contact_wait(k->contact, &event, &told, &work));
        enum ls_status status = LS_OK;
        if (event == LS_CONTACT_OVER || event == LS_CONTACT_STOPPED) return LS_OK;
        if (event == LS_CONTACT_TASK) TRY(take_task(k, &told));
        if (event == LS_CONTACT_ORDER) status = follow(k);
        ls_wire_message_release(&work.parameters);
        if (status != LS_OK) {
            const struct ls_kept why = ls__keep(status);
            ls__contact_fail(k->contact, status);
            return ls__fail_again(&why);
        }
    }
}

/* --- life --- */

/* What others can connect to: a wildcard becomes the address from which the chief is reached. */
static enum ls_status find_address(const struct keeper *k, char *out, size_t size)
{
    const char *own = ls__shelf_address(k->shelf), *port = strrchr(own, ':');
    char host[LS_TALK_NAME];
    const bool is_any = strncmp(own, "0.0.0.0:", 8) == 0 || strncmp(own, "[::]:", 5) == 0;
    if (is_any) TRY(ls_wire_own_host(k->o->address, host, sizeof host));
    const int n = is_any ? snprintf(out, size, "%s%s", host, port) : snprintf(out, size, "%s", own);
    return n >= 0 && (size_t)n < size ? LS_OK : ls_fail(LS_USAGE, "--listen %s is too long", own);
}

static enum ls_status run(struct keeper *k, struct ls_wire_key *key)
{
    const struct ls_worker_options *o = k->o;
    if (key) memcpy(key->server_key, key->public_key, sizeof key->server_key); /* all servers have the same */
    TRY(ls__shelf_open(&k->shelf, o->listen, key));
    TRY(find_address(k, k->address, sizeof k->address));
    const struct ls_contact_options lo = {.address = o->address,
                                          .ticket = o->ticket,
                                          .key = key,
                                          .control = o->own.control,
                                          .timeout = o->own.timeout,
                                          .threads = (int)o->own.threads,
                                          .slot = o->slot,
                                          .number = o->number,
                                          .serves = k->address};
    TRY(ls__contact_open(&k->contact, &lo));
    return loop(k);
}

enum ls_status ls__keeper_run(const struct ls_worker_options *o, bool *is_told)
{
    struct ls_wire_key key;
    struct keeper k = {.o = o, .version = -1};
    *is_told = false;
    if (o->key) TRY(ls_wire_key_read(&key, o->key));
    enum ls_status status = run(&k, o->key ? &key : NULL);
    if (o->key) ls_wire_key_forget(&key);
    const struct ls_kept why = ls__keep(status);
    *is_told = k.contact && ls__contact_is_known(k.contact);
    ls__contact_close(&k.contact, status == LS_OK ? NULL : why.message);
    ls__shelf_close(&k.shelf);
    close_task(&k);
    return ls__fail_again(&why);
}
