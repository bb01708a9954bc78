/* test_nvml.c: which card NVIDIA's management library is asked about, with a library of the test's own that knows
 * three.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *open_ours(const char *name, int flags);
static void *find_ours(void *library, const char *name);
#define dlopen open_ours
#define dlsym find_ours
#include "record/nvml.c"

/* --- the library --- */

static struct {
    const char *uuid, *place;
} cards[] = {{"GPU-a", "00000000:1B:00.0"}, {"GPU-b", "00000000:3B:00.0"}, {"GPU-c", "00000000:5E:00.0"}};
enum { N_CARDS = 3 };

static int init(void)
{
    return 0;
}
static int by_index(unsigned index, card_handle *card)
{
    if (index >= N_CARDS) return 2;
    *card = &cards[index];
    return 0;
}
static int by_uuid(const char *uuid, card_handle *card)
{
    for (unsigned i = 0; i < N_CARDS; i++)
        if (strcmp(cards[i].uuid, uuid) == 0) return by_index(i, card);
    return 6;
}
static int by_place(const char *place, card_handle *card)
{
    for (unsigned i = 0; i < N_CARDS; i++)
        if (strcmp(cards[i].place, place) == 0) return by_index(i, card);
    return 6;
}
static unsigned number_of(card_handle card)
{
    for (unsigned i = 0; i < N_CARDS; i++)
        if (card == &cards[i]) return i;
    return N_CARDS;
}
static int utilization(card_handle card, struct rates *rates)
{
    *rates = (struct rates){.gpu = 10 + number_of(card)};
    return 0;
}
static int memory_info(card_handle card, struct memory *memory)
{
    *memory = (struct memory){.total = 1000, .used = 100 * number_of(card)};
    return 0;
}

static void *open_ours(const char *name, int flags)
{
    return cards;
}

static void *find_ours(void *library, const char *name)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } all[] = {{"nvmlInit_v2", (void (*)(void))init},
               {"nvmlDeviceGetHandleByIndex_v2", (void (*)(void))by_index},
               {"nvmlDeviceGetHandleByUUID", (void (*)(void))by_uuid},
               {"nvmlDeviceGetHandleByPciBusId_v2", (void (*)(void))by_place},
               {"nvmlDeviceGetUtilizationRates", (void (*)(void))utilization},
               {"nvmlDeviceGetMemoryInfo", (void (*)(void))memory_info}};
    void *found = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) memcpy(&found, &all[i].fn, sizeof found);
    return found;
}

/* --- tests --- */

static void check_card(const char *place, int number)
{
    struct ls_gpu_use use;
    assert_true(ls__nvml_read(place, &use));
    assert_int_equal((int)use.percent, 10 + number);
    assert_int_equal(use.used_bytes, 100 * number);
}

/* A process that computes on the second card of four looks at that one, whatever it may see besides. */
static void test_by_place(void **state)
{
    struct ls_gpu_use use;
    check_card("00000000:3B:00.0", 1);
    check_card("00000000:5E:00.0", 2);
    check_card("00000000:1B:00.0", 0);
    assert_false(ls__nvml_read("00000000:77:00.0", &use));
}

static void test_first(void **state)
{
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    check_card(NULL, 0);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "2,0", 1), 0);
    check_card(NULL, 2);
    check_card("00000000:3B:00.0", 1);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "GPU-b", 1), 0);
    check_card(NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_place), cmocka_unit_test(test_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
