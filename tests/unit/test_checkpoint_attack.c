/* test_checkpoint_attack.c: hostile, cut and damaged files are refused, for the right reason, quickly and in little
 * memory. */
#include "base/clock.h"
#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sanitized.h"
#include "scratch.h"

enum { MAX_GROWTH_KB = 16 << 10, MAX_MS = 100 };

/* --- how much memory and time a refusal costs --- */

static long status_kb(const char *key)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) sscanf(line + strlen(key), "%ld", &kb);
    fclose(f);
    return kb;
}

static bool reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY);
    bool done = fd >= 0 && write(fd, "5", 1) == 1;
    if (fd >= 0) close(fd);
    return done;
}

/* The bytes must be refused with a message that has `part` in it. */
static void refuse(const char *name, const void *data, size_t len, const char *part)
{
    struct ls_ckpt *c = NULL;
    bool can_measure = reset_peak() && !IS_SANITIZED;
    long before_kb = status_kb("VmRSS:");
    int64_t start = ls__thread_ns(); /* CPU time: the machine may be busy */
    enum ls_status status = ls_ckpt_parse(&c, "attack", data, len);
    double ms = (double)(ls__thread_ns() - start) * 1e-6;
    long growth_kb = status_kb("VmHWM:") - before_kb;
    if (status != LS_CHECKPOINT || !strstr(ls_error_message(), part))
        print_error("%s: expected CHECKPOINT with '%s', got %s: %s\n", name, part, ls_status_name(status),
                    ls_error_message());
    assert_int_equal(status, LS_CHECKPOINT);
    assert_null(c);
    assert_non_null(strstr(ls_error_message(), part));
    if (IS_SANITIZED) return;
    if (ms > MAX_MS || (can_measure && growth_kb > MAX_GROWTH_KB))
        print_error("%s: %.1f ms (at most %d), %ld KiB (at most %d)\n", name, ms, MAX_MS, growth_kb, MAX_GROWTH_KB);
    assert_true(ms <= MAX_MS);
    if (can_measure) assert_true(growth_kb <= MAX_GROWTH_KB);
}

/* length, header, n_data zeros */
static void refuse_header(const char *name, const char *header, size_t n_header, size_t n_data, const char *part)
{
    uint64_t n = n_header;
    char *file = calloc(1, 8 + n_header + n_data);
    assert_non_null(file);
    memcpy(file, &n, 8);
    memcpy(file + 8, header, n_header);
    refuse(name, file, 8 + n_header + n_data, part);
    free(file);
}

