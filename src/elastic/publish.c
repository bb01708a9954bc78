/* publish.c: parameters as workers get them: from the box (box.h) where they share it, by the connection else. A
 * version is one copy, whoever reads it, and it is not written over before the last has read it.
 */
#include "elastic/parameters.h"
#include "elastic/server_internal.h"

static enum ls_status make(struct ls_server *s, int i)
{
    uint8_t *memory = s->box ? ls__box_parameters(s->box, i) : NULL;
    s->published[i].is_boxed = memory != NULL;
    if (memory) return ls_wire_buffer_lend(&s->published[i].buffer, memory, s->o.parameters_bytes);
    return ls_wire_buffer_create(&s->published[i].buffer, s->o.parameters_bytes);
}

static bool is_free(const struct ls_server *s, int i)
{
    const struct published *p = &s->published[i];
    return i != s->newest && p->n_readers == 0 && (!p->buffer || !ls_wire_buffer_is_shared(p->buffer));
}

/* The first that nobody reads. There is one unless many messages are on their way: then one of theirs is forgotten here
 * and lives until they have left. */
static enum ls_status find_free(struct ls_server *s, int *out)
{
    for (*out = 0; *out < LS_BOX_VERSIONS; ++*out)
        if (is_free(s, *out)) return s->published[*out].buffer ? LS_OK : make(s, *out);
    for (*out = 0; *out == s->newest || s->published[*out].n_readers > 0;) ++*out;
    ls_wire_buffer_drop(&s->published[*out].buffer);
    s->published[*out].is_boxed = false;
    return ls_wire_buffer_create(&s->published[*out].buffer, s->o.parameters_bytes);
}

enum ls_status ls__server_publish(struct ls_server *s, const struct ls_parameters *parameters)
{
    int i;
    pthread_mutex_lock(&s->lock);
    enum ls_status status = find_free(s, &i);
    pthread_mutex_unlock(&s->lock);
    TRY(status);
    /* This thread alone writes them, and nobody is sent to one that is not the newest. */
    TRY(ls__parameters_get(parameters, ls_wire_buffer_data(s->published[i].buffer)));
    pthread_mutex_lock(&s->lock);
    s->newest = i;
    s->version++;
    pthread_mutex_unlock(&s->lock);
    return LS_OK;
}

struct ls_wire_buffer *ls__server_hand_over(struct ls_server *s, struct server_worker *w, struct ls_talk_work *work)
{
    struct published *p = &s->published[s->newest];
    work->has_parameters = w->version != s->version;
    work->is_boxed = work->has_parameters && w->is_boxed && p->is_boxed;
    work->boxed = work->is_boxed ? (uint32_t)s->newest : 0;
    work->is_ahead = work->has_parameters && !work->is_boxed && w->ahead == s->version && w->n_ahead == s->o.pieces->n;
    w->version = s->version;
    w->n_ahead = 0;
    if (!work->has_parameters || work->is_ahead) return NULL;
    if (!work->is_boxed) return p->buffer;
    ls__server_unread(s, w);
    w->reads = s->newest;
    p->n_readers++;
    return NULL;
}

void ls__server_unread(struct ls_server *s, struct server_worker *w)
{
    if (w->reads >= 0) s->published[w->reads].n_readers--;
    w->reads = -1;
}

void ls__server_drop_published(struct ls_server *s)
{
    for (int i = 0; i < LS_BOX_VERSIONS; i++) ls_wire_buffer_drop(&s->published[i].buffer);
}
