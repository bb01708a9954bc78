/* checkpoint_loop.c: the program that checkpoint_faults.sh kills.
 *
 *     checkpoint_loop write FOLDER FROM TO [STRACE-ARGUMENT...]
 *         writes a checkpoint for each step, one after another, and says "saved STEP" when one is on disk. Stops at the
 * first failure with "failed STEP: why" and exit code 4. With arguments for strace, strace is attached to the writer's
 *         thread alone, before the first checkpoint, so that a system call's number counts from there.
 *     checkpoint_loop check FOLDER OLDEST NEWEST
 *         the newest usable checkpoint must be one of these steps, in one piece, and the links must lead to usable
 * files. checkpoint_loop file PATH STEP this file must be the whole checkpoint of that step.
 *
 * Exit codes: 0, 1 wrong, 4 a write failed, 77 strace cannot attach here.
 */
#include "base/file.h"
#include "base/parse.h"
#include "checkpoint/checkpoint.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_TENSORS = 8, N_FLOATS = 2048, KEEP = 2, POLL_US = 1000 };

/* --- strace --- */

/* The number a text is, or -1. */
static int64_t number(const char *text)
{
    int64_t n;
    return ls__parse_i64(text, 0, INT64_MAX, &n) ? n : -1;
}

static int other_thread(void)
{
    int tid = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (number(e->d_name) > 0 && number(e->d_name) != getpid()) tid = (int)number(e->d_name);
    if (dir) closedir(dir);
    return tid;
}

static bool is_traced(int tid)
{
    char path[64], line[128];
    int tracer = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "TracerPid: %d", &tracer);
    if (f) fclose(f);
    return tracer != 0;
}

/* Whether strace waits for events: it has told the thread to stop then, so no call of the thread goes by unseen. To
 * hold the thread (is_traced) is not enough: a busy machine may pause strace between the two. */
static bool is_following(pid_t strace)
{
    char path[64];
    long call = -1;
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)strace);
    FILE *f = fopen(path, "r");
    bool is_known = f && fscanf(f, "%ld", &call) == 1; /* it says "running" otherwise */
    if (f) fclose(f);
    return is_known && call == SYS_wait4;
}

/* Returns strace's process id once it holds the thread, or exits with 77. */
static pid_t attach(int n_args, char **args)
{
    int thread = other_thread();
    char tid[16], *argv[64] = {"strace", "-qq", "-p", tid};
    snprintf(tid, sizeof tid, "%d", thread);
    for (int i = 0; i < n_args && i < 59; i++) argv[4 + i] = args[i];
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* a child may not trace its parent otherwise */
    pid_t child = fork();
    if (child == 0) {
        execvp("strace", argv);
        _exit(77);
    }
    for (;;) { /* until it has, or has given up */
        if (is_traced(thread) && is_following(child)) return child;
        if (waitpid(child, NULL, WNOHANG) == child) break;
        usleep(POLL_US);
    }
    printf("strace cannot attach here\n");
    exit(77);
}

/* --- writing --- */

static enum ls_status save(struct ls_ckpt_writer *w, int64_t step)
{
    static float data[N_TENSORS][N_FLOATS];
    static char names[N_TENSORS][24];
    struct ls_ckpt_tensor tensors[N_TENSORS];
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)step);
    for (int i = 0; i < N_TENSORS; i++) {
        for (int k = 0; k < N_FLOATS; k++) data[i][k] = (float)step;
        snprintf(names[i], sizeof names[i], "layer%d", i);
        tensors[i] = (struct ls_ckpt_tensor){names[i], LS_F32, LS_SHAPE1(N_FLOATS), data[i]};
    }
    TRY(ls_ckpt_writer_submit(w, step, step % 2 == 1, tensors, N_TENSORS, &(struct ls_ckpt_meta){"step", text}, 1));
    return ls_ckpt_writer_finish(w);
}

static int write_steps(const char *folder, int64_t from, int64_t to, int n_args, char **args)
{
    struct ls_ckpt_writer *w;
    pid_t strace = 0;
    int rc = 0;
    if (ls_ckpt_writer_create(&w, folder, KEEP) != LS_OK) {
        printf("failed to start: %s\n", ls_error_message());
        return 4;
    }
    if (n_args > 0) strace = attach(n_args, args);
    for (int64_t step = from; step <= to && rc == 0; step++) {
        if (save(w, step) == LS_OK) {
            printf("saved %lld\n", (long long)step);
        } else {
            printf("failed %lld: %s\n", (long long)step, ls_error_message());
            rc = 4;
        }
    }
    ls_ckpt_writer_destroy(&w);
    if (strace > 0) waitpid(strace, NULL, 0);
    return rc;
}

/* --- checking --- */

static bool is_whole(const struct ls_ckpt *c, int64_t *step)
{
    const char *text = ls_ckpt_meta(c, "step");
    if (!ls_ckpt_has_checksum(c) || !text || ls_ckpt_n_tensors(c) != N_TENSORS) return false;
    *step = number(text);
    for (int i = 0; i < N_TENSORS; i++) {
        const struct ls_ckpt_tensor *t = ls_ckpt_tensor_at(c, i);
        if (t->dtype != LS_F32 || ls_shape_count(&t->shape) != N_FLOATS) return false;
        for (int k = 0; k < N_FLOATS; k++)
            if (((const float *)t->data)[k] != (float)*step) return false;
    }
    return true;
}

static int check_file(const char *path, int64_t want)
{
    struct ls_ckpt *c;
    int64_t step = -1;
    if (ls_ckpt_open(&c, path) != LS_OK) {
        printf("%s\n", ls_error_message());
        return 1;
    }
    bool good = is_whole(c, &step) && (want < 0 || step == want);
    if (!good) printf("%s: torn, or step %lld instead of %lld\n", path, (long long)step, (long long)want);
    ls_ckpt_close(&c);
    return good ? 0 : 1;
}

/* A link may be absent, but not lead nowhere. */
static int check_link(const char *folder, const char *name)
{
    char path[LS_PATH_BYTES];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return lstat(path, &st) != 0 ? 0 : check_file(path, -1);
}

static int check_folder(const char *folder, int64_t oldest, int64_t newest)
{
    struct ls_ckpt *c;
    char path[LS_PATH_BYTES];
    int n_seen;
    int64_t step = -1;
    if (ls_ckpt_open_newest(&c, folder, path, &n_seen) != LS_OK) {
        printf("%s\n", ls_error_message());
        return 1;
    }
    bool good = is_whole(c, &step) && step >= oldest && step <= newest && n_seen == 1;
    if (!good)
        printf("%s: step %lld after %d files; expected %lld to %lld at once\n", path, (long long)step, n_seen,
               (long long)oldest, (long long)newest);
    ls_ckpt_close(&c);
    return good ? check_link(folder, "latest.safetensors") | check_link(folder, "best.safetensors") : 1;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc >= 5 && strcmp(argv[1], "write") == 0)
        return write_steps(argv[2], number(argv[3]), number(argv[4]), argc - 5, argv + 5);
    if (argc == 5 && strcmp(argv[1], "check") == 0) return check_folder(argv[2], number(argv[3]), number(argv[4]));
    if (argc == 4 && strcmp(argv[1], "file") == 0) return check_file(argv[2], number(argv[3]));
    fprintf(stderr, "usage: checkpoint_loop write|check FOLDER FROM TO | file PATH STEP\n");
    return 2;
}