#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void hostile_headers(void **state)
{
    (void)state;
    static const struct {
        const char *name, *header;
        size_t n_data;
        const char *part;
    } attacks[] = {
        {"not an object", "[\"a\"]", 0, "open with '{'"},
        {"leading blank", " {}", 0, "open with '{'"},
        {"not JSON", "{\"a\":", 0, "not valid JSON"},
        {"two values", "{}{}", 0, "not valid JSON"},
        {"non-UTF-8 name", "{\"\xff\xfe\":" T("F32", "[1]", "[0,4]") "}", 4, "not valid JSON"},
        {"overlong UTF-8", "{\"\xc0\xaf\":" T("F32", "[1]", "[0,4]") "}", 4, "not valid JSON"},
        {"escaped NUL in a name", "{\"a\\u0000b\":" T("F32", "[1]", "[0,4]") "}", 4, "not valid JSON"},
        {"duplicate tensor", "{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[1]", "[4,8]") "}", 8,
         "not valid JSON"},
        {"duplicate field", "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "not valid JSON"},
        {"duplicate metadata", "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "not valid JSON"},
        {"overlap", "{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[4,12]") "}", 12, "overlap"},
        {"same range twice", "{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[0,8]") "}", 8, "overlap"},
        {"hole", "{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[8,12]") "}", 12, "hole"},
        {"hole at the start", "{\"a\":" T("F32", "[1]", "[4,8]") "}", 8, "hole"},
        {"trailing bytes", "{\"a\":" T("F32", "[1]", "[0,4]") "}", 5, "belong to none"},
        {"data without tensors", "{}", 1, "belong to none"},
        {"beyond the file", "{\"a\":" T("F32", "[2]", "[0,8]") "}", 7, "beyond the end"},
        {"shape overflow", "{\"a\":" T("F32", "[2,18446744073709551614]", "[0,4]") "}", 4, "not valid JSON"},
        {"shape overflow in 63 bits", "{\"a\":" T("F32", "[2,9223372036854775807,2]", "[0,4]") "}", 4, "overflows"},
        {"shape wraps to the right size", "{\"a\":" T("F32", "[4611686018427387905]", "[0,4]") "}", 4, "overflows"},
        {"offset overflow", "{\"a\":" T("F32", "[1]", "[0,9223372036854775808]") "}", 4, "not valid JSON"},
        {"negative offset", "{\"a\":" T("F32", "[1]", "[-4,0]") "}", 4, "negative"},
        {"offsets swapped", "{\"a\":" T("F32", "[1]", "[4,0]") "}", 4, "wrong order"},
        {"offsets as reals", "{\"a\":" T("F32", "[1]", "[0.0,4.0]") "}", 4, "pair of numbers"},
        {"three offsets", "{\"a\":" T("F32", "[1]", "[0,4,4]") "}", 4, "pair of numbers"},
        {"offsets as object", "{\"a\":" T("F32", "[1]", "{\"0\":0}") "}", 4, "pair of numbers"},
        {"negative dimension", "{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4, "dimension"},
        {"two negative dimensions", "{\"a\":" T("F32", "[-1,-1]", "[0,4]") "}", 4, "dimension"},
        {"dimension as text", "{\"a\":" T("F32", "[\"1\"]", "[0,4]") "}", 4, "dimension"},
        {"five dimensions", "{\"a\":" T("F32", "[1,1,1,1,1]", "[0,4]") "}", 4, "more than 4"},
        {"shape is no array", "{\"a\":" T("F32", "1", "[0,4]") "}", 4, "shape is missing"},
        {"wrong size for the dtype", "{\"a\":" T("I64", "[1]", "[0,4]") "}", 4, "needs 8 bytes"},
        {"other dtype", "{\"a\":" T("F8_E4M3", "[4]", "[0,4]") "}", 4, "F8_E4M3 is not supported"},
        {"unknown dtype", "{\"a\":" T("\\u001b[31m", "[2]", "[0,4]") "}", 4, "type ?[31m is not"},
        {"dtype is no string", "{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing"},
        {"field missing", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "exactly dtype"},
        {"field too many", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
         "exactly dtype"},
        {"tensor is no object", "{\"a\":[0,4]}", 4, "exactly dtype"},
        {"tensor is null", "{\"a\":null}", 0, "exactly dtype"},
        {"metadata is no object", "{\"__metadata__\":[]}", 0, "not an object"},
        {"metadata with a number", "{\"__metadata__\":{\"step\":4}}", 0, "not a string"},
        {"nested metadata", "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "not a string"},
        {"deeply nested metadata", "{\"__metadata__\":{\"a\":{\"b\":{\"c\":\"d\"}}}}", 0, "nested deeper"},
        {"checksum without format", "{\"__metadata__\":{\"lockstep.checksum\":\"00000000000000000000000000000000\"}}",
         0, "only one of"},
        {"format without checksum", "{\"__metadata__\":{\"lockstep.format\":\"1\"}}", 0, "only one of"},
        {"checksum elsewhere",
         "{\"__metadata__\":{\"lockstep.format\":\"1\",\"lockstep.checksum\":\"00000000000000000000000000000000\"}}", 0,
         "not 32 digits at byte"},
        {"checksum too short",
         "{\"__metadata__\":{\"lockstep.checksum\":\"00\",\"lockstep.format\":\"1\"},"
         "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\":" T("F32", "[0]", "[0,0]") "}",
         0, "not 32 digits"},
        {"wrong checksum",
         "{\"__metadata__\":{\"lockstep.checksum\":\"00000000000000000000000000000000\",\"lockstep.format\":\"1\"}}", 0,
         "checksum is"},
    };
    int n = (int)(sizeof attacks / sizeof *attacks);
    for (int i = 0; i < n; i++)
        refuse_header(attacks[i].name, attacks[i].header, strlen(attacks[i].header), attacks[i].n_data,
                      attacks[i].part);
    print_message("           %d hostile headers\n", n);
}

