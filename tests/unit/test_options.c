/* test_options.c: the command line's table and everything made from it.
 *
 * The command line is no part of the library, so its sources are compiled in here. Most tests walk the whole table: an
 * option added tomorrow is tested tomorrow.
 */
#include "cli/args.c"
#include "cli/args_write.c"
#include "cli/commands.c"
#include "cli/help.c"
#include "cli/help_completion.c"
#include "cli/help_man.c"
#include "cli/options.c"
#include "cli/slow.c"
#include "cli/unused.c"

#include "backend/backend.h"
#include "other_value.h"
#include "settings/sync_names.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MAX_ARGV = 16 };

/* Parses a line split at blanks, in a buffer that outlives the options. */
static enum ls_status parse(struct ls_options *o, enum ls_cmd cmd, const char *line)
{
    static char words[512];
    char *argv[MAX_ARGV];
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok(words, " "); w && argc < MAX_ARGV; w = strtok(NULL, " ")) argv[argc++] = w;
    return ls__options_parse(o, cmd, argc, argv);
}

static enum ls_cmd taker(const struct ls_option *option)
{
    int i = 0;
    while (!ls__option_is_of(option, (enum ls_cmd)i)) i++;
    return (enum ls_cmd)i;
}

static bool holds(const struct ls_options *o, const struct ls_option *option, const char *value)
{
    const void *at = (const char *)o + option->setting->offset;
    switch (option->setting->type) {
    case LS_SETTING_FLAG:
        return *(const bool *)at == !strcmp(value, "on");
    case LS_SETTING_INT:
        return *(const int64_t *)at == atoll(value);
    case LS_SETTING_REAL:
        return *(const double *)at == strtod(value, NULL);
    case LS_SETTING_TEXT:
    case LS_SETTING_CHOICE:
        return *(const char *const *)at && !strcmp(*(const char *const *)at, value);
    }
    return false;
}

static void check_holds(const struct ls_options *o, const struct ls_option *option, const char *value, const char *line)
{
    if (!holds(o, option, value)) fail_msg("after '%s' --%s is not %s", line, option->setting->name, value);
    if (!ls__option_is_given(o, option->setting->name))
        fail_msg("after '%s' --%s does not count as given", line, option->setting->name);
}

/* --- the table --- */

static void test_table_is_sane(void **state)
{
    assert_true(ls__options_count() <= 192); /* bits in `given` */
    for (const struct ls_option *a = ls__options; a->setting; a++) {
        assert_true(a->setting->help[strlen(a->setting->help) - 1] == '.');
        assert_non_null(a->setting->group);
        assert_true(a->commands != 0);
        assert_true((a->setting->type == LS_SETTING_FLAG) == (a->setting->arg == NULL));
        assert_true((a->setting->type == LS_SETTING_CHOICE) == (a->setting->choices != NULL));
        assert_true(!a->setting->is_valid == !a->setting->expected);
        if (find_long(a->setting->name, strlen(a->setting->name)) != a)
            fail_msg("--%s is there twice", a->setting->name);
        for (const struct ls_option *b = a + 1; b->setting; b++) {
            bool is_clash =
                a->setting->letter && a->setting->letter == b->setting->letter && (a->commands & b->commands);
            if (is_clash) fail_msg("-%c is --%s and --%s", a->setting->letter, a->setting->name, b->setting->name);
            if (a->setting->offset == b->setting->offset)
                fail_msg("--%s and --%s share a member", a->setting->name, b->setting->name);
        }
    }
}

static void test_groups_stand_together(void **state)
{
    for (const struct ls_option *a = ls__options; a->setting; a++) {
        for (const struct ls_option *b = a + 1; b->setting; b++) {
            bool is_same = !strcmp(a->setting->group, b->setting->group);
            if (is_same && strcmp(b[-1].setting->group, b->setting->group))
                fail_msg("--%s is apart from its group", b->setting->name);
        }
    }
}

