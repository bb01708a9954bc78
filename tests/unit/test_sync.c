/* test_sync.c: every way to synchronise that has a name in this build has a table, and says what it carries. */
#include "lockstep/options.h"
#include "train/carry.h"
#include "train/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum ls_status choose(struct sync *sync, const char *text, int64_t compress)
{
    struct ls_train_options o;
    ls_train_options_default(&o);
    o.sync = text;
    o.compress = compress;
    return ls__sync_choose(sync, &o);
}

static void test_every_name_has_a_table(void **state)
{
    struct sync sync;
    for (const struct ls_sync_name *n = ls__sync_names; n->name; n++) {
        char text[64];
        snprintf(text, sizeof text, n->has_number ? "%s:%lld" : "%s", n->name, (long long)n->max);
        assert_int_equal(choose(&sync, text, 0), n->is_built ? LS_OK : LS_USAGE);
        if (!n->is_built) continue;
        assert_string_equal(sync.way->name, n->name);
        assert_int_equal(sync.choice.number, n->max);
        assert_non_null(sync.way->step);
        assert_true(!sync.way->is_settled == !sync.way->view); /* who may be unsettled can be viewed */
        assert_int_equal(choose(&sync, text, 8), n->no_compress ? LS_USAGE : LS_OK);
    }
}

static void test_what_is_carried(void **state)
{
    struct sync sync;
    assert_int_equal(choose(&sync, "allreduce", 0), LS_OK);
    assert_null(sync.carried);
    assert_int_equal(choose(&sync, "allreduce", 16), LS_OK);
    assert_string_equal(sync.carried->prefix, "remainder/");
    assert_int_equal(choose(&sync, "local:3", 0), LS_OK);
    assert_string_equal(sync.carried->prefix, "local/");
    assert_int_equal(sync.choice.number, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name_has_a_table),
        cmocka_unit_test(test_what_is_carried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
