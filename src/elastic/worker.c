/* worker.c: the loop of a worker. See worker.h.
 *
 *     wait -> TASK  open model, data and plans as the server says, compare what decides the bits, say READY
 *          -> WORK  parameters into the store; shards as they come; all their sums as one push
 *          -> OVER
 *
 * A server that was started again gives the same task: then what is open stays open.
 */
#include "elastic/worker.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status_kept.h"
#include "data/feed.h"
#include "elastic/box.h"
#include "elastic/contact.h"
#include "elastic/parameters.h"
#include "elastic/sums.h"
#include "session/identity.h"
#include "settings/setting.h"
#include "settings/sync_names.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SENT = 2 }; /* buffers: one may still be on its way */

struct worker {
    const struct ls_worker_options *o;
    struct ls_contact *contact;
    struct ls_contact_task task; /* that is open */
    struct json_t *options;      /* texts of train lie in it */
    struct ls_train_options train;
    struct session s;
    bool is_open;
    struct ls_feed *feed;
    struct ls_wire_buffer *sent[N_SENT];
    enum ls_sums_form form;
    struct ls_box *box;       /* NULL: none is shared with the server */
    bool is_boxed;            /* the parameters came by it, and so go the sums */
    int64_t version;          /* of the parameters in the store; -1: none */
    struct ls_exec_step step; /* the present one */
    struct ls_batch batch;
};

/* --- what is trained --- */

static void close_task(struct worker *w)
{
    for (int i = 0; i < N_SENT; i++) ls_wire_buffer_drop(&w->sent[i]);
    ls_feed_destroy(&w->feed);
    ls__box_close(&w->box);
    if (w->is_open) ls__session_close(&w->s);
    w->is_open = false;
    w->version = -1;
    json_decref(w->options);
    w->options = NULL;
    ls__contact_task_release(&w->task);
}

/* The server's options, and this machine's own. */
static enum ls_status read_options(struct worker *w)
{
    const struct ls_train_options *own = &w->o->own;
    w->options = json_loads(w->task.options, 0, NULL);
    if (!json_is_object(w->options)) return ls_fail(LS_DATA, "the server's options are not a JSON object");
    ls_train_options_default(&w->train);
    for (int i = 0; i < LS_N_SETTINGS; i++) TRY(ls__setting_from_json(&ls__settings[i], &w->train, w->options));
    w->train.data_dir = own->data_dir;
    if (own->isa && strcmp(own->isa, "native") != 0) w->train.isa = own->isa;
    w->train.tune = own->tune;
    w->train.threads = own->threads;
    w->train.control = own->control;
    w->train.model_text = w->task.model;
    w->train.no_eval = true;
    return LS_OK;
}

/* The weights come from the server, wherever it has them from. */
static enum ls_status take_over(struct identity *mine, const struct identity *theirs, enum identity_key key)
{
    free(mine->values[key]);
    mine->values[key] = NULL;
    return theirs->values[key] ? ls__strdup(&mine->values[key], theirs->values[key]) : LS_OK;
}

/* Another machine may have other data, another library, another instruction set. */
static enum ls_status compare(struct worker *w)
{
    struct identity mine = {0}, theirs = {0};
    struct identity_difference d;
    enum ls_status status = ls__identity_of(&mine, &w->train, &w->s);
    if (status == LS_OK) status = ls__identity_from_text(&theirs, w->task.identity, strlen(w->task.identity));
    if (status == LS_OK) status = take_over(&mine, &theirs, IDENTITY_INIT);
    if (status == LS_OK && ls__identity_differs(&mine, &theirs, IDENTITY_RESUME, &d))
        status = ls_fail(LS_USAGE,
                         "this worker would not compute what the server at %s trains: %s is %s here and %s there%s%s",
                         w->o->address, d.what, d.mine, d.theirs, *d.advice ? "; " : "", d.advice);
    ls__identity_release(&mine);
    ls__identity_release(&theirs);
    return status;
}

