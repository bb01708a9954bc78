/* link.c: messages with an end to every wait, and the heartbeat between leaders. The communication thread only. */
#include "base/clock.h"
#include "comm/comm_internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static enum ls_status check(struct ls_comm *c, int failed)
{
    if (!failed) return LS_OK;
    return ls__ending_found(
        c, ENDING_GUESSED,
        ls_fail(LS_REMOTE, "rank %d on %s: %s", c->place.rank, c->place.host, c->transport->error()));
}

enum ls_status ls__link_begin_send(struct ls_comm *c, const void *data, size_t bytes, int to, int tag,
                                   struct ls_request *request)
{
    atomic_fetch_add_explicit(&c->bytes_sent, (long long)bytes, memory_order_relaxed);
    return check(c, c->transport->send(data, bytes, to, tag, request));
}

enum ls_status ls__link_begin_receive(struct ls_comm *c, void *data, size_t bytes, int from, int tag,
                                      struct ls_request *request)
{
    return check(c, c->transport->receive(data, bytes, from, tag, request));
}

enum ls_status ls__link_poll(struct ls_comm *c, struct ls_request *const *requests, int n)
{
    return n == 0 ? LS_OK : check(c, c->transport->poll(requests, n));
}

static enum ls_status poll_one(struct ls_comm *c, struct ls_request *request)
{
    return ls__link_poll(c, &request, 1);
}

/* Now and then while waiting: does the job end, has somebody died meanwhile? */
static enum ls_status look_around(struct ls_comm *c, int64_t *looked_ns)
{
    enum { LOOK_NS = 20000000 };
    TRY(ls__ending_check(c));
    if (ls__now_ns() - *looked_ns < LOOK_NS) return LS_OK;
    *looked_ns = ls__now_ns();
    if (c->board) TRY(ls__late_machine(c, 0));
    return ls__late_ended(c);
}

static enum ls_status finish(struct ls_comm *c, struct ls_request *request, int with, double seconds, const char *what)
{
    int64_t start = ls__now_ns(), looked_ns = start;
    for (;;) {
        TRY(poll_one(c, request));
        if (!request->is_open) return LS_OK;
        ls__link_pump(c);
        ls__wait_a_little(c, ls__now_ns() - start, true); /* main waits for this call */
        TRY(look_around(c, &looked_ns));
        if (ls__seconds_since(start) < seconds) continue;
        const char *host = c->peers ? c->peers[with].host : "";
        char where[160];
        ls__late_where(c, with, where, sizeof where);
        return ls__ending_found(c, ENDING_LIKELY,
                                ls_fail(LS_TIMEOUT, "rank %d%s%s did not %s rank %d on %s within %.3g s%s", with,
                                        *host ? " on " : "", host, what, c->place.rank, c->place.host, seconds, where));
    }
}

enum ls_status ls__link_send(struct ls_comm *c, const void *data, size_t bytes, int to, int tag, double seconds)
{
    struct ls_request request;
    TRY(ls__link_begin_send(c, data, bytes, to, tag, &request));
    return finish(c, &request, to, seconds, "take a message of");
}

enum ls_status ls__link_receive(struct ls_comm *c, void *data, size_t bytes, int from, int tag, double seconds)
{
    struct ls_request request;
    TRY(ls__link_begin_receive(c, data, bytes, from, tag, &request));
    TRY(finish(c, &request, from, seconds, "report to"));
    atomic_fetch_add_explicit(&c->bytes_received, (long long)bytes, memory_order_relaxed);
    return LS_OK;
}

/* --- heartbeat --- */

enum { HURRY_NS = 500000000, WATCH_NS = 10000000 };

/* Between two looks at what the others say. A look costs more the more they are, so there are fewer: the cost stays. */
static int64_t listen_ns(const struct ls_comm *c)
{
    enum { LEAST_NS = 2000000, EACH_NS = 250000 };
    int64_t ns = (int64_t)c->place.n_machines * EACH_NS;
    return ns < LEAST_NS ? LEAST_NS : ns;
}

static void hear(struct ls_comm *c, struct heard *h)
{
    h->last = h->in;
    h->last.what[WHAT_BYTES - 1] = '\0';
    h->heard_ns = ls__now_ns();
    h->has_answered |= h->in.is_ended || h->in.is_answer || h->in.has_ending;
    if (h->in.is_ended || h->in.has_ending) c->thread.hurried_until_ns = h->heard_ns + HURRY_NS;
    if (h->in.has_ending) ls__ending_post(c, &h->in.ending);
}

/* Of the other leaders the next after *machine that can be talked to. */
static struct heard *next_heard(struct ls_comm *c, int *machine)
{
    while (++*machine < c->place.n_machines)
        if (*machine != c->place.machine && !c->heard[*machine].is_broken) return &c->heard[*machine];
    return NULL;
}

/* A call for all of them; only if it fails one for each, to find whose it is. */
static void poll_requests(struct ls_comm *c, struct ls_request **open, int *owners, int n)
{
    if (n == 0 || !c->transport->poll(open, n)) return;
    for (int i = 0; i < n; i++)
        if (open[i]->is_open && c->transport->poll(&open[i], 1)) c->heard[owners[i]].is_broken = true;
}

