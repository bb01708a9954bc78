/* guard.h: who may look. Texts come from strangers.
 *
 * A page of another site may make a browser ask us: names that lead to this machine by DNS are refused (the Host of a
 * request must be ours), and where we listen on more than this machine a token is needed.
 */
#ifndef LS_SERVE_GUARD_H
#define LS_SERVE_GUARD_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { LS_TOKEN_BYTES = 129 };

struct ls_guard {
    bool is_local;              /* bound to loopback */
    char host[256];             /* what it listens on, as given */
    char machine[256];          /* this machine's name; only where it listens on more than loopback */
    char token[LS_TOKEN_BYTES]; /* "": none is needed */
};

/* "name", "name:port", "[v6]:port". Ports do not count: a tunnel changes them. NULL: refused. */
bool ls__guard_accepts_host(const struct ls_guard *g, const char *host);
/* Takes as long whatever is wrong. NULL: refused, unless none is needed. */
bool ls__guard_accepts_token(const struct ls_guard *g, const char *token);
/* 32 hex digits that nobody can guess. */
enum ls_status ls__guard_make_token(char *out, size_t size) LS_MUST_CHECK;
/* Letters, digits, - and _, 8 to 128 of them. */
bool ls__guard_is_token(const char *text);

/* A socket that listens; *port is what was bound. */
enum ls_status ls__guard_listen(const char *listen, int *port, int *fd, bool *is_local) LS_MUST_CHECK;

#endif
