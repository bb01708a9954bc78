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
    TRY(ls__dir_open_file(&folder->dir, "lock", O_RDWR | O_CREAT, &folder->lock, LS_CHECKPOINT));
    if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0) return LS_OK;
    return ls_fail(LS_CHECKPOINT, "%s: another process runs this lab; wait for it, or stop it", folder->dir.path);
}

static enum ls_status make(const struct ls_lab_folder *folder, const struct ls_lab *lab)
{
    const struct ls_piece piece = {lab->file, lab->file_len};
    return ls__dir_write_atomic(&folder->dir, "lab.txt", &piece, 1, LS_CHECKPOINT);
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
    TRY(ls__lab_open_folder(folder->dir.path, &old_lab, &old));
    enum ls_status status = LS_OK;
    if (old_lab->file_len != lab->file_len || memcmp(old_lab->file, lab->file, lab->file_len) != 0)
        status = ls_fail(LS_CHECKPOINT, "%s holds another lab, or another version of this one: take another --run",
                         folder->dir.path);
    else if (strcmp(old->scale, state->scale) != 0)
        status = differs(folder->dir.path, "--scale", old->scale, state->scale);
    else if (strcmp(old->device, state->device) != 0)
        status = differs(folder->dir.path, "--device", old->device, state->device);
    else if (strcmp(old->workers, state->workers) != 0)
        status = differs(folder->dir.path, "--workers", old->workers, state->workers);
    else if (old->is_stand_in != state->is_stand_in)
        status =
            differs(folder->dir.path, "--stand-in", old->is_stand_in ? "on" : "off", state->is_stand_in ? "on" : "off");
    else
        status = carry_over(state, old);
    ls__lab_state_destroy(&old);
    ls__lab_destroy(&old_lab);
    return status;
}

/* A folder without state.json is free if it is empty, or was left by this lab before it could write that. Nothing is
 * touched. */
static enum ls_status check_free(const char *path, const struct ls_lab *lab)
{
    struct stat st;
    char file[LS_PATH_BYTES], *text;
    size_t len;
    if (stat(path, &st) != 0 || rmdir(path) == 0) return LS_OK;
    bool is_ours = ls__path_join(file, sizeof file, path, "lab.txt") == LS_OK &&
                   ls__file_read(file, LS_LAB_FILE_BYTES, &text, &len) == LS_OK;
    if (is_ours) {
        is_ours = len == lab->file_len && memcmp(text, lab->file, len) == 0;
        free(text);
    }
    if (is_ours) return LS_OK;
    return ls_fail(LS_CHECKPOINT, "%s is there and is no lab's folder: take another --run", path);
}

static enum ls_status take(struct ls_lab_folder *folder, const char *path, const struct ls_lab *lab,
                           struct ls_lab_state *state)
{
    const bool is_there = ls__lab_is_folder(path);
    if (!is_there) TRY(check_free(path, lab));
    TRY(ls__mkdirs(path));
    TRY(ls__dir_open(&folder->dir, path, LS_CHECKPOINT));
    TRY(take_lock(folder));
    if (is_there) TRY(go_on(folder, lab, state));
    TRY(ls__dir_open_below(&folder->runs, &folder->dir, "runs", LS_CHECKPOINT));
    if (!is_there) TRY(make(folder, lab));
    return ls__lab_state_write(state, lab, &folder->dir);
}

enum ls_status ls__lab_folder_take(struct ls_lab_folder *folder, const char *path, const struct ls_lab *lab,
                                   struct ls_lab_state *state)
{
    *folder = (struct ls_lab_folder){.dir = {.fd = -1}, .runs = {.fd = -1}, .lock = -1};
    if (strlen(path) >= LS_PATH_BYTES - 256)
        return ls_fail(LS_USAGE, "--run: a path of %zu bytes is too long", strlen(path));
    enum ls_status status = take(folder, path, lab, state);
    if (status != LS_OK) ls__lab_folder_leave(folder);
    return status;
}

void ls__lab_folder_leave(struct ls_lab_folder *folder)
{
    if (folder->lock >= 0) close(folder->lock);
    folder->lock = -1;
    ls__dir_close(&folder->runs);
    ls__dir_close(&folder->dir);
}