static void test_defaults_are_valid(void **state)
{
    struct ls_options o = {.n_args = 0};
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        if (!option->setting->def) continue;
        if (ls__setting_store(option->setting, &o, option->setting->def) != LS_OK)
            fail_msg("default of --%s: %s", option->setting->name, ls_error_message());
    }
}

/* --- the library's defaults and the manifest --- */

static void test_defaults_equal_the_library(void **state)
{
    struct ls_options o;
    struct ls_train_options d;
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "lenet5 digits"), LS_OK);
    assert_int_equal(ls__options_resolve(&o, LS_CMD_TRAIN), LS_OK);
    ls_train_options_default(&d);
    d.model = o.train.model;
    d.data = o.train.data;
    assert_int_equal(ls_options_check(&d), LS_OK);
    json_t *ours = ls__options_json(&o.train, LS_ROLE_ALL), *theirs = ls__options_json(&d, LS_ROLE_ALL);
    char *a = json_dumps(ours, JSON_INDENT(1)), *b = json_dumps(theirs, JSON_INDENT(1));
    assert_string_equal(a, b);
    free(a);
    free(b);
    json_decref(ours);
    json_decref(theirs);
}

/* --- the library's limits --- */

static void expect_limit(const struct ls_option *option, double value, bool is_good)
{
    struct ls_options o;
    ls__options_default(&o);
    o.train.model = "lenet5";
    o.train.data = "digits";
    o.train.validation = "0.1";   /* for --patience */
    o.train.batch_size = 1 << 20; /* room for any number of shards */
    if (strcmp(option->setting->name, "servers") == 0) o.train.sync = "ps";
    void *at = (char *)&o + option->setting->offset;
    if (option->setting->type == LS_SETTING_INT)
        *(int64_t *)at = (int64_t)value;
    else
        *(double *)at = value;
    enum ls_status status = ls_options_check(&o.train);
    if ((status == LS_OK) != is_good)
        fail_msg("--%s %g: the library says %s, the command line %s", option->setting->name, value,
                 ls_status_name(status), is_good ? "takes it" : "refuses it");
}

static void test_limits_equal_the_library(void **state)
{
    const size_t first = offsetof(struct ls_options, train), end = first + sizeof(struct ls_train_options);
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        bool is_int = option->setting->type == LS_SETTING_INT,
             is_number = is_int || option->setting->type == LS_SETTING_REAL;
        if (option->setting->offset < first || option->setting->offset >= end || !is_number) continue;
        expect_limit(option, option->setting->min, true);
        expect_limit(option, option->setting->max, !option->setting->is_max_open);
        expect_limit(option, is_int ? option->setting->min - 1 : nextafter(option->setting->min, -INFINITY), false);
        expect_limit(option,
                     is_int && option->setting->max < 1e15 ? option->setting->max + 1 : option->setting->max * 1.01,
                     false);
    }
}

/* Changing any training option must change the manifest: no member is forgotten in settings/table.c. */
static void test_manifest_has_every_option(void **state)
{
    const size_t first = offsetof(struct ls_options, train), end = first + sizeof(struct ls_train_options);
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        if (option->setting->offset < first || option->setting->offset >= end) continue;
        struct ls_options o;
        ls__options_default(&o);
        json_t *before = ls__options_json(&o.train, LS_ROLE_ALL);
        const char *value = other_value(option->setting);
        assert_int_equal(ls__setting_store(option->setting, &o, value), LS_OK);
        json_t *after = ls__options_json(&o.train, LS_ROLE_ALL);
        if (json_equal(before, after)) fail_msg("--%s %s does not show in the manifest", option->setting->name, value);
        json_decref(before);
        json_decref(after);
    }
}

/* --- parsing every option --- */

