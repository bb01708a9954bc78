/* server_tubes.c: the server's end of the tubes (tube.h) of workers that share its box. A worker has the tube of its
 * slot from JOIN on, and speaks there once it was spoken to. One whose tube holds something else than messages is sent
 * away.
 */
#include "base/log.h"
#include "base/mem.h"
#include "elastic/server_internal.h"

#include <stdlib.h>

enum ls_status ls__server_open_tubes(struct ls_server *s)
{
    const struct ls_box_size size = {s->session, (uint64_t)s->o.n_own_sums, s->o.parameters_bytes};
    s->bell[0] = s->bell[1] = -1;
    TRY(ls__calloc(&s->mail, LS_TALK_HEAD_BYTES, 1));
    if (ls__box_create(&s->box, &size) != LS_OK) ls__log(LS_LOG_DEBUG, "%s", ls_error_message());
    if (s->box && (!ls__box_server_flag(s->box) || !ls__bell_create(s->bell))) ls__box_close(&s->box);
    return LS_OK;
}

void ls__server_close_tubes(struct ls_server *s)
{
    for (int i = 0; i < s->n_workers; i++) ls__server_close_tube(&s->workers[i]);
    if (s->mail) ls__bell_close(s->bell); /* else nothing was opened */
    ls__box_close(&s->box);
    free(s->mail);
}

/* One worker has a slot; one that was started again may come before the end of the other is known, or before the sums
 * that it left there are added. */
static bool is_slot_free(const struct ls_server *s, const struct server_worker *w)
{
    for (int i = 0; i < s->n_workers; i++) {
        const struct server_worker *k = &s->workers[i];
        if (k != w && k->slot == w->slot && (k->is_here || k->n_unread > 0)) return false;
    }
    return true;
}

void ls__server_open_tube(struct ls_server *s, struct server_worker *w)
{
    if (!s->box || !is_slot_free(s, w)) return;
    struct ls_tube_memory *memory = ls__box_tube(s->box, w->slot);
    if (!memory || !ls__box_sums(s->box, w->slot) || !ls__bell_create(w->bell)) return;
    ls__tube_clear(memory);
    w->tube = ls__tube_of_server(memory, ls__box_server_flag(s->box), s->bell[1], w->bell[1]);
}

void ls__server_close_tube(struct server_worker *w)
{
    w->tube = (struct ls_tube){0};
    w->is_boxed = false;
    ls__bell_close(w->bell);
}

static void send_away(struct ls_server *s, struct server_worker *w)
{
    const struct ls_talk_end end = {.status = LS_REMOTE, .text = "what lies in the shared memory is no message"};
    ls__server_close_tube(w); /* it hears it by its connection */
    ls__server_say(s, w, LS_TALK_OVER, s->round.step, &end, NULL, 0);
    ls__server_remove(s, w, "left no message, but something else, in its memory");
}

static bool hear(struct ls_server *s, struct server_worker *w)
{
    struct ls_wire_message m = {.event = LS_WIRE_MESSAGE, .peer = w->peer, .head = s->mail};
    if (!w->is_here || !w->is_boxed) return false;
    const enum ls_tube_found found = ls__tube_take(&w->tube, s->mail, LS_TALK_HEAD_BYTES, &m.head_bytes);
    if (found == LS_TUBE_MESSAGE) ls__server_handle(s, w, &m);
    if (found == LS_TUBE_BROKEN) send_away(s, w);
    return found != LS_TUBE_NOTHING;
}

/* In turn, and now and then whoever has only a connection. */
bool ls__server_hear_tubes(struct ls_server *s)
{
    enum { MOST_IN_TUBES = 64 };
    if (s->n_in_tubes >= MOST_IN_TUBES) return false;
    for (int i = 0; i < s->n_workers; i++) {
        const int at = (s->next_tube + i) % s->n_workers;
        if (!hear(s, &s->workers[at])) continue;
        s->next_tube = at + 1;
        s->n_in_tubes++;
        return true;
    }
    return false;
}

static bool has_mail(const struct ls_server *s)
{
    for (int i = 0; i < s->n_workers; i++)
        if (s->workers[i].is_boxed && ls__tube_has(&s->workers[i].tube)) return true;
    return false;
}

enum ls_status ls__server_receive(struct ls_server *s, int timeout_ms, struct ls_wire_message *m)
{
    s->n_in_tubes = 0;
    if (!s->box) return ls_wire_receive(s->wire, timeout_ms, m);
    _Atomic uint32_t *is_asleep = ls__box_server_flag(s->box);
    if (timeout_ms != 0) atomic_store(is_asleep, 1);
    enum ls_status status = ls_wire_receive(s->wire, has_mail(s) ? 0 : timeout_ms, m);
    atomic_store(is_asleep, 0);
    if (m->event == LS_WIRE_WOKEN) ls__bell_silence(s->bell[0]);
    return status;
}
