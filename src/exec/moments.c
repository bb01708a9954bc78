/* moments.c: where the time of a step goes on a device that only enqueues. The host waits for it once, at the end, and
 * sees one time; the device's clock (ls_backend.clock) tells what it was:
 *
 *     host     | launches                       | waits                            |
 *     device      | shards                | sums           | updates              |
 *                BEGIN                  SHARDS           SUMS                    END
 *
 * Both end together. What the device added while the host still launched was hidden behind it; what it added while the
 * host waited is exposed communication, as on the CPU. Sums that began before the shards were done (ADDING, early.c)
 * were hidden behind those: the device's own lane tells for how long.
 */
#include "base/clock.h"
#include "exec/exec_internal.h"

static int64_t at_most(int64_t ns, int64_t most)
{
    return ns < 0 ? 0 : ns < most ? ns : most;
}

struct waited ls__moments_split(int64_t wait_ns, const int64_t *m)
{
    struct waited w;
    w.update_ns = at_most(m[LS_MOMENT_END] - m[LS_MOMENT_SUMS], wait_ns);
    w.communicate_ns = at_most(m[LS_MOMENT_SUMS] - m[LS_MOMENT_SHARDS], wait_ns - w.update_ns);
    w.compute_ns = wait_ns - w.update_ns - w.communicate_ns;
    return w;
}

void ls__moments_mark(struct step *s, enum ls_moment moment)
{
    if (s->is_timed && moment == LS_MOMENT_BEGIN)
        s->adding = ls__span_begin(s->e->adding, LS_SPAN_OTHER, "step", s->ask->step);
    if (s->is_timed) s->is_timed = s->e->backend->clock->mark(s->e->device, moment) == LS_OK;
}

/* Once per step, in the device's lane: all that it added before its shards were done. */
static void tell_beside(struct step *s, const int64_t *m)
{
    const int64_t end = m[LS_MOMENT_END], shards = m[LS_MOMENT_SHARDS];
    const struct ls_span_part parts[] = {
        {LS_SPAN_SUM, "sums beside shards", at_most(shards - m[LS_MOMENT_ADDING], end)},
        {LS_SPAN_OTHER, "rest", at_most(end - shards, end)}};
    if (s->is_told) return;
    s->is_told = true;
    ls__span_end_in_parts(s->e->adding, s->adding, parts, 2);
}

enum ls_status ls__moments_end(struct step *s, struct ls_begun begun, enum ls_status status)
{
    struct ls_exec *e = s->e;
    int64_t moments[LS_N_MOMENTS];
    const int64_t waited_ns = ls__now_ns() - begun.start_ns;
    if (status != LS_OK || !s->is_timed || e->backend->clock->read(e->device, moments) != LS_OK) {
        ls__span_end(e->workers[0].lane, begun);
        return status;
    }
    const struct waited w = ls__moments_split(waited_ns, moments);
    tell_beside(s, moments);
    const struct ls_span_part parts[] = {{s->work, "shards", w.compute_ns},
                                         {LS_SPAN_COMMUNICATE, "all sums", w.communicate_ns},
                                         {LS_SPAN_UPDATE, "updates", w.update_ns}};
    ls__span_end_in_parts(e->workers[0].lane, begun, parts, 3);
    e->balance.device_ns = moments[LS_MOMENT_SHARDS];
    return LS_OK;
}