static void test_every_form_of_every_option(void **state)
{
    struct ls_options o;
    char line[256];
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        bool is_flag = option->setting->type == LS_SETTING_FLAG;
        const char *value = is_flag ? "on" : other_value(option->setting);
        assert_non_null(value);
        const char *names[4] = {option->setting->name, option->setting->aliases[0], option->setting->aliases[1],
                                option->setting->aliases[2]};
        for (int i = 0; i < 4 && names[i]; i++) {
            snprintf(line, sizeof line, is_flag ? "--%s" : "--%s %s", names[i], value);
            if (parse(&o, taker(option), line) != LS_OK) fail_msg("'%s': %s", line, ls_error_message());
            check_holds(&o, option, value, line);
            if (is_flag) continue;
            snprintf(line, sizeof line, "--%s=%s", names[i], value);
            if (parse(&o, taker(option), line) != LS_OK) fail_msg("'%s': %s", line, ls_error_message());
            check_holds(&o, option, value, line);
        }
    }
}

/* What was read and is written again reads the same, for every option. */
static void test_every_option_is_written(void **state)
{
    static const char *const without[] = {NULL};
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        struct ls_options o, again;
        struct ls_words w = {.status = LS_OK};
        char line[256];
        bool is_flag = option->setting->type == LS_SETTING_FLAG,
             is_on = option->setting->def && !strcmp(option->setting->def, "on");
        const char *value = other_value(option->setting);
        if (is_flag)
            snprintf(line, sizeof line, "--%s%s", is_on ? "no-" : "", option->setting->name);
        else
            snprintf(line, sizeof line, "--%s %s", option->setting->name, value);
        assert_int_equal(parse(&o, taker(option), line), LS_OK);
        ls__words_add_options(&w, &o, without);
        assert_int_equal(w.status, LS_OK);
        if (ls__options_parse(&again, taker(option), w.n, w.argv) != LS_OK)
            fail_msg("'%s' was written so that it fails: %s", line, ls_error_message());
        check_holds(&again, option, value, line);
        assert_memory_equal(o.given, again.given, sizeof o.given);
        ls__words_release(&w);
    }
}

static void test_values_that_look_like_options(void **state)
{
    static const char *const without[] = {"mpi-args", NULL};
    struct ls_options o, again;
    struct ls_words w = {.status = LS_OK};
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "--run=-x --mpi-args --mca -w 2 -- -model digits"), LS_OK);
    assert_string_equal(o.mpi_args, "--mca");
    ls__words_add_options(&w, &o, without);
    assert_int_equal(ls__options_parse(&again, LS_CMD_TRAIN, w.n, w.argv), LS_OK);
    assert_string_equal(again.train.run_dir, "-x");
    assert_string_equal(again.args[0], "-model");
    assert_null(again.mpi_args);
    ls__words_release(&w);
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "--run --workers 2"), LS_USAGE);
}

static void test_letters(void **state)
{
    struct ls_options o;
    const char *const forms[] = {"-%c%s", "-%c %s", "-%c=%s", "-q%c%s"};
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        if (!option->setting->letter || option->setting->type == LS_SETTING_FLAG) continue;
        for (int i = 0; i < 4; i++) {
            char line[64];
            snprintf(line, sizeof line, forms[i], option->setting->letter, other_value(option->setting));
            if (parse(&o, taker(option), line) != LS_OK) fail_msg("'%s': %s", line, ls_error_message());
            check_holds(&o, option, other_value(option->setting), line);
        }
    }
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "-qv"), LS_OK);
    assert_true(o.train.quiet && o.verbose);
}

static void test_flags_can_be_turned_off(void **state)
{
    struct ls_options o;
    char line[96];
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        if (option->setting->type != LS_SETTING_FLAG || !strncmp(option->setting->name, "no-", 3)) continue;
        snprintf(line, sizeof line, "--%s --no-%s", option->setting->name, option->setting->name);
        assert_int_equal(parse(&o, taker(option), line), LS_OK);
        check_holds(&o, option, "off", line);
    }
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "--no-normalize"), LS_OK);
    assert_false(o.train.normalize);
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "--no-no-eval"), LS_USAGE);
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "--no-lr"), LS_USAGE);
}

static void expect_refusal(enum ls_cmd cmd, const char *line, const char *part)
{
    struct ls_options o;
    enum ls_status status = parse(&o, cmd, line);
    if (status == LS_OK) status = ls__options_resolve(&o, cmd);
    if (status != LS_USAGE) fail_msg("'%s' gave %s, expected USAGE", line, ls_status_name(status));
    if (!strstr(ls_error_message(), part)) fail_msg("'%s' says \"%s\", without \"%s\"", line, ls_error_message(), part);
}

