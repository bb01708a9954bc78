/* init.c: reads the file of --init, fits its tensors to the model's by name, and tells what fitted. See init.h. */
#include "train/init.h"

#include "base/file.h"
#include "session/recorded.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static enum ls_status hash_file(const char *path, char hex[33])
{
    struct ls_map map;
    if (ls__map_open(path, &map) != LS_OK) return ls_fail_in(LS_CHECKPOINT, "--init");
    XXH128_hash_t h = XXH3_128bits(map.data, map.len);
    ls__map_close(&map);
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    return LS_OK;
}

static enum ls_status spread_hash(struct trainer *t)
{
    if (ls_comm_place(t->comm)->n_ranks == 1) return LS_OK;
    return ls_comm_broadcast(t->comm, 0, t->s.init_hash, sizeof t->s.init_hash);
}

/* A file is itself; of a run it is the best checkpoint, else the newest, as eval takes it. */
static enum ls_status find_file(struct trainer *t)
{
    struct ls_ckpt *ckpt = NULL;
    snprintf(t->init_path, sizeof t->init_path, "%s", t->o->init);
    if (!ls__dir_exists(t->o->init)) return LS_OK;
    enum ls_status status = ls_ckpt_open_best(&ckpt, t->o->init, t->init_path);
    ls_ckpt_close(&ckpt);
    return status == LS_OK ? LS_OK : ls_fail_in(status, "--init");
}

enum ls_status ls__init_open(struct trainer *t)
{
    enum ls_status status = LS_OK;
    if (!t->o->init) return LS_OK;
    if (t->is_chief) status = find_file(t);
    bool is_there = status == LS_OK && ls__file_exists(t->init_path);
    if (!is_there && t->o->resume)
        status = LS_OK; /* a run that goes on does not need it */
    else if (t->is_chief && status == LS_OK)
        status = hash_file(t->init_path, t->s.init_hash);
    TRY(ls_comm_agree(t->comm, status, ""));
    return spread_hash(t);
}

/* The path as the run that wrote the checkpoint was given it. */
static bool is_same_path(const struct ls_ckpt *ckpt, const char *path)
{
    const char *text = ls_ckpt_meta(ckpt, LS_RECORDED_KEY);
    json_t *options = text ? json_loads(text, 0, NULL) : NULL;
    const char *theirs = json_string_value(json_object_get(options, "init"));
    bool is_same = theirs && strcmp(theirs, path) == 0;
    json_decref(options);
    return is_same;
}

void ls__init_adopt(struct trainer *t, const struct ls_ckpt *ckpt)
{
    const char *recorded = ls_ckpt_meta(ckpt, "init");
    if (t->o->init && recorded && is_same_path(ckpt, t->o->init))
        snprintf(t->s.init_hash, sizeof t->s.init_hash, "%.32s", recorded);
}

enum ls_status ls__init_take(struct trainer *t)
{
    struct ls_ckpt *ckpt = NULL;
    if (!t->o->init) return LS_OK;
    enum ls_status status = ls_ckpt_open(&ckpt, t->init_path);
    if (status == LS_OK) status = ls__session_take_weights(&t->s, ckpt, t->init_path, t->o->init_skip);
    ls_ckpt_close(&ckpt);
    return status == LS_OK ? LS_OK : ls_fail_in(status, "--init");
}

enum ls_status ls__init_spread(struct trainer *t)
{
    if (!t->o->init || ls_comm_place(t->comm)->n_ranks == 1) return LS_OK;
    TRY(spread_hash(t));
    return t->st.step == 0 ? ls_exec_sync_store(t->s.exec, ls_comm_machine_of(t->comm, 0)) : LS_OK;
}
