/* test_predict.c: laws of predictions, units of networks, the picture and the sentence. */
#include "base/file.h"
#include "predict/predict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Buckets like a network's: small ones early in backward, a large one made after the shards. */
static struct ls_predict_bucket buckets[] = {
    {.n = 16, .bytes = 60, .ready_seconds = 0.004},
    {.n = 200000, .bytes = 900000, .ready_seconds = 0.005, .update_seconds = 0.0004},
    {.n = 70000, .bytes = 320000, .ready_seconds = 0.009, .update_seconds = 0.0002},
    {.n = 3000000, .bytes = 14000000, .join_seconds = 0.006, .update_seconds = 0.006},
};
static const struct ls_predict_profile usual = {.model = "made-up",
                                                .n_parameters = 3270000,
                                                .batch_size = 128,
                                                .shards = 8,
                                                .shard_seconds = 0.010,
                                                .pre_seconds = 0.001,
                                                .overhead_seconds = 0.0002,
                                                .pack_seconds = 1e-9,
                                                .unpack_seconds = 1.5e-9,
                                                .buckets = buckets,
                                                .n_buckets = 4};
static const struct ls_predict_network gigabit = {"1 Gbit/s", 1e-4, 117e6, 0, 0},
                                       perfect = {"perfect", 0, INFINITY, 0, 0};

static struct ls_predict_cluster cluster(int workers, int per_machine, int threads,
                                         const struct ls_predict_network *net)
{
    return (struct ls_predict_cluster){.workers = workers,
                                       .workers_per_machine = per_machine,
                                       .threads = threads,
                                       .cores = threads * per_machine + 1,
                                       .servers = 2,
                                       .staleness = -1,
                                       .network = net};
}

static void expect_near(const char *what, double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-9 * fabs(expected) + 1e-15))
        fail_msg("%s: got %.12g, expected %.12g", what, got, expected);
}

static void expect_at_most(const char *what, double got, double most)
{
    if (!(got <= most * (1 + 1e-12))) fail_msg("%s: got %.12g, at most %.12g", what, got, most);
}

/* Every combination the laws are asked of; async, whose step is another thing, has its own. */
#define FOR_ALL(W, PER_MACHINE, THREADS, A)                                                                            \
    for (int W = 1; W <= 1024; W = W < 8 ? W + 1 : W * 2)                                                              \
        for (int PER_MACHINE = 1; PER_MACHINE <= 4; PER_MACHINE *= 2)                                                  \
            for (int THREADS = 1; THREADS <= 3; THREADS++)                                                             \
                for (int A = 0; A < LS_PREDICT_ASYNC; A++)

static void test_one_machine_is_silent(void **state)
{
    FOR_ALL(w, per_machine, threads, a)
    {
        struct ls_predict_cluster c = cluster(w, per_machine, threads, &gigabit);
        struct ls_predict_point r = ls_predict_step(&usual, &c, (enum ls_predict_algorithm)a);
        if (w > per_machine) {
            assert_true(r.wire_bytes > 0 && r.communicate > 0);
            continue;
        }
        assert_int_equal(r.machines, 1);
        expect_near("bytes on one machine", r.wire_bytes, 0);
        expect_near("exposed on one machine", r.communicate, 0);
    }
}

/* Only shards, a perfect network: exactly ceil(shards / threads) shards after each other. */
static void test_perfect_network_is_compute_bound(void **state)
{
    struct ls_predict_profile p = usual;
    struct ls_predict_bucket bare[] = {{.n = 1000000, .bytes = 5e6, .ready_seconds = 0.01}};
    p.pre_seconds = p.overhead_seconds = p.pack_seconds = p.unpack_seconds = 0;
    p.buckets = bare;
    p.n_buckets = 1;
    for (p.shards = 1; p.shards <= 40; p.shards += 3) FOR_ALL(w, per_machine, threads, a)
        {
            struct ls_predict_cluster c = cluster(w, per_machine, threads, &perfect);
            int64_t all = (int64_t)w * threads, waves = (p.shards + all - 1) / all;
            struct ls_predict_point r = ls_predict_step(&p, &c, (enum ls_predict_algorithm)a);
            expect_near("step of shards alone", r.step_seconds, (double)waves * p.shard_seconds);
        }
}