/* Just outside both ends of the range, and not a number at all; at the ends it is taken. */
static void test_ranges(void **state)
{
    struct ls_options o;
    char line[128];
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        if (option->setting->type != LS_SETTING_INT && option->setting->type != LS_SETTING_REAL) continue;
        bool is_int = option->setting->type == LS_SETTING_INT;
        enum ls_cmd cmd = taker(option);
        const char *const junk[] = {"abc", "1x", "0x", "nan", "inf", "1e999", "99999999999999999999x", "+", "1,5"};
        for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
            snprintf(line, sizeof line, "--%s=%s", option->setting->name, junk[i]);
            expect_refusal(cmd, line, option->setting->name);
            expect_refusal(cmd, line, "expected");
        }
        snprintf(line, sizeof line, is_int ? "--%s=%.0f" : "--%s=%.17g", option->setting->name,
                 option->setting->min - 1);
        expect_refusal(cmd, line, is_int ? "whole number" : "number");
        snprintf(line, sizeof line, is_int ? "--%s=%.0f" : "--%s=%.17g", option->setting->name,
                 option->setting->max * 2 + 1);
        expect_refusal(cmd, line, is_int ? "whole number" : "number");
        snprintf(line, sizeof line, is_int ? "--%s=%.0f" : "--%s=%.17g", option->setting->name, option->setting->min);
        assert_int_equal(parse(&o, cmd, line), LS_OK);
        snprintf(line, sizeof line, is_int ? "--%s=%.0f" : "--%s=%.17g", option->setting->name, option->setting->max);
        assert_int_equal(parse(&o, cmd, line), option->setting->is_max_open ? LS_USAGE : LS_OK);
    }
}

static void test_choices_and_texts_refuse_junk(void **state)
{
    char line[128];
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        if (option->setting->choices) {
            snprintf(line, sizeof line, "--%s=nonsense", option->setting->name);
            expect_refusal(taker(option), line, "expected one of");
            snprintf(line, sizeof line, "--%s=%.2s", option->setting->name, option->setting->choices); /* no prefixes */
            expect_refusal(taker(option), line, "expected one of");
        } else if (option->setting->is_valid) {
            snprintf(line, sizeof line, "--%s=", option->setting->name);
            expect_refusal(taker(option), line, option->setting->expected);
        }
    }
    expect_refusal(LS_CMD_TRAIN, "a b --milestones 30,20", "rising");
    expect_refusal(LS_CMD_TRAIN, "a b --milestones 30,", "rising");
    expect_refusal(LS_CMD_TRAIN, "a b --milestones 99999999999999999999", "rising");
    expect_refusal(LS_CMD_TRAIN, "a b --resize 3x224x224", "224x160");
    expect_refusal(LS_CMD_TRAIN, "a b --checkpoint-every 0", "epoch, none");
    expect_refusal(LS_CMD_TRAIN, "a b --sync ssp:", "ssp:K");
}

/* The next word is the value only if it is one. */
static void test_values_that_may_be_left_out(void **state)
{
    struct ls_options o;
    assert_int_equal(parse(&o, LS_CMD_EVAL, "run --confusion mnist"), LS_OK);
    assert_string_equal(o.confusion, "table");
    assert_string_equal(o.args[1], "mnist");
    assert_int_equal(parse(&o, LS_CMD_EVAL, "run --confusion m.PNG mnist"), LS_OK);
    assert_string_equal(o.confusion, "m.PNG");
    assert_string_equal(o.args[1], "mnist");
    assert_int_equal(parse(&o, LS_CMD_EVAL, "run --confusion=m.svg --confusion"), LS_OK);
    assert_string_equal(o.confusion, "table");
    expect_refusal(LS_CMD_EVAL, "run --confusion=mnist", ".png, .svg or .pdf");
}

