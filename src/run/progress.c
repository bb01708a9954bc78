/* progress.c: draws the line of progress.h: width, rate, time left, and the bar itself. */
#include "run/progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const int64_t redraw_ns = 100 * 1000000LL, plain_ns = 10 * 1000000000LL;

/* The environment's word decides: a library must not call setlocale. */
static bool locale_is_utf8(void)
{
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static int terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

void ls__progress_begin(struct ls_progress *p, const char *label, int64_t total)
{
    const char *term = getenv("TERM");
    *p = (struct ls_progress){.unit = "it", .total = total, .weight = 1};
    snprintf(p->label, sizeof p->label, "%s", label);
    p->is_terminal = ls__log_is_terminal() && term && strcmp(term, "dumb") != 0;
    p->is_ascii = !locale_is_utf8();
    p->start_ns = p->drawn_ns = ls__now_ns();
    if (p->is_terminal) p->drawn_ns -= redraw_ns; /* the bar shows at the first update */
}

void ls__progress_start_at(struct ls_progress *p, int64_t done)
{
    p->first = p->done = done;
}

/* "00:31", "1:02:03", "??:??" */
static void format_time(double seconds, char out[16])
{
    if (!(seconds >= 0) || seconds > 359999) {
        snprintf(out, 16, "??:??");
        return;
    }
    int s = (int)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, 16, "%d:%02d:%02d", s / 3600 % 1000, s / 60 % 60, s % 60);
    else
        snprintf(out, 16, "%02d:%02d", s / 60, s % 60);
}

/* "164" for things; "1.2M" for bytes. */
static void format_count(const struct ls_progress *p, int64_t count, char out[32])
{
    static const char suffix[] = " kMGT";
    if (strcmp(p->unit, "B") != 0 || count < 1000) {
        snprintf(out, 32, "%lld", (long long)count);
        return;
    }
    double v = (double)count;
    int i = 0;
    for (; v >= 999.5 && i < 4; i++) v /= 1000;
    snprintf(out, 32, v < 9.95 ? "%.2f%c" : v < 99.5 ? "%.1f%c" : "%.0f%c", v, suffix[i]);
}

static void format_rate(const struct ls_progress *p, double rate, char out[32])
{
    char count[32];
    if (!(rate > 0)) {
        snprintf(out, 32, "?%s/s", p->unit);
    } else if (strcmp(p->unit, "B") == 0) {
        format_count(p, (int64_t)rate, count);
        snprintf(out, 32, "%.20sB/s", count);
    } else if (rate < 1 && *p->unit != ' ') {
        snprintf(out, 32, "%.2fs/%s", 1 / rate, p->unit);
    } else {
        snprintf(out, 32, rate < 100 ? "%.2f%s/s" : "%.0f%s/s", rate, p->unit);
    }
}

/* `cells` columns of bar, in eighths where the terminal has the characters. */
static void format_bar(const struct ls_progress *p, double fraction, int cells, char *out, size_t size)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int steps = (int)(fraction * cells * 8);
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < cells && at + 4 < size; i++) {
        int here = steps - i * 8;
        const char *cell = here >= 8 ? "█" : eighths[here < 0 ? 0 : here];
        if (p->is_ascii) cell = here >= 8 ? "#" : " ";
        at += (size_t)snprintf(out + at, size - at, "%s", cell);
    }
}

/* What stands behind the bar; left out in this order when the line is too narrow. */
enum part { ELAPSED, COUNT, NOTE, LEFT_IN_ALL, LEFT, RATE, N_PARTS };

struct parts {
    char text[N_PARTS][112];
    int first; /* those before it are left out */
};

static void fill_parts(const struct ls_progress *p, double seconds, const char *note, struct parts *parts)
{
    char done[32], total[32];
    double rate = seconds > 0 ? (double)(p->done - p->first) / seconds : 0;
    bool has_end = p->total > 0;
    int64_t left = p->total - p->done;
    format_count(p, p->done, done);
    format_count(p, p->total, total);
    snprintf(parts->text[COUNT], sizeof parts->text[0], has_end ? "%s/%s" : "%s", done, total);
    format_time(seconds, parts->text[ELAPSED]);
    format_time(rate > 0 ? (double)left / rate : -1, parts->text[LEFT]);
    format_rate(p, rate * (double)p->weight, parts->text[RATE]);
    if (p->after > 0 && has_end)
        format_time(rate > 0 ? (double)(left + p->after) / rate : -1, parts->text[LEFT_IN_ALL]);
    snprintf(parts->text[NOTE], sizeof parts->text[0], "%.100s", note ? note : "");
    if (!has_end) parts->text[LEFT][0] = '\0';
}

