/* guard.c: compares hosts and tokens of requests with ours, in time that does not tell how much was right. See guard.h.
 */
#include "serve/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

/* --- the Host of a request --- */

/* The name without port and brackets. False if it is none. */
static bool host_name(const char *host, char *out, size_t size)
{
    bool is_v6 = host[0] == '[';
    const char *from = host + is_v6, *end = from + strcspn(from, is_v6 ? "]" : ":");
    if (is_v6 && *end != ']') return false;
    const char *rest = end + is_v6;
    if (end == from || (size_t)(end - from) >= size) return false;
    if (*rest == ':' && strspn(rest + 1, "0123456789") != strlen(rest + 1)) return false;
    if (*rest != ':' && *rest != '\0') return false;
    memcpy(out, from, (size_t)(end - from));
    out[end - from] = '\0';
    return true;
}

static bool is_address(const char *name)
{
    struct in6_addr any;
    return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

bool ls__guard_accepts_host(const struct ls_guard *g, const char *host)
{
    char name[256];
    if (!host || !host_name(host, name, sizeof name)) return false;
    if (strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0) return true;
    if (strcasecmp(name, g->host) == 0) return true;
    /* An address cannot be turned into another by DNS. */
    return !g->is_local && (is_address(name) || (g->machine[0] && strcasecmp(name, g->machine) == 0));
}

/* --- the token --- */

bool ls__guard_is_token(const char *text)
{
    static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    size_t n = strlen(text);
    return n >= 8 && n < LS_TOKEN_BYTES && strspn(text, allowed) == n;
}

bool ls__guard_accepts_token(const struct ls_guard *g, const char *token)
{
    unsigned differ = 0;
    size_t n = strlen(g->token), n_given = token ? strlen(token) : 0;
    if (n == 0) return true;
    for (size_t i = 0; i < n; i++) differ |= (unsigned char)g->token[i] ^ (unsigned char)(n_given > i ? token[i] : 0);
    return differ == 0 && n_given == n;
}

enum ls_status ls__guard_make_token(char *out, size_t size)
{
    unsigned char bytes[16];
    if (size < 2 * sizeof bytes + 1 || getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return ls_fail(LS_ERROR, "no random numbers for a token: %s; give one with --token", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return LS_OK;
}

/* --- the socket --- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool parse_address(const char *text, union address *a, socklen_t *len)
{
    memset(a, 0, sizeof *a);
    if (strcasecmp(text, "localhost") == 0) text = "127.0.0.1";
    if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        *len = sizeof a->v4;
        return true;
    }
    if (inet_pton(AF_INET6, text, &a->v6.sin6_addr) != 1) return false;
    a->v6.sin6_family = AF_INET6;
    *len = sizeof a->v6;
    return true;
}

static bool is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET) return (ntohl(a->v4.sin_addr.s_addr) >> 24) == 127;
    return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static void set_port(union address *a, int port)
{
    if (a->any.sa_family == AF_INET)
        a->v4.sin_port = htons((uint16_t)port);
    else
        a->v6.sin6_port = htons((uint16_t)port);
}

/* The descriptor, or -1 with errno. */
static int bind_to(union address *a, socklen_t len, int port)
{
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    set_port(a, port);
    if (bind(fd, &a->any, len) == 0 && listen(fd, 512) == 0) return fd;
    int before = errno;
    close(fd);
    errno = before;
    return -1;
}

static int free_port(union address *a, socklen_t len, int taken)
{
    for (int port = taken + 1; port <= 65535 && port < taken + 50; port++) {
        int fd = bind_to(a, len, port);
        if (fd < 0) continue;
        close(fd);
        return port;
    }
    return 0;
}

enum ls_status ls__guard_listen(const char *listen_on, int *port, int *fd, bool *is_local)
{
    union address a;
    socklen_t len;
    *fd = -1;
    if (!parse_address(listen_on, &a, &len))
        return ls_fail(LS_USAGE, "--listen %s: expected an address of this machine, such as 127.0.0.1, 0.0.0.0 or ::1",
                       listen_on);
    *is_local = is_loopback(&a);
    *fd = bind_to(&a, len, *port);
    if (*fd < 0) {
        int cause = errno;
        int other = cause == EADDRINUSE || cause == EACCES ? free_port(&a, len, cause == EACCES ? 8419 : *port) : 0;
        if (other)
            return ls_fail(LS_IO, "port %d on %s: %s; --port %d is free", *port, listen_on, strerror(cause), other);
        return ls_fail(LS_IO, "listen on %s, port %d: %s", listen_on, *port, strerror(cause));
    }
    if (getsockname(*fd, &a.any, &len) == 0) *port = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    return LS_OK;
}
