/* serve.c: site, guard and HTTP put together; see serve.h. */
#include "serve/serve.h"

#include "base/mem.h"
#include "report/page.h"
#include "serve/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct ls_serve {
    struct ls_site *site;
    struct ls_guard guard;
    struct ls_http *http;
    char url[512];
};

/* A run holds its folder open, a client its socket. */
static void allow_many_files(void)
{
    struct rlimit limit;
    const rlim_t wanted = 4096;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void make_url(struct ls_serve *s, const struct ls_serve_options *o, int port)
{
    const char *host = o->listen;
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        host = s->guard.machine[0] ? s->guard.machine : "localhost";
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(s->url, sizeof s->url, "http://%s%s%s:%d/%s%s", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port,
             s->guard.token[0] ? "?token=" : "", s->guard.token);
}

static enum ls_status build(struct ls_serve *s, const struct ls_serve_options *o)
{
    int fd, port = o->port;
    struct ls_guard *g = &s->guard;
    TRY(ls__http_load());
    if (o->token && !ls__guard_is_token(o->token))
        return ls_fail(LS_USAGE, "--token: expected 8 to %d letters, digits, - and _", LS_TOKEN_BYTES - 1);
    allow_many_files();
    TRY(ls__guard_listen(o->listen, &port, &fd, &g->is_local));
    snprintf(g->host, sizeof g->host, "%s", o->listen);
    if (!g->is_local) gethostname(g->machine, sizeof g->machine - 1);
    enum ls_status status = LS_OK;
    if (o->token)
        snprintf(g->token, sizeof g->token, "%s", o->token);
    else if (!g->is_local)
        status = ls__guard_make_token(g->token, sizeof g->token);
    if (status == LS_OK) status = ls__site_open(&s->site, o->dir, o->command_of);
    if (status != LS_OK) {
        close(fd);
        return status;
    }
    make_url(s, o, port);
    return ls__http_open(&s->http, fd, port, s->site, g);
}

enum ls_status ls_serve_open(struct ls_serve **out, const struct ls_serve_options *o)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = build(*out, o);
    if (status != LS_OK) ls_serve_close(out);
    return status;
}

const char *ls_serve_url(const struct ls_serve *s)
{
    return s->url;
}

int ls_serve_n_runs(const struct ls_serve *s)
{
    return s->site->n_runs;
}

enum ls_status ls_serve_poll(struct ls_serve *s)
{
    TRY(ls__site_poll(s->site));
    ls__http_wake(s->http);
    return LS_OK;
}

void ls_serve_close(struct ls_serve **s)
{
    if (!*s) return;
    ls__http_close(&(*s)->http);
    ls__site_close(&(*s)->site);
    free(*s);
    *s = NULL;
}

enum ls_status ls_serve_can(void)
{
    return ls__http_load();
}

void ls__view_style(struct ls_buf *out)
{
    ls__page_html_style(out);
    ls__buf_adds(out, ls__serve_sheet);
}
