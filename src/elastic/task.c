/* task.c: see task.h. */
#include "elastic/task.h"

#include "session/identity.h"
#include "settings/setting.h"
#include "settings/sync_names.h"

#include "base/mem.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void ls__task_close(struct ls_task *t)
{
    if (t->is_open) ls__session_close(&t->s);
    t->is_open = false;
    json_decref(t->options);
    t->options = NULL;
    ls__contact_task_release(&t->told);
}

/* A person started every node with the same options, or meant to. */
static enum ls_status compare_typed(const struct ls_task *t, const struct ls_worker_options *o)
{
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        const json_t *theirs = json_object_get(t->options, s->key);
        json_t *mine = s->role != LS_ROLE_FREE && theirs ? ls__setting_json(s, &o->own) : NULL;
        char here[64], there[64];
        const bool is_same = !mine || json_equal(mine, theirs);
        json_decref(mine);
        if (is_same) continue;
        ls__setting_print(s, &o->own, here, sizeof here);
        ls__setting_print(s, &t->train, there, sizeof there);
        return ls_fail(LS_USAGE, "%s%s is %s here and %s at the server %s: give the same on every node",
                       s->group ? "--" : "", s->name, here, there, o->address);
    }
    return LS_OK;
}

/* The server's options, and this machine's own. */
static enum ls_status read_options(struct ls_task *t, const struct ls_worker_options *o)
{
    const struct ls_train_options *own = &o->own;
    t->options = json_loads(t->told.options, 0, NULL);
    if (!json_is_object(t->options)) return ls_fail(LS_DATA, "the server's options are not a JSON object");
    ls_train_options_default(&t->train);
    for (int i = 0; i < LS_N_SETTINGS; i++) TRY(ls__setting_from_json(&ls__settings[i], &t->train, t->options));
    if (o->typed) TRY(compare_typed(t, o));
    t->train.data_dir = own->data_dir;
    if (own->isa && strcmp(own->isa, "native") != 0) t->train.isa = own->isa;
    t->train.tune = own->tune;
    t->train.threads = own->threads;
    t->train.control = own->control;
    t->train.model_text = t->told.model;
    t->train.no_eval = true;
    return LS_OK;
}

/* The weights come from the server, wherever it has them from. */
static enum ls_status take_over(struct identity *mine, const struct identity *theirs, enum identity_key key)
{
    free(mine->values[key]);
    mine->values[key] = NULL;
    return theirs->values[key] ? ls__strdup(&mine->values[key], theirs->values[key]) : LS_OK;
}

/* All options are the server's, so what differs of the data are the files. */
static enum ls_status refuse(const struct ls_worker_options *o, const struct identity_difference *d)
{
    const char *who = o->listen ? "server" : "worker";
    if (d->key == IDENTITY_DATA_CHECKSUM || d->key == IDENTITY_TEST_CHECKSUM || d->key == IDENTITY_VALIDATION)
        return ls_fail(LS_USAGE,
                       "the data of this %s are not those that the server at %s trains with (%s is %s here and %s "
                       "there): copy the server's",
                       who, o->address, d->what, d->mine, d->theirs);
    return ls_fail(LS_USAGE, "this %s would not compute what the server at %s trains: %s is %s here and %s there%s%s",
                   who, o->address, d->what, d->mine, d->theirs, *d->advice ? "; " : "", d->advice);
}

/* Another machine may have other data, another library, another instruction set. */
static enum ls_status compare(struct ls_task *t, const struct ls_worker_options *o)
{
    struct identity mine = {0}, theirs = {0};
    struct identity_difference d;
    enum ls_status status = ls__identity_of(&mine, &t->train, &t->s);
    if (status == LS_OK) status = ls__identity_from_text(&theirs, t->told.identity, strlen(t->told.identity));
    if (status == LS_OK) status = take_over(&mine, &theirs, IDENTITY_INIT);
    if (status == LS_OK && ls__identity_differs(&mine, &theirs, IDENTITY_RESUME, &d)) status = refuse(o, &d);
    ls__identity_release(&mine);
    ls__identity_release(&theirs);
    return status;
}

enum ls_status ls__task_open(struct ls_task *t, struct ls_contact_task *told, const struct ls_worker_options *o)
{
    struct ls_sync_choice sync = {0};
    ls__task_close(t);
    t->told = *told;
    *told = (struct ls_contact_task){0};
    TRY(read_options(t, o));
    (void)ls__sync_parse(t->train.sync, &sync);
    struct session_options so = ls__session_options_of(&t->train);
    so.sync = sync.name;
    so.turn = o->turn;
    so.computes_elsewhere = o->listen;
    t->is_open = true;
    TRY(ls__session_open(&t->s, &so));
    TRY(compare(t, o));
    TRY(ls__split_make(&t->split, t->s.exec, (int)t->train.servers));
    t->pieces = (struct ls_sum_split){.n = 1, .ranges = {t->split.ranges[0]}};
    if (t->split.n > 1 && t->told.n_pieces > 1)
        return ls_fail(LS_REMOTE, "one of several servers wants sums in %d pieces", t->told.n_pieces);
    return t->split.n > 1 ? LS_OK : ls__split_pieces(&t->pieces, t->s.exec, t->told.n_pieces);
}

bool ls__task_is(const struct ls_task *t, const struct ls_contact_task *told)
{
    return t->told.options && strcmp(t->told.options, told->options) == 0 && strcmp(t->told.model, told->model) == 0 &&
           strcmp(t->told.identity, told->identity) == 0 && t->told.n_pieces == told->n_pieces;
}
