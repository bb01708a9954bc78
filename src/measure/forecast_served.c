/* forecast_served.c: the forecast of a parameter server, from what its workers have told. */
#include "base/mem.h"
#include "measure/forecast.h"
#include "session/rehearse.h"

static enum ls_status rehearse(struct session *s, const struct ls_exec_step *step, struct ls_exec_rehearsal *r)
{
    const double enough = 0.2; /* seconds */
    TRY(ls_exec_rehearse(s->exec, step, r));
    TRY(ls_exec_profile(s->exec, true));
    return ls__rehearse(s, step, ls__rehearse_count(r, enough), r);
}

/* Times on the clock of a worker's threads, as this machine's would take. */
static struct ls_exec_rehearsal as_here(const struct forecast_served *v, int threads)
{
    const double scale = (double)v->threads / threads;
    struct ls_exec_rehearsal r = v->together;
    r.pre_seconds *= scale;
    r.join_seconds *= scale;
    return r;
}

static enum ls_status foretell(struct forecast *f, const struct session *s, const struct forecast_served *v,
                               const struct ls_exec_rehearsal *alone)
{
    const struct ls_predict_network network = {.latency = v->latency, .bandwidth = v->bandwidth};
    const struct ls_predict_cluster c = {.workers = v->n_workers,
                                         .workers_per_machine = v->n_beside == v->n_workers ? v->n_workers : 1,
                                         .beside = v->n_beside,
                                         .threads = v->threads,
                                         .servers = v->n_servers,
                                         .pieces = v->n_pieces,
                                         .staleness = v->staleness,
                                         .shared_cores = v->shared_cores,
                                         .network = &network};
    const struct ls_exec_rehearsal together = as_here(v, s->threads);
    const double pushed = (double)s->shards / (v->is_async ? 1 : v->n_workers);
    const struct forecast_basis basis = {.alone = alone,
                                         .together = &together,
                                         .threads = s->threads,
                                         .times = pushed / alone->n_run,
                                         .shard_seconds = v->together.shard_seconds,
                                         .cluster = &c,
                                         .algorithm = v->is_async ? LS_PREDICT_ASYNC : LS_PREDICT_PS};
    return ls__forecast_foretell(f, s, &basis);
}

enum ls_status ls__forecast_make_served(struct forecast *f, struct session *s, uint64_t seed,
                                        const struct forecast_served *v)
{
    struct ls_loader *loader;
    struct ls_batch batch;
    struct ls_exec_rehearsal alone = {0};
    *f = (struct forecast){.n_machines = v->n_workers, .n_servers = v->n_servers};
    f->network.latency = v->latency;
    f->network.bandwidth = v->bandwidth;
    if (v->n_workers == 0 || v->together.shard_seconds <= 0) return LS_OK;
    const struct ls_loader_options lo = {
        .batch_size = (int)s->batch_size, .seed = seed, .shuffle = true, .n_threads = 1, .kept = s->train_kept};
    TRY(ls_loader_create(&loader, s->train, &lo));
    enum ls_status status = ls_loader_next(loader, &batch);
    const struct ls_exec_step step = {
        .batch = &batch, .transform = &s->transform, .shard_size = s->shard_size, .seed = seed};
    if (status == LS_OK) status = rehearse(s, &step, &alone);
    if (status == LS_OK && alone.n_run > 0 && foretell(f, s, v, &alone) != LS_OK) f->is_made = false;
    ls_loader_destroy(&loader);
    TRY(ls_exec_end_rehearsal(s->exec));
    TRY(ls_exec_profile(s->exec, false));
    return status;
}
