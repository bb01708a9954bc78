/* serve.h: run directories as a live page.
 *
 *     struct ls_serve *s;
 *     TRY(ls_serve_open(&s, &(struct ls_serve_options){.dir = "runs", .listen = "127.0.0.1", .port = 8420}));
 *     puts(ls_serve_url(s));
 *     for (...) { pause for half a second; TRY(ls_serve_poll(s)); }
 *     ls_serve_close(&s);
 *
 * Answers come from threads of its own, from the call of open on; what they show is what the last poll has read. Files
 * are only read. Nothing that a browser sends becomes a path: runs are known by numbers of the listing. Needs
 * libmicrohttpd, which is loaded by open; LS_UNSUPPORTED without it.
 */
#ifndef LS_SERVE_SERVE_H
#define LS_SERVE_SERVE_H

#include "history/history.h"

struct ls_serve_options {
    const char *dir;
    const char *listen; /* an IP address, or "localhost" */
    int port;           /* 0: any that is free */
    const char *token;  /* who does not know it sees nothing; NULL: none on this machine, a new one elsewhere */
    /* The command that trains as a run did; free() it. NULL: not shown. (optional) */
    char *(*command_of)(const struct ls_history *h);
};

struct ls_serve;

/* LS_IO if the port is taken; the message names one that is free. */
enum ls_status ls_serve_open(struct ls_serve **out, const struct ls_serve_options *o) LS_MUST_CHECK;
const char *ls_serve_url(const struct ls_serve *s); /* with the token */
int ls_serve_n_runs(const struct ls_serve *s);
/* Reads what is new and tells those who look. */
enum ls_status ls_serve_poll(struct ls_serve *s) LS_MUST_CHECK;
void ls_serve_close(struct ls_serve **s);

/* LS_OK, or LS_UNSUPPORTED with what is missing. */
enum ls_status ls_serve_can(void) LS_MUST_CHECK;

#endif
