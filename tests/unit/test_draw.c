/* test_draw.c: round ticks, units, thinning, texts, and pictures of values and names that nobody would wish for. */
#include "draw/draw.h"
#include "draw/scale.h"
#include "draw/text.h"
#include "draw/thin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct ls_draw_axis plain = {0};

static struct ls_scale fitted(const struct ls_draw_axis *axis, double low, double high, int n)
{
    struct ls_scale s;
    ls__scale_fit(&s, axis, (struct ls_range){low, high}, n, 0, 100);
    return s;
}

static void test_round_steps(void **state)
{
    static const double pairs[][2] = {{1, 1},        {1.1, 2},   {3, 5},       {6, 10},
                                      {0.012, 0.02}, {450, 500}, {1e-9, 1e-9}, {7e11, 1e12}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        double got = ls__round_step(pairs[i][0]);
        if (fabs(got / pairs[i][1] - 1) > 1e-9)
            fail_msg("step of %g: got %g, expected %g", pairs[i][0], got, pairs[i][1]);
    }
}

/* Ticks lie within the axis, are apart alike, and there are some. */
static void test_linear_ticks(void **state)
{
    static const double ranges[][2] = {{0, 1}, {0, 7}, {-3, 8},        {0.001, 0.00105}, {1e6, 5e6},
                                       {5, 5}, {0, 0}, {1e200, 3e200}, {-1e-30, 1e-30}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct ls_scale s = fitted(&plain, ranges[i][0], ranges[i][1], 5);
        if (s.n_ticks < 3 || s.n_ticks > 12) fail_msg("%g to %g: %d ticks", ranges[i][0], ranges[i][1], s.n_ticks);
        double some = 1e-9 * (s.high - s.low);
        assert_true(s.low <= ranges[i][0] + some && s.high >= ranges[i][1] - some && s.high > s.low);
        for (int k = 0; k < s.n_ticks; k++) {
            double at = ls__scale_at(&s, s.ticks[k]);
            if (!(at > -1e-6 && at < 100 + 1e-6))
                fail_msg("%g to %g: tick %g lies at %g", ranges[i][0], ranges[i][1], s.ticks[k], at);
            assert_true(s.labels[k][0] != '\0');
        }
        double step = s.ticks[1] - s.ticks[0];
        for (int k = 2; k < s.n_ticks; k++) assert_true(fabs((s.ticks[k] - s.ticks[k - 1]) / step - 1) < 1e-6);
    }
    struct ls_scale s = fitted(&plain, 0, 20000, 5);
    assert_string_equal(s.labels[s.n_ticks - 1], "20 k");
    s = fitted(&plain, 0, 0.5, 5);
    assert_string_equal(s.labels[1], "0.1");
}

static void test_log_ticks(void **state)
{
    const struct ls_draw_axis ten = {.scale = LS_DRAW_LOG10}, two = {.scale = LS_DRAW_LOG2};
    struct ls_scale s = fitted(&ten, 0.03, 2.5, 5);
    assert_true(s.low <= 0.03 && s.high >= 2.5);
    assert_true(s.n_ticks >= 4);
    assert_true(fabs(ls__scale_at(&s, s.low)) < 1e-9 && fabs(ls__scale_at(&s, s.high) - 100) < 1e-9);
    assert_true(isnan(ls__scale_at(&s, 0)) && isnan(ls__scale_at(&s, -1)));
    s = fitted(&two, 0.25, 8, 10);
    assert_int_equal(s.n_ticks, 6);
    assert_string_equal(s.labels[0], "1/4");
    assert_string_equal(s.labels[5], "8");
    s = fitted(&ten, 1e-200, 1e200, 5);
    assert_true(s.n_ticks >= 3 && s.n_ticks <= LS_MAX_TICKS);
    s = fitted(&ten, 101, 102, 5); /* no power of ten in it */
    assert_true(s.n_ticks >= 2);
}

