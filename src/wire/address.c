/* address.c: "HOST:PORT" to what ZeroMQ takes, numeric, and whether the network outside can reach it. */
#include "base/parse.h"
#include "wire/wire_internal.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CABLE_NET = 10 << 16 | 77 << 8 | 0 }; /* 10.77.0.0/24, nodes/nodes.c */

/* "HOST:PORT" or "[HOST]:PORT" in two; false if it is neither. */
static bool cut(const char *address, char *host, size_t size, int64_t *port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || !ls__parse_i64(colon + 1, 0, 65535, port)) return false;
    size_t n = (size_t)(colon - address);
    if (*address == '[') {
        if (n < 3 || address[n - 1] != ']') return false;
        address++;
        n -= 2;
    } else if (memchr(address, ':', n)) {
        return false; /* IPv6 without brackets: which part is the port? */
    }
    if (n == 0 || n >= size) return false;
    memcpy(host, address, n);
    host[n] = '\0';
    return true;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

/* The first IPv4 address of a name, else its first: both ends decide alike. */
static const struct addrinfo *best_of(const struct addrinfo *found)
{
    for (const struct addrinfo *i = found; i; i = i->ai_next)
        if (i->ai_family == AF_INET) return i;
    return found;
}

static void write_endpoint(struct ls__wire_place *place, const char *host, int64_t port)
{
    char number[8] = "*"; /* any free one */
    if (port > 0) snprintf(number, sizeof number, "%d", (int)port);
    snprintf(place->endpoint, sizeof place->endpoint, place->is_v6 && *host != '*' ? "tcp://[%s]:%s" : "tcp://%s:%s",
             host, number);
}

static int find(const char *host, struct addrinfo **found)
{
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    *found = NULL;
    return getaddrinfo(strcasecmp(host, "localhost") == 0 ? "127.0.0.1" : host, NULL, &want, found);
}

static enum ls_status look_up(const char *address, const char *host, int64_t port, struct ls__wire_place *place)
{
    struct addrinfo *found;
    char numeric[80];
    int code = find(host, &found);
    const struct addrinfo *best = code == 0 ? best_of(found) : NULL;
    if (best) code = getnameinfo(best->ai_addr, best->ai_addrlen, numeric, sizeof numeric, NULL, 0, NI_NUMERICHOST);
    if (best && code == 0) {
        place->is_loopback = is_loopback(best->ai_addr);
        place->is_v6 = best->ai_family == AF_INET6;
        write_endpoint(place, numeric, port);
    }
    if (found) freeaddrinfo(found);
    if (code != 0) return ls_fail(LS_USAGE, "address '%s': %s", address, gai_strerror(code));
    return LS_OK;
}

/* Whether this process has the network of a node, and no other: anybody could be on that. */
static bool has_only_cable(void)
{
    struct ifaddrs *all, *i;
    bool has_cable = false, has_other = false;
    if (getifaddrs(&all) != 0) return false;
    for (i = all; i; i = i->ifa_next) {
        const struct sockaddr *a = i->ifa_addr;
        if (!a || (a->sa_family != AF_INET && a->sa_family != AF_INET6) || is_loopback(a)) continue;
        if (a->sa_family == AF_INET6) {
            has_other |= !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
            continue;
        }
        const uint32_t v4 = ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr);
        *(v4 >> 8 == CABLE_NET ? &has_cable : &has_other) = true;
    }
    freeifaddrs(all);
    return has_cable && !has_other;
}

/* A node that was made on this machine for a job (nodes/nodes.h) has a network on which there is nobody else. Variables
 * say which process is one, but they alone waive nothing: its network is not the one that the job was started in, and
 * leads nowhere else. */
static bool is_of_job(const char *address)
{
    const char *node = getenv("LOCKSTEP_NODE"), *outside = getenv("LOCKSTEP_NODE_OUTSIDE");
    char name[64] = "", own[32];
    struct stat net;
    if (!node || !outside || gethostname(name, sizeof name - 1) != 0 || strcmp(node, name) != 0) return false;
    if (strncmp(address, "10.77.0.", 8) != 0 || stat("/proc/self/ns/net", &net) != 0) return false;
    snprintf(own, sizeof own, "%ju", (uintmax_t)net.st_ino);
    return strcmp(own, outside) != 0 && has_only_cable();
}

enum ls_status ls__wire_resolve(const char *address, bool to_listen, const struct ls_wire_key *key,
                                struct ls__wire_place *place)
{
    char host[256];
    int64_t port;
    *place = (struct ls__wire_place){0};
    if (!address || !cut(address, host, sizeof host, &port) || (port == 0 && !to_listen))
        return ls_fail(LS_USAGE, "address '%s': expected HOST:PORT or [IPv6]:PORT, such as 192.168.0.1:4711",
                       address ? address : "");
    if (to_listen && strcmp(host, "*") == 0) {
        place->is_v6 = true;
        write_endpoint(place, host, port);
    } else {
        TRY(look_up(address, host, port, place));
    }
    if (key || place->is_loopback || is_of_job(address)) return LS_OK;
    return ls_fail(LS_USAGE,
                   "address '%s' is not this machine's loopback, and there is no key: anybody could take part. Make "
                   "keys with `lockstep server --keygen DIR` and give --key FILE on both sides",
                   address);
}

enum ls_status ls_wire_check(const char *address, const struct ls_wire_key *key)
{
    struct ls__wire_place place;
    return ls__wire_resolve(address, false, key, &place);
}

/* A datagram socket that is connected sends nothing, but the kernel has chosen our end. */
static bool own_end(const struct addrinfo *toward, char *out, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } to, own;
    socklen_t len = sizeof own;
    char numeric[80];
    if (toward->ai_addrlen > sizeof to) return false;
    memcpy(&to, toward->ai_addr, toward->ai_addrlen);
    if (to.any.sa_family == AF_INET)
        to.v4.sin_port = htons(9);
    else
        to.v6.sin6_port = htons(9);
    int fd = socket(toward->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_good = fd >= 0 && connect(fd, &to.any, toward->ai_addrlen) == 0 && getsockname(fd, &own.any, &len) == 0 &&
                   getnameinfo(&own.any, len, numeric, sizeof numeric, NULL, 0, NI_NUMERICHOST) == 0;
    if (fd >= 0) close(fd);
    if (is_good) snprintf(out, size, toward->ai_family == AF_INET6 ? "[%s]" : "%s", numeric);
    return is_good;
}

enum ls_status ls_wire_own_host(const char *toward, char *out, size_t size)
{
    char host[256];
    int64_t port;
    struct addrinfo *found = NULL;
    if (!cut(toward, host, sizeof host, &port)) return ls_fail(LS_USAGE, "address '%s': expected HOST:PORT", toward);
    int code = find(host, &found);
    bool is_good = code == 0 && own_end(best_of(found), out, size);
    if (found) freeaddrinfo(found);
    if (is_good) return LS_OK;
    return ls_fail(LS_USAGE, "address '%s': %s", toward,
                   code != 0 ? gai_strerror(code) : "this machine has no way to it (no network?)");
}
