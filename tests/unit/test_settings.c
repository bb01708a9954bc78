/* test_settings.c: the table of settings, and what programs do with it. Most tests walk the whole table: a setting
 * added tomorrow is tested tomorrow.
 */
#include "lockstep/options.h"
#include "other_value.h"
#include "settings/setting.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_text(const struct ls_setting *s)
{
    return s->type == LS_SETTING_TEXT || s->type == LS_SETTING_CHOICE;
}

static void expect_usage(enum ls_status status, const char *part)
{
    assert_int_equal(status, LS_USAGE);
    if (!strstr(ls_error_message(), part)) fail_msg("\"%s\" is without \"%s\"", ls_error_message(), part);
}

/* --- the table --- */

static void test_every_entry_is_whole(void **state)
{
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        if (!s->name || !s->key || !s->help || !*s->help || !s->role) fail_msg("setting %d is not whole", i);
        bool is_number = s->type == LS_SETTING_INT || s->type == LS_SETTING_REAL;
        if (is_number != (s->min < s->max)) fail_msg("--%s: %g to %g is no range", s->name, s->min, s->max);
        if ((s->type == LS_SETTING_CHOICE) != (s->choices != NULL)) fail_msg("--%s: choices", s->name);
        if (is_number && !s->def) fail_msg("--%s: a number without default", s->name);
        if (!s->is_valid != !s->expected) fail_msg("--%s: refuses without saying what is expected", s->name);
        if (s->follows_others && (s->type != LS_SETTING_REAL || s->min <= LS_NOT_GIVEN))
            fail_msg("--%s: LS_NOT_GIVEN is a value of it", s->name);
        assert_ptr_equal(ls__setting_find(s->name), s);
        assert_ptr_equal(ls__setting_find(s->key), s); /* what JSON calls it can be set, too */
    }
}

static size_t size_of(const struct ls_setting *s)
{
    return s->type == LS_SETTING_FLAG ? sizeof(bool) : 8;
}

/* Between two members that have settings there is no room for a third, but for flags within padding. */
static void test_every_member_has_a_setting(void **state)
{
    const size_t end = offsetof(struct ls_train_options, control); /* from there on members are for programs only */
    size_t at = 0;
    assert_int_equal(sizeof(const char *), 8);
    while (at < end) {
        const struct ls_setting *next = NULL;
        for (int i = 0; i < LS_N_SETTINGS; i++) {
            const struct ls_setting *s = &ls__settings[i];
            if (s->offset >= at && (!next || s->offset < next->offset)) next = s;
            if (s->offset < at && s->offset + size_of(s) > at) fail_msg("--%s shares a member", s->name);
        }
        size_t gap = (next ? next->offset : end) - at;
        if (gap >= 8) fail_msg("the member at byte %zu has no setting", at);
        if (!next) break;
        at = next->offset + size_of(next);
    }
}

static void test_defaults_are_good(void **state)
{
    struct ls_train_options o, d;
    char text[64];
    ls_train_options_default(&d);
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        memset(&o, 0, sizeof o);
        if (s->def && ls__setting_store(s, &o, s->def) != LS_OK) fail_msg("%s", ls_error_message());
        if (ls__setting_check(s, &d) != LS_OK) fail_msg("%s", ls_error_message());
        assert_int_equal(ls_options_get(&d, s->name, text, sizeof text), LS_OK);
        const char *expected = s->follows_others || !s->def ? (s->type == LS_SETTING_FLAG ? "off" : "") : s->def;
        if (s->type == LS_SETTING_REAL && *expected)
            assert_true(strtod(text, NULL) == strtod(expected, NULL));
        else
            assert_string_equal(text, expected);
    }
}

/* --- by name --- */

static void test_set_and_get_every_setting(void **state)
{
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        const char *names[] = {s->name, s->key, s->aliases[0], s->aliases[1], s->aliases[2]};
        for (int k = 0; k < 5; k++) {
            struct ls_train_options o, d;
            char text[64];
            if (!names[k]) continue;
            ls_train_options_default(&o);
            ls_train_options_default(&d);
            if (ls_options_set(&o, names[k], other_value(s)) != LS_OK) fail_msg("%s", ls_error_message());
            assert_int_equal(ls_options_get(&o, names[k], text, sizeof text), LS_OK);
            assert_string_equal(text, other_value(s));
            assert_memory_not_equal(&o, &d, sizeof o);
            ls__setting_reset(s, &o); /* nothing else has changed */
            assert_memory_equal(&o, &d, sizeof o);
        }
    }
}

