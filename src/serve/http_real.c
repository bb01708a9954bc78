/* http_real.c: pages and events by libmicrohttpd.
 *
 * Two threads of the library answer all clients; none of them ever waits for one. A page is made once for each state of
 * what it shows and kept (struct kept), so that many who look cost one drawing. Who listens for events is suspended
 * until there is news; one that reads slowly gets only the newest.
 *
 * Locks: `pages` guards the kept pages and is held while one is made; `news` guards the listeners. Both are taken
 * before the site's, never together.
 */
#include "serve/http.h"

#include "base/clock.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N_THREADS = 2,
    MAX_CONNECTIONS = 640,
    MAX_LISTENERS = 560, /* the rest is for pages */
    MEMORY_BYTES = 16 << 10,
    IDLE_SECONDS = 45,
    N_KEPT = 48,
    EVENTS_PER_SECOND = 100 /* in all: many who look see it a little later, and training does not feel them */
};
#define SECOND_NS INT64_C(1000000000)
#define HEARTBEAT_NS (15 * SECOND_NS)

/* Loaded when a server begins: other commands start without it. */
static struct {
    struct MHD_Daemon *(*start)(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept, void *accept_arg,
                                MHD_AccessHandlerCallback handler, void *arg, ...);
    void (*stop)(struct MHD_Daemon *daemon);
    enum MHD_Result (*queue)(struct MHD_Connection *c, unsigned code, struct MHD_Response *r);
    struct MHD_Response *(*from_buffer)(size_t size, void *buffer, enum MHD_ResponseMemoryMode mode);
    struct MHD_Response *(*from_callback)(uint64_t size, size_t block, MHD_ContentReaderCallback read, void *arg,
                                          MHD_ContentReaderFreeCallback end);
    void (*destroy)(struct MHD_Response *r);
    enum MHD_Result (*header)(struct MHD_Response *r, const char *name, const char *value);
    const char *(*lookup)(struct MHD_Connection *c, enum MHD_ValueKind kind, const char *key);
    int (*each)(struct MHD_Connection *c, enum MHD_ValueKind kind, MHD_KeyValueIterator visit, void *arg);
    void (*suspend)(struct MHD_Connection *c);
    void (*resume)(struct MHD_Connection *c);
} lib;

/* A page that was made. */
struct kept {
    struct ls_view view;
    uint64_t version;
    struct MHD_Response *response; /* counts who sends it; NULL: free */
    uint64_t used;
};

/* Somebody who listens for events. */
struct listener {
    struct ls_http *http;
    struct MHD_Connection *connection;
    struct ls_view view;
    uint64_t seen;     /* the version that was told last */
    int64_t next_ns;   /* not before */
    int64_t last_ns;   /* something was sent */
    bool is_suspended; /* under `news` */
    bool has_begun;
    struct listener *before, *after;
};

struct ls_http {
    struct MHD_Daemon *daemon;
    struct ls_site *site;
    const struct ls_guard *guard;
    char cookie[32];
    pthread_mutex_t pages, news;
    struct kept kept[N_KEPT];
    uint64_t n_used;
    struct listener *listeners;
    int n_listeners;
    bool is_closing; /* under `news` */
};

enum ls_status ls__http_load(void)
{
    static const char *const files[] = {"libmicrohttpd.so.12", "libmicrohttpd.so"};
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"MHD_start_daemon", &lib.start},
                   {"MHD_stop_daemon", &lib.stop},
                   {"MHD_queue_response", &lib.queue},
                   {"MHD_create_response_from_buffer", &lib.from_buffer},
                   {"MHD_create_response_from_callback", &lib.from_callback},
                   {"MHD_destroy_response", &lib.destroy},
                   {"MHD_add_response_header", &lib.header},
                   {"MHD_lookup_connection_value", &lib.lookup},
                   {"MHD_get_connection_values", &lib.each},
                   {"MHD_suspend_connection", &lib.suspend},
                   {"MHD_resume_connection", &lib.resume}};
    void *library = NULL;
    if (lib.start) return LS_OK;
    for (int i = 0; i < 2 && !library; i++) library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return ls_fail(LS_UNSUPPORTED,
                       "the live page needs libmicrohttpd, which is not installed; on Debian: apt install "
                       "libmicrohttpd12 (`lockstep watch` and `report` need nothing)");
    for (int i = (int)(sizeof symbols / sizeof symbols[0]) - 1; i >= 0; i--) { /* start last: all are there */
        void *found = dlsym(library, symbols[i].name);
        if (!found) return ls_fail(LS_UNSUPPORTED, "libmicrohttpd has no %s; it is too old", symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
    }
    return LS_OK;
}

