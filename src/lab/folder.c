/* folder.c: the folder of a lab (lab.h): made, found again, held by one process at a time. */
#include "base/mem.h"
#include "base/quote.h"
#include "lab/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has(const char *dir, const char *name)
{
    char path[LS_PATH_BYTES];
    return ls__path_join(path, sizeof path, dir, name) == LS_OK && ls__file_exists(path);
}

bool ls__lab_is_folder(const char *path)
{
    return has(path, "lab.txt") && has(path, "state.json");
}

static enum ls_status read_lab(const char *dir, struct ls_lab **lab)
{
    char path[LS_PATH_BYTES], *text;
    size_t len;
    TRY(ls__path_join(path, sizeof path, dir, "lab.txt"));
    TRY(ls__file_read(path, LS_LAB_FILE_BYTES, &text, &len));
    enum ls_status status = ls__lab_parse(lab, path, text, len, NULL);
    free(text);
    return status;
}

enum ls_status ls__lab_open_folder(const char *dir, struct ls_lab **lab, struct ls_lab_state **state)
{
    *lab = NULL;
    *state = NULL;
    if (!ls__lab_is_folder(dir))
        return ls_fail(LS_CHECKPOINT,
                       "%s is no lab's folder: expected lab.txt and state.json, as `lockstep lab run` "
                       "leaves them",
                       dir);
    enum ls_status status = read_lab(dir, lab);
    if (status == LS_OK) status = ls__lab_state_read(state, *lab, dir);
    if (status == LS_OK) status = ls__arena_text(&(*lab)->memory, &(*lab)->name, (*state)->lab, strlen((*state)->lab));
    if (status != LS_OK) ls__lab_destroy(lab);
    return status;
}

/* --- making and taking --- */

static enum ls_status take_lock(struct ls_lab_folder *folder)
{
    char path[LS_PATH_BYTES];
    TRY(ls__path_join(path, sizeof path, folder->path, "lock"));
    folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (folder->lock < 0) return ls_fail(LS_CHECKPOINT, "open %s: %s", path, strerror(errno));
    if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0) return LS_OK;
    return ls_fail(LS_CHECKPOINT, "%s: another process runs this lab; wait for it, or stop it", folder->path);
}

static enum ls_status make(const struct ls_lab_folder *folder, const struct ls_lab *lab)
{
    char path[LS_PATH_BYTES];
    const struct ls_piece piece = {lab->file, lab->file_len};
    TRY(ls__path_join(path, sizeof path, folder->path, "runs"));
    TRY(ls__mkdirs(path));
    TRY(ls__path_join(path, sizeof path, folder->path, "lab.txt"));
    return ls__file_write_atomic(path, &piece, 1, LS_CHECKPOINT);
}

static bool has_same_settings(const struct ls_lab_job *a, const struct ls_lab_job *b)
{
    if (a->n_settings != b->n_settings) return false;
    for (int i = 0; i < a->n_settings; i++) {
        const char *value = ls__lab_job_setting(b, a->settings[i].key);
        if (!value || strcmp(value, a->settings[i].value) != 0) return false;
    }
    return true;
}

static enum ls_status carry_over(struct ls_lab_state *to, const struct ls_lab_state *from)
{
    for (int i = 0; i < to->n_jobs; i++) {
        struct ls_lab_job *job = &to->jobs[i];
        const struct ls_lab_job *old = ls__lab_find_job(from, job->run, job->repeat);
        if (!old || !has_same_settings(job, old)) continue;
        job->state = old->state;
        job->exit_code = old->exit_code;
        job->seconds = old->seconds;
        job->others_seconds = old->others_seconds;
        job->tries = old->tries;
        TRY(ls__arena_text(&to->memory, &job->message, old->message, strlen(old->message)));
    }
    return LS_OK;
}

static enum ls_status differs(const char *path, const char *what, const char *old, const char *new)
{
    char dir[LS_QUOTED_BYTES];
    ls__quote_path(path, dir, sizeof dir);
    return ls_fail(LS_USAGE, "%s was begun with %s %s, not %s: go on with `lockstep lab run %s`, or take another --run",
                   path, what, *old ? old : "(none)", *new ? new : "(none)", dir);
}

/* The same lab, asked the same: only --only may be another. */
static enum ls_status go_on(const struct ls_lab_folder *folder, const struct ls_lab *lab, struct ls_lab_state *state)
{
    struct ls_lab *old_lab;
    struct ls_lab_state *old;
    TRY(ls__lab_open_folder(folder->path, &old_lab, &old));
    enum ls_status status = LS_OK;
    if (old_lab->file_len != lab->file_len || memcmp(old_lab->file, lab->file, lab->file_len) != 0)
        status = ls_fail(LS_CHECKPOINT, "%s holds another lab, or another version of this one: take another --run",
                         folder->path);
    else if (strcmp(old->scale, state->scale) != 0)
        status = differs(folder->path, "--scale", old->scale, state->scale);
    else if (strcmp(old->device, state->device) != 0)
        status = differs(folder->path, "--device", old->device, state->device);
    else if (strcmp(old->workers, state->workers) != 0)
        status = differs(folder->path, "--workers", old->workers, state->workers);
    else if (old->is_stand_in != state->is_stand_in)
        status =
            differs(folder->path, "--stand-in", old->is_stand_in ? "on" : "off", state->is_stand_in ? "on" : "off");
    else
        status = carry_over(state, old);
    ls__lab_state_destroy(&old);
    ls__lab_destroy(&old_lab);
    return status;
}

static enum ls_status take(struct ls_lab_folder *folder, const struct ls_lab *lab, struct ls_lab_state *state)
{
    const bool is_there = ls__lab_is_folder(folder->path);
    struct stat st;
    if (!is_there && stat(folder->path, &st) == 0 && rmdir(folder->path) != 0 && !has(folder->path, "lab.txt"))
        return ls_fail(LS_CHECKPOINT, "%s is there and is no lab's folder: take another --run", folder->path);
    TRY(ls__mkdirs(folder->path));
    TRY(take_lock(folder));
    if (is_there) TRY(go_on(folder, lab, state));
    if (!is_there) TRY(make(folder, lab));
    return ls__lab_state_write(state, lab, folder->path);
}

enum ls_status ls__lab_folder_take(struct ls_lab_folder *folder, const char *path, const struct ls_lab *lab,
                                   struct ls_lab_state *state)
{
    folder->lock = -1;
    if (snprintf(folder->path, sizeof folder->path, "%s", path) >= LS_PATH_BYTES - 256)
        return ls_fail(LS_USAGE, "--run: a path of %zu bytes is too long", strlen(path));
    enum ls_status status = take(folder, lab, state);
    if (status != LS_OK) ls__lab_folder_leave(folder);
    return status;
}

void ls__lab_folder_leave(struct ls_lab_folder *folder)
{
    if (folder->lock >= 0) close(folder->lock);
    folder->lock = -1;
}