static void test_speedup_is_bounded(void **state)
{
    FOR_ALL(w, per_machine, threads, a)
    {
        struct ls_predict_cluster c = cluster(w, per_machine, threads, a % 2 ? &perfect : &gigabit);
        struct ls_predict_point r = ls_predict_step(&usual, &c, (enum ls_predict_algorithm)a);
        int helpers = w + (a == LS_PREDICT_PS && w > per_machine ? c.servers : 0);
        expect_at_most("speed-up", r.speedup, helpers);
        expect_near("parts of the step", r.compute + r.communicate + r.wait, r.step_seconds);
        expect_at_most("compute", r.compute, r.step_seconds);
        assert_int_equal(r.busy_threads, w * threads < 8 ? w * threads : 8);
    }
}

static void test_monotone_in_the_network(void **state)
{
    FOR_ALL(w, per_machine, threads, a)
    {
        double before = INFINITY;
        for (double bandwidth = 1e6; bandwidth < 1e12; bandwidth *= 3) {
            const struct ls_predict_network net = {.name = "", .latency = 5e-5, .bandwidth = bandwidth, .cpu = 0.4};
            struct ls_predict_cluster c = cluster(w, per_machine, threads, &net);
            c.cores = threads * per_machine; /* packing takes from computing */
            double step = ls_predict_step(&usual, &c, (enum ls_predict_algorithm)a).step_seconds;
            expect_at_most("more bandwidth", step, before);
            before = step;
        }
        for (double latency = 1e-2; latency > 1e-7; latency /= 5) {
            const struct ls_predict_network net = {.name = "", .latency = latency, .bandwidth = 1e12, .cpu = 0.4};
            struct ls_predict_cluster c = cluster(w, per_machine, threads, &net);
            double step = ls_predict_step(&usual, &c, (enum ls_predict_algorithm)a).step_seconds;
            if (latency < 1e-2) expect_at_most("less latency", step, before);
            before = step;
        }
    }
}

/* A network so slow that nothing else counts: 2(P-1)/P of the bytes, over the bandwidth. What Lockstep does is a ring
 * but for small buckets among many machines, which go a shorter way with more bytes. */
static void test_ring_volume(void **state)
{
    const struct ls_predict_network slow = {"slow", 0, 1e3, 0, 0};
    const enum ls_predict_algorithm all[] = {LS_PREDICT_RING, LS_PREDICT_HIERARCHICAL};
    double bytes = ls_predict_bytes(&usual);
    for (int p = 2; p <= 1024; p = p < 5 ? p + 1 : p * 2) {
        for (int i = 0; i < 2; i++) {
            struct ls_predict_cluster c = cluster(p, 1, 1, &slow);
            struct ls_predict_point r = ls_predict_step(&usual, &c, all[i]);
            double expected = 2.0 * (p - 1) / p * bytes, more = r.wire_bytes / expected - 1;
            if (more < -1e-3 || more > (i == 1 && p > 40 ? 0.1 : 1e-3)) /* parts are whole numbers of sums */
                fail_msg("%d machines: %.9g bytes, expected %.9g", p, r.wire_bytes, expected);
            if (fabs(r.communicate * slow.bandwidth / r.wire_bytes - 1) > 1e-3)
                fail_msg("%d machines: %.9g s for %.9g bytes", p, r.communicate, r.wire_bytes);
        }
    }
}

/* Latency alone: a ring pays 2(P-1) of them for the last chunk, a tree 2 log2(P), a server 2;
 * several servers 4 more. */
static void test_latency_counts_messages(void **state)
{
    const struct ls_predict_network far = {"far", 10, INFINITY, 0, 0};
    struct ls_predict_profile p = usual;
    struct ls_predict_bucket none[1] = {{0}};
    p.buckets = none;
    p.n_buckets = 0;
    p.pack_seconds = p.unpack_seconds = 0;
    struct ls_predict_cluster c = cluster(16, 1, 1, &far);
    expect_near("ring", ls_predict_step(&p, &c, LS_PREDICT_RING).communicate, 2 * 15 * 10);
    expect_near("tree", ls_predict_step(&p, &c, LS_PREDICT_TREE).communicate, 2 * 4 * 10);
    expect_near("servers", ls_predict_step(&p, &c, LS_PREDICT_PS).communicate, 6 * 10);
    c.servers = 1;
    expect_near("one server", ls_predict_step(&p, &c, LS_PREDICT_PS).communicate, 2 * 10);
    c.workers_per_machine = 4;
    expect_near("in pairs", ls_predict_step(&p, &c, LS_PREDICT_HIERARCHICAL).communicate, 2 * 10); /* log2(4) */
    p.n_buckets = 1; /* so many that they go round the ring */
    none[0] = (struct ls_predict_bucket){.n = 1 << 20, .bytes = 5 << 20};
    double ring = ls_predict_step(&p, &c, LS_PREDICT_HIERARCHICAL).communicate; /* four windows, then control words */
    assert_true(fabs(ring - (4 * 2 * 3 + 2) * 10) < 0.1);
}