static void test_units(void **state)
{
    const struct ls_draw_axis seconds = {.unit = LS_DRAW_SECONDS}, bytes = {.unit = LS_DRAW_BYTES},
                              percent = {.unit = LS_DRAW_PERCENT};
    static const struct {
        double most;
        const char *unit;
    } times[] = {{2e-5, "\xc2\xb5s"}, {0.02, "ms"}, {60, "s"}, {600, "min"}, {8000, "h"}, {1e6, "days"}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        assert_string_equal(fitted(&seconds, 0, times[i].most, 5).unit, times[i].unit);
    assert_string_equal(fitted(&bytes, 0, 3e8, 5).unit, "MiB");
    struct ls_scale s = fitted(&percent, 0, 1, 5);
    assert_string_equal(s.labels[s.n_ticks - 1], "100");
    char text[64];
    ls__scale_text(&s, 0.98912, true, text, sizeof text);
    assert_string_equal(text, "98.91 %");
    ls__scale_text(&s, NAN, true, text, sizeof text);
    assert_string_equal(text, "not finite %");
}

static void test_range_leaves_out(void **state)
{
    const double values[] = {NAN, INFINITY, -INFINITY, 3, 1e308, -2, 7};
    const struct ls_draw_axis log10 = {.scale = LS_DRAW_LOG10}, capped = {.at_most = 5};
    struct ls_range r = {INFINITY, -INFINITY};
    ls__range_add(&r, &plain, values, 7);
    assert_true(r.low == -2 && r.high == 7);
    r = (struct ls_range){INFINITY, -INFINITY};
    ls__range_add(&r, &log10, values, 7);
    assert_true(r.low == 3 && r.high == 7);
    r = (struct ls_range){INFINITY, -INFINITY};
    ls__range_add(&r, &capped, values, 7);
    assert_true(r.high == 3);
}

/* Of ten million points few are left, and none of the spikes is lost. */
static void test_thinning(void **state)
{
    enum { N = 10000000 };
    double *y = malloc(N * sizeof *y);
    struct ls_track t;
    assert_non_null(y);
    for (size_t i = 0; i < N; i++) y[i] = (double)(i % 7) / 7;
    y[1234567] = 50;
    y[7654321] = -50;
    y[5000000] = NAN;
    struct ls_scale sx = fitted(&plain, 0, N, 5), sy = fitted(&plain, -50, 50, 5);
    sx.to = 800;
    assert_int_equal(ls__track_line(&t, NULL, y, N, &sx, &sy), LS_OK);
    if (t.n > 4 * 801 || t.n < 1600) fail_msg("%zu points of %d", t.n, N);
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < t.n; i++) {
        low = fmin(low, t.points[i].y);
        high = fmax(high, t.points[i].y);
    }
    assert_true(low == ls__scale_at(&sy, -50) && high == ls__scale_at(&sy, 50));
    ls__track_release(&t);
    assert_int_equal(ls__track_points(&t, NULL, y, N, &sx, &sy, 2), LS_OK);
    assert_true(t.n > 400 && t.n < 401 * 51);
    ls__track_release(&t);
    for (size_t i = 0; i < N; i++) y[i] = (i * 7919) % N; /* x to and fro */
    assert_int_equal(ls__track_line(&t, y, y, N, &sx, &sx), LS_OK);
    if (t.n > 2 * LS_TRACK_POINTS) fail_msg("%zu points of a line that jumps", t.n);
    ls__track_release(&t);
    free(y);
}

static void test_gaps(void **state)
{
    const double x[] = {0, 10, 20, 30, 40, 50}, y[] = {1, 2, NAN, 3, NAN, 4};
    struct ls_scale s = fitted(&plain, 0, 100, 5);
    struct ls_track t;
    assert_int_equal(ls__track_line(&t, x, y, 6, &s, &s), LS_OK);
    assert_int_equal(t.n, 4);
    assert_true(t.is_first[0] && !t.is_first[1] && t.is_first[2] && t.is_first[3]);
    ls__track_release(&t);
    assert_int_equal(ls__track_line(&t, x, y, 0, &s, &s), LS_OK);
    assert_int_equal(t.n, 0);
    ls__track_release(&t);
}

