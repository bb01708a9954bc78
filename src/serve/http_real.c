/* http_real.c: requests, and the pages that answer them, by libmicrohttpd.
 *
 * Two threads of the library answer all clients; none of them ever waits for one. A page is made once for each state of
 * what it shows and kept (struct ls_http_page), so that many who look cost one drawing.
 */
#include "base/mem.h"
#include "serve/http_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_THREADS = 2, MAX_CONNECTIONS = 640, MEMORY_BYTES = 16 << 10, IDLE_SECONDS = 45 };

static enum MHD_Result send_text(struct MHD_Connection *c, const char *text, const char *type)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__buf_adds(&b, text);
    return ls__http_send(c, MHD_HTTP_OK, ls__http_answer(&b, type));
}

static enum MHD_Result send_away(struct MHD_Connection *c, const char *to, const char *cookie)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__buf_adds(&b, "see there\n");
    struct MHD_Response *r = ls__http_answer(&b, "text/plain; charset=utf-8");
    if (r) ls__mhd.header(r, "Location", to);
    if (r && cookie) ls__mhd.header(r, "Set-Cookie", cookie);
    return ls__http_send(c, MHD_HTTP_SEE_OTHER, r);
}

/* --- pages --- */

/* Under `pages`: the one for it, or the one that was used longest ago. */
static struct ls_http_page *place_of(struct ls_http *http, const struct ls_view *view)
{
    struct ls_http_page *oldest = &http->kept[0];
    for (int i = 0; i < LS_HTTP_PAGES; i++) {
        struct ls_http_page *k = &http->kept[i];
        if (k->response && ls__view_equals(&k->view, view)) return k;
        if (!k->response ? oldest->response != NULL : oldest->response && k->used < oldest->used) oldest = k;
    }
    return oldest;
}

/* Under `pages`. */
static enum ls_status keep_page(struct ls_http *http, struct ls_http_page *k, const struct ls_view *view)
{
    struct ls_buf b = LS_BUF_INIT;
    uint64_t version;
    enum ls_status status = ls__view_page(http->site, view, &b, &version);
    struct MHD_Response *r = status == LS_OK ? ls__http_answer(&b, "text/html; charset=utf-8") : NULL;
    ls__buf_release(&b);
    if (status == LS_OK && !r) status = ls_fail(LS_NOMEM, "no memory for a page");
    if (status != LS_OK) return status;
    if (k->response) ls__mhd.destroy(k->response);
    *k = (struct ls_http_page){.view = *view, .version = version, .response = r};
    return LS_OK;
}

static enum MHD_Result send_page(struct ls_http *http, struct MHD_Connection *c, const struct ls_view *view)
{
    enum MHD_Result result = MHD_NO;
    enum ls_status status = LS_OK;
    pthread_mutex_lock(&http->pages);
    struct ls_http_page *k = place_of(http, view);
    uint64_t version = ls__view_version(http->site, view);
    bool is_fresh = k->response && ls__view_equals(&k->view, view) && k->version == version;
    if (version && !is_fresh) status = keep_page(http, k, view);
    if (version && status == LS_OK) {
        k->used = ++http->n_used;
        result = ls__mhd.queue(c, MHD_HTTP_OK, k->response);
    }
    pthread_mutex_unlock(&http->pages);
    if (!version || status == LS_DATA)
        return ls__http_send_message(c, MHD_HTTP_NOT_FOUND, "This run is not there",
                                     "It was removed or renamed, or there never was one of this number.");
    if (status != LS_OK)
        return ls__http_send_message(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "This page could not be made",
                                     ls_error_message());
    return result;
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
    const char *bearer = ls__mhd.lookup(c, MHD_HEADER_KIND, "Authorization");
    if (ls__guard_accepts_token(http->guard, ls__mhd.lookup(c, MHD_COOKIE_KIND, http->cookie))) return true;
    return bearer && strncmp(bearer, "Bearer ", 7) == 0 && ls__guard_accepts_token(http->guard, bearer + 7);
}

static enum MHD_Result route(struct ls_http *http, struct MHD_Connection *c, const char *url)
{
    struct query q = {.version = 0};
    ls__mhd.each(c, MHD_GET_ARGUMENT_KIND, take_argument, &q);
    if (strcmp(url, "/page.js") == 0) return send_text(c, ls__serve_script, "text/javascript; charset=utf-8");
    if (strcmp(url, "/events") == 0 && !q.is_bad) {
        q.view.kind = q.view.n_ids == 0 ? LS_VIEW_LIST : LS_VIEW_COMPARE;
        return ls__http_send_events(http, c, &q.view, q.version);
    }
    if (strcmp(url, "/compare") == 0) {
        char one[32];
        if (q.is_bad)
            return ls__http_send_message(c, MHD_HTTP_BAD_REQUEST, "These runs cannot be compared",
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
        return ls__http_send_message(c, MHD_HTTP_NOT_FOUND, "There is nothing here", "The list of runs is at the top.");
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
    const char *given = ls__mhd.lookup(c, MHD_GET_ARGUMENT_KIND, "token");
    if (!ls__guard_accepts_host(http->guard, ls__mhd.lookup(c, MHD_HEADER_KIND, "Host")))
        return ls__http_send_message(
            c, MHD_HTTP_MISDIRECTED_REQUEST, "This name is not ours",
            "The page answers to localhost and to the address it listens on (--listen), so that no "
            "other site can read it through your browser.");
    if (!is_reading)
        return ls__http_send_message(c, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET", "This page is for reading.");
    if (strcmp(url, "/style.css") == 0) {
        struct ls_buf b = LS_BUF_INIT;
        ls__view_style(&b);
        return ls__http_send(c, MHD_HTTP_OK, ls__http_answer(&b, "text/css; charset=utf-8"));
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
        return ls__http_send_message(c, MHD_HTTP_UNAUTHORIZED, "A token is needed",
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
    http->daemon = ls__mhd.start(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, (uint16_t)port, NULL, NULL, on_request, http,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)N_THREADS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
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
    if (http->daemon) ls__mhd.stop(http->daemon);
    for (int i = 0; i < LS_HTTP_PAGES; i++)
        if (http->kept[i].response) ls__mhd.destroy(http->kept[i].response);
    pthread_mutex_destroy(&http->pages);
    pthread_mutex_destroy(&http->news);
    free(http);
    *pointer = NULL;
}
