/* doubling.c: a way to sum (struct ls__sum_way): machines exchange in pairs, twice as far apart each time.
 *
 * Among Q = 2^L machines, machine m, a few numbers (is_whole):
 *
 *     hop k of L         everything goes to machine m xor 2^k and comes from it, and is added
 *
 * and more of them, first halving what a machine is responsible for, then doubling it (Rabenseifner's way):
 *
 *     hop k of L         the half that is not ours goes to m xor Q/2^(k+1), ours comes from it and is added
 *     hop L+k of L       what we have the sum of goes back to m xor 2^k, which has that of our neighbour's half
 *
 * so that a sum takes L or 2L messages after each other where the ring takes 2(P-1), and in the second case sends no
 * more than the ring does. Of P machines that are no power of two those beyond Q first give all they have to machine
 * m - Q and get the sum back at the end, which is twice as much as in the ring: only
 * numbers so few that messages count more than bytes travel that way.
 */
#include "comm/comm_internal.h"

/* Up to so many are sent whole: a message of twice the size costs less than a second one. */
enum { WHOLE = 1 << 11, MOST_BUCKET = 1 << 18 };

static int levels(int n_machines)
{
    int n = 0;
    while ((2 << n) <= n_machines) n++;
    return n;
}

static bool is_whole(int64_t n, int n_levels)
{
    return n <= WHOLE || n_levels == 1;
}

/* How many numbers are worth a message less: on 1 Gbit/s one takes as long as 1500 packed numbers, and those beyond a
 * power of two send and get everything, about twice as much as in the ring. On faster networks it is more. */
enum { PER_HOP = 1 << 10 };

/* Two near machines: the ring copies less. */
static bool suits(int64_t n, int n_machines, bool is_near)
{
    const int n_levels = levels(n_machines), fewer = 2 * (n_machines - 1) - (2 * n_levels + 2);
    const bool is_even = n_machines == 1 << n_levels;
    if (n <= WHOLE) return true;
    return n <= MOST_BUCKET && (is_even ? !(n_machines == 2 && is_near) : n <= (int64_t)fewer * PER_HOP);
}

/* A few chunks, so that one is packed while another is on the wire. The largest message is the whole or half of one. */
static int64_t chunk(int64_t n, int n_machines, bool is_near)
{
    const bool is_halved = n_machines > 2 && n_machines == 1 << levels(n_machines);
    const int64_t message = is_near ? SUM_MOST_NEAR : SUM_MOST, most = is_halved ? 2 * message : message;
    const int64_t least = (int64_t)2 * SUM_LEAST, part = is_near ? n : n / 4;
    return part < least ? least : part > most ? most : part;
}

static int n_hops(int64_t n, int machine, int n_machines)
{
    const int n_levels = levels(n_machines), even = 1 << n_levels;
    if (machine >= even) return 2;
    return (is_whole(n, n_levels) ? n_levels : 2 * n_levels) + (machine + even < n_machines ? 2 : 0);
}

/* Of the 2^level parts of n the one that machine is in, or its sibling. */
static void part_of(int64_t n, int machine, int n_levels, int level, bool is_sibling, int64_t *begin, int64_t *end)
{
    const int64_t part = (machine >> (n_levels - level)) ^ (is_sibling ? 1 : 0);
    *begin = n * part >> level;
    *end = n * (part + 1) >> level;
}

static struct ls__sum_hop among_even(int64_t n, int machine, int n_levels, int number)
{
    struct ls__sum_hop h = {.out_end = n, .in_end = n, .add = number < n_levels};
    if (is_whole(n, n_levels)) {
        h.to = h.from = machine ^ (1 << number);
        return h;
    }
    const bool is_back = number >= n_levels;
    const int level = is_back ? 2 * n_levels - number : number + 1;
    h.to = h.from = machine ^ (1 << (n_levels - level));
    part_of(n, machine, n_levels, level, !is_back, &h.out_begin, &h.out_end);
    part_of(n, machine, n_levels, level, is_back, &h.in_begin, &h.in_end);
    return h;
}

static struct ls__sum_hop hop(int64_t n, int machine, int n_machines, int number)
{
    const int n_levels = levels(n_machines), even = 1 << n_levels, last = n_hops(n, machine, n_machines) - 1;
    const bool is_beyond = machine >= even, is_helper = !is_beyond && machine + even < n_machines;
    const int other = is_beyond ? machine - even : machine + even;
    if ((is_beyond && number == 0) || (is_helper && number == last))
        return (struct ls__sum_hop){.to = other, .from = -1, .out_end = n};
    if (is_beyond || (is_helper && number == 0))
        return (struct ls__sum_hop){.to = -1, .from = other, .in_end = n, .add = is_helper};
    return among_even(n, machine, n_levels, number - (is_helper ? 1 : 0));
}

const struct ls__sum_way ls__sum_doubling = {
    .name = "doubling", .suits = suits, .chunk = chunk, .n_hops = n_hops, .hop = hop};