/* k servers share what P workers send: the time on a slow network falls with k until the workers' own links fill. */
static void test_servers_share_the_load(void **state)
{
    const struct ls_predict_network slow = {"slow", 0, 1e4, 0, 0};
    double bytes = ls_predict_bytes(&usual), before = INFINITY;
    for (int k = 1; k <= 32; k *= 2) {
        struct ls_predict_cluster c = cluster(8, 1, 1, &slow);
        c.servers = k;
        double step = ls_predict_step(&usual, &c, LS_PREDICT_PS).communicate;
        double load = (k < 8 ? 8.0 / k : 1) * bytes / slow.bandwidth;
        expect_at_most("one more server", step, before);
        if (!(step > load && step < 2 * load))
            fail_msg("%d servers: %.6g s, expected between %.6g and twice that", k, step, load);
        before = step;
    }
}

/* One server's link carries everybody's sums in and everybody's parameters out, one behind the other; nothing of it is
 * hidden behind shards. On one machine the same is copied. */
static void test_one_server(void **state)
{
    struct ls_predict_profile p = usual;
    double bytes = ls_predict_bytes(&usual), n = 3270016;
    p.pack_seconds = p.unpack_seconds = 0;
    for (int w = 2; w <= 64; w *= 2) {
        struct ls_predict_cluster c = cluster(w, 1, 1, &gigabit);
        c.servers = 1;
        struct ls_predict_point r = ls_predict_step(&p, &c, LS_PREDICT_PS);
        expect_near("the link of one server", r.communicate, w * (bytes + 4 * n) / gigabit.bandwidth + 2 * 1e-4);
        assert_true(r.step_seconds > r.communicate + p.shard_seconds);
        c = cluster(2 * w, 2, 1, &gigabit); /* two workers of a machine push as one */
        c.servers = 1;
        const struct ls_predict_point joined = ls_predict_step(&p, &c, LS_PREDICT_PS);
        expect_near("the link of one server, two workers a machine", joined.communicate, r.communicate);
        expect_near("what leaves a machine", joined.wire_bytes, r.wire_bytes);
        assert_int_equal(joined.workers, 2 * w);
        assert_int_equal(joined.busy_threads, 2 * w < 8 ? 2 * w : 8);
    }
    struct ls_predict_cluster near = cluster(2, 2, 1, &gigabit);
    double free_of_charge = ls_predict_step(&p, &near, LS_PREDICT_PS).step_seconds;
    p.copy_seconds = 1e-9;
    struct ls_predict_point r = ls_predict_step(&p, &near, LS_PREDICT_PS);
    /* out of a worker; added twice and published by two idle cores; into a worker */
    expect_near("copies", r.step_seconds - free_of_charge, n * 1e-9 * (1 + 2 * 0.5 + 0.25 + 0.5));
    expect_near("nothing on a wire", r.wire_bytes, 0);
}

/* A worker beside the server shares memory with it: the link carries the others' sums, and where every machine has a
 * server none carries what stays there. */
