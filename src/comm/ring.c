/* ring.c: a way to sum (struct ls__sum_way): every machine sends to the next and receives from the one before.
 *
 * A chunk is cut into as many slices as there are machines:
 *
 *     hop 0 .. P-2       slice (machine - hop) goes out, slice (machine - hop - 1) comes in and is added
 *     hop P-1 .. 2P-3    slice (machine + P - hop) goes out, slice (machine + P - 1 - hop) comes in and replaces
 *
 * so 2(P-1)/P of the data leaves each machine, whatever P is, and only neighbours talk: the way for large buckets. It
 * takes 2(P-1) messages after each other, which is long where there are many machines.
 */
#include "comm/comm_internal.h"

static bool suits(int64_t n, int n_machines, bool is_near)
{
    return true;
}

/* Small buckets fill the window too: while one chunk is on its way another is packed. */
static int64_t chunk(int64_t n, int n_machines, bool is_near)
{
    const int64_t most = is_near ? SUM_MOST_NEAR : SUM_MOST, at_once = is_near ? 1 : LS_COMM_WINDOW;
    int64_t slice = n / (at_once * n_machines);
    return n_machines * (slice < SUM_LEAST ? SUM_LEAST : slice > most ? most : slice);
}

static int n_hops(int64_t n, int machine, int n_machines)
{
    return 2 * (n_machines - 1);
}

static int wrap(int slice, int p)
{
    return (slice % p + p) % p;
}

static struct ls__sum_hop hop(int64_t n, int machine, int n_machines, int number)
{
    const int p = n_machines, back = number >= p - 1 ? p : 0;
    const int out = wrap(machine - number + back, p), in = wrap(machine - number - 1 + back, p);
    return (struct ls__sum_hop){.to = wrap(machine + 1, p),
                                .from = wrap(machine - 1, p),
                                .out_begin = n * out / p,
                                .out_end = n * (out + 1) / p,
                                .in_begin = n * in / p,
                                .in_end = n * (in + 1) / p,
                                .add = number < p - 1};
}

const struct ls__sum_way ls__sum_ring = {.name = "ring", .suits = suits, .chunk = chunk, .n_hops = n_hops, .hop = hop};