/* More of them than there is room for in the struct. */
static void test_any_number_of_arguments(void **state)
{
    enum { MANY = 5000 };
    static char words[MANY][8];
    static char *argv[MANY];
    struct ls_options o;
    int n;
    for (int i = 0; i < MANY; i++) {
        snprintf(words[i], sizeof words[i], "%d", i);
        argv[i] = words[i];
    }
    argv[7] = (char *)"--json";
    assert_int_equal(ls__options_parse(&o, LS_CMD_CLASSIFY, MANY, argv), LS_OK);
    assert_int_equal(o.n_args, MANY - 1);
    const char *const *rest = ls__options_args(&o, 1, &n);
    assert_int_equal(n, MANY - 2);
    for (int i = 0; i < n; i++) assert_ptr_equal(rest[i], words[i + 1 + (i + 1 >= 7)]);
    ls__options_release(&o);
    assert_int_equal(ls__options_parse(&o, LS_CMD_CLASSIFY, 3, argv), LS_OK);
    rest = ls__options_args(&o, 1, &n);
    assert_int_equal(n, 2);
    assert_ptr_equal(rest[1], words[2]);
    ls__options_release(&o);
    assert_int_equal(ls__options_parse(&o, LS_CMD_EVAL, 3, argv), LS_USAGE);
}

static void test_missing_values(void **state)
{
    char line[128];
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        if (option->setting->type == LS_SETTING_FLAG) {
            snprintf(line, sizeof line, "--%s=1", option->setting->name);
            expect_refusal(taker(option), line, "takes no value");
            continue;
        }
        if (option->setting->alone) continue; /* test_values_that_may_be_left_out */
        snprintf(line, sizeof line, "--%s", option->setting->name);
        expect_refusal(taker(option), line, "needs a value");
        if (option->setting->takes_dash) continue;
        snprintf(line, sizeof line, "--%s --quiet", option->setting->name);
        expect_refusal(taker(option), line, "needs a value");
    }
    expect_refusal(LS_CMD_TRAIN, "a b --lr -1", "expected a number from 0");
}

/* --- names --- */

static void test_suggestions(void **state)
{
    char line[96];
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        size_t n = strlen(option->setting->name);
        if (n < 5) continue;
        /* the last two letters swapped */
        snprintf(line, sizeof line, "--%.*s%c%c", (int)n - 2, option->setting->name, option->setting->name[n - 1],
                 option->setting->name[n - 2]);
        if (option->setting->name[n - 1] == option->setting->name[n - 2] || ls__option_find(line + 2)) continue;
        expect_refusal(taker(option), line, "did you mean --");
        if (strcmp(option->setting->name, "servers") != 0) /* --server is as near */
            expect_refusal(taker(option), line, option->setting->name);
    }
    expect_refusal(LS_CMD_TRAIN, "--epoch 3", "did you mean --epochs?");
    expect_refusal(LS_CMD_TRAIN, "--batch 3", "did you mean --batch-size?");
    expect_refusal(LS_CMD_TRAIN, "--epoch=3", "unknown option --epoch;");
    expect_refusal(LS_CMD_TRAIN, "--xyzzy", "lists all");
    expect_refusal(LS_CMD_TRAIN, "-Z", "unknown option -Z");
    expect_refusal(LS_CMD_EVAL, "x --lr 3", "belongs to: train");
}

static void test_prefixes_are_not_accepted(void **state)
{
    char line[96];
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        snprintf(line, sizeof line, "--%.*s", (int)strlen(option->setting->name) - 1, option->setting->name);
        if (ls__option_find(line + 2) || strlen(line) < 4) continue;
        expect_refusal(taker(option), line, "unknown option");
    }
}

static void test_underscores_count_as_dashes(void **state)
{
    struct ls_options o;
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "--batch_size 32 --weight_decay=0.5"), LS_OK);
    assert_int_equal(o.train.batch_size, 32);
    assert_true(o.train.weight_decay == 0.5);
}

