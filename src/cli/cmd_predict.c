/* cmd_predict.c: `lockstep predict`: measure a step here, and tell how long it would take on more workers. */
#include "base/log.h"
#include "base/pool.h"
#include "cli/cmd.h"
#include "cli/machine.h"
#include "comm/comm.h"
#include "draw/draw.h"
#include "elastic/split.h"
#include "measure/forecast.h"
#include "predict/predict.h"
#include "settings/sync_names.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NETWORKS = 8 };

/* Sweeps over one network. */
struct on_network {
    struct ls_predict_network network;
    struct ls_predict_cluster cluster;
    struct ls_predict_series by[LS_N_PREDICT];
    char verdict[512];
};

struct prediction {
    struct ls_predict_profile profile;
    int threads_measured;
    struct on_network nets[MAX_NETWORKS];
    int n_nets;
    enum ls_predict_algorithm own; /* what --sync names: told in full */
    int staleness;                 /* of ssp:K; -1 */
    int period;                    /* of local:H; 0 */
    const char *sync;
};

/* Of a worker. */
static int64_t threads_of(const struct ls_options *o)
{
    int64_t share = ls__cpu_count() / o->procs_per_node;
    return o->train.threads > 0 ? o->train.threads : share > 0 ? share : 1;
}

/* --- which networks --- */

/* Latency and bandwidth between the machines of the job this process is part of. *is_first: it is to tell the result.
 */
static enum ls_status probe(double timeout, int n_threads, struct ls_predict_network *net, bool *is_first)
{
    struct ls_comm *comm;
    struct ls_comm_network found = {0};
    const struct ls_comm_options co = {.timeout = timeout};
    TRY(ls_comm_open(&comm, &co));
    const struct ls_comm_place *at = ls_comm_place(comm);
    *is_first = at->rank == 0;
    enum ls_status status = LS_OK;
    if (at->n_machines == 1)
        status = ls_fail(LS_USAGE, "--probe measures between machines: name them, as --hosts a,b, or give --network, "
                                   "or --latency and --bandwidth");
    else
        status = ls_comm_probe(comm, 2, n_threads, &found);
    *net = (struct ls_predict_network){.latency = found.latency,
                                       .bandwidth = found.bandwidth,
                                       .busy_bandwidth = found.busy_bandwidth,
                                       .cpu = found.cpu};
    snprintf(net->name, sizeof net->name, "this network");
    status = ls_comm_end(comm, status);
    if (status != LS_OK && !ls_comm_may_tell(comm)) ls__log_set_level(LS_LOG_NOTHING); /* one rank says why */
    ls_comm_close(&comm);
    return status;
}

static enum ls_status given_network(const struct ls_options *o, struct ls_predict_network *net)
{
    const struct ls_predict_network *preset = ls_predict_preset(o->network ? o->network : "1GbE");
    struct ls_cable_shape shape;
    *net = preset ? *preset : *ls_predict_preset("1GbE");
    if (!preset && ls__option_network(o->network, &shape)) {
        if (shape.bits_per_second <= 0 || shape.loss > 0)
            return ls_fail(LS_USAGE, "--network %s: predict wants a rate, and knows no loss: as 1gbit,0.1ms",
                           o->network);
        snprintf(net->name, sizeof net->name, "%.60s", o->network);
        net->latency = shape.delay;
        net->bandwidth = shape.bits_per_second / 8 * LS_LINE_TO_DATA;
    }
    if (o->bandwidth) snprintf(net->name, sizeof net->name, "%.60s", o->bandwidth);
    if (o->latency && !ls_predict_parse_latency(o->latency, &net->latency))
        return ls_fail(LS_USAGE, "--latency %s: expected a time such as 0.1ms or 50us", o->latency);
    if (o->bandwidth && !ls_predict_parse_bandwidth(o->bandwidth, &net->bandwidth))
        return ls_fail(LS_USAGE, "--bandwidth %s: expected a rate such as 1Gbit or 117MB", o->bandwidth);
    return LS_OK;
}

/* *is_told: this process tells the result. */
static enum ls_status find_networks(const struct ls_options *o, struct prediction *p, bool *is_told)
{
    bool is_given = o->network || o->latency || o->bandwidth;
    *is_told = true;
    p->n_nets = 1;
    if (o->latency && !o->bandwidth && !o->network)
        return ls_fail(LS_USAGE, "--latency needs --bandwidth (as 1Gbit) or --network beside it");
    if (o->probe)
        return probe(o->train.timeout, (int)(threads_of(o) * o->procs_per_node), &p->nets[0].network, is_told);
    if (is_given) return given_network(o, &p->nets[0].network);
    const struct ls_predict_network *presets = ls_predict_presets(&p->n_nets);
    for (int i = 0; i < p->n_nets; i++) p->nets[i].network = presets[i];
    return LS_OK;
}

