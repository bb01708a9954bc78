/* served.c: see served.h. */
#include "train/served.h"

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/status_kept.h"
#include "elastic/parameters.h"
#include "elastic/recording.h"
#include "session/identity.h"
#include "settings/setting.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Where workers of this machine record themselves (recording.h). */
static void describe_recording(json_t *json, const struct sync *sync)
{
    char dir[LS_PATH_BYTES];
    const struct ls_train_options *o = sync->o;
    if (!json || !sync->run_dir || (!o->record && !o->trace) || !realpath(sync->run_dir, dir)) return;
    json_object_set_new(json, LS_RECORD_TO, json_string(dir));
    json_object_set_new(json, LS_RECORD_RESOURCES, json_boolean(o->record));
    if (!o->trace) return;
    json_object_set_new(json, LS_RECORD_SINCE, json_integer(sync->began_ns));
    json_object_set_new(json, LS_RECORD_STEPS, json_integer(o->trace_steps));
}

/* What decides the result, and how it is computed; where it runs is each machine's own. */
static enum ls_status describe(struct served *v, const struct sync *sync)
{
    const struct ls_train_options *o = sync->o;
    const struct ls_setting *more[] = {&ls__settings[LS_SET_ISA], &ls__settings[LS_SET_MEMORY],
                                       &ls__settings[LS_SET_SERVERS], &ls__settings[LS_SET_GPUS]};
    struct identity id = {0};
    json_t *json = ls__options_json(o, LS_ROLE_RUN | LS_ROLE_TOGETHER);
    for (size_t i = 0; json && i < sizeof more / sizeof more[0]; i++)
        json_object_set_new(json, more[i]->key, ls__setting_json(more[i], o));
    describe_recording(json, sync);
    TRY(ls__json_dump(json, LS_JSON_EXACT, "the options for workers", &v->options));
    enum ls_status status = ls__identity_of(&id, o, sync->s);
    if (status == LS_OK) status = ls__identity_to_text(&id, &v->identity);
    ls__identity_release(&id);
    return status;
}

/* Other servers have the same key: they may connect. */
static enum ls_status read_key(struct served *v, const struct ls_train_options *o)
{
    TRY(ls_wire_key_read(&v->key, o->elastic->key));
    if (o->servers == 1) return LS_OK;
    if (v->key.n_allowed == LS_WIRE_MAX_ALLOWED)
        return ls_fail(LS_USAGE, "%s allows %d keys, so there is no room for other servers", o->elastic->key,
                       v->key.n_allowed);
    memcpy(v->key.allowed[v->key.n_allowed++], v->key.public_key, sizeof v->key.public_key);
    return LS_OK;
}

/* What this server has, and what the others have. */
static enum ls_status open_ranges(struct served *v, struct session *s, int n_servers)
{
    TRY(ls__split_make(&v->split, s->exec, n_servers));
    TRY(ls__parameters_open(&v->own, s, v->split.ranges[0], false));
    TRY(ls__calloc(&v->others, (size_t)n_servers, sizeof *v->others));
    for (int k = 1; k < n_servers; k++) TRY(ls__parameters_open(&v->others[k - 1], s, v->split.ranges[k], true));
    return LS_OK;
}

static bool is_synchronous(const struct sync *sync)
{
    return strcmp(sync->choice.name->name, "ps") == 0;
}

static enum ls_status open_pieces(struct sync *sync, struct served *v)
{
    int64_t n_sums;
    ls_exec_sums(sync->s->exec, &n_sums);
    v->pieces = (struct ls_sum_split){.n = 1, .ranges = {v->split.ranges[0]}};
    const int n = is_synchronous(sync) ? ls__split_count(sync->o, n_sums) : 1;
    if (n == 1) return LS_OK;
    TRY(ls__split_pieces(&v->pieces, sync->s->exec, n));
    TRY(ls__calloc(&v->ahead, (size_t)n, sizeof *v->ahead));
    TRY(ls__calloc(&v->undo, (size_t)n, sizeof *v->undo));
    for (int i = 0; i < n; i++) {
        TRY(ls__parameters_open(&v->ahead[i], sync->s, v->pieces.ranges[i], false));
        TRY(ls__parameters_open(&v->undo[i], sync->s, v->pieces.ranges[i], true));
    }
    return LS_OK;
}

