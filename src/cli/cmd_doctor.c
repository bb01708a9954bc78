/* cmd_doctor.c: `lockstep doctor`: one line per thing that matters, ok or warn, and for a warning what to do.
 *
 * A warning is no failure: the exit code is 0. The checks only look; the ones that must write use a temporary file.
 */
#include "base/plugin.h"
#include "base/pool.h"
#include "cli/cmd.h"
#include "cli/machine.h"
#include "data/catalog.h"
#include "data/data.h"
#include "record/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>

struct doctor {
    json_t *list; /* NULL: lines on stdout */
    int n_warnings;
};

/* `advice` NULL: it is fine. */
static void say(struct doctor *d, const char *check, const char *advice, const char *fmt, ...) LS_PRINTF(4, 5);
static void say(struct doctor *d, const char *check, const char *advice, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    d->n_warnings += advice != NULL;
    if (d->list) {
        json_array_append_new(d->list,
                              json_pack("{s:s, s:s, s:o, s:o}", "check", check, "status", advice ? "warn" : "ok",
                                        "text", ls__json_text(text), "advice", ls__json_text(advice)));
        return;
    }
    printf("%-4s  %-12s %s\n", advice ? "warn" : "ok", check, text);
    if (advice) printf("      %-12s -> %s\n", "", advice);
}

static void check_cpu(struct doctor *d)
{
    char cpu[256], isa[256];
    int n = ls__cpu_count();
    double limit = ls__machine_cpu_limit();
    say(d, "cpu", NULL, "%s", ls__machine_cpu(cpu, sizeof cpu));
    ls__machine_isa(isa, sizeof isa);
    bool is_old = strstr(isa, "x86-64") && !strstr(isa, "avx2");
    say(d, "instructions", is_old ? "without AVX2 training is slow; use a newer machine" : NULL, "%s", isa);
    say(d, "cores", NULL, "%d of %ld may be used by this process", n, sysconf(_SC_NPROCESSORS_ONLN));
    if (limit > 0 && limit < n)
        say(d, "cpu limit", "raise the quota, or train with --threads set to it; more threads than quota stall",
            "the control group allows %.2g CPUs, fewer than the %d cores", limit, n);
    else
        say(d, "cpu limit", NULL, limit > 0 ? "%.3g CPUs by the control group" : "none", limit);
}

static void check_frequency(struct doctor *d)
{
    char governor[64];
    ls__first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof governor);
    bool is_slow = strcmp(governor, "powersave") == 0;
    if (*governor)
        say(d, "governor",
            is_slow ? "cpupower frequency-set -g performance (as root) may make it faster and steadier" : NULL, "%s",
            governor);
    double busy = ls__machine_busy_cores();
    say(d, "load", ls__machine_is_busy(busy) ? "other programs are running; measurements will be off" : NULL,
        "other programs use %.1f cores now", busy);
}

static void check_memory(struct doctor *d)
{
    char available[LS_TEXT_BYTES], allowed[LS_TEXT_BYTES], pages[128];
    double bytes = ls__machine_memory_available(), limit = ls__machine_memory_limit();
    bool is_small = (bytes > 0 && bytes < 512e6) || (limit > 0 && limit < 512e6);
    say(d, "memory", is_small ? "large models will not fit; close programs or raise the limit" : NULL,
        "%s available%s%s", ls__bytes_text(bytes, available), limit > 0 ? ", limited by the control group to " : "",
        limit > 0 ? ls__bytes_text(limit, allowed) : "");
    ls__first_line("/sys/kernel/mm/transparent_hugepage/enabled", pages, sizeof pages);
    bool is_never = strstr(pages, "[never]") != NULL;
    if (*pages)
        say(d, "huge pages",
            is_never ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root) helps" : NULL, "%s",
            pages);
    ls__first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", pages, sizeof pages);
    is_never = strstr(pages, "[never]") || strstr(pages, "[deny]");
    if (*pages)
        say(d, "shared pages", NULL, "%s%s", pages,
            is_never ? ": `echo advise > .../shmem_enabled` makes several workers per machine faster" : "");
}

