/* worker.c: the loop of a worker. See worker.h.
 *
 *     wait -> TASK  open model, data and plans as the server says, compare what decides the bits, say READY
 *          -> TRY   a few shards that nobody sums, or an answer of some length
 *          -> WORK  parameters into the store; shards as they come; all their sums as one push
 *          -> OVER
 *
 * A server that was started again gives the same task: then what is open stays open.
 */
#include "elastic/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status_kept.h"
#include "data/feed.h"
#include "elastic/box.h"
#include "elastic/keepers.h"
#include "elastic/recording.h"
#include "elastic/task.h"
#include "session/rehearse.h"

#include <string.h>
#include <unistd.h>

enum { N_SENT = 2 * LS_MAX_PIECES }; /* buffers: a piece of the push before may still be on its way */

struct worker {
    const struct ls_worker_options *o;
    struct ls_contact *contact;
    const struct ls_wire_key *key; /* NULL: none */
    struct ls_task task;
    struct ls_parameters parameters[LS_MAX_SERVERS]; /* of every server's range */
    struct ls_parameters pieces[LS_MAX_PIECES];      /* of every piece, where there are several */
    struct ls_keepers *keepers;                      /* NULL: one server */
    struct ls_feed *feed;
    struct ls_record *record; /* NULL: nothing is recorded */
    int64_t n_done;           /* pieces of work */
    char host[128];
    struct ls_wire_buffer *sent[N_SENT];
    enum ls_sums_form form;
    struct ls_box *box;       /* NULL: none is shared with the server */
    struct ls_tube tube;      /* in it */
    int bells[2];             /* the server's and this worker's; -1: none */
    bool is_boxed;            /* the parameters came by it, and so go the sums */
    int64_t version;          /* of the parameters in the store; -1: none */
    struct ls_exec_step step; /* the present one */
    struct ls_batch batch;
};

/* --- what is trained --- */

static void close_box(struct worker *w)
{
    ls__box_close(&w->box);
    ls__bell_close(w->bells);
    w->is_boxed = false;
}

static void close_task(struct worker *w)
{
    for (int i = 0; i < N_SENT; i++) ls_wire_buffer_drop(&w->sent[i]);
    ls_feed_destroy(&w->feed);
    ls__record_close(&w->record);
    close_box(w);
    for (int k = 0; k < LS_MAX_SERVERS; k++) ls__parameters_release(&w->parameters[k]);
    for (int k = 0; k < LS_MAX_PIECES; k++) ls__parameters_release(&w->pieces[k]);
    ls__keepers_close(&w->keepers);
    ls__task_close(&w->task);
    w->version = -1;
}

static enum ls_status open_task(struct worker *w, struct ls_contact_task *told)
{
    struct ls_task *t = &w->task;
    close_task(w);
    TRY(ls__task_open(t, told, w->o));
    TRY(ls_feed_create(&w->feed, t->s.train, (int)t->s.batch_size, (uint64_t)t->train.seed));
    for (int k = 0; k < t->split.n; k++) TRY(ls__parameters_open(&w->parameters[k], &t->s, t->split.ranges[k], false));
    for (int k = 0; t->pieces.n > 1 && k < t->pieces.n; k++)
        TRY(ls__parameters_open(&w->pieces[k], &t->s, t->pieces.ranges[k], false));
    return LS_OK;
}

/* Everything that is needed of it. */
static bool enter_box(struct worker *w, const struct ls_contact_task *told)
{
    struct ls_tube_memory *memory = ls__box_tube(w->box, w->o->slot);
    _Atomic uint32_t *server_flag = ls__box_server_flag(w->box);
    w->bells[0] = ls__bell_open(told->box_pid, told->server_bell);
    w->bells[1] = ls__bell_open(told->box_pid, told->worker_bell);
    if (!memory || !server_flag || !ls__box_sums(w->box, w->o->slot) || w->bells[0] < 0 || w->bells[1] < 0)
        return false;
    w->tube = ls__tube_of_worker(memory, server_flag, w->bells[0], w->bells[1]);
    return true;
}

/* The server's, where it is on this machine. */
static void open_box(struct worker *w, const struct ls_contact_task *told)
{
    const struct ls_sum_range own = w->task.split.ranges[0];
    close_box(w);
    if (!w->o->is_beside || told->box_pid == 0) return;
    const struct ls_box_size size = {told->session, (uint64_t)(own.end - own.begin), w->parameters[0].bytes};
    enum ls_status status = ls__box_open(&w->box, &size, told->box_pid, told->box_fd);
    if (status == LS_OK && !enter_box(w, told)) close_box(w);
    if (status != LS_OK) ls__log(LS_LOG_DEBUG, "%s", ls_error_message());
}