static void test_beside(void **state)
{
    const struct ls_predict_network slow = {"slow", 0, 1e6, 0, 0};
    struct ls_predict_profile p = usual;
    const double both = (ls_predict_bytes(&usual) + 4 * 3270016.0) / gigabit.bandwidth;
    p.pack_seconds = p.unpack_seconds = 0;
    for (int w = 2; w <= 64; w *= 2) {
        struct ls_predict_cluster c = cluster(w, 1, 1, &gigabit);
        c.beside = c.servers = 1;
        expect_near("one server", ls_predict_step(&p, &c, LS_PREDICT_PS).communicate, (w - 1) * both + 2 * 1e-4);
        c.servers = w;
        expect_near("one on every machine", ls_predict_step(&p, &c, LS_PREDICT_PS).communicate,
                    (w - 1) * both / w + 6 * 1e-4);
        c.servers = 1;
        c.network = &slow;
        const double mixed = ls_predict_step(&p, &c, LS_PREDICT_ASYNC).step_seconds;
        c.beside = 0;
        const double apart = ls_predict_step(&p, &c, LS_PREDICT_ASYNC).step_seconds;
        expect_at_most("async, one beside", mixed, apart);
        expect_at_most("async, the link carries the others", (w - 1.0) / w * ls_predict_bytes(&p) / slow.bandwidth,
                       mixed);
    }
}

/* In pieces the link carries both at once: the longer way counts, and one piece of all the rest; never more than in
 * one, and several servers do not cut. */
static void test_pieces(void **state)
{
    struct ls_predict_profile p = usual;
    const double bytes = ls_predict_bytes(&usual), n = 3270016, update = 0.0066;
    p.pack_seconds = p.unpack_seconds = 0;
    for (int w = 2; w <= 64; w *= 2) {
        struct ls_predict_cluster c = cluster(w, 1, 1, &gigabit);
        const double up = w * bytes / gigabit.bandwidth, down = w * 4 * n / gigabit.bandwidth;
        const double longer = up > down ? up : down, shorter = up + down - longer;
        c.pieces = 8;
        const double several = ls_predict_step(&p, &c, LS_PREDICT_PS).step_seconds;
        c.pieces = 1;
        expect_near("several servers", several, ls_predict_step(&p, &c, LS_PREDICT_PS).step_seconds);
        c.servers = 1;
        double before = ls_predict_step(&p, &c, LS_PREDICT_PS).step_seconds;
        for (c.pieces = 2; c.pieces <= 32; c.pieces *= 2) {
            const struct ls_predict_point r = ls_predict_step(&p, &c, LS_PREDICT_PS);
            expect_near("both at once", r.communicate + update, longer + (shorter + update) / c.pieces + 2 * 1e-4);
            expect_near("on the wire", r.wire_seconds, longer);
            expect_at_most("more pieces", r.step_seconds, before);
            before = r.step_seconds;
        }
    }
}

/* Machines that are made on one computer have its cores and no more: what servers and workers do at the same time takes
 * turns there, and more servers than cores add nothing. */
static void test_one_computer(void **state)
{
    struct ls_predict_profile p = usual;
    const double n = 3270016, update = 0.0066;
    double before = INFINITY;
    p.copy_seconds = 1e-9;
    struct ls_predict_cluster c = cluster(3, 1, 1, &perfect);
    c.servers = 3;
    const double apart = ls_predict_step(&p, &c, LS_PREDICT_PS).step_seconds;
    for (int cores = 1; cores <= 3; cores++) {
        c.shared_cores = cores;
        const double step = ls_predict_step(&p, &c, LS_PREDICT_PS).step_seconds;
        /* three pack; three pushes are added, updated and published by the servers; three copy */
        const double all = n * (3 * p.pack_seconds + 3 * p.unpack_seconds + 2e-9) + update;
        expect_near("taking turns", step - apart, all / cores - all / 3);
        expect_at_most("one core more", step, before);
        before = step;
    }
    c.shared_cores = 2;
    c.servers = 2;
    const double two = ls_predict_step(&p, &c, LS_PREDICT_PS).step_seconds;
    c.servers = 3;
    expect_near("a server more than cores", ls_predict_step(&p, &c, LS_PREDICT_PS).step_seconds, two);
}

/* Updates come as often as the workers' batches, until the server or its link is what all wait for; a bound of
 * staleness is a bound of batches under way. */