static void check_libraries(struct doctor *d)
{
    char text[256];
    unsigned xxh = XXH_versionNumber();
    for (int i = 0; ls_backends[i]; i++) {
        bool is_usable = ls__backend_text(ls_backends[i], text, sizeof text);
        say(d, "backend", is_usable ? NULL : "use another --device", "%s: %s", ls_backends[i]->name, text);
    }
    if (!ls_backend_find("cpu"))
        say(d, "backend", "install oneDNN (libdnnl-dev) and build again; the reference backend is slow",
            "cpu: not in this build");
    say(d, "libraries", NULL, "zlib %s, jansson %s, xxhash %u.%u.%u", zlibVersion(), jansson_version_str(), xxh / 10000,
        xxh / 100 % 100, xxh % 100);
}

/* Whether one of the names (apart by spaces) is a library of this machine. It stays loaded, for we end soon. */
static bool library_is_here(const char *names)
{
    char name[64];
    for (int used; sscanf(names, " %63s%n", name, &used) == 1; names += used)
        if (dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return true;
    return false;
}

/* What can be left out: what it is for, whether this build has it, whether it is here, how to get it. */
static void check_parts(struct doctor *d)
{
    static const struct {
        const char *name, *use, *built_with, *loaded, *get;
    } parts[] = {
        {"images", "PNG and JPEG folders", "images", NULL, "libpng-dev libturbojpeg0-dev"},
        {"downloads", "data fetch", "curl", "libcurl.so.4 libcurl-gnutls.so.4", "libcurl4-openssl-dev libssl-dev"},
        {"pictures", "report, plots", "cairo", "libcairo.so.2", "libcairo2-dev"},
        {"protobuf", "TensorBoard and ONNX files", "protobuf", NULL, "libprotobuf-c-dev protobuf-c-compiler"},
        {"live page", "serve", "microhttpd", "libmicrohttpd.so.12", "libmicrohttpd-dev"},
        {"messages", "server, --nodes", "zmq", "libzmq.so.5", "libzmq3-dev"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char advice[160];
        bool is_built = strstr(" " LOCKSTEP_BUILT_WITH " ", parts[i].built_with) != NULL;
        bool is_here = is_built && (!parts[i].loaded || library_is_here(parts[i].loaded));
        snprintf(advice, sizeof advice, "on Debian: apt install %s%s", parts[i].get,
                 is_built ? "" : ", then build again (make)");
        say(d, parts[i].name, is_here ? NULL : advice, "%s: %s", parts[i].use,
            is_here    ? "there"
            : is_built ? "the library is not installed on this machine"
                       : "not in this build");
    }
}

static void check_cards(struct doctor *d)
{
    const bool has_plugin = ls__plugin_exists("cuda"), has_driver = library_is_here("libcuda.so.1");
    const struct ls_backend *cuda;
    struct ls_gpu_use use;
    char text[256];
    if (has_plugin && has_driver) {
        const bool is_loaded = ls_backend_get("cuda", &cuda) == LS_OK;
        if (!is_loaded) snprintf(text, sizeof text, "cannot be loaded: %s", ls_error_message());
        const bool is_usable = is_loaded && ls__backend_text(cuda, text, sizeof text);
        say(d, "GPU", is_usable ? NULL : "see docs/guide/gpu.md", "--device cuda: %s", text);
        if (is_usable && ls__nvml_read(NULL, &use))
            say(d, "GPU", NULL, "now %.0f %% busy, %.1f of %.1f GiB in use, %.0f W, %.0f MHz", use.percent,
                (double)use.used_bytes / (1 << 30), (double)use.total_bytes / (1 << 30), use.watts, use.clock_mhz);
    } else if (!has_driver && !has_plugin) { /* no warning: who has no card misses nothing */
        say(d, "GPU", NULL,
            "--device cuda: no NVIDIA driver here, and not in this build; for a card see docs/guide/gpu.md");
    } else {
        say(d, "GPU",
            has_plugin ? "install NVIDIA's driver where there is a card"
                       : "install the CUDA toolkit and cuDNN, then build again (make); docs/guide/gpu.md",
            "--device cuda: %s%s", has_plugin ? "there" : "not in this build", has_driver ? "" : ", but no driver");
    }
}

/* MPI and CUDA: plug-ins, and what they need of the machine. */
static void check_plugins(struct doctor *d)
{
    static const struct {
        const char *plugin, *name, *program;
    } kinds[] = {{"openmpi", "Open MPI", "mpirun.openmpi"}, {"mpich", "MPICH", "mpirun.mpich"}};
    char path[LS_PATH_BYTES];
    int n = 0;
    for (int i = 0; i < 2; i++) {
        if (!ls__plugin_exists(kinds[i].plugin)) continue;
        bool runs = ls__find_program(kinds[i].program, path) || ls__find_program("mpirun", path);
        n++;
        say(d, "workers", runs ? NULL : "on Debian: apt install openmpi-bin (or mpich)", "-w and --hosts by %s: %s",
            kinds[i].name, runs ? "there" : "its mpirun is not installed");
    }
    if (n == 0)
        say(d, "workers", "on Debian: apt install openmpi-bin libopenmpi-dev, then build again (make)",
            "-w and --hosts: no MPI in this build");
    check_cards(d);
}

static void check_data(struct doctor *d, const char *data_dir)
{
    char found[512] = "digits (built in)", missing[512] = "";
    size_t at = strlen(found), gap = 0;
    for (int i = 0; ls__catalog_at(i); i++) {
        const struct ls_set *set = ls__catalog_at(i);
        struct ls_found *where = malloc(sizeof *where);
        bool is_here = where && ls__catalog_locate(where, set, LS_TRAIN, false, data_dir) == LS_OK &&
                       ls__catalog_locate(where, set, LS_TEST, false, data_dir) == LS_OK;
        free(where);
        if (is_here && at < sizeof found)
            at += (size_t)snprintf(found + at, sizeof found - at, ", %s", set->name);
        else if (!is_here && gap < sizeof missing)
            gap += (size_t)snprintf(missing + gap, sizeof missing - gap, "%s%s", gap ? ", " : "", set->name);
    }
    say(d, "data sets", NULL, "%s%s%s", found, *missing ? "; not here: " : "", missing);
    if (*missing && !d->list) printf("      %-12s    lockstep data fetch NAME gets one\n", "");
}

/* Whether a file can be made in `folder` and how much room there is. */
static void check_folder(struct doctor *d, const char *check, const char *folder, const char *advice)
{
    char path[LS_PATH_BYTES], room[LS_TEXT_BYTES];
    struct statvfs fs;
    if (snprintf(path, sizeof path, "%s/.lockstep-doctor.XXXXXX", folder) >= (int)sizeof path) return;
    int fd = mkstemp(path);
    if (fd < 0) {
        say(d, check, advice, "%s cannot be written: %s", folder, strerror(errno));
        return;
    }
    close(fd);
    unlink(path);
    double bytes = statvfs(folder, &fs) == 0 ? (double)fs.f_bavail * (double)fs.f_frsize : 0;
    say(d, check, bytes < 100e6 ? "less than 100 MB are left; checkpoints may not fit" : NULL,
        "%s can be written, %s free", folder, ls__bytes_text(bytes, room));
}

static void check_folders(struct doctor *d)
{
    char cwd[LS_PATH_BYTES], cache[LS_PATH_BYTES];
    if (!getcwd(cwd, sizeof cwd)) snprintf(cwd, sizeof cwd, ".");
    check_folder(d, "runs", cwd, "go to a folder of yours, or give --run DIR");
    if (ls__data_cache_dir(cache, sizeof cache) != LS_OK)
        say(d, "cache", "set HOME or XDG_CACHE_HOME, or give --data-dir", "%s", ls_error_message());
    else if (!ls__dir_exists(cache))
        say(d, "cache", NULL, "%s is made by the first `lockstep data fetch`", cache);
    else
        check_folder(d, "cache", cache, "set XDG_CACHE_HOME to a folder of yours, or give --data-dir");
}

enum ls_status ls__cmd_doctor(const struct ls_options *o)
{
    struct doctor d = {.list = o->train.json ? json_array() : NULL};
    say(&d, "lockstep", NULL, "%s", LOCKSTEP_VERSION);
    check_cpu(&d);
    check_frequency(&d);
    check_memory(&d);
    check_libraries(&d);
    check_parts(&d);
    check_plugins(&d);
    check_data(&d, o->train.data_dir);
    check_folders(&d);
    if (d.list) return ls__print_json(json_pack("{s:i, s:o}", "warnings", d.n_warnings, "checks", d.list));
    if (d.n_warnings == 0)
        printf("\nall fine; try: lockstep train lenet5 digits\n");
    else
        printf("\n%d warning%s\n", d.n_warnings, d.n_warnings == 1 ? "" : "s");
    return LS_OK;
}
