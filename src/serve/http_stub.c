/* http_stub.c: in the place of http_real.c where libmicrohttpd was not installed. */
#include "serve/http.h"

#include <unistd.h>

enum ls_status ls__http_load(void)
{
    return ls_fail(LS_UNSUPPORTED, "the live page needs libmicrohttpd, which this build has not; install "
                                   "libmicrohttpd-dev and build again (`lockstep watch` and `report` need nothing)");
}

enum ls_status ls__http_open(struct ls_http **out, int fd, int port, struct ls_site *site, const struct ls_guard *guard)
{
    *out = NULL;
    if (fd >= 0) close(fd);
    return ls__http_load();
}

void ls__http_wake(struct ls_http *http)
{
}

void ls__http_close(struct ls_http **http)
{
}