static void test_commands(void **state)
{
    for (int i = 0; i < LS_N_CMDS; i++) {
        const struct ls_command *c = &ls__commands[i];
        assert_int_equal(ls__command_find(c->name), i);
        assert_true(c->max_args <= LS_MAX_ARGS || c->max_args == LS_ANY_ARGS);
        assert_non_null(c->examples[0].line);
    }
    assert_int_equal(ls__command_find("dance"), LS_N_CMDS);
}

/* The examples in the help must work as typed. */
static void test_examples_parse(void **state)
{
    for (int i = 0; i < LS_N_CMDS; i++) {
        for (const struct ls_example *e = ls__commands[i].examples; e->line; e++) {
            struct ls_options o;
            char line[256], head[64];
            int n = snprintf(head, sizeof head, "lockstep %s", ls__commands[i].name);
            const char *from = strstr(e->line, head);
            assert_non_null(from);
            snprintf(line, sizeof line, "%.*s", (int)strcspn(from + n, "|)"), from + n);
            if (strstr(line, "--device cpu") || strstr(line, " --resume runs/a")) continue; /* of a run that is there */
            if (parse(&o, (enum ls_cmd)i, line) != LS_OK || ls__options_resolve(&o, (enum ls_cmd)i) != LS_OK)
                fail_msg("example '%s': %s", e->line, ls_error_message());
        }
    }
}

/* --- arguments and what follows from several options --- */

static void test_arguments(void **state)
{
    struct ls_options o;
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "-b 8 lenet5 --epochs 3 digits -q"), LS_OK);
    assert_int_equal(ls__options_resolve(&o, LS_CMD_TRAIN), LS_OK);
    assert_string_equal(o.train.model, "lenet5");
    assert_string_equal(o.train.data, "digits");
    assert_int_equal(parse(&o, LS_CMD_EVAL, "-- --odd"), LS_OK);
    assert_string_equal(o.args[0], "--odd");
    assert_int_equal(parse(&o, LS_CMD_EVAL, "-"), LS_OK);
    assert_string_equal(o.args[0], "-");
    expect_refusal(LS_CMD_TRAIN, "", "arguments are missing");
    expect_refusal(LS_CMD_TRAIN, "lenet5", "an argument is missing");
    expect_refusal(LS_CMD_TRAIN, "a b c", "unexpected argument 'c'");
    expect_refusal(LS_CMD_DOCTOR, "x", "unexpected argument 'x'");
}

static void test_the_last_one_wins(void **state)
{
    struct ls_options o;
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "-b 8 --batch-size=16 -b32"), LS_OK);
    assert_int_equal(o.train.batch_size, 32);
}

static void test_adamw_has_its_own_defaults(void **state)
{
    struct ls_options o;
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "a b --optimizer adamw"), LS_OK);
    assert_int_equal(ls__options_resolve(&o, LS_CMD_TRAIN), LS_OK);
    assert_true(o.train.lr == 0.001 && o.train.weight_decay == 0.01);
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "a b --optimizer adamw --lr 0.05 --wd 0"), LS_OK);
    assert_int_equal(ls__options_resolve(&o, LS_CMD_TRAIN), LS_OK);
    assert_true(o.train.lr == 0.05 && o.train.weight_decay == 0);
}

static void test_what_this_build_cannot(void **state)
{
    expect_refusal(LS_CMD_TRAIN, "a b -w 2 --hosts a,b", "give one");
    expect_refusal(LS_CMD_TRAIN, "a b --sync ps --compress 8", "--compress is for");
    expect_refusal(LS_CMD_SERVER, "a b --sync local:2", "expected ps, async or ssp:K");
    expect_refusal(LS_CMD_SERVER, "", "MODEL DATA");
    expect_refusal(LS_CMD_TRAIN, "a b --procs-per-node 2", "--procs-per-node");
    expect_refusal(LS_CMD_TRAIN, "a b --precision bf16", "computes in f32 only");
    expect_refusal(LS_CMD_TRAIN, "a b --device abacus", "this build has");
    expect_refusal(LS_CMD_TRAIN, "a b --schedule multistep", "--milestones");
    expect_refusal(LS_CMD_TRAIN, "a b --nesterov --momentum 0", "--momentum");
    expect_refusal(LS_CMD_TRAIN, "a b -b 8 --shards 9", "--shards 9");
    struct ls_options o;
    assert_int_equal(parse(&o, LS_CMD_TRAIN, "a b -w 1 --sync allreduce --device ref"), LS_OK);
    assert_int_equal(ls__options_resolve(&o, LS_CMD_TRAIN), LS_OK);
    assert_string_equal(o.train.device, "ref");
}

