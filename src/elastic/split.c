/* split.c: see split.h. */
#include "elastic/split.h"

_Static_assert((int)LS_MAX_PIECES <= (int)LS_MAX_SERVERS, "a split has room for every piece");
enum { LEAST_SUMS = 256 }; /* of one server: less is not worth its messages */

static enum ls_status cut(struct ls_sum_split *out, const struct ls_exec *exec, int n_ranges)
{
    int64_t n, at = 0;
    ls_exec_sums(exec, &n);
    *out = (struct ls_sum_split){.n = n_ranges};
    for (int k = 0; k < n_ranges; k++) {
        const int64_t end = k + 1 == n_ranges ? n : ls_exec_sums_cut(exec, n / n_ranges * (k + 1));
        if (end <= at) return ls_fail(LS_INTERNAL, "range %d of %d has no sums", k, n_ranges);
        out->ranges[k] = (struct ls_sum_range){at, end};
        at = end;
    }
    return LS_OK;
}

enum ls_status ls__split_make(struct ls_sum_split *out, const struct ls_exec *exec, int n_servers)
{
    int64_t n;
    ls_exec_sums(exec, &n);
    if (n_servers > LS_MAX_SERVERS)
        return ls_fail(LS_USAGE, "--servers %d: a training has at most %d", n_servers, LS_MAX_SERVERS);
    if (n_servers < 1 || (n_servers > 1 && n / n_servers < LEAST_SUMS))
        return ls_fail(LS_USAGE, "--servers %d: the network has %lld sums, enough for %lld server%s", n_servers,
                       (long long)n, (long long)(n < 2 * LEAST_SUMS ? 1 : n / LEAST_SUMS),
                       n < 2 * LEAST_SUMS ? "" : "s");
    return cut(out, exec, n_servers);
}

static int worth(int64_t n_sums)
{
    enum { PIECE = 1 << 19 };
    const int64_t n = n_sums / PIECE;
    return n < 1 ? 1 : n > LS_MAX_PIECES ? LS_MAX_PIECES : (int)n;
}

int ls__split_count(const struct ls_train_options *o, int64_t n_sums)
{
    return o->servers > 1 || o->clip_norm > 0 || o->backup > 0 || o->histograms > 0 ? 1 : worth(n_sums);
}

enum ls_status ls__split_pieces(struct ls_sum_split *out, const struct ls_exec *exec, int n)
{
    int64_t n_sums;
    ls_exec_sums(exec, &n_sums);
    if (n != 1 && n != worth(n_sums))
        return ls_fail(LS_REMOTE, "the server wants sums in %d pieces, which is not what this program makes of them",
                       n);
    return cut(out, exec, n);
}
