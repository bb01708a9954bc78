/* event.h: events of Chrome's trace format as lines of text, "{...},\n". */
#ifndef LS_RECORD_EVENT_H
#define LS_RECORD_EVENT_H

#include "base/buf.h"
#include "trace/trace.h"

/* Whose the events are, and on which clock. */
struct ls_event_place {
    int rank;
    int64_t offset_ns; /* added to times */
};

void ls__event_name_rank(struct ls_buf *b, const struct ls_event_place *p, const char *host);
void ls__event_name_lane(struct ls_buf *b, const struct ls_event_place *p, int tid, const struct ls_lane *lane);
void ls__event_span(struct ls_buf *b, const struct ls_event_place *p, int tid, const struct ls_span *span);
void ls__event_counter(struct ls_buf *b, const struct ls_event_place *p, int64_t ns, const char *name, const char *unit,
                       double value);

#endif