/* --- which way --- */

static enum ls_status choose_way(const struct ls_options *o, struct prediction *p)
{
    struct ls_sync_choice sync = {0};
    p->sync = o->train.sync ? o->train.sync : "allreduce";
    p->staleness = -1;
    if (!ls__sync_parse(p->sync, &sync)) return ls_fail(LS_USAGE, "--sync %s: expected " LS_SYNC_EXPECTED, p->sync);
    const bool is_ps = strcmp(sync.name->name, "ps") == 0;
    p->own = is_ps ? LS_PREDICT_PS : sync.name->is_served ? LS_PREDICT_ASYNC : LS_PREDICT_HIERARCHICAL;
    if (sync.name->is_by_shard) {
        TRY(ls__sync_check(p->sync, o->train.compress));
        p->own = LS_PREDICT_LOCAL;
        p->period = (int)sync.number;
    }
    if (sync.name->is_served && sync.name->has_number) p->staleness = (int)sync.number;
    return LS_OK;
}

/* Local SGD is another one for every H: it is told of when it is asked for. */
static int n_ways(const struct prediction *p)
{
    return p->own == LS_PREDICT_LOCAL ? LS_N_PREDICT : LS_PREDICT_LOCAL;
}

/* --- for people --- */

static const char *full_name(const struct prediction *p)
{
    if (p->own == LS_PREDICT_LOCAL) return "local: copies that are averaged every H steps";
    if (p->own == LS_PREDICT_PS) return "ps: a parameter server";
    if (p->own == LS_PREDICT_ASYNC)
        return p->staleness < 0 ? "async: a step is one update" : "ssp: a step is one update";
    return "allreduce: shared memory in a machine, sums between";
}

/* Of algorithms that are as good the one that is asked for; async is another training. */
static enum ls_predict_algorithm best_at(const struct on_network *net, int i)
{
    enum ls_predict_algorithm best = LS_PREDICT_HIERARCHICAL;
    for (int a = 0; a < LS_PREDICT_ASYNC; a++)
        if (net->by[a].points[i].step_seconds < 0.99 * net->by[best].points[i].step_seconds)
            best = (enum ls_predict_algorithm)a;
    return best;
}

static void print_head(const struct prediction *p)
{
    char count[LS_TEXT_BYTES], bytes[LS_TEXT_BYTES];
    const struct ls_predict_profile *f = &p->profile;
    const struct ls_predict_cluster *c = &p->nets[0].cluster;
    const struct ls_predict_point *one = &p->nets[0].by[p->own].points[0];
    double all = ls_predict_bytes(f);
    printf("%s, global batch %" PRId64 " in %" PRId64 " shards; a worker has %d thread%s, a machine %d worker%s\n",
           f->model, f->batch_size, f->shards, c->threads, c->threads == 1 ? "" : "s", c->workers_per_machine,
           c->workers_per_machine == 1 ? "" : "s");
    printf("  measured   %.2f ms per shard and thread, with %d thread%s; %.2f ms per step of one worker\n",
           1e3 * f->shard_seconds, p->threads_measured, p->threads_measured == 1 ? "" : "s", 1e3 * one->step_seconds);
    printf("  sums       %s parameters, %s per step packed (%.2f bytes each)\n",
           ls__count_text((double)f->n_parameters, count), ls__bytes_text(all, bytes), all / (double)f->n_parameters);
}

static void print_network(const struct prediction *p, const struct on_network *net)
{
    printf("  network    %s: %.4g ms one way, %.4g MB/s\n\n", net->network.name, 1e3 * net->network.latency,
           1e-6 * net->network.bandwidth);
    printf("                    ---- %-51.51s ---   --- speed-up of ---\n", full_name(p));
    printf(
        "  workers machines    step ms  images/s speed-up  compute   comm.   wait   idle  reduce   ring   tree     ps  "
        "async  best\n");
    for (int i = 0; i < LS_PREDICT_POINTS; i++) {
        const struct ls_predict_point *r = &net->by[p->own].points[i];
        int threads = r->workers * net->cluster.threads;
        printf("  %7d %8d %10.2f %9.1f %8.2f   %4.0f %%  %4.0f %% %4.0f %%  %5d  %6.2f %6.2f %6.2f %6.2f %6.2f  %s\n",
               r->workers, r->machines, 1e3 * r->step_seconds, r->images_per_second, r->speedup,
               100 * r->compute / r->step_seconds, 100 * r->communicate / r->step_seconds,
               100 * r->wait / r->step_seconds, threads - r->busy_threads,
               net->by[LS_PREDICT_HIERARCHICAL].points[i].speedup, net->by[LS_PREDICT_RING].points[i].speedup,
               net->by[LS_PREDICT_TREE].points[i].speedup, net->by[LS_PREDICT_PS].points[i].speedup,
               net->by[LS_PREDICT_ASYNC].points[i].speedup, i ? ls_predict_name(best_at(net, i)) : "");
    }
    printf("\n%s\n", net->verdict);
}