/* --- answers --- */

static struct MHD_Response *dress(struct MHD_Response *r, const char *type)
{
    static const char *const headers[][2] = {
        {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                                    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cache-Control", "no-store"}};
    if (!r) return NULL;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) lib.header(r, headers[i][0], headers[i][1]);
    lib.header(r, "Content-Type", type);
    return r;
}

/* Takes the buffer. NULL for want of memory. */
static struct MHD_Response *answer_of(struct ls_buf *b, const char *type)
{
    size_t len = b->len;
    char *text = ls__buf_take(b);
    struct MHD_Response *r = text ? lib.from_buffer(len, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!r) free(text);
    return dress(r, type);
}

/* Takes the response; MHD_NO closes the connection. */
static enum MHD_Result send_and_drop(struct MHD_Connection *c, unsigned code, struct MHD_Response *r)
{
    if (!r) return MHD_NO;
    enum MHD_Result result = lib.queue(c, code, r);
    lib.destroy(r);
    return result;
}

static enum MHD_Result send_message(struct MHD_Connection *c, unsigned code, const char *title, const char *text)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__view_message(&b, title, text);
    struct MHD_Response *r = answer_of(&b, "text/html; charset=utf-8");
    if (r && code == MHD_HTTP_METHOD_NOT_ALLOWED) lib.header(r, "Allow", "GET, HEAD");
    return send_and_drop(c, code, r);
}

static enum MHD_Result send_text(struct MHD_Connection *c, const char *text, const char *type)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__buf_adds(&b, text);
    return send_and_drop(c, MHD_HTTP_OK, answer_of(&b, type));
}

static enum MHD_Result send_away(struct MHD_Connection *c, const char *to, const char *cookie)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__buf_adds(&b, "see there\n");
    struct MHD_Response *r = answer_of(&b, "text/plain; charset=utf-8");
    if (r) lib.header(r, "Location", to);
    if (r && cookie) lib.header(r, "Set-Cookie", cookie);
    return send_and_drop(c, MHD_HTTP_SEE_OTHER, r);
}

/* --- pages --- */

/* Under `pages`: the one for it, or the one that was used longest ago. */
static struct kept *place_of(struct ls_http *http, const struct ls_view *view)
{
    struct kept *oldest = &http->kept[0];
    for (int i = 0; i < N_KEPT; i++) {
        struct kept *k = &http->kept[i];
        if (k->response && ls__view_equals(&k->view, view)) return k;
        if (!k->response ? oldest->response != NULL : oldest->response && k->used < oldest->used) oldest = k;
    }
    return oldest;
}

/* Under `pages`. */
static enum ls_status keep_page(struct ls_http *http, struct kept *k, const struct ls_view *view)
{
    struct ls_buf b = LS_BUF_INIT;
    uint64_t version;
    enum ls_status status = ls__view_page(http->site, view, &b, &version);
    struct MHD_Response *r = status == LS_OK ? answer_of(&b, "text/html; charset=utf-8") : NULL;
    ls__buf_release(&b);
    if (status == LS_OK && !r) status = ls_fail(LS_NOMEM, "no memory for a page");
    if (status != LS_OK) return status;
    if (k->response) lib.destroy(k->response);
    *k = (struct kept){.view = *view, .version = version, .response = r};
    return LS_OK;
}

static enum MHD_Result send_page(struct ls_http *http, struct MHD_Connection *c, const struct ls_view *view)
{
    enum MHD_Result result = MHD_NO;
    enum ls_status status = LS_OK;
    pthread_mutex_lock(&http->pages);
    struct kept *k = place_of(http, view);
    uint64_t version = ls__view_version(http->site, view);
    bool is_fresh = k->response && ls__view_equals(&k->view, view) && k->version == version;
    if (version && !is_fresh) status = keep_page(http, k, view);
    if (version && status == LS_OK) {
        k->used = ++http->n_used;
        result = lib.queue(c, MHD_HTTP_OK, k->response);
    }
    pthread_mutex_unlock(&http->pages);
    if (!version || status == LS_DATA)
        return send_message(c, MHD_HTTP_NOT_FOUND, "This run is not there",
                            "It was removed or renamed, or there never was one of this number.");
    if (status != LS_OK)
        return send_message(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "This page could not be made", ls_error_message());
    return result;
}

