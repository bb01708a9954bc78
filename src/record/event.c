/* event.c: see event.h. Times are microseconds; with three digits after the point they are as exact as the clock, so
 * that spans which nest in nanoseconds nest in the file. */
#include "record/event.h"

static void add_text(struct ls_buf *b, const char *text)
{
    ls__buf_adds(b, "\"");
    for (const char *c = text; *c; c++) {
        unsigned char u = (unsigned char)*c;
        if (u < 0x20 || u >= 0x7f || *c == '"' || *c == '\\')
            ls__buf_addf(b, "\\u%04x",
                         u); /* of a name that is not ASCII each byte: readable enough, and always valid */
        else
            ls__buf_add(b, c, 1);
    }
    ls__buf_adds(b, "\"");
}

static void add_time(struct ls_buf *b, const char *key, int64_t ns)
{
    int64_t size = ns < 0 ? -ns : ns;
    ls__buf_addf(b, ",\"%s\":%s%lld.%03d", key, ns < 0 ? "-" : "", (long long)(size / 1000), (int)(size % 1000));
}

void ls__event_name_rank(struct ls_buf *b, const struct ls_event_place *p, const char *host)
{
    ls__buf_addf(b, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":1,\"args\":{\"name\":\"rank %d\"}},\n",
                 p->rank, p->rank);
    ls__buf_addf(b, "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":%d,\"tid\":1,\"args\":{\"labels\":", p->rank);
    add_text(b, host);
    ls__buf_addf(
        b, "}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"tid\":1,\"args\":{\"sort_index\":%d}},\n",
        p->rank, p->rank);
}

void ls__event_name_lane(struct ls_buf *b, const struct ls_event_place *p, int tid, const struct ls_lane *lane)
{
    ls__buf_addf(b, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s", p->rank,
                 tid, ls__lane_name(lane));
    if (ls__lane_number(lane) > 0) ls__buf_addf(b, " %d", ls__lane_number(lane));
    ls__buf_addf(
        b, "\"}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}},\n",
        p->rank, tid, tid);
}

/* What the argument of a span is (trace.h). */
static const char *argument_of(const struct ls_span *s)
{
    switch (s->kind) {
    case LS_SPAN_STEP:
    case LS_SPAN_ROUND:
    case LS_SPAN_LOAD:
    case LS_SPAN_CHECKPOINT:
    case LS_SPAN_WRITE:
        return "step";
    case LS_SPAN_OP:
        return "op";
    case LS_SPAN_DECODE:
        return "sample";
    default:
        return "n";
    }
}

void ls__event_span(struct ls_buf *b, const struct ls_event_place *p, int tid, const struct ls_span *s)
{
    ls__buf_addf(b, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d", p->rank, tid);
    add_time(b, "ts", s->start_ns + p->offset_ns);
    add_time(b, "dur", s->end_ns - s->start_ns);
    ls__buf_addf(b, ",\"cat\":\"%s\",\"name\":", ls__span_kind_name(s->kind));
    add_text(b, s->name);
    ls__buf_addf(b, ",\"args\":{\"%s\":%lld}},\n", argument_of(s), (long long)s->arg);
}

void ls__event_counter(struct ls_buf *b, const struct ls_event_place *p, int64_t ns, const char *name, const char *unit,
                       double value)
{
    ls__buf_addf(b, "{\"ph\":\"C\",\"pid\":%d,\"tid\":1", p->rank);
    add_time(b, "ts", ns + p->offset_ns);
    ls__buf_addf(b, ",\"name\":\"%s\",\"args\":{\"%s\":%.1f}},\n", name, unit, value);
}