/* *task is taken over. */
static enum ls_status take_task(struct worker *w, struct ls_contact_task *task)
{
    int64_t n_sums;
    enum ls_status status = LS_OK;
    const struct ls_contact_task told = *task; /* its numbers */
    w->version = -1;                           /* another server may count from elsewhere */
    if (!ls__task_is(&w->task, task)) status = open_task(w, task);
    ls__contact_task_release(task);
    TRY(status);
    open_box(w, &told);
    ls__record_close(&w->record); /* it may have another number now */
    if (w->o->is_here) w->record = ls__recording_open(&w->task, told.worker, w->host);
    const struct session *s = &w->task.s;
    ls_exec_sums(s->exec, &n_sums);
    ls__log(LS_LOG_INFO, "computing for %s: %s on %s, %d thread%s", w->o->address, w->task.told.model_name,
            w->task.train.data, s->threads, s->threads == 1 ? "" : "s");
    return ls__contact_ready(w->contact, n_sums, w->parameters[0].bytes, s->threads, w->box ? &w->tube : NULL);
}

/* --- work --- */

/* A thread that gets a shard reads its samples first. */
static int next_shard(void *arg)
{
    struct worker *w = arg;
    return ls__contact_next(w->contact);
}

static bool is_asking(void *arg)
{
    const struct worker *w = arg;
    return ls__contact_is_asking(w->contact);
}

static enum ls_status read_shard(void *arg, int shard)
{
    struct worker *w = arg;
    if (w->batch.kept) return LS_OK;
    const int64_t first = shard * w->step.shard_size, left = w->batch.n - first;
    return ls_feed_read(w->feed, (int)first, (int)(left < w->step.shard_size ? left : w->step.shard_size));
}

/* One for a range that is not on its way; else the first is forgotten here and lives until it has left. */
static enum ls_status find_buffer(struct worker *w, struct ls_sum_range range, struct ls_wire_buffer **out)
{
    const size_t bytes = ls__sums_bound(w->form, range.end - range.begin);
    int i = 0;
    while (i < N_SENT && w->sent[i] &&
           (ls_wire_buffer_is_shared(w->sent[i]) || ls_wire_buffer_bytes(w->sent[i]) < bytes))
        i++;
    if (i == N_SENT) ls_wire_buffer_drop(&w->sent[i = 0]);
    if (!w->sent[i]) TRY(ls_wire_buffer_create(&w->sent[i], bytes));
    *out = w->sent[i];
    return LS_OK;
}

/* One piece or several: each leaves while the next one is packed. */
static enum ls_status push_pieces(struct worker *w, double compute_seconds)
{
    struct ls_exec *exec = w->task.s.exec;
    const struct ls_sum_split *pieces = &w->task.pieces;
    bool is_sent = true;
    for (int i = 0; i < pieces->n && is_sent; i++) {
        struct ls_wire_buffer *buffer;
        size_t bytes;
        TRY(find_buffer(w, pieces->ranges[i], &buffer));
        TRY(ls__sums_write(exec, pieces->ranges[i], w->form, ls_wire_buffer_data(buffer), &bytes));
        if (i + 1 == pieces->n)
            return ls__contact_push(w->contact, w->form, pieces->n, buffer, bytes, compute_seconds, &is_sent);
        TRY(ls__contact_push_piece(w->contact, w->form, i, buffer, bytes, &is_sent));
    }
    ls__contact_give_back(w->contact);
    return ls_exec_zero_sums(exec);
}

/* The range of the server that hands out the work. is_void: it is zeroed all the same. */
static enum ls_status push_own(struct worker *w, double compute_seconds, bool is_void)
{
    struct ls_exec *exec = w->task.s.exec;
    const struct ls_sum_range own = w->task.split.ranges[0];
    bool is_sent;
    size_t bytes;
    if (is_void) {
        ls__contact_give_back(w->contact);
        return ls_exec_zero_sums(exec);
    }
    if (w->is_boxed) {
        TRY(ls__sums_write(exec, own, LS_SUMS_PLAIN, (uint8_t *)ls__box_sums(w->box, w->o->slot), &bytes));
        return ls__contact_push(w->contact, LS_SUMS_BOXED, 1, NULL, 0, compute_seconds, &is_sent);
    }
    return push_pieces(w, compute_seconds);
}