static enum ls_status open_task(struct worker *w)
{
    struct ls_sync_choice sync = {0};
    TRY(read_options(w));
    (void)ls__sync_parse(w->train.sync, &sync);
    struct session_options so = ls__session_options_of(&w->train);
    so.sync = sync.name;
    w->is_open = true;
    TRY(ls__session_open(&w->s, &so));
    TRY(compare(w));
    TRY(ls_feed_create(&w->feed, w->s.train, (int)w->s.batch_size, (uint64_t)w->train.seed));
    return LS_OK;
}

static bool is_same_task(const struct ls_contact_task *a, const struct ls_contact_task *b)
{
    return a->options && strcmp(a->options, b->options) == 0 && strcmp(a->model, b->model) == 0 &&
           strcmp(a->identity, b->identity) == 0;
}

/* The server's, where no network is between. */
static void open_box(struct worker *w, const struct ls_contact_task *task)
{
    int64_t n_sums;
    ls__box_close(&w->box);
    w->is_boxed = false;
    if (w->form != LS_SUMS_PLAIN || task->box_pid == 0) return;
    ls_exec_sums(w->s.exec, &n_sums);
    const struct ls_box_size size = {task->session, (uint64_t)n_sums, ls__parameters_bytes(&w->s)};
    enum ls_status status = ls__box_open(&w->box, &size, task->box_pid, task->box_fd);
    if (status == LS_OK && !ls__box_sums(w->box, w->o->slot)) ls__box_close(&w->box);
    if (status != LS_OK) ls__log(LS_LOG_DEBUG, "%s", ls_error_message());
}

/* *task is taken over. */
static enum ls_status take_task(struct worker *w, struct ls_contact_task *task)
{
    int64_t n_sums;
    enum ls_status status = LS_OK;
    const struct ls_contact_task told = *task;
    w->version = -1; /* another server may count from elsewhere */
    if (is_same_task(&w->task, task)) {
        ls__contact_task_release(task);
    } else {
        close_task(w);
        w->task = *task;
        status = open_task(w);
    }
    *task = (struct ls_contact_task){0};
    TRY(status);
    open_box(w, &told);
    ls_exec_sums(w->s.exec, &n_sums);
    ls__log(LS_LOG_INFO, "computing for %s: %s on %s, %d thread%s", w->o->address, w->task.model_name, w->train.data,
            w->s.threads, w->s.threads == 1 ? "" : "s");
    return ls__contact_ready(w->contact, n_sums, ls__parameters_bytes(&w->s), w->s.threads, w->box != NULL);
}

/* --- work --- */

/* A thread that gets a shard reads its samples first. */
static int next_shard(void *arg)
{
    struct worker *w = arg;
    return ls__contact_next(w->contact);
}

static enum ls_status read_shard(void *arg, int shard)
{
    struct worker *w = arg;
    const int64_t first = shard * w->step.shard_size, left = w->batch.n - first;
    return ls_feed_read(w->feed, (int)first, (int)(left < w->step.shard_size ? left : w->step.shard_size));
}

/* One that is not on its way; else the first is forgotten here and lives until it has left. */
static enum ls_status find_buffer(struct worker *w, struct ls_wire_buffer **out)
{
    int64_t n;
    int i = 0;
    while (i < N_SENT && w->sent[i] && ls_wire_buffer_is_shared(w->sent[i])) i++;
    if (i == N_SENT) ls_wire_buffer_drop(&w->sent[i = 0]);
    ls_exec_sums(w->s.exec, &n);
    if (!w->sent[i]) TRY(ls_wire_buffer_create(&w->sent[i], ls__sums_bound(w->form, n)));
    *out = w->sent[i];
    return LS_OK;
}