/* Looks at every open heartbeat with as few calls as can be: each costs a look at every socket. */
static void poll_heartbeats(struct ls_comm *c)
{
    struct ls_request *open[LS_TRANSPORT_MOST];
    int owners[LS_TRANSPORT_MOST], n = 0, machine = -1;
    for (struct heard *h; (h = next_heard(c, &machine));) {
        struct ls_request *const own[2] = {&h->receiving, &h->sending};
        for (int k = 0; k < 2; k++) {
            if (!own[k]->is_open) continue;
            open[n] = own[k];
            owners[n++] = machine;
        }
        if (n + 2 <= LS_TRANSPORT_MOST) continue;
        poll_requests(c, open, owners, n);
        n = 0;
    }
    poll_requests(c, open, owners, n);
}

/* What has come is noted, and the next word listened for. A heartbeat that fails says nothing yet: its machine will be
 * missed, or is ending. */
static void listen(struct ls_comm *c)
{
    int machine = -1;
    for (struct heard *h; (h = next_heard(c, &machine));) {
        if (h->receiving.is_open) continue;
        if (h->is_listening) hear(c, h);
        h->is_listening = !h->last.is_last;
        if (h->is_listening)
            h->is_broken =
                c->transport->receive(&h->in, sizeof h->in, c->leaders[machine], TAG_HEARTBEAT, &h->receiving);
    }
}

/* Open MPI ends a rank that sends to one that is gone. So who is known to be gone, or knows the ending and may have
 * left, is sent nothing more; and while the launcher ends us a rank that does not answer is asked once only. */
static bool is_told_enough(const struct ls_comm *c, int machine, const struct heartbeat *word)
{
    const struct heard *h = &c->heard[machine];
    const struct heartbeat *last = &h->last;
    if ((word->has_ending || word->is_ended) && ls__late_is_gone(c, machine)) return true;
    if (word->has_ending && last->has_ending && last->ending.by == word->ending.by &&
        last->ending.sureness == word->ending.sureness)
        return true;
    return word->is_ended && h->is_asked && !h->has_answered;
}

static void speak(struct ls_comm *c, const struct heartbeat *word)
{
    int machine = -1;
    for (struct heard *h; (h = next_heard(c, &machine));) {
        if (h->sending.is_open || is_told_enough(c, machine, word)) continue; /* the last one has not left yet */
        h->is_asked = word->is_ended;
        h->out = *word;
        h->is_broken = c->transport->send(&h->out, sizeof h->out, c->leaders[machine], TAG_HEARTBEAT, &h->sending);
    }
}

/* Between two words of ours. */
static int64_t heartbeat_ns(const struct ls_comm *c, bool is_hurried)
{
    enum { LEAST_NS = 50000000, MOST_NS = 2000000000 };
    double ns = c->timeout / 10 * 1e9;
    if (is_hurried || ns < LEAST_NS) return LEAST_NS;
    return ns > MOST_NS ? MOST_NS : (int64_t)ns;
}

static struct heartbeat next_word(struct ls_comm *c, int64_t now)
{
    const struct board_rank *s = &c->board->ranks[0];
    struct heartbeat word = {.step = atomic_load(&s->step),
                             .rank = c->place.rank,
                             .is_ended = c->thread.ended_ns != 0,
                             .is_answer = now < c->thread.hurried_until_ns};
    ls__board_rank_what(s, word.what);
    word.has_ending = ls__ending_read(c, &word.ending);
    return word;
}

void ls__link_pump(struct ls_comm *c)
{
    struct comm_thread *k = &c->thread;
    if (!c->heard) return;
    int64_t now = ls__now_ns();
    if (!k->ended_ns && c->is_ended && c->is_ended(c->is_ended_context)) k->ended_ns = now;
    if (now - k->watched_ns >= WATCH_NS) {
        k->watched_ns = now;
        ls__late_neighbours(c);
    }
    bool is_hurried = k->ended_ns || now < k->hurried_until_ns || atomic_load(&c->board->has_ending);
    bool is_time = now - k->last_heartbeat_ns >= heartbeat_ns(c, is_hurried);
    if (!is_time && now - k->listened_ns < listen_ns(c)) return;
    k->listened_ns = now;
    poll_heartbeats(c);
    listen(c);
    if (!is_time) return;
    const struct heartbeat word = next_word(c, now);
    k->last_heartbeat_ns = now;
    speak(c, &word);
    if (word.has_ending) atomic_fetch_add(&c->board->n_spread, 1);
}

static int n_open(struct ls_comm *c, bool is_listening)
{
    int n = 0, machine = -1;
    for (struct heard *h; (h = next_heard(c, &machine));) n += h->sending.is_open || (is_listening && !h->last.is_last);
    return n;
}

static void close_rounds(struct ls_comm *c, bool is_listening)
{
    enum { PATIENCE_S = 5 };
    int64_t start = ls__now_ns();
    while (n_open(c, is_listening) > 0 && ls__seconds_since(start) < PATIENCE_S) {
        poll_heartbeats(c);
        if (is_listening) listen(c);
        ls__wait_a_little(c, ls__now_ns() - start, true); /* ok: all have ended, and it is bounded */
    }
}

void ls__link_close(struct ls_comm *c)
{
    if (!c->heard) return;
    close_rounds(c, false); /* the last heartbeat has left */
    speak(c, &(struct heartbeat){.rank = c->place.rank, .is_last = 1});
    close_rounds(c, true);
}