static void close_pieces(struct served *v)
{
    for (int i = 0; v->ahead && i < v->pieces.n; i++) ls__parameters_release(&v->ahead[i]);
    for (int i = 0; v->undo && i < v->pieces.n; i++) ls__parameters_release(&v->undo[i]);
    free(v->ahead);
    free(v->undo);
    free(v->before);
}

static enum ls_status open_server(struct sync *sync, struct served *v, int64_t step, int64_t staleness)
{
    const struct ls_train_options *o = sync->o;
    size_t model_bytes;
    if (o->elastic->key) TRY(read_key(v, o));
    TRY(describe(v, sync));
    TRY(open_ranges(v, sync->s, (int)o->servers));
    TRY(open_pieces(sync, v));
    struct ls_server_options so = {.address = o->elastic->listen,
                                   .key = o->elastic->key ? &v->key : NULL,
                                   .ticket = o->elastic->ticket,
                                   .lease = o->lease,
                                   .timeout = o->timeout,
                                   .step = step,
                                   .staleness = staleness,
                                   .n_backup = (int)o->backup,
                                   .options = v->options,
                                   .identity = v->identity,
                                   .model_name = ls_model_name(sync->s->model),
                                   .model = ls_model_text(sync->s->model, &model_bytes),
                                   .n_servers = v->split.n,
                                   .n_own_sums = v->split.ranges[0].end,
                                   .pieces = &v->pieces,
                                   .parameters_bytes = v->own.bytes,
                                   .control = o->control,
                                   .is_hopeless = o->elastic->is_hopeless,
                                   .is_coming = o->elastic->is_coming,
                                   .on_joined = o->elastic->on_joined,
                                   .context = o->elastic->context};
    ls_exec_sums(sync->s->exec, &so.n_sums);
    TRY(ls__server_open(&v->server, &so));
    ls__log(LS_LOG_INFO, "parameter server at %s (%s)", ls__server_address(v->server),
            o->elastic->key ? "with keys" : "this machine only, no keys");
    if (!o->elastic->key && !o->elastic->ticket)
        ls__log(LS_LOG_INFO, "without a key anybody on this machine can take part, and spoil it: --key FILE, made by "
                             "`lockstep server --keygen DIR`, keeps others out");
    if (o->elastic->on_listening) o->elastic->on_listening(o->elastic->context, ls__server_address(v->server));
    TRY(ls__server_await(v->server));
    ls__lane_totals(sync->s->lane, &v->seen); /* what was before counts as their setup */
    return LS_OK;
}

enum ls_status ls__served_open(struct sync *sync, int64_t step, int64_t staleness)
{
    struct served *v;
    TRY(ls__calloc(&v, 1, sizeof *v));
    sync->state = v;
    v->is_whole = true;
    TRY(ls__calloc(&v->applied, (size_t)sync->steps_per_epoch, 1));
    return open_server(sync, v, step, staleness);
}

void ls__served_close(struct sync *sync)
{
    struct served *v = sync->state;
    ls__server_close(&v->server, sync->outcome);
    ls_wire_key_forget(&v->key);
    for (int k = 1; v->others && k < v->split.n; k++) ls__parameters_release(&v->others[k - 1]);
    ls__parameters_release(&v->own);
    close_pieces(v);
    free(v->others);
    free(v->options);
    free(v->identity);
    free(v->applied);
    free(v);
}

