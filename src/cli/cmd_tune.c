/* cmd_tune.c: `lockstep tune`: measure which kernel is best for each problem of a model, and write the table. */
#include "cli/cmd.h"
#include "cli/machine.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static json_t *choices_json(const struct ls_tune_problem *p)
{
    json_t *list = json_array();
    for (int i = 0; list && i < p->n_choices; i++) {
        const struct ls_tune_choice *c = &p->choices[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:b}", "implementation", c->impl, "ms",
                                        c->ms > 0 ? ls__json_number(c->ms) : json_null(), "refused", c->is_refused));
    }
    return list;
}

static json_t *problems_json(const struct ls_tune_result *r)
{
    json_t *list = json_array();
    for (int i = 0; list && i < r->n_problems; i++) {
        const struct ls_tune_problem *p = &r->problems[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:s, s:s, s:o}", "problem", p->key, "uses", p->n_uses, "rule",
                                              p->choices[p->rule].impl, "chosen", p->choices[p->chosen].impl, "choices",
                                              choices_json(p)));
    }
    return list;
}

static enum ls_status print_json(const struct ls_tune_result *r)
{
    return ls__print_json(json_pack(
        "{s:o, s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:i, s:i, s:o, s:s}", "model", ls__json_text(r->model), "library",
        r->library, "isa", r->isa, "batch_size", (json_int_t)r->batch_size, "shards", (json_int_t)r->shards, "threads",
        (json_int_t)r->threads, "ms_by_rules", ls__json_number(r->ms_before), "ms_tuned", ls__json_number(r->ms_after),
        "tried", r->n_tried, "changed", r->n_changed, "problems", problems_json(r), "table", r->table));
}

static void print_problem(const struct ls_tune_problem *p)
{
    printf("  %s%s", p->key, p->n_uses > 1 ? "" : "\n");
    if (p->n_uses > 1) printf("  (%d times)\n", p->n_uses);
    printf("     ");
    for (int i = 0; i < p->n_choices; i++) {
        const struct ls_tune_choice *c = &p->choices[i];
        const char *mark = i == p->chosen ? (p->chosen == p->rule ? "*" : "**") : "";
        if (c->ms > 0)
            printf("  %s%s %.3f", mark, c->impl, c->ms);
        else
            printf("  %s%s %s", mark, c->impl, c->is_refused ? "-" : "?");
    }
    printf("\n");
}

static void print_table(const struct ls_tune_result *r, const char *output)
{
    printf("%s, global batch %" PRId64 " in %" PRId64 " shards of %" PRId64 ", %s, %s\n", r->model, r->batch_size,
           r->shards, r->shard_size, r->library, r->isa);
    printf("ms of CPU time per step; * chosen, ** chosen against the rules, - cannot, ? not worth measuring\n\n");
    for (int i = 0; i < r->n_problems; i++) print_problem(&r->problems[i]);
    printf("\n  step     %.3f ms by the rules, %.3f ms tuned (%+.1f %%)\n", r->ms_before, r->ms_after,
           100 * (r->ms_after / r->ms_before - 1));
    printf("  changed  %d of %d problems; %d sets of choices tried\n", r->n_changed, r->n_problems, r->n_tried);
    if (output)
        printf("  table    %s; use it with --tune %s\n", output, output);
    else
        printf("  table    not written; -o FILE keeps it\n");
}

enum ls_status ls__cmd_tune(const struct ls_options *o)
{
    char cpu[128];
    const struct ls_tune_options options = {
        .model = o->args[0],
        .data = o->args[1],
        .device = o->train.device,
        .isa = o->train.isa,
        .output = o->output,
        .machine = ls__machine_cpu(cpu, sizeof cpu),
        .batch_size = o->train.batch_size,
        .shards = o->train.shards,
        .threads = o->train.threads,
        .seconds = ls__option_is_given(o, "seconds") ? o->seconds : 0.3,
    };
    struct ls_tune_result result = {.n_problems = 0};
    if (options.data && strncmp(options.data, "fake:", 5) != 0)
        return ls_fail(LS_USAGE, "tune measures on random images: %s: expected fake:CxHxW:CLASSES:N", options.data);
    enum ls_status status = ls_tune(&options, &result);
    if (status == LS_OK && o->train.json)
        status = print_json(&result);
    else if (status == LS_OK)
        print_table(&result, options.output);
    ls_tune_result_release(&result);
    return status;
}
