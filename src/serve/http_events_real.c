/* http_events_real.c: those who listen for events, each a stream that is suspended until there is news; one that reads
 * slowly gets only the newest. See http_impl.h.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "serve/http_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MAX_LISTENERS = 560,    /* the rest of the connections is for pages */
    EVENTS_PER_SECOND = 100 /* in all: many who look see it a little later, and training does not feel them */
};
#define SECOND_NS INT64_C(1000000000)
#define HEARTBEAT_NS (15 * SECOND_NS)

/* Somebody who listens for events. */
struct ls_http_listener {
    struct ls_http *http;
    struct MHD_Connection *connection;
    struct ls_view view;
    uint64_t seen;     /* the version that was told last */
    int64_t next_ns;   /* not before */
    int64_t last_ns;   /* something was sent */
    bool is_suspended; /* under `news` */
    bool has_begun;
    struct ls_http_listener *before, *after;
};

static void leave(void *arg)
{
    struct ls_http_listener *l = arg;
    struct ls_http *http = l->http;
    pthread_mutex_lock(&http->news);
    if (l->before)
        l->before->after = l->after;
    else
        http->listeners = l->after;
    if (l->after) l->after->before = l->before;
    http->n_listeners--;
    pthread_mutex_unlock(&http->news);
    free(l);
}

/* Under `news`. */
static bool has_news(const struct ls_http_listener *l, int64_t now)
{
    return now >= l->next_ns && ls__view_version(l->http->site, &l->view) != l->seen;
}

/* Under `news`: what there is to say now; 0: nothing. */
static int tell(struct ls_http_listener *l, char *out, size_t size)
{
    int64_t now = ls__now_ns();
    int n = 0;
    if (!l->has_begun) {
        n = snprintf(out, size, "retry: 2000\n\n");
    } else if (has_news(l, now)) {
        int64_t apart = SECOND_NS * l->http->n_listeners / EVENTS_PER_SECOND;
        l->seen = ls__view_version(l->http->site, &l->view);
        l->next_ns = now + (apart > SECOND_NS ? apart : SECOND_NS);
        n = snprintf(out, size, "event: %s\ndata: %llu\n\n", l->seen ? "change" : "gone", (unsigned long long)l->seen);
    } else if (now - l->last_ns >= HEARTBEAT_NS) {
        n = snprintf(out, size, ":\n\n");
    }
    if (n > 0) l->last_ns = now;
    l->has_begun = true;
    return n;
}

static ssize_t read_events(void *arg, uint64_t at, char *out, size_t size)
{
    struct ls_http_listener *l = arg;
    ssize_t n = MHD_CONTENT_READER_END_OF_STREAM;
    pthread_mutex_lock(&l->http->news);
    if (!l->http->is_closing) {
        n = tell(l, out, size);
        if (n == 0) {
            l->is_suspended = true;
            ls__mhd.suspend(l->connection);
        }
    }
    pthread_mutex_unlock(&l->http->news);
    return n;
}

void ls__http_wake(struct ls_http *http)
{
    int64_t now = ls__now_ns();
    pthread_mutex_lock(&http->news);
    for (struct ls_http_listener *l = http->listeners; l; l = l->after) {
        if (!l->is_suspended) continue;
        if (!http->is_closing && now - l->last_ns < HEARTBEAT_NS && !has_news(l, now)) continue;
        l->is_suspended = false;
        ls__mhd.resume(l->connection);
    }
    pthread_mutex_unlock(&http->news);
}

enum MHD_Result ls__http_send_events(struct ls_http *http, struct MHD_Connection *c, const struct ls_view *view,
                                     uint64_t seen)
{
    struct ls_http_listener *l = NULL;
    if (ls__calloc(&l, 1, sizeof *l) != LS_OK) return MHD_NO;
    *l = (struct ls_http_listener){.http = http, .connection = c, .view = *view, .seen = seen, .last_ns = ls__now_ns()};
    pthread_mutex_lock(&http->news);
    bool is_full = http->n_listeners >= MAX_LISTENERS || http->is_closing;
    if (!is_full) {
        l->after = http->listeners;
        if (l->after) l->after->before = l;
        http->listeners = l;
        http->n_listeners++;
    }
    pthread_mutex_unlock(&http->news);
    if (is_full) {
        free(l);
        return ls__http_send_message(c, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many look at this", "Try again later.");
    }
    struct MHD_Response *r =
        ls__http_dress(ls__mhd.from_callback(MHD_SIZE_UNKNOWN, 512, read_events, l, leave), "text/event-stream");
    if (!r) leave(l);
    return ls__http_send(c, MHD_HTTP_OK, r);
}