enum ls_status ls__served_foretell(struct sync *sync, struct forecast *f)
{
    struct served *v = sync->state;
    struct ls_server_trial t;
    TRY(ls__server_try(v->server, sync->o->elastic->is_apart, &t));
    const struct forecast_served found = {.n_workers = t.n_workers,
                                          .n_servers = v->split.n,
                                          .n_pieces = v->pieces.n,
                                          .threads = t.threads,
                                          .n_beside = t.n_beside,
                                          .shared_cores = sync->o->elastic->is_apart ? ls__cpu_count() : 0,
                                          .latency = t.latency,
                                          .bandwidth = t.bandwidth,
                                          .together = t.together,
                                          .is_async = !is_synchronous(sync),
                                          .staleness = sync->choice.name->has_number ? (int)sync->choice.number : -1};
    return ls__forecast_make_served(f, sync->s, (uint64_t)sync->o->seed, &found);
}

/* What this process did besides training since it last was here. */
static void tell_pauses(const struct sync *sync)
{
    struct served *v = sync->state;
    const struct ls_totals before = v->seen;
    ls__lane_totals(sync->s->lane, &v->seen);
    const struct ls_server_pause pause = {
        .evaluate = 1e-9 * (double)(v->seen.self_ns[LS_SPAN_EVALUATE] - before.self_ns[LS_SPAN_EVALUATE]),
        .checkpoint = 1e-9 * (double)(v->seen.self_ns[LS_SPAN_CHECKPOINT] - before.self_ns[LS_SPAN_CHECKPOINT]),
        .other = 1e-9 * (double)(v->seen.self_ns[LS_SPAN_OTHER] - before.self_ns[LS_SPAN_OTHER])};
    if (pause.evaluate + pause.checkpoint + pause.other > 0) ls__server_paused(v->server, &pause);
}

void ls__served_tell(const struct sync *sync, struct ls_elastic_result *out)
{
    const struct served *v = sync->state;
    tell_pauses(sync);
    ls__server_report(v->server, out);
}

void ls__served_report(const struct sync *sync, struct ls_result *r)
{
    const struct served *v = sync->state;
    ls__server_report(v->server, &r->elastic);
    const int n = r->elastic.n_told;
    int64_t threads = 0;
    r->workers = r->elastic.n_workers;
    for (int i = 0; i < n; i++) { /* what a worker received the server has sent */
        r->bytes_sent += r->elastic.workers[i].bytes_sent + r->elastic.workers[i].bytes_received;
        threads += r->elastic.workers[i].threads;
    }
    if (n > 0) r->threads = (threads + n / 2) / n; /* of each, the mean: this process computes nothing */
    for (int k = 1; k < r->elastic.servers; k++)
        r->bytes_sent += r->elastic.each[k].bytes_sent + r->elastic.each[k].bytes_received;
}

enum ls_status ls__served_publish(struct sync *sync)
{
    struct served *v = sync->state;
    struct ls_begun begun = ls__span_begin(sync->s->lane, LS_SPAN_UPDATE, "publish", 0);
    enum ls_status status = v->is_published ? LS_OK : ls__server_publish(v->server, &v->own);
    ls__span_end(sync->s->lane, begun);
    v->is_published = status == LS_OK;
    return status;
}

/* Where the values lie that a piece had before. */
static uint8_t *before(const struct served *v, int piece)
{
    uint8_t *at = v->before;
    for (int i = 0; i < piece; i++) at += v->undo[i].bytes;
    return at;
}

static enum ls_status remember(struct served *v, int piece)
{
    size_t bytes = 0;
    for (int i = 0; i < v->pieces.n; i++) bytes += v->undo[i].bytes;
    if (!v->before) TRY(ls__calloc(&v->before, bytes, 1));
    return ls__parameters_get(&v->undo[piece], before(v, piece));
}

