/* http.h: the seam to libmicrohttpd: http_real.c, or http_stub.c where it is not installed. */
#ifndef LS_SERVE_HTTP_H
#define LS_SERVE_HTTP_H

#include "serve/guard.h"
#include "serve/site.h"

struct ls_http;

enum ls_status ls__http_load(void) LS_MUST_CHECK;
/* Answers on the listening socket, which is its own from then on, also after a failure. site and guard are borrowed. */
enum ls_status ls__http_open(struct ls_http **out, int fd, int port, struct ls_site *site,
                             const struct ls_guard *guard) LS_MUST_CHECK;
/* After a poll of the site: those who wait for news get them. */
void ls__http_wake(struct ls_http *http);
void ls__http_close(struct ls_http **http);

/* What the build has made of page.js and page.css. */
extern const char ls__serve_script[], ls__serve_sheet[];

#endif
