/* http_impl.h: what the files behind http.h share where libmicrohttpd is there: http_real.c requests and pages,
 * http_answers_real.c the library and how an answer is sent, http_events_real.c who waits for news.
 *
 * Locks: `pages` guards the kept pages and is held while one is made; `news` guards the listeners. Both are taken
 * before the site's, never together.
 */
#ifndef LS_SERVE_HTTP_IMPL_H
#define LS_SERVE_HTTP_IMPL_H

#include "serve/http.h"

#include <microhttpd.h>

/* libmicrohttpd, loaded when a server begins (ls__http_load): other commands start without it. */
struct ls_mhd {
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
};
extern struct ls_mhd ls__mhd;

/* A page that was made. */
struct ls_http_page {
    struct ls_view view;
    uint64_t version;
    struct MHD_Response *response; /* counts who sends it; NULL: free */
    uint64_t used;
};

struct ls_http_listener; /* http_events_real.c */

enum { LS_HTTP_PAGES = 48 };
struct ls_http {
    struct MHD_Daemon *daemon;
    struct ls_site *site;
    const struct ls_guard *guard;
    char cookie[32];
    pthread_mutex_t pages, news;
    struct ls_http_page kept[LS_HTTP_PAGES];
    uint64_t n_used;
    struct ls_http_listener *listeners;
    int n_listeners;
    bool is_closing; /* under `news` */
};

/* --- http_answers_real.c --- */

/* The headers of every answer; NULL stays NULL. */
struct MHD_Response *ls__http_dress(struct MHD_Response *r, const char *type);
/* Takes the buffer. NULL for want of memory. */
struct MHD_Response *ls__http_answer(struct ls_buf *b, const char *type);
/* Takes the response; MHD_NO closes the connection. */
enum MHD_Result ls__http_send(struct MHD_Connection *c, unsigned code, struct MHD_Response *r);
enum MHD_Result ls__http_send_message(struct MHD_Connection *c, unsigned code, const char *title, const char *text);

/* --- http_events_real.c --- */

/* A stream of what happens to the view, for somebody who has seen version `seen`. */
enum MHD_Result ls__http_send_events(struct ls_http *http, struct MHD_Connection *c, const struct ls_view *view,
                                     uint64_t seen);

#endif
