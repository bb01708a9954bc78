/* cmd_bench.c: `lockstep bench`. */
#include "cli/cmd.h"
#include "cli/machine.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *ops_json(const struct ls_bench_result *r)
{
    json_t *list = json_array();
    for (int i = 0; list && i < r->n_ops; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "op", r->ops[i].op, "layer",
                                              r->ops[i].layer, "kernel", r->ops[i].kernel, "ms", r->ops[i].ms, "gflops",
                                              r->ops[i].gflops, "fraction", r->ops[i].fraction));
    return list;
}

static void print_ops(const struct ls_bench_result *r)
{
    printf("\n  %-18s %-24s %-30s %9s %6s %10s\n", "op", "layer", "implementation", "ms/step", "share", "GFLOP/s");
    for (int i = 0; i < r->n_ops; i++)
        printf("  %-18s %-24s %-30s %9.4f %5.1f%% %10.1f\n", r->ops[i].op, r->ops[i].layer, r->ops[i].kernel,
               r->ops[i].ms, 100 * r->ops[i].fraction, r->ops[i].gflops);
}

static enum ls_status print_json(const struct ls_bench_result *r)
{
    return ls__print_json(json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o}", "model",
        ls__json_text(r->model), "batch_size", (json_int_t)r->batch_size, "shards", (json_int_t)r->shards, "threads",
        (json_int_t)r->threads, "steps", (json_int_t)r->steps, "ms_per_step", ls__json_number(r->ms_per_step),
        "ms_per_step_best", ls__json_number(r->ms_per_step_best), "images_per_second",
        ls__json_number(r->images_per_second), "gflops", ls__json_number(r->gflops), "peak_gflops",
        ls__json_number(r->peak_gflops), "fraction_of_peak", ls__json_number(r->fraction_of_peak), "peak_rss_bytes",
        (json_int_t)r->peak_rss_bytes, "arena_bytes", (json_int_t)r->arena_bytes, "store_bytes",
        (json_int_t)r->store_bytes, "first_step_ms", ls__json_number(r->first_step_ms), "ops", ops_json(r)));
}

static void print_table(const struct ls_bench_result *r)
{
    char rss[LS_TEXT_BYTES], arena[LS_TEXT_BYTES], store[LS_TEXT_BYTES];
    printf("%s, global batch %" PRId64 " in %" PRId64 " shards on %" PRId64 " thread%s\n", r->model, r->batch_size,
           r->shards, r->threads, r->threads == 1 ? "" : "s");
    printf("  speed       %.1f images/s\n", r->images_per_second);
    printf("  step        %.2f ms, best %.2f ms (%" PRId64 " steps)\n", r->ms_per_step, r->ms_per_step_best, r->steps);
    printf("  first step  %.0f ms after the start\n", r->first_step_ms);
    printf("  compute     %.1f of %.1f GFLOP/s (%.0f %% of peak)\n", r->gflops, r->peak_gflops,
           100 * r->fraction_of_peak);
    printf("  memory      %s at most; arena %s per thread, store %s\n", ls__bytes_text((double)r->peak_rss_bytes, rss),
           ls__bytes_text((double)r->arena_bytes, arena), ls__bytes_text((double)r->store_bytes, store));
}

struct ls_bench_options ls__bench_options_of(const struct ls_options *o)
{
    return (struct ls_bench_options){
        .model = o->args[0],
        .data = o->args[1],
        .device = o->train.device,
        .precision = o->train.precision,
        .isa = o->train.isa,
        .tune = o->train.tune,
        .batch_size = o->train.batch_size,
        .shards = o->train.shards,
        .low_memory = o->train.memory && strcmp(o->train.memory, "low") == 0,
        .json = o->train.json,
    };
}

enum ls_status ls__cmd_bench(const struct ls_options *o)
{
    struct ls_bench_options options = ls__bench_options_of(o);
    struct ls_bench_result result = {.steps = 0};
    options.threads = o->train.threads;
    options.steps = o->steps;
    options.warmup = o->warmup_steps;
    options.seconds = o->steps > 0 && !ls__option_is_given(o, "seconds") ? 0 : o->seconds; /* -n 20 means 20 */
    options.layers = o->layers;
    if (options.data && strncmp(options.data, "fake:", 5) != 0)
        return ls_fail(LS_USAGE, "bench measures on random images: %s: expected fake:CxHxW:CLASSES:N", options.data);
    if (options.steps == 0 && options.seconds == 0)
        return ls_fail(LS_USAGE, "--seconds 0 needs a number of --steps to measure");
    double busy_cores = ls__machine_busy_cores();
    enum ls_status status = ls_bench(&options, &result);
    if (status == LS_OK) ls__machine_warn_busy(busy_cores);
    if (status == LS_OK && o->train.json) {
        status = print_json(&result);
    } else if (status == LS_OK) {
        print_table(&result);
        if (o->layers) print_ops(&result);
    }
    free(result.ops);
    return status;
}
