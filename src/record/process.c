/* process.c: /proc/PID as numbers. Every file is read by one read(2) into a small buffer. */
#include "record/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The start of the file /proc/PID/NAME as text; "" if it cannot be read. */
static bool read_text(pid_t pid, const char *name, char *text, size_t size)
{
    char path[128];
    text[0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The number behind "key" in text, 0 if it is not there. */
static int64_t number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? strtoll(at + strlen(key), NULL, 10) : 0;
}

/* Threads, memory and, to a hundredth of a second, time. False for a process that is gone or a zombie. */
static bool read_stat(pid_t pid, struct ls_process_use *use)
{
    char text[1024], state;
    unsigned long long user, system, virtual_bytes;
    long long rss;
    long threads;
    if (!read_text(pid, "stat", text, sizeof text)) return false;
    const char *at = strrchr(text, ')'); /* the name may hold anything */
    int n =
        at ? sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %ld %*d %*u %llu %lld",
                    &state, &user, &system, &threads, &virtual_bytes, &rss)
           : 0;
    if (n != 6 || state == 'Z' || state == 'X') return false;
    use->n_processes++;
    use->n_threads += (int)threads;
    use->virtual_bytes += (int64_t)virtual_bytes;
    use->rss_bytes += (int64_t)rss * sysconf(_SC_PAGESIZE);
    clockid_t clock;
    struct timespec spent;
    if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &spent) == 0) /* to the nanosecond */
        use->cpu_seconds += (double)spent.tv_sec + 1e-9 * (double)spent.tv_nsec;
    else
        use->cpu_seconds += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    return true;
}

static void read_rest(pid_t pid, struct ls_process_use *use)
{
    char text[4096];
    read_text(pid, "io", text, sizeof text);
    use->read_bytes += number_after(text, "rchar: ");
    use->written_bytes += number_after(text, "wchar: ");
    use->n_reads += number_after(text, "syscr: ");
    use->n_writes += number_after(text, "syscw: ");
    read_text(pid, "status", text, sizeof text);
    use->n_switches += number_after(text, "\nvoluntary_ctxt_switches:");
    use->n_switches += number_after(text, "\nnonvoluntary_ctxt_switches:");
}

/* "  eth0: received 7 others sent ..." for each device; loopback does not leave the machine. */
static void read_network(pid_t pid, struct ls_process_use *use)
{
    char text[16384], *rest = text;
    read_text(pid, "net/dev", text, sizeof text);
    for (char *line; (line = strtok_r(rest, "\n", &rest));) {
        char *colon = strchr(line, ':');
        unsigned long long received, sent;
        if (!colon || strstr(line, " lo:") || strncmp(line, "lo:", 3) == 0) continue;
        if (sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &received, &sent) != 2) continue;
        use->received_bytes += (int64_t)received;
        use->sent_bytes += (int64_t)sent;
    }
}

static void add_children(pid_t pid, struct ls_process_use *use, int depth);

/* The children of one thread: "12 13 14 ". */
static void add_listed(const char *list, struct ls_process_use *use, int depth)
{
    for (char *end; *list; list = end) {
        long pid = strtol(list, &end, 10);
        if (end == list) return;
        if (pid <= 0 || !read_stat((pid_t)pid, use)) continue;
        read_rest((pid_t)pid, use);
        add_children((pid_t)pid, use, depth + 1);
    }
}

static void add_children(pid_t pid, struct ls_process_use *use, int depth)
{
    enum { MAX_DEPTH = 32 };
    char path[64], name[64], list[8192];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = depth < MAX_DEPTH ? opendir(path) : NULL;
    if (!tasks) return;
    for (struct dirent *task; (task = readdir(tasks));) {
        if (task->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "task/%.20s/children", task->d_name);
        if (read_text(pid, name, list, sizeof list)) add_listed(list, use, depth);
    }
    closedir(tasks);
}

int64_t ls__process_status_bytes(const char *name)
{
    char text[4096], key[32];
    read_text(getpid(), "status", text, sizeof text);
    snprintf(key, sizeof key, "\n%s:", name);
    return number_after(text, key) * 1024;
}

bool ls__process_read(pid_t pid, bool with_children, struct ls_process_use *use)
{
    *use = (struct ls_process_use){0};
    if (!read_stat(pid, use)) return false;
    read_rest(pid, use);
    read_network(pid, use);
    if (with_children) add_children(pid, use, 0);
    return true;
}
