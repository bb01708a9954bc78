/* machine.c: the machine as Linux shows it, in /proc and /sys; a file that is not there is simply not known. */
#include "cli/machine.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

const char *ls__first_line(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    out[0] = '\0';
    if (!file) return out;
    if (!fgets(out, (int)size, file)) out[0] = '\0';
    fclose(file);
    out[strcspn(out, "\n")] = '\0';
    return out;
}

/* The text behind "key...:" in a file of such lines. */
static bool find_key(const char *path, const char *key, char *out, size_t size)
{
    char line[4096];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    while (!found && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        found = colon && strncmp(line, key, strlen(key)) == 0;
        if (!found) continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    }
    fclose(file);
    return found;
}

const char *ls__machine_cpu(char *out, size_t size)
{
    struct utsname name;
    if (find_key("/proc/cpuinfo", "model name", out, size)) return out;
    snprintf(out, size, "%s", uname(&name) == 0 ? name.machine : "unknown");
    return out;
}

#if defined(__x86_64__)
const char *ls__machine_isa(char *out, size_t size)
{
    const struct {
        const char *name;
        int has;
    } sets[] = {
        {"sse4.2", __builtin_cpu_supports("sse4.2")},
        {"avx", __builtin_cpu_supports("avx")},
        {"avx2", __builtin_cpu_supports("avx2")},
        {"fma", __builtin_cpu_supports("fma")},
        {"avx512f", __builtin_cpu_supports("avx512f")},
        {"avx512bw", __builtin_cpu_supports("avx512bw")},
        {"avx512vl", __builtin_cpu_supports("avx512vl")},
        {"avx512dq", __builtin_cpu_supports("avx512dq")},
        {"avx512vnni", __builtin_cpu_supports("avx512vnni")},
    };
    size_t at = (size_t)snprintf(out, size, "x86-64:");
    for (size_t i = 0; i < sizeof sets / sizeof sets[0] && at < size; i++) {
        if (sets[i].has) at += (size_t)snprintf(out + at, size - at, " %s", sets[i].name);
    }
    return out;
}
#else
const char *ls__machine_isa(char *out, size_t size)
{
    struct utsname name;
    snprintf(out, size, "%s", uname(&name) == 0 ? name.machine : "unknown");
    return out;
}
#endif

double ls__machine_memory_available(void)
{
    char text[64];
    return find_key("/proc/meminfo", "MemAvailable", text, sizeof text) ? strtod(text, NULL) * 1024 : 0;
}

/* A file of this process's control group (version 2), or of the root of the hierarchy as containers see it. */
static const char *cgroup_line(const char *name, char *out, size_t size)
{
    char line[1024], path[2048];
    ls__first_line("/proc/self/cgroup", line, sizeof line);
    const char *group = strncmp(line, "0::", 3) == 0 ? line + 3 : "/";
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
    ls__first_line(path, out, size);
    if (*out) return out;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s", name);
    return ls__first_line(path, out, size);
}

double ls__machine_memory_limit(void)
{
    char text[64];
    double limit = strtod(cgroup_line("memory.max", text, sizeof text), NULL);
    if (*text) return limit; /* "max" reads as 0 */
    limit = strtod(ls__first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes", text, sizeof text), NULL);
    return limit < 1e18 ? limit : 0;
}

double ls__machine_cpu_limit(void)
{
    char text[64], period[64];
    cgroup_line("cpu.max", text, sizeof text); /* "200000 100000" or "max 100000" */
    const char *space = strchr(text, ' ');
    if (space && strtod(space, NULL) > 0) return strtod(text, NULL) / strtod(space, NULL);
    double quota = strtod(ls__first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text), NULL);
    double period_us = strtod(ls__first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period), NULL);
    return quota > 0 && period_us > 0 ? quota / period_us : 0;
}

bool ls__backend_text(const struct ls_backend *backend, char *out, size_t size)
{
    struct ls_device *device = NULL;
    if (backend->device_open(&device) != LS_OK) {
        snprintf(out, size, "cannot be used: %s", ls_error_message());
        return false;
    }
    out[0] = '\0';
    backend->describe(device, out, size);
    backend->device_close(&device);
    return true;
}

bool ls__find_program(const char *name, char out[LS_PATH_BYTES])
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        if (len > 0 && snprintf(out, LS_PATH_BYTES, "%.*s/%s", (int)len, path, name) < LS_PATH_BYTES &&
            access(out, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

/* Ticks of all cores at work, by whomever. */
static double busy_ticks(void)
{
    char line[256];
    unsigned long long user = 0, nice = 0, system = 0;
    ls__first_line("/proc/stat", line, sizeof line);
    return sscanf(line, "cpu %llu %llu %llu", &user, &nice, &system) == 3 ? (double)(user + nice + system) : 0;
}

double ls__machine_busy_cores(void)
{
    const struct timespec tenth = {.tv_nsec = 100000000};
    int64_t start = ls__now_ns();
    double before = busy_ticks();
    nanosleep(&tenth, NULL);
    double ticks = busy_ticks() - before;
    return ticks / (double)sysconf(_SC_CLK_TCK) / ls__seconds_since(start);
}

bool ls__machine_is_busy(double cores)
{
    return cores >= 0.25;
}

void ls__machine_warn_busy(double cores)
{
    if (ls__machine_is_busy(cores))
        ls__log(
            LS_LOG_WARN,
            "other programs used %.1f of this machine's %ld cores when the measuring began: the figures are too low",
            cores, sysconf(_SC_NPROCESSORS_ONLN));
}