/* No network was named: one column for each common one. */
static void print_overview(const struct prediction *p)
{
    printf("\nSpeed-up over one worker (%s)\n  workers", full_name(p));
    for (int k = 0; k < p->n_nets; k++) printf(" %9s", p->nets[k].network.name);
    printf("  idle threads\n");
    for (int i = 0; i < LS_PREDICT_POINTS; i++) {
        printf("  %7d", p->nets[0].by[p->own].points[i].workers);
        for (int k = 0; k < p->n_nets; k++) printf(" %9.2f", p->nets[k].by[p->own].points[i].speedup);
        const struct ls_predict_point *r = &p->nets[0].by[p->own].points[i];
        printf("  %12d\n", r->workers * p->nets[0].cluster.threads - r->busy_threads);
    }
    printf("\n");
    for (int k = 0; k < p->n_nets; k++) printf("%s\n", p->nets[k].verdict);
}

/* --- for programs --- */

static json_t *point_json(const struct ls_predict_point *r)
{
    return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o}", "workers", r->workers, "machines",
                     r->machines, "step_ms", ls__json_number(1e3 * r->step_seconds), "images_per_second",
                     ls__json_number(r->images_per_second), "speedup", ls__json_number(r->speedup), "compute_ms",
                     ls__json_number(1e3 * r->compute), "communicate_ms", ls__json_number(1e3 * r->communicate),
                     "wait_ms", ls__json_number(1e3 * r->wait), "wire_ms", ls__json_number(1e3 * r->wire_seconds),
                     "wire_bytes", ls__json_number(r->wire_bytes), "busy_threads", r->busy_threads, "staleness",
                     ls__json_number(r->staleness));
}

static json_t *series_json(const struct on_network *net, int n)
{
    json_t *all = json_array();
    for (int a = 0; all && a < n; a++) {
        json_t *points = json_array();
        for (int i = 0; points && i < LS_PREDICT_POINTS; i++)
            json_array_append_new(points, point_json(&net->by[a].points[i]));
        json_array_append_new(all,
                              json_pack("{s:s, s:i, s:o}", "algorithm", ls_predict_name((enum ls_predict_algorithm)a),
                                        "best_workers", net->by[a].points[net->by[a].best].workers, "points", points));
    }
    return all;
}

static json_t *networks_json(const struct prediction *p)
{
    json_t *all = json_array();
    for (int k = 0; all && k < p->n_nets; k++) {
        const struct on_network *net = &p->nets[k];
        json_array_append_new(all, json_pack("{s:o, s:o, s:o, s:o, s:o, s:s}", "name", ls__json_text(net->network.name),
                                             "cpu", ls__json_number(net->network.cpu), "latency_seconds",
                                             ls__json_number(net->network.latency), "bytes_per_second",
                                             ls__json_number(net->network.bandwidth), "algorithms",
                                             series_json(net, n_ways(p)), "verdict", net->verdict));
    }
    return all;
}

static json_t *profile_json(const struct prediction *p)
{
    const struct ls_predict_profile *f = &p->profile;
    double join = 0, update = 0;
    for (int i = 0; i < f->n_buckets; i++) {
        join += f->buckets[i].join_seconds;
        update += f->buckets[i].update_seconds;
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:i, s:i}", "shard_ms",
                     ls__json_number(1e3 * f->shard_seconds), "pre_ms", ls__json_number(1e3 * f->pre_seconds),
                     "join_ms", ls__json_number(1e3 * join), "update_ms", ls__json_number(1e3 * update), "overhead_ms",
                     ls__json_number(1e3 * f->overhead_seconds), "pack_ns", ls__json_number(1e9 * f->pack_seconds),
                     "unpack_ns", ls__json_number(1e9 * f->unpack_seconds), "copy_ns",
                     ls__json_number(1e9 * f->copy_seconds), "bytes", ls__json_number(ls_predict_bytes(f)), "averaged",
                     (json_int_t)f->n_averaged, "averaged_bytes", ls__json_number(f->averaged_bytes), "average_ns",
                     ls__json_number(1e9 * f->average_seconds), "spread_ns", ls__json_number(1e9 * f->spread_seconds),
                     "buckets", f->n_buckets, "threads_measured", p->threads_measured);
}

static enum ls_status print_json(const struct prediction *p)
{
    const struct ls_predict_profile *f = &p->profile;
    const struct ls_predict_cluster *c = &p->nets[0].cluster;
    return ls__print_json(json_pack("{s:o, s:s, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:o, s:o}", "model",
                                    ls__json_text(f->model), "sync", p->sync, "parameters", (json_int_t)f->n_parameters,
                                    "batch_size", (json_int_t)f->batch_size, "shards", (json_int_t)f->shards, "threads",
                                    c->threads, "workers_per_machine", c->workers_per_machine, "cores", c->cores,
                                    "servers", c->servers, "profile", profile_json(p), "networks", networks_json(p)));
}

