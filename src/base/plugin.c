/* plugin.c: finds lockstep-NAME.so, loads it and gives one of its symbols. */
#include "base/plugin.h"

#include "base/file.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char here_marker; /* lies in the program or the shared library, whichever this code is part of */

/* The folder of what this code is part of: the program, or liblockstep.so. */
static bool find_home(char home[LS_PATH_BYTES])
{
    Dl_info here;
    char *path = dladdr(&here_marker, &here) && here.dli_fname && strchr(here.dli_fname, '/')
                     ? realpath(here.dli_fname, NULL)
                     : realpath("/proc/self/exe", NULL);
    size_t len = path ? (size_t)(strrchr(path, '/') - path) : 0;
    if (path) snprintf(home, LS_PATH_BYTES, "%.*s", len > 0 ? (int)len : 1, path);
    free(path);
    return path != NULL;
}

static bool find(const char *name, char path[LS_PATH_BYTES])
{
    char home[LS_PATH_BYTES], folder[LS_PATH_BYTES];
    const char *given = getenv("LOCKSTEP_PLUGINS");
    if (!is_name(name)) return false;
    if (given && try_folder(given, name, path)) return true;
    if (!find_home(home)) return false;
    if (try_folder(home, name, path)) return true;
    if (ls__path_join(folder, sizeof folder, home, "lockstep") == LS_OK && try_folder(folder, name, path)) return true;
    return ls__path_join(folder, sizeof folder, home, "../lib/lockstep") == LS_OK && try_folder(folder, name, path);
}

/* A shared library that was itself loaded for its caller alone (as Python's ctypes does) must show its functions to the
 * plug-in. For a program, and a library that was linked, this changes nothing. */
static void show_own_functions(void)
{
    Dl_info here;
    if (dladdr(&here_marker, &here) && here.dli_fname) dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
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
    show_own_functions();
    void *library = dlopen(path, RTLD_NOW | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) return ls_fail(LS_UNSUPPORTED, "load %s: %s", path, dlerror());
    *out = dlsym(library, symbol);
    if (!*out) return ls_fail(LS_UNSUPPORTED, "%s is not a plug-in of this version; build it again", path);
    return LS_OK;
}
