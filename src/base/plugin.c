/* plugin.c: finds lockstep-NAME.so, loads it and gives one of its symbols. */
#include "base/plugin.h"

#include "base/file.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_name(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-') return false;
    return *name && strlen(name) < 32;
}

static bool try_folder(const char *folder, const char *name, char path[LS_PATH_BYTES])
{
    char file[64];
    snprintf(file, sizeof file, "lockstep-%.40s.so", name);
    return ls__path_join(path, LS_PATH_BYTES, folder, file) == LS_OK && ls__file_exists(path);
}

static bool find(const char *name, char path[LS_PATH_BYTES])
{
    char exe[LS_PATH_BYTES], folder[LS_PATH_BYTES];
    const char *given = getenv("LOCKSTEP_PLUGINS");
    if (!is_name(name)) return false;
    if (given && try_folder(given, name, path)) return true;
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (len <= 0) return false;
    exe[len] = '\0';
    *strrchr(exe, '/') = '\0';
    if (try_folder(exe, name, path)) return true;
    return ls__path_join(folder, sizeof folder, exe, "../lib/lockstep") == LS_OK && try_folder(folder, name, path);
}

bool ls__plugin_exists(const char *name)
{
    char path[LS_PATH_BYTES];
    return find(name, path);
}

enum ls_status ls__plugin_symbol(const char *name, const char *symbol, bool is_global, const char *advice,
                                 const void **out)
{
    char path[LS_PATH_BYTES];
    if (!find(name, path)) return ls_fail(LS_UNSUPPORTED, "the plug-in lockstep-%s.so was not found; %s", name, advice);
    void *library = dlopen(path, RTLD_NOW | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) return ls_fail(LS_UNSUPPORTED, "load %s: %s", path, dlerror());
    *out = dlsym(library, symbol);
    if (!*out) return ls_fail(LS_UNSUPPORTED, "%s is not a plug-in of this version; build it again", path);
    return LS_OK;
}