/* An option that does nothing beside others is not taken in silence: of each it is said when it has an effect. */
static void test_every_effect_is_said(void **state)
{
    const unsigned of_training = 1u << LS_CMD_TRAIN | 1u << LS_CMD_SERVER;
    const char *only;
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        const char *name = option->setting->name;
        if (option->commands & of_training && !ls__option_effect(name, &only))
            fail_msg("src/cli/unused.c does not say when --%s has an effect", name);
    }
    assert_false(ls__option_effect("no-such-option", &only));
    assert_true(ls__option_effect("lr", &only));
    assert_null(only);
    assert_true(ls__option_effect("trace-steps", &only));
    assert_string_equal(only, "with --trace");
}

/* --- texts --- */

/* What people are told of --sync names every way. */
static void test_sync_texts(void **state)
{
    for (const struct ls_sync_name *s = ls__sync_names; s->name; s++) {
        char word[64];
        snprintf(word, sizeof word, s->has_number ? "%s:" : "%s", s->name);
        assert_int_equal(strncmp(s->usage, word, strlen(word)), 0);
        assert_non_null(strstr(LS_SYNC_EXPECTED, s->usage));
        assert_true(s->is_built);
        assert_non_null(strstr(LS_SYNC_HELP, s->usage));
    }
}

static void test_sync_names(void **state)
{
    static const struct {
        const char *text, *name;
        int64_t number;
    } cases[] = {{"allreduce", "allreduce", 0}, {"ps", "ps", 0},         {"async", "async", 0},
                 {"ssp:0", "ssp", 0},           {"local:1", "local", 1}, {"local:1000000", "local", 1000000}};
    static const char *const bad[] = {"",         "local",       "local:",        "local:0", "local:-1",
                                      "local:4x", "local4",      "local:1000001", "ssp:-1",  "ps:1",
                                      "asynch",   "allreduce:4", "LOCAL:4",       "loca:4",  "ssp:1:2"};
    struct ls_sync_choice c;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(ls__sync_parse(cases[i].text, &c));
        assert_string_equal(c.name->name, cases[i].name);
        assert_int_equal(c.number, cases[i].number);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ls__sync_parse(bad[i], &c)) fail_msg("--sync '%s' is taken for %s", bad[i], c.name->name);
}

static void test_help_mentions_every_option(void **state)
{
    for (int i = 0; i < LS_N_CMDS; i++) {
        struct ls_buf b = LS_BUF_INIT;
        ls__help_command(&b, (enum ls_cmd)i);
        assert_int_equal(ls__buf_check(&b), LS_OK);
        for (const struct ls_option *option = ls__options; option->setting; option++) {
            char usage[64];
            ls__setting_usage(option->setting, usage, sizeof usage);
            bool is_there = strstr(b.text, usage) != NULL;
            if (ls__option_is_of(option, (enum ls_cmd)i) && !is_there)
                fail_msg("help of %s lacks %s", ls__commands[i].name, usage);
        }
        for (const char *line = b.text; *line; line += strcspn(line, "\n") + 1) {
            bool is_example = !strncmp(line, "  lockstep", 10);
            if (strcspn(line, "\n") > 80 && !is_example) fail_msg("over 80 columns: %.100s", line);
            assert_false(strcspn(line, "\n") && line[strcspn(line, "\n") - 1] == ' ');
        }
        assert_non_null(strstr(b.text, "Exit codes:"));
        ls__buf_release(&b);
    }
}