static void test_async(void **state)
{
    const struct ls_predict_network slow = {"slow", 0, 1e6, 0, 0};
    struct ls_predict_profile p = usual;
    p.overhead_seconds = 0;
    double before = INFINITY, one = 0;
    for (int w = 2; w <= 1024; w *= 2) {
        struct ls_predict_cluster c = cluster(w, 1, 1, &perfect);
        c.servers = 1;
        struct ls_predict_point r = ls_predict_step(&p, &c, LS_PREDICT_ASYNC);
        if (w == 2) one = 2 * r.step_seconds;
        expect_at_most("one more worker", r.step_seconds, before);
        expect_at_most("as many updates as batches", one / w, r.step_seconds);
        expect_near("staleness", r.staleness, w - 1);
        expect_near("parts of the step", r.compute + r.communicate + r.wait, r.step_seconds);
        before = r.step_seconds;
        c.staleness = 1;
        r = ls_predict_step(&p, &c, LS_PREDICT_ASYNC);
        expect_near("ssp:1 has two under way", r.step_seconds, one / 2);
        expect_near("ssp:1", r.staleness, 1);
        c.network = &slow;
        c.staleness = -1;
        r = ls_predict_step(&p, &c, LS_PREDICT_ASYNC);
        expect_at_most("the server's link", ls_predict_bytes(&p) / slow.bandwidth, r.step_seconds);
    }
    struct ls_predict_cluster c = cluster(1, 1, 2, &gigabit);
    expect_near("one worker", ls_predict_step(&p, &c, LS_PREDICT_ASYNC).step_seconds,
                ls_predict_step(&p, &c, LS_PREDICT_HIERARCHICAL).step_seconds);
}

/* Copies that are averaged: a step alone is waves of shards with an update each, an H-th of an average comes to it. */
static void test_local(void **state)
{
    struct ls_predict_profile p = usual;
    p.n_averaged = 6540000; /* with momentum */
    p.averaged_bytes = 6.5 * 6540000;
    p.average_seconds = 2e-9;
    p.spread_seconds = 1e-9;
    p.copy_seconds = 0.5e-9;
    const double n = (double)p.n_averaged, replica = 0.001 + 0.010 + 0.006 / 8 + 0.0066;
    struct ls_predict_cluster c = cluster(1, 1, 2, &gigabit);
    c.period = 4;
    struct ls_predict_point one = ls_predict_step(&p, &c, LS_PREDICT_LOCAL), r;
    const double own = 8 * n * 3e-9, once = n * 1.5e-9;
    expect_near("one worker", one.step_seconds, 4 * replica + 0.0002 + (own + once) / 2 / 4);
    expect_near("one worker: bytes", one.wire_bytes, 0);
    expect_near("one worker: speed-up", one.speedup, 1);
    /* Two machines, each with four copies; n/128 exponents to rank 0 and back, then the sums, all of them once each
     * way. */
    c.workers = 2;
    r = ls_predict_step(&p, &c, LS_PREDICT_LOCAL);
    const double talk = 4 * (r.step_seconds - 2 * replica - 0.0002) - (own / 2 + once) / 2;
    const double least = (p.averaged_bytes + 2 * n / 128) / gigabit.bandwidth;
    expect_near("parts of the step", r.compute + r.communicate + r.wait, r.step_seconds);
    expect_near("communication", r.communicate, talk / 4);
    expect_at_most("the wire alone", least, talk);
    expect_at_most("the wire, packing and a few messages", talk, least + n * 2.5e-9 + 50 * gigabit.latency);
    expect_at_most("bytes", r.wire_bytes, (p.averaged_bytes * (1 + 1e-5) + 1.5 * n / 128) / 4);
    expect_at_most("bytes", (p.averaged_bytes + 1.5 * n / 128) / 4, r.wire_bytes);
    /* Nothing but the average depends on H; with an H that never comes a slow network is as good as none. */
    double before = INFINITY;
    for (c.period = 1; c.period <= 1 << 20; c.period *= 4) {
        r = ls_predict_step(&p, &c, LS_PREDICT_LOCAL);
        expect_at_most("a larger H", r.step_seconds, before);
        before = r.step_seconds;
    }
    if (!(fabs(before - 2 * replica - 0.0002) < 1e-5)) fail_msg("hardly ever averaged: %.9g s", before);
    for (int w = 1; w <= 1024; w *= 2) {
        c = cluster(w, 2, 1, &gigabit);
        c.period = 8;
        r = ls_predict_step(&p, &c, LS_PREDICT_LOCAL);
        expect_at_most("speed-up", r.speedup, w);
        expect_near("parts of the step", r.compute + r.communicate + r.wait, r.step_seconds);
    }
}

