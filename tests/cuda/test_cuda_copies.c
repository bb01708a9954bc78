/* test_cuda_copies.c: which copies of parameters updates bring along. Needs no card: only addresses are looked at. */
#include "backend/cuda/cuda.h"

#include "engine.h"

#include <stdlib.h>

static float param[2][8];
static char copy[3][16];

static bool bound(struct ls_device *d, int p, int c, int64_t n)
{
    bool is_followed;
    check_ok(ls__cuda_copy_bind(d, param[p], copy[c], n, &is_followed));
    return is_followed;
}

static void test_found(void **state)
{
    struct ls_device d = {.n_copies = 0};
    assert_null(ls__cuda_copy_of(&d, param[0], 8));
    assert_true(bound(&d, 0, 0, 8));
    assert_true(bound(&d, 1, 1, 8));
    assert_ptr_equal(ls__cuda_copy_of(&d, param[0], 8), copy[0]);
    assert_ptr_equal(ls__cuda_copy_of(&d, param[1], 8), copy[1]);
    assert_null(ls__cuda_copy_of(&d, param[1], 7)); /* an update of a part would leave the rest behind */
    free(d.copies);
}

/* An update writes one copy; whoever makes another has to make it anew. */
static void test_second(void **state)
{
    struct ls_device d = {.n_copies = 0};
    assert_true(bound(&d, 0, 0, 8));
    assert_false(bound(&d, 0, 2, 8));
    assert_false(bound(&d, 0, 0, 4));
    assert_ptr_equal(ls__cuda_copy_of(&d, param[0], 8), copy[0]);
    free(d.copies);
}

/* Two plans make the same copy: it is brought along until both are gone. */
static void test_unbound(void **state)
{
    struct ls_device d = {.n_copies = 0};
    assert_true(bound(&d, 0, 0, 8));
    assert_true(bound(&d, 1, 1, 8));
    assert_true(bound(&d, 0, 0, 8));
    ls__cuda_copy_unbind(&d, param[0], copy[2]); /* not one of them */
    ls__cuda_copy_unbind(&d, param[0], copy[0]);
    assert_ptr_equal(ls__cuda_copy_of(&d, param[0], 8), copy[0]);
    ls__cuda_copy_unbind(&d, param[0], copy[0]);
    assert_null(ls__cuda_copy_of(&d, param[0], 8));
    assert_ptr_equal(ls__cuda_copy_of(&d, param[1], 8), copy[1]);
    assert_true(bound(&d, 0, 2, 8));
    assert_ptr_equal(ls__cuda_copy_of(&d, param[0], 8), copy[2]);
    free(d.copies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_second),
        cmocka_unit_test(test_unbound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
