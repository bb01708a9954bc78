/* serve.c: a step with parameter servers, as src/elastic does it.
 *
 * P workers of T threads, k servers on machines of their own; m bytes of packed sums, n sums, bandwidth B, latency a.
 *
 *     ps     a worker pushes the sums of all its shards once, when it has done them, and gets the new parameters once:
 *            shards | pack | a + max(1, P/k) m/B | add, update | a + max(1, P/k) 4n/B
 *            A server adds a push while the next one comes in; its threads share adding and updating. With several
 *            servers a worker asks each for its part of the parameters, and each has its part of the sums before the
 *            first one hears of them: two turns more, of 2a.
 *            With one server large networks travel in N pieces, each updated and sent on while the next one comes: then
 *            of pack, link in, add and update, copy, link out the longest counts whole, and 1/N of the others.
 *     async  a worker computes whole batches alone and waits for its own push and its own parameters only. With at most
 *            u of them under way an update comes every cycle/u, if the servers and their links keep up.
 *
 * With ps the workers of a machine are one process with the threads of all, where there are several machines: P are the
 * machines then.
 *
 * On one machine they share memory: sums and parameters are copied, nothing is packed. Where machines are made on one
 * computer, all that packs, adds and updates at the same time has no more threads than that has cores.
 *
 * Of several machines the servers may be on the first ones, with c workers beside the first that share memory with it:
 * then of a push what goes to a server on the same machine takes no link, and a server's link carries the others',
 * (P-c)/k m.
 */
#include "predict/serve.h"