/* --- events --- */

static void leave(void *arg)
{
    struct listener *l = arg;
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
static bool has_news(const struct listener *l, int64_t now)
{
    return now >= l->next_ns && ls__view_version(l->http->site, &l->view) != l->seen;
}

/* Under `news`: what there is to say now; 0: nothing. */
static int tell(struct listener *l, char *out, size_t size)
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
    struct listener *l = arg;
    ssize_t n = MHD_CONTENT_READER_END_OF_STREAM;
    pthread_mutex_lock(&l->http->news);
    if (!l->http->is_closing) {
        n = tell(l, out, size);
        if (n == 0) {
            l->is_suspended = true;
            lib.suspend(l->connection);
        }
    }
    pthread_mutex_unlock(&l->http->news);
    return n;
}

void ls__http_wake(struct ls_http *http)
{
    int64_t now = ls__now_ns();
    pthread_mutex_lock(&http->news);
    for (struct listener *l = http->listeners; l; l = l->after) {
        if (!l->is_suspended) continue;
        if (!http->is_closing && now - l->last_ns < HEARTBEAT_NS && !has_news(l, now)) continue;
        l->is_suspended = false;
        lib.resume(l->connection);
    }
    pthread_mutex_unlock(&http->news);
}

static enum MHD_Result send_events(struct ls_http *http, struct MHD_Connection *c, const struct ls_view *view,
                                   uint64_t seen)
{
    struct listener *l = NULL;
    if (ls__calloc(&l, 1, sizeof *l) != LS_OK) return MHD_NO;
    *l = (struct listener){.http = http, .connection = c, .view = *view, .seen = seen, .last_ns = ls__now_ns()};
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
        return send_message(c, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many look at this", "Try again later.");
    }
    struct MHD_Response *r =
        dress(lib.from_callback(MHD_SIZE_UNKNOWN, 512, read_events, l, leave), "text/event-stream");
    if (!r) leave(l);
    return send_and_drop(c, MHD_HTTP_OK, r);
}

/* --- requests --- */

struct query {
    struct ls_view view;
    uint64_t version;
    bool is_bad;
};

static enum MHD_Result take_argument(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct query *q = arg;
    if (strcmp(key, "r") == 0 && !ls__view_add_id(&q->view, value)) q->is_bad = true;
    if (strcmp(key, "v") == 0 && value) q->version = strtoull(value, NULL, 10);
    return MHD_YES;
}

static bool is_page(const char *url)
{
    struct ls_view view = {0};
    return strncmp(url, "/run/", 5) == 0 && ls__view_add_id(&view, url + 5);
}

/* Knows the token: from the address, which then loses it, from the cookie, or as a bearer. */
static bool may_look(struct ls_http *http, struct MHD_Connection *c)
{
    const char *bearer = lib.lookup(c, MHD_HEADER_KIND, "Authorization");
    if (ls__guard_accepts_token(http->guard, lib.lookup(c, MHD_COOKIE_KIND, http->cookie))) return true;
    return bearer && strncmp(bearer, "Bearer ", 7) == 0 && ls__guard_accepts_token(http->guard, bearer + 7);
}

