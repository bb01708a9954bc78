/* split.c: see split.h. */
#include "elastic/split.h"

enum { LEAST_SUMS = 256 }; /* of one server: less is not worth its messages */

enum ls_status ls__split_make(struct ls_sum_split *out, const struct ls_exec *exec, int n_servers)
{
    int64_t n, at = 0;
    ls_exec_sums(exec, &n);
    if (n_servers > LS_MAX_SERVERS)
        return ls_fail(LS_USAGE, "--servers %d: a training has at most %d", n_servers, LS_MAX_SERVERS);
    if (n_servers < 1 || (n_servers > 1 && n / n_servers < LEAST_SUMS))
        return ls_fail(LS_USAGE, "--servers %d: the network has %lld sums, enough for %lld server%s", n_servers,
                       (long long)n, (long long)(n < 2 * LEAST_SUMS ? 1 : n / LEAST_SUMS),
                       n < 2 * LEAST_SUMS ? "" : "s");
    *out = (struct ls_sum_split){.n = n_servers};
    for (int k = 0; k < n_servers; k++) {
        const int64_t end = k + 1 == n_servers ? n : ls_exec_sums_cut(exec, n / n_servers * (k + 1));
        if (end <= at) return ls_fail(LS_INTERNAL, "server %d of %d has no sums", k, n_servers);
        out->ranges[k] = (struct ls_sum_range){at, end};
        at = end;
    }
    return LS_OK;
}