static void test_bad_values_change_nothing(void **state)
{
    struct ls_train_options o, d;
    memset(&o, 0, sizeof o);
    memset(&d, 0, sizeof d);
    ls_train_options_default(&o);
    ls_train_options_default(&d);
    expect_usage(ls_options_set(&o, "batch-size", "0"), "--batch-size 0: expected a whole number from 1 to 1048576");
    expect_usage(ls_options_set(&o, "momentum", "1"), "--momentum 1: expected a number from 0 to below 1");
    expect_usage(ls_options_set(&o, "lr", "-1"), "--lr -1: expected a number from 0");
    expect_usage(ls_options_set(&o, "lr", "nan"), "--lr nan: expected");
    expect_usage(ls_options_set(&o, "optimizer", "adam"), "--optimizer adam: expected one of sgd, adamw");
    expect_usage(ls_options_set(&o, "flip", "maybe"), "--flip maybe: expected on or off");
    expect_usage(ls_options_set(&o, "run", ""), "--run '': expected a folder");
    expect_usage(ls_options_set(&o, "batchsize", "8"), "did you mean --batch-size?");
    expect_usage(ls_options_set(&o, "xyzzy", "8"), "unknown option --xyzzy");
    expect_usage(ls_options_set(&o, "", "8"), "unknown option");
    expect_usage(ls_options_set(&o, NULL, "8"), "without");
    expect_usage(ls_options_set(&o, "lr", NULL), "without");
    expect_usage(ls_options_set(NULL, "lr", "8"), "without");
    assert_memory_equal(&o, &d, sizeof o);
}

static void test_get_says_when_room_is_short(void **state)
{
    struct ls_train_options o;
    char text[8];
    ls_train_options_default(&o);
    assert_int_equal(ls_options_set(&o, "run", "1234567"), LS_OK);
    assert_int_equal(ls_options_get(&o, "run", text, sizeof text), LS_OK);
    assert_int_equal(ls_options_set(&o, "run", "12345678"), LS_OK);
    expect_usage(ls_options_get(&o, "run", text, sizeof text), "longer than the 8 bytes");
    expect_usage(ls_options_get(&o, "nothing", text, sizeof text), "unknown option");
}

/* Every number comes back as it was, in few digits where few say it. */
static void test_reals_are_exact(void **state)
{
    const double values[] = {0.1, 1.0 / 3, 1e-8, 0.30000000000000004, 123456.789, 5e-324};
    struct ls_train_options o;
    char text[64];
    ls_train_options_default(&o);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        o.lr = values[i];
        assert_int_equal(ls_options_get(&o, "lr", text, sizeof text), LS_OK);
        assert_true(strtod(text, NULL) == values[i]);
    }
    o.lr = 0.1;
    assert_int_equal(ls_options_get(&o, "lr", text, sizeof text), LS_OK);
    assert_string_equal(text, "0.1");
}

static void test_describe_walks_all(void **state)
{
    struct ls_option_info info;
    struct ls_train_options o;
    int n = 0;
    ls_train_options_default(&o);
    for (; ls_options_describe(n, &info); n++) {
        assert_true(*info.name && *info.help && *info.value && info.default_value && info.group);
        if (*info.default_value) assert_int_equal(ls_options_set(&o, info.name, info.default_value), LS_OK);
    }
    assert_int_equal(n, LS_N_SETTINGS);
    assert_false(ls_options_describe(-1, &info));
    assert_true(ls_options_describe(LS_SET_SEED, &info) && info.decides_result);
    assert_true(ls_options_describe(LS_SET_THREADS, &info) && !info.decides_result);
}

/* --- limits, for members that were written and for text --- */

static void expect_number(const struct ls_setting *s, double value, bool is_good)
{
    struct ls_train_options o;
    char text[64];
    ls_train_options_default(&o);
    void *at = (char *)&o + s->offset;
    if (s->type == LS_SETTING_INT)
        *(int64_t *)at = (int64_t)value;
    else
        *(double *)at = value;
    ls__setting_print(s, &o, text, sizeof text);
    if ((ls__setting_check(s, &o) == LS_OK) != is_good) fail_msg("--%s %g as a member", s->name, value);
    if ((ls__setting_store(s, &o, text) == LS_OK) != is_good) fail_msg("--%s %s as text", s->name, text);
}

static void test_limits(void **state)
{
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        bool is_int = s->type == LS_SETTING_INT;
        if (is_text(s) || s->type == LS_SETTING_FLAG) continue;
        expect_number(s, s->min, true);
        expect_number(s, s->max, !s->is_max_open);
        expect_number(s, is_int ? s->min - 1 : nextafter(s->min, -INFINITY), false);
        expect_number(s, is_int && s->max < 1e15 ? s->max + 1 : s->max * 1.01, false);
        if (!is_int) expect_number(s, NAN, false);
    }
}