static void hostile_lengths(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *part;
    } attacks[] = {
        {0, "does not fit"},   {1, "does not fit"},          {3, "does not fit"},
        {UINT64_MAX, "limit"}, {UINT64_C(1) << 63, "limit"}, {UINT64_MAX - 7, "limit"},
        {100000001, "limit"},  {100000000, "does not fit"},  {UINT64_C(1) << 32, "limit"},
    };
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        char file[10] = "        {}";
        memcpy(file, &attacks[i].length, 8);
        refuse("length", file, sizeof file, attacks[i].part);
    }
}

/* --- large headers: bounded memory even where the length itself is allowed --- */

enum { ENTRY_BYTES = 80 };

static size_t add_tensor(char *to, int i)
{
    return (size_t)snprintf(to, ENTRY_BYTES, "%s\"%x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                            i ? "," : "{", i);
}

static void million_tensors(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *header = malloc((size_t)N * ENTRY_BYTES);
    size_t at = 0;
    assert_non_null(header);
    for (int i = 0; i < N; i++) at += add_tensor(header + at, i);
    header[at++] = '}';
    refuse_header("10^6 tensors", header, at, 0, "at most 2097152");
    for (at = 0; at < 2000000;) at += add_tensor(header + at, (int)(at / 32));
    header[at++] = '}';
    refuse_header("2 MB of tensors", header, at, 0, "more than 8192 tensors");
    free(header);
}

static void repeat(const char *name, const char *open, const char *unit, size_t bytes, const char *part)
{
    size_t n_open = strlen(open), n_unit = strlen(unit);
    char *header = malloc(n_open + bytes + n_unit);
    assert_non_null(header);
    memcpy(header, open, n_open);
    size_t at = n_open;
    for (; at < bytes; at += n_unit) memcpy(header + at, unit, n_unit);
    refuse_header(name, header, at, 0, part);
    free(header);
}

static void large_headers(void **state)
{
    (void)state;
    repeat("deep arrays", "{\"a\":", "[", 2000000, "nested deeper");
    repeat("deep objects", "", "{\"a\":", 2000000, "nested deeper");
    repeat("many numbers", "{\"a\":[", "1,", 2000000, "more than 131072 entries");
    repeat("many empty objects", "{\"a\":[", "{},", 2000000, "more than 8192");
    repeat("many empty arrays", "{\"a\":[", "[],", 300000, "more than 131072 entries");
    repeat("open string", "{\"a", "a", 2000000, "not valid JSON");
    repeat("backslashes", "{\"a", "\\", 2000000, "not valid JSON");
    repeat("numbers up to the bound", "{\"a\":[", "1,", 262000, "not valid JSON");
    repeat("objects up to the bound", "{\"a\":[", "{},", 24000, "not valid JSON");
    repeat("spaces", "{", " ", 2000000, "not valid JSON");
}

static void sparse_file(void **state)
{
    (void)state;
    char path[SCRATCH_BYTES];
    int fd = mkstemp(scratch_name(path, "sparse", ""));
    assert_true(fd >= 0);
    static const uint64_t lengths[] = {100000001, 100000000, 2 << 20};
    static const char *const parts[] = {"limit", "at most 2097152", "open with '{'"};
    struct ls_ckpt *c;
    assert_int_equal(ftruncate(fd, 300000000), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pwrite(fd, &lengths[i], 8, 0), 8);
        assert_int_equal(ls_ckpt_open(&c, path), LS_CHECKPOINT);
        if (!strstr(ls_error_message(), parts[i])) print_error("'%s' has no '%s'\n", ls_error_message(), parts[i]);
        assert_non_null(strstr(ls_error_message(), parts[i]));
    }
    close(fd);
    unlink(path);
}

/* --- damage to a file of ours --- */

static char *good;
static size_t good_len;

static int make_good(void **state)
{
    (void)state;
    static float data[20000];
    static const struct ls_ckpt_meta meta[] = {{"step", "12"}, {"model", "lenet5"}};
    char path[SCRATCH_BYTES];
    for (int i = 0; i < 20000; i++) data[i] = (float)i * 0.5f;
    struct ls_ckpt_tensor t[] = {{"conv1.weight", LS_F32, LS_SHAPE4(10, 10, 10, 10), data},
                                 {"fc.weight", LS_F32, LS_SHAPE2(100, 100), data + 10000},
                                 {"optimizer.momentum.fc.weight", LS_U8, LS_SHAPE1(77), data}};
    int fd = mkstemp(scratch_name(path, "good", ""));
    if (fd < 0 || ls_ckpt_write(path, t, 3, meta, 2) != LS_OK) return -1;
    close(fd);
    FILE *f = fopen(path, "rb");
    good = malloc(1 << 20);
    if (!f || !good) return -1;
    good_len = fread(good, 1, 1 << 20, f);
    fclose(f);
    unlink(path);
    return good_len > 80000 ? 0 : -1;
}

static int free_good(void **state)
{
    (void)state;
    free(good);
    return 0;
}

static void good_is_good(void **state)
{
    (void)state;
    struct ls_ckpt *c;
    assert_int_equal(ls_ckpt_parse(&c, "good", good, good_len), LS_OK);
    assert_true(ls_ckpt_has_checksum(c));
    ls_ckpt_close(&c);
}

/* A copy of exactly n bytes, so that a sanitizer sees a read beyond. */
static enum ls_status parse_cut(size_t n)
{
    struct ls_ckpt *c = NULL;
    char *cut = malloc(n ? n : 1);
    assert_non_null(cut);
    memcpy(cut, good, n);
    enum ls_status status = ls_ckpt_parse(&c, "cut", cut, n);
    ls_ckpt_close(&c);
    free(cut);
    return status;
}

static void truncation(void **state)
{
    (void)state;
    int n_cuts = 0;
    for (size_t n = 0; n < good_len; n += n < 4096 ? 1 : 4096, n_cuts++) {
        enum ls_status status = parse_cut(n);
        if (status != LS_CHECKPOINT) print_error("cut to %zu of %zu: %s\n", n, good_len, ls_status_name(status));
        assert_int_equal(status, LS_CHECKPOINT);
    }
    assert_int_equal(parse_cut(good_len - 1), LS_CHECKPOINT);
    print_message("           %d cuts refused\n", n_cuts + 1);
}

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void refuse_flip(size_t bit)
{
    struct ls_ckpt *c = NULL;
    good[bit / 8] ^= (char)(1 << bit % 8);
    enum ls_status status = ls_ckpt_parse(&c, "flip", good, good_len);
    good[bit / 8] ^= (char)(1 << bit % 8);
    if (status != LS_CHECKPOINT) print_error("bit %zu of byte %zu: %s\n", bit % 8, bit / 8, ls_status_name(status));
    assert_int_equal(status, LS_CHECKPOINT);
}

static void bit_flips(void **state)
{
    (void)state;
    uint64_t random = 20240607;
    size_t n_header_bits = 8 * 1024;
    for (size_t bit = 0; bit < n_header_bits; bit++)
        refuse_flip(bit); /* the header, where a flip could hide the checksum */
    for (int i = 0; i < 1000; i++) refuse_flip(next_random(&random) % (8 * good_len));
    print_message("           %zu flips in the first KiB and 1000 anywhere refused\n", n_header_bits);
}

static void other_content(void **state)
{
    (void)state;
    static const char text[] = "lockstep: this is a log file, not a checkpoint\n";
    static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\6\0\0\0";
    static const char zip[] = "PK\3\4\24\0\0\0\0\0archive/data.pkl"; /* a .pt file */
    char *mixed = malloc(good_len);
    assert_non_null(mixed);
    refuse("text", text, sizeof text, "limit");
    refuse("png", png, sizeof png, "limit");
    refuse("zip", zip, sizeof zip, "limit");
    memset(mixed, 0, good_len);
    refuse("zeros", mixed, good_len, "does not fit");
    memcpy(mixed, good, good_len); /* the right header before another file's data */
    for (size_t i = 4096; i < good_len; i++) mixed[i] = (char)i;
    refuse("other data", mixed, good_len, "checksum is");
    free(mixed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_headers), cmocka_unit_test(hostile_lengths), cmocka_unit_test(million_tensors),
        cmocka_unit_test(large_headers),   cmocka_unit_test(sparse_file),     cmocka_unit_test(good_is_good),
        cmocka_unit_test(truncation),      cmocka_unit_test(bit_flips),       cmocka_unit_test(other_content),
    };
    return cmocka_run_group_tests(tests, make_good, free_good);
}
