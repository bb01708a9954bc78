/* test_decoded.c: the cache of decoded pictures: what is put comes back, damage is noticed, work is shared. */
#include "data/decoded.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 16, C = 3, H = 20, W = 10, BYTES = C * H * W };
static const char checksum[] = "00112233445566778899aabbccddeeff";
static char path[1024];

static void fill(uint8_t *out, int64_t sample)
{
    for (int i = 0; i < BYTES; i++) out[i] = (uint8_t)(sample * 31 + i * 7);
}

static int start(void **state)
{
    char dir[512];
    snprintf(dir, sizeof dir, "%s/decoded-test-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    mkdir(dir, 0700);
    setenv("XDG_CACHE_HOME", dir, 1);
    snprintf(path, sizeof path, "%s/lockstep/pictures/%s-%dx%d.decoded", dir, checksum, H, W);
    unlink(path);
    return 0;
}

static int stop(void **state)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", getenv("XDG_CACHE_HOME"));
    return system(command);
}

static struct ls_decoded_cache *open_cache(void)
{
    struct ls_decoded_cache *cache = ls__decoded_open(checksum, N, C, H, W);
    assert_non_null(cache);
    return cache;
}

static void put_all(struct ls_decoded_cache *cache)
{
    uint8_t bytes[BYTES];
    for (int i = 0; i < N; i++) {
        assert_false(ls__decoded_get(cache, i, bytes));
        fill(bytes, i);
        ls__decoded_put(cache, i, bytes);
    }
}

static void check_all(struct ls_decoded_cache *cache)
{
    uint8_t bytes[BYTES], expected[BYTES];
    for (int i = 0; i < N; i++) {
        fill(expected, i);
        memset(bytes, 0, sizeof bytes);
        assert_true(ls__decoded_get(cache, i, bytes));
        assert_memory_equal(bytes, expected, BYTES);
    }
}

static void test_what_is_put_comes_back(void **state)
{
    struct ls_decoded_cache *cache = open_cache();
    put_all(cache);
    check_all(cache);
    ls__decoded_close(&cache);
    cache = open_cache(); /* the next run */
    check_all(cache);
    ls__decoded_close(&cache);
}

static void test_a_failed_picture_can_be_tried_again(void **state)
{
    uint8_t bytes[BYTES];
    struct ls_decoded_cache *cache = open_cache();
    assert_false(ls__decoded_get(cache, 3, bytes));
    ls__decoded_put(cache, 3, NULL);
    assert_false(ls__decoded_get(cache, 3, bytes));
    ls__decoded_put(cache, 3, NULL);
    ls__decoded_close(&cache);
}

static void test_damage_is_noticed(void **state)
{
    uint8_t bytes[BYTES];
    struct ls_decoded_cache *cache = open_cache();
    put_all(cache);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pwrite(fd, "x", 1, st.st_size - 5), 1); /* in the last picture */
    assert_false(ls__decoded_get(cache, N - 1, bytes));
    ls__decoded_put(cache, N - 1, NULL);
    assert_true(ls__decoded_get(cache, N - 2, bytes));
    ls__decoded_close(&cache);
    assert_int_equal(ftruncate(fd, st.st_size - BYTES), 0); /* cut: made anew */
    close(fd);
    cache = open_cache();
    put_all(cache);
    check_all(cache);
    ls__decoded_close(&cache);
}

static void test_the_claim_of_the_dead_is_taken_over(void **state)
{
    uint8_t bytes[BYTES];
    struct ls_decoded_cache *cache = open_cache();
    pid_t child = fork();
    if (child == 0) _exit(ls__decoded_get(cache, 5, bytes) ? 1 : 0); /* claims it, and ends without putting it */
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    assert_false(ls__decoded_get(cache, 5, bytes));
    fill(bytes, 5);
    ls__decoded_put(cache, 5, bytes);
    assert_true(ls__decoded_get(cache, 5, bytes));
    ls__decoded_close(&cache);
}

static atomic_int n_decoded;

static void *read_all(void *arg)
{
    struct ls_decoded_cache *cache = arg;
    uint8_t bytes[BYTES], expected[BYTES];
    for (int i = 0; i < N; i++) {
        fill(expected, i);
        if (!ls__decoded_get(cache, i, bytes)) {
            atomic_fetch_add(&n_decoded, 1);
            fill(bytes, i);
            ls__decoded_put(cache, i, bytes);
        }
        if (memcmp(bytes, expected, BYTES) != 0) return "wrong";
    }
    return NULL;
}

static void test_threads_share_the_work(void **state)
{
    struct ls_decoded_cache *cache = open_cache();
    pthread_t threads[4];
    atomic_store(&n_decoded, 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_all, cache), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(atomic_load(&n_decoded), N);
    ls__decoded_close(&cache);
}

static void test_without_a_folder_there_is_none(void **state)
{
    uint8_t bytes[BYTES];
    char kept[512];
    snprintf(kept, sizeof kept, "%s", getenv("XDG_CACHE_HOME"));
    setenv("XDG_CACHE_HOME", "/dev/null/nowhere", 1);
    assert_null(ls__decoded_open(checksum, N, C, H, W));
    setenv("XDG_CACHE_HOME", kept, 1);
    assert_false(ls__decoded_get(NULL, 0, bytes));
    ls__decoded_put(NULL, 0, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_put_comes_back, start, stop),
        cmocka_unit_test_setup_teardown(test_a_failed_picture_can_be_tried_again, start, stop),
        cmocka_unit_test_setup_teardown(test_damage_is_noticed, start, stop),
        cmocka_unit_test_setup_teardown(test_the_claim_of_the_dead_is_taken_over, start, stop),
        cmocka_unit_test_setup_teardown(test_threads_share_the_work, start, stop),
        cmocka_unit_test_setup_teardown(test_without_a_folder_there_is_none, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