static void test_batch_is_said_to_be_global(void **state)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__help_command(&b, LS_CMD_TRAIN);
    assert_non_null(strstr(b.text, "GLOBAL batch"));
    ls__buf_release(&b);
}

static void test_overview_mentions_every_command(void **state)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__help_overview(&b);
    for (int i = 0; i < LS_N_CMDS; i++) assert_non_null(strstr(b.text, ls__commands[i].summary));
    ls__buf_release(&b);
}

static void test_man_mentions_every_option(void **state)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__help_man(&b);
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        struct ls_buf escaped = LS_BUF_INIT;
        char usage[64];
        ls__setting_usage(option->setting, usage, sizeof usage);
        ls__buf_adds(&escaped, "\\fB");
        add_escaped(&escaped, usage);
        if (!strstr(b.text, escaped.text)) fail_msg("the man page lacks %s", usage);
        ls__buf_release(&escaped);
    }
    assert_null(strstr(b.text, "\n'"));
    ls__buf_release(&b);
}

static void test_completion_mentions_every_option(void **state)
{
    const char *const shells[] = {"bash", "fish"}, *const before[] = {" --", " -l "};
    for (int s = 0; s < 2; s++) {
        struct ls_buf b = LS_BUF_INIT;
        ls__help_completion(&b, shells[s]);
        for (const struct ls_option *option = ls__options; option->setting; option++) {
            char word[64];
            snprintf(word, sizeof word, "%s%s", before[s], option->setting->name);
            if (!strstr(b.text, word)) fail_msg("%s completion lacks --%s", shells[s], option->setting->name);
        }
        assert_non_null(strstr(b.text, "lenet5"));
        ls__buf_release(&b);
    }
}

static void test_exit_codes_are_the_status_list(void **state)
{
    for (int status = LS_OK; status <= LS_INTERRUPTED; status++) {
        int code = ls_status_exit_code((enum ls_status)status);
        const struct ls_exit_code *e = ls__exit_codes;
        while (e->code >= 0 && e->code != code) e++;
        if (e->code < 0) fail_msg("exit code %d (%s) is not explained", code, ls_status_name((enum ls_status)status));
    }
    assert_int_equal(ls_status_exit_code(LS_USAGE), 2);
    assert_int_equal(ls_status_exit_code(LS_DATA), 3);
    assert_int_equal(ls_status_exit_code(LS_CHECKPOINT), 4);
    assert_int_equal(ls_status_exit_code(LS_INTERRUPTED), 75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_sane),
        cmocka_unit_test(test_groups_stand_together),
        cmocka_unit_test(test_defaults_are_valid),
        cmocka_unit_test(test_defaults_equal_the_library),
        cmocka_unit_test(test_limits_equal_the_library),
        cmocka_unit_test(test_manifest_has_every_option),
        cmocka_unit_test(test_every_form_of_every_option),
        cmocka_unit_test(test_every_option_is_written),
        cmocka_unit_test(test_values_that_look_like_options),
        cmocka_unit_test(test_letters),
        cmocka_unit_test(test_flags_can_be_turned_off),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_choices_and_texts_refuse_junk),
        cmocka_unit_test(test_values_that_may_be_left_out),
        cmocka_unit_test(test_any_number_of_arguments),
        cmocka_unit_test(test_missing_values),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_prefixes_are_not_accepted),
        cmocka_unit_test(test_underscores_count_as_dashes),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_examples_parse),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_the_last_one_wins),
        cmocka_unit_test(test_adamw_has_its_own_defaults),
        cmocka_unit_test(test_what_this_build_cannot),
        cmocka_unit_test(test_every_effect_is_said),
        cmocka_unit_test(test_sync_texts),
        cmocka_unit_test(test_sync_names),
        cmocka_unit_test(test_help_mentions_every_option),
        cmocka_unit_test(test_batch_is_said_to_be_global),
        cmocka_unit_test(test_overview_mentions_every_command),
        cmocka_unit_test(test_man_mentions_every_option),
        cmocka_unit_test(test_completion_mentions_every_option),
        cmocka_unit_test(test_exit_codes_are_the_status_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