/* Buckets that are complete early are hidden behind the rest of the shard. */
static void test_overlap(void **state)
{
    struct ls_predict_bucket early[] = {{.n = 100000, .bytes = 500000, .ready_seconds = 0.001}};
    struct ls_predict_profile p = usual;
    p.pack_seconds = p.unpack_seconds = 0;
    p.buckets = early;
    p.n_buckets = 1;
    struct ls_predict_cluster c = cluster(2, 1, 1, &gigabit);
    double hidden = ls_predict_step(&p, &c, LS_PREDICT_HIERARCHICAL).communicate;
    early[0].ready_seconds = 0.010;
    double exposed = ls_predict_step(&p, &c, LS_PREDICT_HIERARCHICAL).communicate;
    expect_at_most("hidden", hidden, 4 * gigabit.latency);
    if (!(exposed > 500000 / gigabit.bandwidth))
        fail_msg("exposed %.6g s, expected more than %.6g", exposed, 500000 / gigabit.bandwidth);
}

static void test_idle_threads(void **state)
{
    struct ls_predict_cluster c = cluster(4, 1, 4, &gigabit);
    struct ls_predict_point r = ls_predict_step(&usual, &c, LS_PREDICT_HIERARCHICAL);
    assert_int_equal(r.busy_threads, 8); /* of 16: there are 8 shards */
    assert_true(r.wait > 0.4 * usual.shard_seconds);
}

/* Without a core of its own, packing makes shards later; with one it does not. */
static void test_spare_core(void **state)
{
    struct ls_predict_profile p = usual;
    p.pack_seconds = p.unpack_seconds = 1e-8;
    struct ls_predict_cluster with = cluster(2, 1, 2, &perfect), without = with;
    without.cores = 2;
    double a = ls_predict_step(&p, &with, LS_PREDICT_HIERARCHICAL).step_seconds;
    double b = ls_predict_step(&p, &without, LS_PREDICT_HIERARCHICAL).step_seconds;
    if (!(b > a)) fail_msg("with a spare core %.9g s, without %.9g s", a, b);
}

/* A network probed while threads computed: what they lose and what bandwidth they leave can only make a step longer,
 * and a spare core does not help twice. */
static void test_probed_while_busy(void **state)
{
    struct ls_predict_network free_lunch = gigabit, slow = gigabit, dear = gigabit;
    free_lunch.busy_bandwidth = gigabit.bandwidth;
    slow.busy_bandwidth = gigabit.bandwidth / 3;
    dear.busy_bandwidth = gigabit.bandwidth;
    dear.cpu = 0.5;
    FOR_ALL(w, per_machine, threads, a)
    {
        struct ls_predict_cluster c = cluster(w, per_machine, threads, &free_lunch);
        c.cores = per_machine * threads;
        double best = ls_predict_step(&usual, &c, (enum ls_predict_algorithm)a).step_seconds;
        c.network = &slow;
        expect_at_most("bandwidth that computing leaves", best,
                       ls_predict_step(&usual, &c, (enum ls_predict_algorithm)a).step_seconds);
        c.network = &dear;
        double step = ls_predict_step(&usual, &c, (enum ls_predict_algorithm)a).step_seconds;
        expect_at_most("cores that computing loses", best, step);
        c.cores += 8;
        expect_near("spare cores", ls_predict_step(&usual, &c, (enum ls_predict_algorithm)a).step_seconds, step);
    }
    struct ls_predict_cluster two = cluster(2, 1, 1, &dear);
    double with = ls_predict_step(&usual, &two, LS_PREDICT_HIERARCHICAL).step_seconds;
    two.network = &free_lunch;
    if (!(with > ls_predict_step(&usual, &two, LS_PREDICT_HIERARCHICAL).step_seconds + 1e-4))
        fail_msg("half a core lost while sums travel costs nothing");
}

static void test_latency_units(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } good[] = {{"0.1ms", 1e-4}, {"50us", 5e-5}, {"2e-5s", 2e-5}, {"1s", 1}, {"800ns", 8e-7}, {"0s", 0}};
    static const char *const bad[] = {"",     "ms",   "0.1",  "0.1 ms", "-1ms", "1m",  "1.2.3ms",
                                      "1e5s", "nans", "infs", "1msx",   "0x1s", "1ems"};
    double got = -1;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!ls_predict_parse_latency(good[i].text, &got)) fail_msg("%s is refused", good[i].text);
        expect_near(good[i].text, got, good[i].seconds);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ls_predict_parse_latency(bad[i], &got)) fail_msg("'%s' is taken as %g s", bad[i], got);
}