/* " 164/391 [00:31<00:43, 1:04:11 in all, 677 images/s, loss=1.23]" */
static void format_tail(const struct parts *parts, char *out, size_t size)
{
    const char *shown[N_PARTS];
    char times[64], in_all[32];
    for (int i = 0; i < N_PARTS; i++) shown[i] = i < parts->first ? "" : parts->text[i];
    if (*shown[ELAPSED] && *shown[LEFT])
        snprintf(times, sizeof times, "%.20s<%.20s", shown[ELAPSED], shown[LEFT]);
    else
        snprintf(times, sizeof times, "%.20s%s", *shown[LEFT] ? shown[LEFT] : shown[ELAPSED],
                 *shown[LEFT] ? " left" : "");
    snprintf(in_all, sizeof in_all, "%.20s%s", shown[LEFT_IN_ALL], *shown[LEFT_IN_ALL] ? " in all" : "");
    const char *list[] = {times, in_all, shown[RATE], shown[NOTE]};
    size_t at = (size_t)snprintf(out, size, "%s%s[", shown[COUNT], *shown[COUNT] ? " " : "");
    bool is_first = true;
    for (int i = 0; i < 4 && at < size; i++) {
        if (!*list[i]) continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s", is_first ? "" : ", ", list[i]);
        is_first = false;
    }
    if (at < size) snprintf(out + at, size - at, "]");
}

void ls__progress_format(const struct ls_progress *p, int64_t elapsed_ns, const char *note, int width, char *out,
                         size_t size)
{
    enum { WANTED_CELLS = 8, MAX_CELLS = 200 };
    char head[112], tail[512] = "", bar[MAX_CELLS * 3 + 1] = "";
    struct parts parts = {.first = 0};
    double fraction = p->total > 0 ? (double)p->done / (double)p->total : 0;
    if (fraction > 1) fraction = 1;
    if (p->total > 0)
        snprintf(head, sizeof head, "%s: %3.0f%%", p->label, fraction * 100);
    else
        snprintf(head, sizeof head, "%s:", p->label);
    fill_parts(p, (double)elapsed_ns * 1e-9, note, &parts);
    int wanted = p->total > 0 ? WANTED_CELLS + 2 : 0, room; /* the bar has two ends */
    for (;; parts.first++) {
        tail[0] = '\0';
        if (parts.first < N_PARTS) format_tail(&parts, tail, sizeof tail);
        room = width - (int)strlen(head) - (int)strlen(tail) - (*tail ? 1 : 0);
        if (room >= wanted || parts.first == N_PARTS) break;
    }
    int cells = room - 2 < MAX_CELLS ? room - 2 : MAX_CELLS;
    if (p->total > 0 && cells > 0) format_bar(p, fraction, cells, bar, sizeof bar);
    if (*bar)
        snprintf(out, size, "%s|%s|%s%s", head, bar, *tail ? " " : "", tail);
    else
        snprintf(out, size, "%.*s%s%s", width, head, *tail ? " " : "", tail);
}

static void plain_line(const struct ls_progress *p, int64_t now, const char *note)
{
    char rate[32], done[32], total[32];
    double seconds = (double)(now - p->start_ns) * 1e-9;
    format_rate(p, (double)(p->done - p->first) * (double)p->weight / seconds, rate);
    format_count(p, p->done, done);
    format_count(p, p->total, total);
    const char *comma = note && *note ? ", " : "";
    if (p->total > 0)
        ls__log(LS_LOG_INFO, "%s: %s/%s (%d%%), %s%s%s", p->label, done, total, (int)(100 * p->done / p->total), rate,
                comma, note ? note : "");
    else
        ls__log(LS_LOG_INFO, "%s: %s, %s%s%s", p->label, done, rate, comma, note ? note : "");
}

void ls__progress_update(struct ls_progress *p, int64_t done, const char *note)
{
    int64_t now = ls__now_ns();
    p->done = done;
    if (now - p->drawn_ns < (p->is_terminal ? redraw_ns : plain_ns)) return;
    p->drawn_ns = now;
    if (!p->is_terminal) {
        plain_line(p, now, note);
        return;
    }
    char line[1024];
    ls__progress_format(p, now - p->start_ns, note, terminal_width() - 1, line, sizeof line);
    ls__log_progress(line);
}

void ls__progress_end(struct ls_progress *p, const char *summary)
{
    if (p->is_terminal) ls__log_progress("");
    if (summary && *summary) ls__log(LS_LOG_INFO, "%s", summary);
}