static enum MHD_Result route(struct ls_http *http, struct MHD_Connection *c, const char *url)
{
    struct query q = {.version = 0};
    lib.each(c, MHD_GET_ARGUMENT_KIND, take_argument, &q);
    if (strcmp(url, "/page.js") == 0) return send_text(c, ls__serve_script, "text/javascript; charset=utf-8");
    if (strcmp(url, "/events") == 0 && !q.is_bad) {
        q.view.kind = q.view.n_ids == 0 ? LS_VIEW_LIST : LS_VIEW_COMPARE;
        return send_events(http, c, &q.view, q.version);
    }
    if (strcmp(url, "/compare") == 0) {
        char one[32];
        if (q.is_bad)
            return send_message(c, MHD_HTTP_BAD_REQUEST, "These runs cannot be compared",
                                "Tick two to twenty-four runs of the list.");
        if (q.view.n_ids == 0) return send_away(c, "/", NULL);
        snprintf(one, sizeof one, "/run/%016llx", (unsigned long long)q.view.ids[0]);
        if (q.view.n_ids == 1) return send_away(c, one, NULL);
        q.view.kind = LS_VIEW_COMPARE;
        return send_page(http, c, &q.view);
    }
    struct ls_view view = {.kind = LS_VIEW_LIST};
    if (is_page(url)) {
        view.kind = LS_VIEW_RUN;
        ls__view_add_id(&view, url + 5);
    } else if (strcmp(url, "/") != 0) {
        return send_message(c, MHD_HTTP_NOT_FOUND, "There is nothing here", "The list of runs is at the top.");
    }
    return send_page(http, c, &view);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state)
{
    static char is_known;
    struct ls_http *http = arg;
    bool is_reading = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (is_reading && !*state) { /* an answer to the first call would close the connection */
        *state = &is_known;
        return MHD_YES;
    }
    const char *given = lib.lookup(c, MHD_GET_ARGUMENT_KIND, "token");
    if (!ls__guard_accepts_host(http->guard, lib.lookup(c, MHD_HEADER_KIND, "Host")))
        return send_message(c, MHD_HTTP_MISDIRECTED_REQUEST, "This name is not ours",
                            "The page answers to localhost and to the address it listens on (--listen), so that no "
                            "other site can read it through your browser.");
    if (!is_reading) return send_message(c, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET", "This page is for reading.");
    if (strcmp(url, "/style.css") == 0) {
        struct ls_buf b = LS_BUF_INIT;
        ls__view_style(&b);
        return send_and_drop(c, MHD_HTTP_OK, answer_of(&b, "text/css; charset=utf-8"));
    }
    if (strcmp(url, "/icon.svg") == 0)
        return send_text(
            c,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><rect width=\"16\" "
            "height=\"16\" rx=\"4\" fill=\"#0072b2\"/><path d=\"M3 4.500L6 10 9 8 13 12\" fill=\"none\" "
            "stroke=\"#fff\" stroke-width=\"2\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/></svg>\n",
            "image/svg+xml");
    if (given && http->guard->token[0] && ls__guard_accepts_token(http->guard, given)) {
        char cookie[LS_TOKEN_BYTES + 96];
        snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Lax", http->cookie, http->guard->token);
        return send_away(c, is_page(url) ? url : "/", cookie);
    }
    if (!may_look(http, c))
        return send_message(c, MHD_HTTP_UNAUTHORIZED, "A token is needed",
                            "Open the address that lockstep serve has printed: it ends in ?token=...");
    return route(http, c, url);
}

/* --- open and close --- */

enum ls_status ls__http_open(struct ls_http **out, int fd, int port, struct ls_site *site, const struct ls_guard *guard)
{
    *out = NULL;
    enum ls_status status = ls__http_load();
    if (status == LS_OK) status = ls__calloc(out, 1, sizeof **out);
    if (status != LS_OK) {
        close(fd);
        return status;
    }
    struct ls_http *http = *out;
    http->site = site;
    http->guard = guard;
    snprintf(http->cookie, sizeof http->cookie, "lockstep-%d", port); /* cookies do not know ports */
    pthread_mutex_init(&http->pages, NULL);
    pthread_mutex_init(&http->news, NULL);
    http->daemon = lib.start(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, (uint16_t)port, NULL, NULL,
                             on_request, http, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE,
                             (unsigned)N_THREADS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
                             (unsigned)IDLE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (http->daemon) return LS_OK;
    close(fd);
    ls__http_close(out);
    return ls_fail(LS_ERROR, "libmicrohttpd could not begin to listen on port %d", port);
}

void ls__http_close(struct ls_http **pointer)
{
    struct ls_http *http = *pointer;
    if (!http) return;
    pthread_mutex_lock(&http->news);
    http->is_closing = true;
    pthread_mutex_unlock(&http->news);
    ls__http_wake(http);
    if (http->daemon) lib.stop(http->daemon);
    for (int i = 0; i < N_KEPT; i++)
        if (http->kept[i].response) lib.destroy(http->kept[i].response);
    pthread_mutex_destroy(&http->pages);
    pthread_mutex_destroy(&http->news);
    free(http);
    *pointer = NULL;
}