static enum ls_status push(struct worker *w, double compute_seconds)
{
    bool is_void = false;
    if (w->keepers) TRY(ls__keepers_push(w->keepers, w->task.s.exec, &w->task.split, w->form, w->step.step, &is_void));
    return push_own(w, compute_seconds, is_void);
}

static enum ls_status find_keepers(struct worker *w)
{
    struct ls_talk_places where;
    if (!ls__contact_places(w->contact, &where)) return LS_OK;
    ls__keepers_close(&w->keepers);
    if ((int)where.n != w->task.split.n - 1) return ls_fail(LS_REMOTE, "the server told of %u others", where.n);
    return ls__keepers_open(&w->keepers, &where, w->key, w->contact, w->o->own.timeout);
}

/* Those that came while the step before was under way. */
static enum ls_status take_ahead(struct worker *w, int64_t version, bool *is_void)
{
    const int n = w->task.pieces.n;
    struct ls_wire_message pieces[LS_MAX_PIECES] = {0};
    enum ls_status status = LS_OK;
    w->version = -1;
    w->is_boxed = false;
    *is_void = !ls__contact_take_ahead(w->contact, version, pieces, n);
    for (int i = 0; i < n && !*is_void && status == LS_OK; i++)
        status = pieces[i].payload_bytes == w->pieces[i].bytes
                     ? ls__parameters_set(&w->pieces[i], pieces[i].payload)
                     : ls_fail(LS_REMOTE, "a piece of the server's parameters has another size");
    for (int i = 0; i < n; i++) ls_wire_message_release(&pieces[i]);
    if (status == LS_OK && !*is_void) w->version = version;
    return status;
}

/* All parts of newer parameters, if the work has some. */
static enum ls_status take_parameters(struct worker *w, const struct ls_contact_work *work, bool *is_void)
{
    const uint8_t *in = work->parameters.payload;
    *is_void = false;
    if (work->is_ahead) return take_ahead(w, work->version, is_void);
    TRY(find_keepers(w));
    if (!in && work->boxed < 0) return LS_OK;
    if (in && work->parameters.payload_bytes != w->parameters[0].bytes)
        return ls_fail(LS_REMOTE, "the server's parameters have another size");
    w->is_boxed = !in;
    if (!in) in = w->box ? ls__box_parameters(w->box, work->boxed) : NULL;
    if (!in) return ls_fail(LS_REMOTE, "the server's parameters are not where it says");
    w->version = -1; /* until all parts are here */
    TRY(ls__parameters_set(&w->parameters[0], in));
    if (w->keepers) TRY(ls__keepers_pull(w->keepers, work->version, &w->parameters[1], is_void));
    if (!*is_void) w->version = work->version;
    return LS_OK;
}

static enum ls_status compute(struct worker *w, struct ls_contact_work *work)
{
    bool is_void;
    const struct session *s = &w->task.s;
    TRY(take_parameters(w, work, &is_void));
    if (is_void) {
        ls__contact_give_back(w->contact);
        return LS_OK;
    }
    if (w->version != work->version) return ls_fail(LS_REMOTE, "the server sent work without its parameters");
    const int64_t began = ls__now_ns();
    TRY(ls_feed_batch(w->feed, work->epoch, work->batch, &w->batch));
    w->batch.kept = s->train_kept;
    w->step = (struct ls_exec_step){.batch = &w->batch,
                                    .transform = &s->transform,
                                    .shard_size = s->shard_size,
                                    .seed = (uint64_t)w->task.train.seed,
                                    .step = work->step};
    if (work->is_whole) ls__contact_set_shards(w->contact, (int)((w->batch.n + s->shard_size - 1) / s->shard_size));
    TRY(ls_exec_compute(s->exec, &w->step, &(const struct ls_shard_source){next_shard, read_shard, is_asking, w}));
    return push(w, ls__seconds_since(began));
}

/* --- before the first step --- */