/* As if no piece of this step had come. */
static enum ls_status undo(struct served *v)
{
    if (v->n_applied > 0)
        ls__log(LS_LOG_INFO, "a step that nobody finished is taken back: %d of %d pieces of it were in", v->n_applied,
                v->pieces.n);
    for (; v->n_applied > 0; v->n_applied--)
        TRY(ls__parameters_set(&v->undo[v->n_applied - 1], before(v, v->n_applied - 1)));
    return LS_OK;
}

/* A whole push has sums of the pieces that are in the store, too. */
static enum ls_status add_push(struct sync *sync, const struct ls_server_push *push)
{
    const struct served *v = sync->state;
    const struct ls_sum_range own = v->split.ranges[0], rest = {push->begin, own.end};
    const size_t before = (size_t)(push->begin - own.begin) * sizeof(int64_t);
    if (before == 0) return ls__sums_add(sync->s->exec, own, push->form, push->sums, push->bytes);
    if (push->form != LS_SUMS_PLAIN) return ls_fail(LS_INTERNAL, "packed sums in one, behind others in pieces");
    return ls__sums_add(sync->s->exec, rest, LS_SUMS_PLAIN, push->sums + before, push->bytes - before);
}

static enum ls_status add_piece(struct sync *sync, const struct ls_server_piece *piece)
{
    const struct served *v = sync->state;
    for (int i = 0; i < piece->n; i++) {
        const struct ls_server_sums *part = &piece->parts[i];
        TRY(ls__sums_add(sync->s->exec, v->pieces.ranges[piece->piece], part->form, part->message.payload,
                         part->message.payload_bytes));
    }
    return LS_OK;
}

static enum ls_status apply_piece(struct sync *sync, const struct ls_exec_step *step, int piece)
{
    struct served *v = sync->state;
    struct ls_exec_step own = *step;
    struct ls_exec_stats stats;
    own.sums = v->pieces.ranges[piece];
    TRY(remember(v, piece));
    v->n_applied = piece + 1;
    TRY(ls_exec_apply(sync->s->exec, &own, &stats));
    if (piece == 0) v->stats = stats; /* the loss and the counts begin the block */
    v->stats.stop_wanted = stats.stop_wanted;
    v->stats.save_wanted = stats.save_wanted;
    return ls__server_tell_ahead(v->server, piece, &v->ahead[piece]);
}

enum ls_status ls__served_wait(struct sync *sync, const struct ls_exec_step *step, enum ls_server_event *event,
                               struct ls_server_push *push)
{
    struct served *v = sync->state;
    struct ls_server_piece piece = {0};
    struct ls_begun begun = ls__span_begin(sync->s->lane, LS_SPAN_COMMUNICATE, "workers", step->step);
    tell_pauses(sync);
    enum ls_status status = ls__server_wait(v->server, event, push, &piece);
    ls__span_end(sync->s->lane, begun);
    TRY(status);
    if (*event != LS_SERVER_PUSH && *event != LS_SERVER_PIECE) return LS_OK;
    begun = ls__span_begin(sync->s->lane, LS_SPAN_UPDATE, "add sums", step->step);
    status = *event == LS_SERVER_PUSH ? add_push(sync, push) : add_piece(sync, &piece);
    ls__span_end(sync->s->lane, begun);
    const int number = piece.piece;
    ls__server_piece_release(&piece);
    if (status != LS_OK || *event == LS_SERVER_PUSH) return status;
    begun = ls__span_begin(sync->s->lane, LS_SPAN_UPDATE, "piece", step->step);
    status = apply_piece(sync, step, number);
    ls__span_end(sync->s->lane, begun);
    return status;
}

enum ls_status ls__served_give_up(struct sync *sync, enum ls_status status)
{
    struct served *v = sync->state;
    const struct ls_kept why = ls__keep(status);
    ls__server_abandon(v->server);
    v->is_begun = false;
    TRY(undo(v));
    TRY(ls_exec_zero_sums(sync->s->exec));
    return ls__fail_again(&why);
}
