/* meet_words.c: what ranks that are started one by one say while they wait for each other, and when they give up.
 *
 * Rank 0 knows who has come. Once all have, each tells it whom it has not met yet (MEET_LACKS), so that the one line of
 * rank 0, which all the others repeat, names those who do not get on and what each of them said.
 */
#include "base/log.h"
#include "comm/meet.h"

#include <stdio.h>
#include <string.h>

/* Appends, as far as there is room. */
static void add(char *out, size_t size, const char *text)
{
    size_t at = strlen(out);
    if (at + 1 < size) snprintf(out + at, size - at, "%s", text);
}

static void add_rank(char *out, size_t size, uint32_t rank)
{
    char text[32];
    snprintf(text, sizeof text, "%srank %u", out[0] ? ", " : "", rank);
    add(out, size, text);
}

size_t ls__meet_lacks(const struct ls__meet *j, uint32_t lacks[LS__MEET_NAMED])
{
    size_t n = 0;
    for (int r = 1; r < j->config.n && n < LS__MEET_NAMED; r++)
        if (r != j->config.rank && !j->nodes[r].is_met) lacks[n++] = (uint32_t)r;
    return n;
}

void ls__meet_hear_lacks(struct ls__meet_node *node, struct ls_frame_reader *body)
{
    uint32_t lacks[LS__MEET_NAMED];
    size_t n = ls_frame_get_u32s(body, lacks, LS__MEET_NAMED);
    if (!ls_frame_done(body)) return;
    memcpy(node->lacks, lacks, n * sizeof *lacks);
    node->n_lacks = n;
}

/* "rank 1, rank 3": those who have not come to rank 0. */
static void missing(const struct ls__meet *j, char *out, size_t size)
{
    int n = 0;
    out[0] = '\0';
    for (int r = 1; r < j->config.n; r++) {
        if (j->nodes[r].is_known && (!j->has_table || j->nodes[r].is_ready)) continue;
        if (n++ == LS__MEET_NAMED) {
            add(out, size, " and others");
            return;
        }
        add_rank(out, size, (uint32_t)r);
    }
}

void ls__meet_say_waiting(const struct ls__meet *j)
{
    char who[160];
    missing(j, who, sizeof who);
    if (j->config.rank == 0)
        ls__log(LS_LOG_INFO, "rank 0 of %d waits at %s for %s", j->config.n, j->config.master, who);
    else if (!j->is_welcome)
        ls__log(LS_LOG_INFO, "rank %d of %d waits for rank 0 at %s", j->config.rank, j->config.n, j->config.master);
    else
        ls__log(LS_LOG_INFO, "rank %d of %d has joined at %s and waits for the others", j->config.rank, j->config.n,
                j->config.master);
}

/* "rank 1 on a has said nothing since; rank 2 on b waits for rank 1": of those that have joined and are not ready. */
static void what_they_said(const struct ls__meet *j, char *out, size_t size)
{
    int n = 0;
    out[0] = '\0';
    for (int r = 1; r < j->config.n && n < LS__MEET_NAMED; r++) {
        const struct ls__meet_node *node = &j->nodes[r];
        char text[128], whom[96] = "";
        if (node->is_ready) continue;
        for (size_t i = 0; i < node->n_lacks; i++) add_rank(whom, sizeof whom, node->lacks[i]);
        snprintf(text, sizeof text, "%srank %d on %.40s ", n++ > 0 ? "; " : "", r, node->host);
        add(out, size, text);
        add(out, size, whom[0] ? "waits for " : "has said nothing since");
        add(out, size, whom);
    }
}

static enum ls_status too_late_for_all(const struct ls__meet *j)
{
    const struct ls__meet_config *o = &j->config;
    char said[640], who[160];
    missing(j, who, sizeof who);
    if (!j->has_table)
        return ls_fail(LS_TIMEOUT,
                       "%s did not join at %s within %.3g s: start it there with --nodes %d --rank R --master %s", who,
                       o->master, o->timeout, o->n, o->master);
    what_they_said(j, said, sizeof said);
    return ls_fail(LS_TIMEOUT,
                   "all %d nodes joined at %s but did not find each other within %.3g s: %s. See whether those run and "
                   "can be reached from the others",
                   o->n, o->master, o->timeout, said);
}

enum ls_status ls__meet_too_late(const struct ls__meet *j)
{
    const struct ls__meet_config *o = &j->config;
    if (o->rank == 0) return too_late_for_all(j);
    if (!j->is_welcome)
        return ls_fail(LS_TIMEOUT,
                       "rank 0 did not answer at %s within %.3g s: see whether it was started, whether --master is its "
                       "address and whether a firewall is between",
                       o->master, o->timeout);
    uint32_t lacks[LS__MEET_NAMED];
    char who[160] = "";
    size_t n = j->has_table ? ls__meet_lacks(j, lacks) : 0;
    for (size_t i = 0; i < n; i++) add_rank(who, sizeof who, lacks[i]);
    if (n > 0) return ls_fail(LS_TIMEOUT, "rank %d did not meet %s within %.3g s", o->rank, who, o->timeout);
    return ls_fail(LS_TIMEOUT, "not all %d nodes found each other within %.3g s; rank 0 at %s knows who is missing",
                   o->n, o->timeout, o->master);
}