static enum ls_status push(struct worker *w, double compute_seconds)
{
    struct ls_wire_buffer *buffer;
    bool is_sent;
    size_t bytes;
    if (w->is_boxed) {
        TRY(ls__sums_write(w->s.exec, LS_SUMS_PLAIN, (uint8_t *)ls__box_sums(w->box, w->o->slot), &bytes));
        return ls__contact_push(w->contact, LS_SUMS_BOXED, NULL, 0, compute_seconds, &is_sent);
    }
    TRY(find_buffer(w, &buffer));
    TRY(ls__sums_write(w->s.exec, w->form, ls_wire_buffer_data(buffer), &bytes));
    return ls__contact_push(w->contact, w->form, buffer, bytes, compute_seconds, &is_sent);
}

static enum ls_status take_parameters(struct worker *w, const struct ls_contact_work *work)
{
    const uint8_t *in = work->parameters.payload;
    if (!in && work->boxed < 0) return LS_OK;
    if (in && work->parameters.payload_bytes != ls__parameters_bytes(&w->s))
        return ls_fail(LS_REMOTE, "the server's parameters have another size");
    w->is_boxed = !in;
    if (!in) in = w->box ? ls__box_parameters(w->box, work->boxed) : NULL;
    if (!in) return ls_fail(LS_REMOTE, "the server's parameters are not where it says");
    w->version = work->version;
    return ls__parameters_set(&w->s, in);
}

static enum ls_status compute(struct worker *w, struct ls_contact_work *work)
{
    const int64_t began = ls__now_ns();
    TRY(take_parameters(w, work));
    if (w->version != work->version) return ls_fail(LS_REMOTE, "the server sent work without its parameters");
    TRY(ls_feed_batch(w->feed, work->epoch, work->batch, &w->batch));
    w->step = (struct ls_exec_step){.batch = &w->batch,
                                    .transform = &w->s.transform,
                                    .shard_size = w->s.shard_size,
                                    .seed = (uint64_t)w->train.seed,
                                    .step = work->step};
    if (work->is_whole) ls__contact_set_shards(w->contact, (int)((w->batch.n + w->s.shard_size - 1) / w->s.shard_size));
    TRY(ls_exec_compute(w->s.exec, &w->step, &(const struct ls_shard_source){next_shard, read_shard, w}));
    return push(w, ls__seconds_since(began));
}

static enum ls_status loop(struct worker *w)
{
    for (;;) {
        struct ls_contact_task task = {0};
        struct ls_contact_work work = {0};
        enum ls_contact_event event;
        TRY(ls__contact_wait(w->contact, &event, &task, &work));
        enum ls_status status = LS_OK;
        if (event == LS_CONTACT_OVER || event == LS_CONTACT_STOPPED) return LS_OK;
        if (event == LS_CONTACT_TASK) TRY(take_task(w, &task));
        if (event == LS_CONTACT_WORK) status = compute(w, &work);
        ls_wire_message_release(&work.parameters);
        if (status != LS_OK) {
            const struct ls_kept why = ls__keep(status);
            ls__contact_fail(w->contact, status);
            return ls__fail_again(&why);
        }
    }
}

enum ls_status ls__worker_run(const struct ls_worker_options *o, bool *is_told)
{
    struct ls_wire_key key;
    const enum ls_sums_form form = o->is_near ? LS_SUMS_PLAIN : LS_SUMS_PACKED;
    struct worker w = {.o = o, .version = -1, .form = form};
    *is_told = false;
    if (o->key) TRY(ls_wire_key_read(&key, o->key));
    const struct ls_contact_options lo = {.address = o->address,
                                          .ticket = o->ticket,
                                          .key = o->key ? &key : NULL,
                                          .control = o->own.control,
                                          .timeout = o->own.timeout,
                                          .threads = (int)o->own.threads,
                                          .slot = o->slot};
    enum ls_status status = ls__contact_open(&w.contact, &lo);
    if (o->key) ls_wire_key_forget(&key);
    if (status == LS_OK) status = loop(&w);
    const struct ls_kept why = ls__keep(status);
    *is_told = w.contact && ls__contact_is_known(w.contact);
    ls__contact_close(&w.contact, status == LS_OK ? NULL : why.message);
    close_task(&w);
    return ls__fail_again(&why);
}