static void test_texts(void **state)
{
    char out[64];
    assert_string_equal(ls__text_clean(out, sizeof out, "a\tb\x01\x7f"), "a b  ");
    assert_string_equal(ls__text_clean(out, sizeof out, NULL), "");
    assert_string_equal(ls__text_clean(out, sizeof out, "\xff\xc3\xa9\xe2\x80\xae"),
                        "\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd");                                      /* bad, e', turned */
    assert_string_equal(ls__text_clean(out, sizeof out, "\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd"); /* cut short */
    assert_string_equal(ls__text_clean(out, sizeof out, "\xed\xa0\x80"),
                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* a surrogate */
    assert_string_equal(ls__text_clean(out, 4, "a\xc3\xa9\xc3\xa9"), "a\xc3\xa9");
    char text[64] = "a long name of a run";
    ls__text_fit(text, 60, 10, false);
    assert_true(ls__text_width(text, 10, false) <= 60);
    assert_string_equal(text + strlen(text) - 3, "\xe2\x80\xa6");
    char tiny[8] = "ab";
    ls__text_fit(tiny, 1, 10, false);
    assert_string_equal(tiny, "");
    size_t skip;
    assert_int_equal(ls__text_break("one two three", 35, 10, &skip), 3);
    assert_int_equal(skip, 1);
    struct ls_buf b = LS_BUF_INIT;
    ls__text_escape(&b, "<a href='x'>&\"\x02");
    assert_string_equal(b.text, "&lt;a href=&#39;x&#39;&gt;&amp;&quot; ");
    ls__buf_release(&b);
}

/* --- pictures --- */

static const char *const hostile[] = {"</text><script>alert(1)</script>", "\xff\xfe", "]]><!--", "a\"b'c&d;e", ""};

static void draw_hostile(enum ls_draw_format format, struct ls_buf *out)
{
    static const double odd[] = {NAN, 1e308, -INFINITY, 0, 5e-324, -1e308, 1e-300, 3};
    static const double one[] = {7};
    struct ls_draw_series series[5] = {0};
    struct ls_draw_panel panels[16] = {0};
    int n = 0;
    for (int i = 0; i < 5; i++)
        series[i] = (struct ls_draw_series){.label = hostile[i],
                                            .n = 8,
                                            .x = odd,
                                            .y = odd,
                                            .low = odd,
                                            .high = odd,
                                            .target = odd,
                                            .has_points = true};
    series[1].n = 0;
    series[2] = (struct ls_draw_series){.label = hostile[2], .n = 1, .x = one, .y = one};
    static const char *const names[8] = {"<b>", "\x01", "x", "x", "x", "x", "x", "x"};
    for (int kind = LS_DRAW_XY; kind <= LS_DRAW_HEAT; kind++)
        for (int scale = LS_DRAW_LINEAR; scale <= LS_DRAW_LOG2; scale++)
            panels[n++] = (struct ls_draw_panel){.kind = (enum ls_draw_kind)kind,
                                                 .title = hostile[0],
                                                 .note = hostile[3],
                                                 .x = {.label = hostile[1], .scale = (enum ls_draw_scale)scale},
                                                 .y = {.label = hostile[2],
                                                       .suffix = hostile[0],
                                                       .scale = (enum ls_draw_scale)scale,
                                                       .unit = (enum ls_draw_unit)kind},
                                                 .series = series,
                                                 .n_series = 5,
                                                 .names = kind == LS_DRAW_XY ? NULL : names,
                                                 .is_stacked = scale == LS_DRAW_LOG10,
                                                 .cells = odd,
                                                 .n_rows = 2,
                                                 .n_columns = 4,
                                                 .is_by_row = true};
    panels[n++] = (struct ls_draw_panel){.title = "none"};
    const struct ls_draw_picture picture = {
        .title = hostile[0], .note = hostile[2], .panels = panels, .n_panels = n, .n_columns = 3, .zoom = 0.5};
    assert_int_equal(ls_draw(&picture, format, out), LS_OK);
}

/* Every tag that opens closes, and in the right order. */
static void expect_balanced(const char *xml)
{
    char open[64][16];
    int depth = 0;
    for (const char *at = strchr(xml, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        char name[16] = "";
        assert_non_null(end);
        sscanf(at + 1 + (at[1] == '/'), "%15[a-z]", name);
        if (at[1] == '/') {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (end[-1] != '/') {
            assert_true(depth < 64);
            memcpy(open[depth++], name, sizeof name);
        }
        at = end;
    }
    assert_int_equal(depth, 0);
}

static void test_hostile_pictures(void **state)
{
    struct ls_buf a = LS_BUF_INIT, b = LS_BUF_INIT;
    draw_hostile(LS_DRAW_SVG, &a);
    draw_hostile(LS_DRAW_SVG, &b);
    assert_string_equal(a.text, b.text); /* the same description, the same bytes */
    expect_balanced(a.text);
    assert_null(strstr(a.text, "<script"));
    assert_null(strstr(a.text, "922337203685")); /* a NAN as a number */
    ls__buf_release(&a);
    ls__buf_release(&b);
}

static void test_cairo(void **state)
{
    struct ls_buf png = LS_BUF_INIT, pdf = LS_BUF_INIT, again = LS_BUF_INIT;
    if (ls_draw_can(LS_DRAW_PNG) != LS_OK) {
        assert_non_null(strstr(ls_error_message(), "cairo"));
        skip();
    }
    draw_hostile(LS_DRAW_PNG, &png);
    assert_true(png.len > 1000 && memcmp(png.text, "\x89PNG", 4) == 0);
    draw_hostile(LS_DRAW_PDF, &pdf);
    assert_true(pdf.len > 1000 && memcmp(pdf.text, "%PDF", 4) == 0);
    draw_hostile(LS_DRAW_PDF, &again);
    assert_int_equal(pdf.len, again.len);
    assert_memory_equal(pdf.text, again.text, pdf.len);
    ls__buf_release(&png);
    ls__buf_release(&pdf);
    ls__buf_release(&again);
}

static enum ls_status parse(const char *text, bool is_json)
{
    struct ls_draw_doc *doc;
    struct ls_buf b = LS_BUF_INIT;
    enum ls_status status = ls_draw_doc_parse(&doc, "x", text, strlen(text), is_json);
    if (status != LS_OK) return status;
    status = ls_draw(ls_draw_doc_picture(doc), LS_DRAW_SVG, &b);
    ls__buf_release(&b);
    ls_draw_doc_destroy(&doc);
    return status;
}

static void test_documents(void **state)
{
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {"[]", "expected an object"},
        {"{", "not JSON"},
        {"{\"titel\": \"x\"}", "has no 'titel'"},
        {"{\"panels\": [{\"series\": [{}]}]}", "'y'"},
        {"{\"panels\": [{\"series\": [{\"y\": [1,2], \"x\": [1]}]}]}", "as many values"},
        {"{\"panels\": [{\"kind\": \"pie\"}]}", "xy|bars|columns|heat"},
        {"{\"panels\": [{\"kind\": \"bars\", \"names\": [\"a\"], \"series\": [{\"y\": [1,2]}]}]}",
         "a name for every value"},
        {"{\"panels\": [{\"cells\": [[1,2],[1]]}]}", "same length"},
        {"{\"panels\": [{\"x\": {\"from\": 2, \"to\": 1}}]}", "the first below"},
        {"{\"panels\": [{\"x\": {\"scale\": \"log10\", \"from\": 0, \"to\": 1}}]}", "above 0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(parse(wrong[i].text, true), LS_DATA);
        if (!strstr(ls_error_message(), wrong[i].part))
            fail_msg("%s: \"%s\" lacks \"%s\"", wrong[i].text, ls_error_message(), wrong[i].part);
    }
    assert_int_equal(parse("{\"panels\": [{\"series\": [{\"y\": [1, null, 3]}]}]}", true), LS_OK);
    assert_int_equal(parse("step,loss\n1,2\n2,x\n# no\n\n3,1\n", false), LS_OK);
    assert_int_equal(parse("1;2;300\n2;3;400", false), LS_OK);
    assert_int_equal(parse("only\n1\n", false), LS_DATA);
    assert_int_equal(parse("", false), LS_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_steps),
        cmocka_unit_test(test_linear_ticks),
        cmocka_unit_test(test_log_ticks),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_range_leaves_out),
        cmocka_unit_test(test_thinning),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_hostile_pictures),
        cmocka_unit_test(test_cairo),
        cmocka_unit_test(test_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
