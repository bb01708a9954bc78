/* log.c: lines on stderr, each one write, so that processes do not mix theirs. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    atomic_int level;    /* enum ls_log_level */
    bool progress_shown; /* under the lock */
} root = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LS_LOG_INFO};

static _Thread_local enum ls_log_level limit = LS_LOG_DEBUG;

void ls__log_set_level(enum ls_log_level level)
{
    atomic_store_explicit(&root.level, (int)level, memory_order_relaxed);
}

enum ls_log_level ls__log_level(void)
{
    enum ls_log_level level = (enum ls_log_level)atomic_load_explicit(&root.level, memory_order_relaxed);
    return level < limit ? level : limit;
}

enum ls_log_level ls__log_limit(enum ls_log_level level)
{
    enum ls_log_level before = limit;
    limit = level;
    return before;
}

enum ls_log_level ls__log_present_limit(void)
{
    return limit;
}

bool ls__log_is_terminal(void)
{
    return isatty(STDERR_FILENO) == 1 || getenv("LOCKSTEP_TERMINAL"); /* a worker's stderr ends at the launcher's */
}

static void put(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, text, len);
        if (n <= 0) return; /* nobody left to tell */
        text += n;
        len -= (size_t)n;
    }
}

void ls__log(enum ls_log_level level, const char *fmt, ...)
{
    if (level > ls__log_level()) return;
    char line[2048];
    const char *prefix = level == LS_LOG_ERROR ? "lockstep: " : level == LS_LOG_WARN ? "lockstep: warning: " : "";
    int at = snprintf(line, sizeof line, "%s", prefix);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + at, sizeof line - (size_t)at - 1, fmt, args);
    va_end(args);
    size_t len = strlen(line);
    if (n < 0) return;
    line[len++] = '\n';
    pthread_mutex_lock(&root.lock);
    if (root.progress_shown) put("\r\033[K", 4);
    root.progress_shown = false;
    put(line, len);
    pthread_mutex_unlock(&root.lock);
}

void ls__log_progress(const char *text)
{
    if (!ls__log_is_terminal() || ls__log_level() < LS_LOG_INFO) return;
    char line[1024];
    int n = snprintf(line, sizeof line, "\r\033[K%s", text);
    if (n < 0) return;
    pthread_mutex_lock(&root.lock);
    put(line, strlen(line));
    root.progress_shown = *text != '\0';
    pthread_mutex_unlock(&root.lock);
}