struct serve {
    const struct ls_predict_profile *p;
    const struct ls_predict_cluster *c;
    double n, bytes, update, join; /* of all buckets */
    double n_machines, per_machine, k;
    double workers, threads;        /* processes that push, and threads of each */
    double beside;                  /* of them, those on the first server's machine; 0: servers have machines alone */
    double copy;                    /* seconds: of a worker's push into shared memory */
    double pack, add_one, publish;  /* seconds: of a worker's push, of one push at a server, of new parameters */
    double link_up, link_down, lag; /* seconds of one worker's sums and parameters alone on a link; latency */
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Of so many threads at work, those that have a core. */
static double at_work(const struct ls_predict_cluster *c, double threads)
{
    return c->shared_cores > 0 && c->shared_cores < threads ? c->shared_cores : threads;
}

/* joins: the workers of a machine are one. */
static struct serve look_at(const struct ls_predict_profile *p, const struct ls_predict_cluster *c, bool joins)
{
    const int per_machine = c->workers < c->workers_per_machine ? c->workers : c->workers_per_machine;
    struct serve s = {.p = p,
                      .c = c,
                      .n_machines = (double)divide_up(c->workers, per_machine),
                      .per_machine = per_machine,
                      .k = c->servers > 0 ? c->servers : 1,
                      .workers = c->workers,
                      .threads = c->threads,
                      .beside = c->beside};
    if (joins && s.n_machines > 1) {
        s.threads *= s.workers / s.n_machines;
        s.workers = s.n_machines;
        s.per_machine = 1;
    }
    for (int i = 0; i < p->n_buckets; i++) {
        s.n += (double)p->buckets[i].n;
        s.bytes += p->buckets[i].bytes;
        s.update += p->buckets[i].update_seconds;
        s.join += p->buckets[i].join_seconds;
    }
    const bool is_near = s.n_machines == 1;
    const double on_server = at_work(c, c->threads * (is_near ? per_machine : s.k)); /* idle meanwhile */
    const double on_worker = at_work(c, s.threads * s.workers) / s.workers;          /* all at once */
    s.copy = s.n * p->copy_seconds / on_worker;
    s.pack = is_near ? s.copy : s.n * p->pack_seconds / on_worker;
    s.add_one = s.n * (is_near ? p->copy_seconds : p->unpack_seconds) / on_server;
    s.publish = s.n * p->copy_seconds / 2 / on_server + s.n * p->copy_seconds / 2 / on_worker; /* out, and in again */
    s.update /= on_server;
    s.link_up = is_near ? 0 : s.bytes / c->network->bandwidth;
    s.link_down = is_near ? 0 : 4 * s.n / c->network->bandwidth;
    s.lag = is_near ? 0 : c->network->latency;
    return s;
}

static struct ls_predict_point point_of(const struct serve *s, double step, double compute, double communicate)
{
    struct ls_predict_point r = {.workers = s->c->workers,
                                 .machines = (int)s->n_machines,
                                 .step_seconds = step,
                                 .images_per_second = (double)s->p->batch_size / step,
                                 .compute = compute,
                                 .communicate = communicate};
    r.wait = step - compute - communicate;
    if (r.wait < 0) r.wait = 0; /* rounding */
    return r;
}

/* How many workers' sums the busiest link carries: a server's, or that of a machine of workers. */
static double busiest_link(const struct serve *s)
{
    const bool is_everywhere = s->beside > 0 && s->k >= s->n_machines; /* every machine has a server, and its part */
    const double leaving = is_everywhere ? s->per_machine * (s->k - 1) / s->k : s->per_machine;
    return later(leaving, (s->workers - s->beside) / s->k);
}

/* From the end of the last shard until the new parameters are with the workers, without the latencies. */
static double in_pieces(const struct serve *s, double up, double down)
{
    const double added = s->workers * s->add_one + s->update, all = s->pack + up + added + s->publish + down;
    double longest = later(up, down);
    if (s->c->shared_cores > 0) /* they take turns */
        longest = later(longest, s->pack + added + s->publish);
    else
        longest = later(later(longest, s->pack), added + s->publish);
    return longest + (all - longest) / s->c->pieces;
}

struct ls_predict_point ls__serve_ps(const struct ls_predict_profile *p, const struct ls_predict_cluster *c)
{
    const struct serve s = look_at(p, c, true);
    const double workers = s.workers, all = workers * s.threads, n_shards = (double)p->shards;
    const int64_t waves = divide_up(p->shards, (int64_t)c->workers * c->threads);
    const double share = (double)divide_up(p->shards, (int64_t)workers) / n_shards;
    const double computed = p->pre_seconds / s.threads + (double)waves * p->shard_seconds + s.join * share / s.threads;
    const double most = busiest_link(&s), up = most * s.link_up, down = most * s.link_down;
    const double turns = s.k > 1 ? 2 * 2 * s.lag : 0;
    const bool is_cut = c->pieces > 1 && s.k == 1 && s.n_machines > 1;
    const double come = s.pack + s.lag + turns + later(up, (workers - 1) * s.add_one) + s.add_one,
                 go = s.publish + down + s.lag;
    const double talk = is_cut ? 2 * s.lag + in_pieces(&s, up, down) - s.update : come + go;
    const double compute = (p->pre_seconds * workers + p->shard_seconds * n_shards + s.join) / all;
    const double step = computed + talk + s.update + p->overhead_seconds;
    struct ls_predict_point r = point_of(&s, step, compute, s.n_machines > 1 ? talk : 0);
    r.wire_seconds = is_cut ? later(up, down) : up + down;
    r.wire_bytes = s.n_machines > 1 ? s.per_machine * s.bytes : 0;
    r.busy_threads = (int)(all < n_shards ? all : n_shards);
    return r;
}

struct ls_predict_point ls__serve_async(const struct ls_predict_profile *p, const struct ls_predict_cluster *c)
{
    const struct serve s = look_at(p, c, false);
    const double most = c->staleness >= 0 && c->staleness + 1 < c->workers ? c->staleness + 1 : c->workers;
    const int64_t waves = divide_up(p->shards, c->threads);
    const double batch = p->pre_seconds / s.threads + (double)waves * p->shard_seconds + s.join / s.threads;
    const double talk = s.pack + s.link_up + s.link_down + 2 * s.lag, served = s.add_one + s.update + s.publish;
    const double here = batch + s.copy + served + p->overhead_seconds; /* without a link */
    const double there = batch + talk + served + p->overhead_seconds, far = s.workers - s.beside;
    const double cycle = s.workers / (s.beside / here + far / there); /* of their mean speed */
    const double links =
        later(s.link_up, s.link_down) * later(far / s.workers / s.k, far > 0 ? s.per_machine / s.workers : 0);
    double step = later(cycle / most, later(served, links));
    if (c->staleness >= 0 && far > 0) step = later(step, there / (c->staleness + 1)); /* the near wait for the far */
    const double compute = (p->pre_seconds + p->shard_seconds * (double)p->shards + s.join) / (c->workers * s.threads);
    struct ls_predict_point r =
        point_of(&s, step, compute, s.n_machines > 1 ? (step - compute) * talk / (there - batch + talk) : 0);
    r.wire_seconds = s.link_up + s.link_down;
    r.wire_bytes = s.n_machines > 1 ? s.per_machine / c->workers * s.bytes : 0;
    r.busy_threads = (int)(most * (double)(c->threads < p->shards ? c->threads : p->shards));
    r.staleness = most - 1;
    return r;
}