/* --- what follows from several --- */

static void check(struct ls_train_options *o)
{
    o->model = "lenet5";
    o->data = "digits";
    if (ls_options_check(o) != LS_OK) fail_msg("%s", ls_error_message());
}

static void test_rates_follow_the_optimizer(void **state)
{
    struct ls_train_options o;
    ls_train_options_default(&o);
    check(&o);
    assert_true(o.lr == 0.05 && o.weight_decay == 0);
    ls_train_options_default(&o);
    o.optimizer = "adamw";
    check(&o);
    assert_true(o.lr == 0.001 && o.weight_decay == 0.01);
    check(&o); /* a second time changes nothing */
    assert_true(o.lr == 0.001 && o.weight_decay == 0.01);
    ls_train_options_default(&o);
    assert_int_equal(ls_options_set(&o, "optimizer", "adamw"), LS_OK);
    assert_int_equal(ls_options_set(&o, "lr", "0.05"), LS_OK);
    assert_int_equal(ls_options_set(&o, "wd", "0"), LS_OK);
    check(&o);
    assert_true(o.lr == 0.05 && o.weight_decay == 0);
}

static void test_check_refuses(void **state)
{
    static const struct {
        const char *name, *value, *part;
    } cases[] = {
        {"device", "abacus", "this build has"}, {"precision", "bf16", "computes in f32 only"},
        {"compress", "5", "8, 16 or 0"},        {"schedule", "multistep", "--milestones"},
        {"momentum", "0", "--nesterov needs"},  {"shards", "129", "more than the 128 samples"},
    };
    struct ls_train_options o;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_train_options_default(&o);
        o.model = "lenet5";
        o.data = "digits";
        o.nesterov = true;
        assert_int_equal(ls_options_set(&o, cases[i].name, cases[i].value), LS_OK);
        expect_usage(ls_options_check(&o), cases[i].part);
    }
    ls_train_options_default(&o);
    expect_usage(ls_options_check(&o), "no model was named");
    expect_usage(ls_options_check(NULL), "without options");
}

/* --- JSON --- */

static void test_json_gives_the_same_again(void **state)
{
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        struct ls_train_options o, again;
        ls_train_options_default(&o);
        ls_train_options_default(&again);
        assert_int_equal(ls__setting_store(s, &o, other_value(s)), LS_OK);
        json_t *object = ls__options_json(&o, LS_ROLE_ALL);
        assert_int_equal(json_object_size(object), LS_N_SETTINGS);
        for (int k = 0; k < LS_N_SETTINGS; k++)
            assert_int_equal(ls__setting_from_json(&ls__settings[k], &again, object), LS_OK);
        json_t *copy = ls__options_json(&again, LS_ROLE_ALL);
        if (!json_equal(object, copy)) fail_msg("--%s is lost in JSON", s->name);
        json_decref(object);
        json_decref(copy);
    }
}

static void test_json_of_another_kind(void **state)
{
    static const char *const bad[] = {"{\"flip\": 1}", "{\"seed\": \"1\"}", "{\"lr\": true}", "{\"sync\": 3}",
                                      "{\"seed\": 1.5}"};
    static const enum ls_setting_id ids[] = {LS_SET_FLIP, LS_SET_SEED, LS_SET_LR, LS_SET_SYNC, LS_SET_SEED};
    struct ls_train_options o;
    ls_train_options_default(&o);
    for (int i = 0; i < 5; i++) {
        json_t *object = json_loads(bad[i], 0, NULL);
        assert_int_equal(ls__setting_from_json(&ls__settings[ids[i]], &o, object), LS_DATA);
        json_decref(object);
    }
    json_t *out_of_range = json_pack("{s:i}", "batch_size", 0);
    assert_int_equal(ls__setting_from_json(&ls__settings[LS_SET_BATCH_SIZE], &o, out_of_range), LS_USAGE);
    assert_int_equal(o.batch_size, 128);
    json_decref(out_of_range);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_entry_is_whole),
        cmocka_unit_test(test_every_member_has_a_setting),
        cmocka_unit_test(test_defaults_are_good),
        cmocka_unit_test(test_set_and_get_every_setting),
        cmocka_unit_test(test_bad_values_change_nothing),
        cmocka_unit_test(test_get_says_when_room_is_short),
        cmocka_unit_test(test_reals_are_exact),
        cmocka_unit_test(test_describe_walks_all),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_rates_follow_the_optimizer),
        cmocka_unit_test(test_check_refuses),
        cmocka_unit_test(test_json_gives_the_same_again),
        cmocka_unit_test(test_json_of_another_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
