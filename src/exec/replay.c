/* replay.c: launches that repeat step after step, recorded once and replayed with one call, where the backend can
 * (ls_backend.recording): a launch costs the host more time than a small kernel costs the device.
 *
 * A recording is found by what its launches depend on besides addresses, which never change, and what
 * ls_device_recording.now tells: the plan, the phase, the place of the shard in its batch. The first time all is
 * launched plainly (libraries load code then), the second time it is recorded. Where recording fails, everything is
 * launched every time.
 */
#include "exec/exec_internal.h"

bool ls__exec_can_record(const struct ls_exec *e)
{
    return e->backend->recording && !e->replays.is_refused && e->n_threads == 1 && !e->compress.bits &&
           !ls__lane_wants_ops(e->workers[0].lane);
}

static bool is_same(const struct record_key *a, const struct record_key *b)
{
    return a->plan == b->plan && a->phase == b->phase && a->first == b->first && a->n == b->n &&
           a->batch_n == b->batch_n && a->seed == b->seed && a->is_early == b->is_early;
}

static struct recorded *find(struct ls_exec *e, const struct record_key *key)
{
    struct replays *r = &e->replays;
    for (int i = 0; i < r->n; i++)
        if (is_same(&r->list[i].key, key)) return &r->list[i];
    if (r->n == MAX_RECORDED) return NULL;
    r->list[r->n] = (struct recorded){.key = *key};
    return &r->list[r->n++];
}

void ls__exec_forget_recordings(struct ls_exec *e)
{
    for (int i = 0; i < e->replays.n; i++)
        if (e->replays.list[i].recording) e->backend->recording->free(e->device, e->replays.list[i].recording);
    e->replays.n = 0;
}

static enum ls_status record(struct ls_exec *e, struct recorded *r, launch_fn *fn, void *arg)
{
    const struct ls_device_recording *device = e->backend->recording;
    TRY(device->begin(e->device));
    const enum ls_status status = fn(arg);
    const enum ls_status ended = device->end(e->device, &r->recording);
    return status != LS_OK ? status : ended;
}

enum ls_status ls__exec_launch(struct ls_exec *e, const struct record_key *key, launch_fn *fn, void *arg,
                               bool *is_replayed)
{
    struct recorded *r = ls__exec_can_record(e) ? find(e, key) : NULL;
    *is_replayed = false;
    if (!r || !r->is_known) {
        if (r) r->is_known = true;
        return fn(arg);
    }
    if (!r->recording && record(e, r, fn, arg) != LS_OK) {
        e->replays.is_refused = true;
        return fn(arg);
    }
    *is_replayed = true;
    return e->backend->recording->replay(e->device, r->recording);
}

enum ls_status ls__exec_now(struct ls_exec *e, const struct ls_step_ctx *ctx)
{
    return e->backend->recording ? e->backend->recording->now(e->device, ctx) : LS_OK;
}