static void test_bandwidth_units(void **state)
{
    static const struct {
        const char *text;
        double bytes;
    } good[] = {
        {"1Gbit", 125e6 * 1448 / 1538}, {"300Mbps", 37.5e6 * 1448 / 1538}, {"117MB", 117e6}, {"1.5GB/s", 1.5e9}};
    static const char *const bad[] = {"",       "1",    "1G",     "Gbit",    "0Gbit",   "-1Gbit",
                                      "1 Gbit", "1gib", "1Gbits", "infGbit", "1e-9kbit"};
    double got = -1;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!ls_predict_parse_bandwidth(good[i].text, &got)) fail_msg("%s is refused", good[i].text);
        expect_near(good[i].text, got, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ls_predict_parse_bandwidth(bad[i], &got)) fail_msg("'%s' is taken as %g B/s", bad[i], got);
}

static void test_presets(void **state)
{
    int n;
    const struct ls_predict_network *all = ls_predict_presets(&n);
    for (int i = 0; i < n; i++) {
        assert_ptr_equal(ls_predict_preset(all[i].name), &all[i]);
        assert_true(all[i].bandwidth > 0 && all[i].latency > 0);
    }
    assert_non_null(ls_predict_preset("1gbe"));
    assert_null(ls_predict_preset("1gb"));
}

static void test_verdict(void **state)
{
    struct ls_predict_series s;
    char text[512];
    const struct ls_predict_network slow = {"10 Mbit/s", 1e-3, 1.2e6, 0.4, 0};
    struct ls_predict_cluster c = cluster(1, 1, 1, &slow);
    ls_predict_sweep(&usual, &c, LS_PREDICT_HIERARCHICAL, &s);
    ls_predict_verdict(&usual, &c, &s, text, sizeof text);
    assert_int_equal(s.best, 0);
    if (!strstr(text, "2 machines over 10 Mbit/s would be slower than one: 3.27 M parameters need"))
        fail_msg("the verdict is: %s", text);
    c.network = &perfect;
    ls_predict_sweep(&usual, &c, LS_PREDICT_HIERARCHICAL, &s);
    ls_predict_verdict(&usual, &c, &s, text, sizeof text);
    assert_int_equal(s.points[s.best].workers, 8); /* as many as there are shards */
    if (!strstr(text, "8 machines over perfect are best") || !strstr(text, "has 8 shards"))
        fail_msg("the verdict is: %s", text);
}

/* The name of a network comes from the command line, and goes into the picture as text. */
static void test_picture(void **state)
{
    struct ls_predict_series s[2];
    struct ls_predict_cluster c = cluster(1, 1, 1, &gigabit);
    char path[256], *svg;
    size_t len;
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/predict-%d.svg", folder ? folder : "/tmp", (int)getpid());
    for (int a = 0; a < 2; a++) {
        ls_predict_sweep(&usual, &c, (enum ls_predict_algorithm)a, &s[a]);
        snprintf(s[a].label, sizeof s[a].label, a ? "a<b&c" : "plain");
    }
    assert_int_equal(ls_predict_draw("title \"x\" <svg>", s, 2, path), LS_OK);
    assert_int_equal(ls__file_read(path, 1 << 20, &svg, &len), LS_OK);
    assert_non_null(strstr(svg, ">plain: "));
    assert_non_null(strstr(svg, ">a&lt;b&amp;c: "));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    free(svg);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_machine_is_silent),
        cmocka_unit_test(test_perfect_network_is_compute_bound),
        cmocka_unit_test(test_speedup_is_bounded),
        cmocka_unit_test(test_monotone_in_the_network),
        cmocka_unit_test(test_ring_volume),
        cmocka_unit_test(test_latency_counts_messages),
        cmocka_unit_test(test_servers_share_the_load),
        cmocka_unit_test(test_one_server),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_one_computer),
        cmocka_unit_test(test_async),
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_idle_threads),
        cmocka_unit_test(test_spare_core),
        cmocka_unit_test(test_probed_while_busy),
        cmocka_unit_test(test_latency_units),
        cmocka_unit_test(test_bandwidth_units),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