static enum ls_status rehearse(struct worker *w, double seconds, struct ls_talk_tried *out)
{
    struct session *s = &w->task.s;
    struct ls_exec_rehearsal r;
    if (w->version < 0) TRY(ls_exec_init_store(s->exec, (uint64_t)w->task.train.seed)); /* the server's are to come */
    TRY(ls_feed_batch(w->feed, 0, 0, &w->batch));
    TRY(ls_feed_read(w->feed, 0, w->batch.n));
    const struct ls_exec_step step = {.batch = &w->batch, .transform = &s->transform, .shard_size = s->shard_size};
    TRY(ls_exec_rehearse(s->exec, &step, &r));
    TRY(ls__rehearse(s, &step, ls__rehearse_count(&r, seconds), &r));
    out->n_run = (uint32_t)r.n_run;
    out->pre_seconds = r.pre_seconds;
    out->shard_seconds = r.shard_seconds;
    out->join_seconds = r.join_seconds;
    return LS_OK;
}

/* Who cannot answer says nothing useful, and takes part all the same. */
static enum ls_status try(struct worker *w)
{
    struct ls_talk_try wanted;
    struct ls_wire_buffer *payload = NULL;
    ls__contact_trial(w->contact, &wanted);
    struct ls_talk_tried tried = {.number = wanted.number, .threads = (uint32_t)w->task.s.threads};
    if (wanted.seconds > 0) {
        if (rehearse(w, wanted.seconds, &tried) != LS_OK) ls__log(LS_LOG_DEBUG, "%s", ls_error_message());
        TRY(ls_exec_end_rehearsal(w->task.s.exec));
    }
    if (wanted.bytes_back > 0) TRY(ls_wire_buffer_create(&payload, wanted.bytes_back));
    if (payload) memset(ls_wire_buffer_data(payload), 0, wanted.bytes_back);
    ls__contact_answer(w->contact, &tried, payload, wanted.bytes_back);
    ls_wire_buffer_drop(&payload);
    return LS_OK;
}

/* --- all of it --- */

static enum ls_status wait(struct worker *w, enum ls_contact_event *event, struct ls_contact_task *task,
                           struct ls_contact_work *work)
{
    struct ls_lane *lane = w->task.is_open ? w->task.s.lane : NULL;
    struct ls_begun begun = ls__span_begin(lane, LS_SPAN_COMMUNICATE, "wait for work", 0);
    enum ls_status status = ls__contact_wait(w->contact, event, task, work);
    ls__span_end(lane, begun);
    return status;
}

static enum ls_status work_on(struct worker *w, struct ls_contact_work *work)
{
    struct ls_begun begun = ls__span_begin(w->task.s.lane, LS_SPAN_STEP, "step", work->step);
    enum ls_status status = compute(w, work);
    ls__span_end(w->task.s.lane, begun);
    ls__record_step(w->record, ++w->n_done, work->epoch + 1);
    return status;
}

static enum ls_status loop(struct worker *w)
{
    for (;;) {
        struct ls_contact_task task = {0};
        struct ls_contact_work work = {0};
        enum ls_contact_event event;
        enum ls_status status = wait(w, &event, &task, &work);
        TRY(status);
        if (event == LS_CONTACT_OVER || event == LS_CONTACT_STOPPED) return LS_OK;
        if (event == LS_CONTACT_TASK) TRY(take_task(w, &task));
        if (event == LS_CONTACT_TRY) status = try(w);
        if (event == LS_CONTACT_WORK) status = work_on(w, &work);
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
    struct ls_wire_key key = {0};
    const enum ls_sums_form form = o->is_near ? LS_SUMS_PLAIN : LS_SUMS_PACKED;
    struct worker w = {.o = o, .version = -1, .form = form, .key = o->key ? &key : NULL, .bells = {-1, -1}};
    *is_told = false;
    if (gethostname(w.host, sizeof w.host - 1) != 0) w.host[0] = '\0';
    if (o->key) TRY(ls_wire_key_read(&key, o->key));
    const struct ls_contact_options lo = {.address = o->address,
                                          .ticket = o->ticket,
                                          .key = o->key ? &key : NULL,
                                          .control = o->own.control,
                                          .timeout = o->own.timeout,
                                          .threads = (int)o->own.threads,
                                          .slot = o->slot};
    enum ls_status status = ls__contact_open(&w.contact, &lo);
    if (status == LS_OK) status = loop(&w);
    const struct ls_kept why = ls__keep(status);
    *is_told = w.contact && ls__contact_is_known(w.contact);
    ls__record_close(&w.record); /* before the server hears that it goes: it reads what is written */
    ls__contact_close(&w.contact, status == LS_OK ? NULL : why.message);
    close_task(&w);
    if (o->key) ls_wire_key_forget(&key);
    return ls__fail_again(&why);
}