/* --- the picture --- */

static enum ls_status write_plot(const struct prediction *p, const char *path)
{
    struct ls_predict_series lines[MAX_NETWORKS];
    char title[256];
    int n = p->n_nets > 1 ? p->n_nets : n_ways(p);
    snprintf(title, sizeof title, "%.100s, global batch %" PRId64 ", %s %.60s", p->profile.model, p->profile.batch_size,
             p->n_nets > 1 ? "over common networks" : "over", p->n_nets > 1 ? "" : p->nets[0].network.name);
    for (int k = 0; k < n; k++) {
        bool is_one = p->n_nets == 1;
        lines[k] = is_one ? p->nets[0].by[k] : p->nets[k].by[p->own];
        snprintf(lines[k].label, sizeof lines[k].label, "%.60s",
                 is_one ? ls_predict_name((enum ls_predict_algorithm)k) : p->nets[k].network.name);
    }
    if (p->n_nets == 1) { /* drawn last and named first: what was asked for */
        struct ls_predict_series first = lines[0];
        lines[0] = lines[p->own];
        lines[p->own] = first;
    }
    return ls_predict_draw(title, lines, n, path);
}

/* --- the command --- */

static enum ls_status check(const struct ls_options *o)
{
    if (o->output) TRY(ls_draw_can_write(o->output));
    if (o->train.compress != 0 && o->train.compress != 8 && o->train.compress != 16)
        return ls_fail(LS_USAGE, "--compress %" PRId64 ": expected 8, 16 or 0", o->train.compress);
    if (o->args[1] && strncmp(o->args[1], "fake:", 5) != 0)
        return ls_fail(LS_USAGE, "predict measures on random images: %s: expected fake:CxHxW:CLASSES:N", o->args[1]);
    return LS_OK;
}

static int64_t count_sums(const struct ls_predict_profile *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_buckets; i++) n += p->buckets[i].n;
    return n;
}

/* All threads of a machine compute while a shard is measured: they share caches and memory. */
static enum ls_status measure(const struct ls_options *o, struct prediction *p, struct ls_predict_cluster *c)
{
    int64_t per_machine = o->procs_per_node, cores = ls__cpu_count(), threads = threads_of(o);
    struct ls_bench_options bench = ls__bench_options_of(o);
    bench.threads = threads * per_machine < cores ? threads * per_machine : cores;
    bench.seconds = o->seconds;
    bench.compress = o->train.compress;
    double busy_cores = ls__machine_busy_cores();
    TRY(ls_predict_measure(&bench, &p->profile, &p->threads_measured));
    ls__machine_warn_busy(busy_cores);
    *c = (struct ls_predict_cluster){.workers_per_machine = (int)per_machine,
                                     .threads = (int)threads,
                                     .cores = (int)(cores > threads * per_machine ? cores : threads * per_machine),
                                     .servers = (int)o->train.servers,
                                     .pieces = ls__split_count(&o->train, count_sums(&p->profile)),
                                     .staleness = p->staleness,
                                     .period = p->period};
    return LS_OK;
}

static void sweep(struct prediction *p, const struct ls_predict_cluster *c)
{
    for (int k = 0; k < p->n_nets; k++) {
        struct on_network *net = &p->nets[k];
        net->cluster = *c;
        net->cluster.network = &net->network;
        for (int a = 0; a < n_ways(p); a++)
            ls_predict_sweep(&p->profile, &net->cluster, (enum ls_predict_algorithm)a, &net->by[a]);
        ls_predict_verdict(&p->profile, &net->cluster, &net->by[p->own], net->verdict, sizeof net->verdict);
    }
}

static enum ls_status tell(const struct ls_options *o, struct prediction *p)
{
    struct ls_predict_cluster c;
    TRY(measure(o, p, &c));
    sweep(p, &c);
    if (o->output) TRY(write_plot(p, o->output));
    if (o->train.json) return print_json(p);
    print_head(p);
    if (p->n_nets == 1)
        print_network(p, &p->nets[0]);
    else
        print_overview(p);
    return LS_OK;
}

enum ls_status ls__cmd_predict(const struct ls_options *o)
{
    bool is_told;
    TRY(check(o));
    struct prediction *p = calloc(1, sizeof *p);
    if (!p) return ls_fail(LS_NOMEM, "out of memory while predicting");
    enum ls_status status = choose_way(o, p);
    if (status == LS_OK) status = find_networks(o, p, &is_told);
    if (status == LS_OK && is_told) status = tell(o, p);
    ls_predict_profile_release(&p->profile);
    free(p);
    return status;
}
