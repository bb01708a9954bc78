/* plugin.c: finds and loads the plug-in for the MPI that started this process.
 *
 * Looked for in $LOCKSTEP_PLUGINS, beside the program, and in ../lib/lockstep from it. Which MPI: $LOCKSTEP_MPI, else
 * by the variables that Open MPI's mpirun, MPICH's and Slurm set.
 */
#include "comm/comm_internal.h"

#include "base/file.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : 0; /* ok: set by a launcher; anything odd counts as not set */
}

bool ls_comm_is_launched(void)
{
    return number_of("OMPI_COMM_WORLD_SIZE") > 1 || number_of("PMI_SIZE") > 1 ||
           (getenv("PMIX_RANK") && number_of("SLURM_STEP_NUM_TASKS") > 1) || number_of("SLURM_STEP_NUM_TASKS") > 1;
}

static const char *which_mpi(void)
{
    const char *wanted = getenv("LOCKSTEP_MPI");
    if (wanted && *wanted) return wanted;
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK")) return "openmpi";
    return "mpich";
}

static bool try_folder(const char *folder, const char *name, char path[LS_PATH_BYTES])
{
    char file[64];
    snprintf(file, sizeof file, "lockstep-%s.so", name);
    return ls__path_join(path, LS_PATH_BYTES, folder, file) == LS_OK && ls__file_exists(path);
}

static bool find(const char *name, char path[LS_PATH_BYTES])
{
    char exe[LS_PATH_BYTES], folder[LS_PATH_BYTES];
    const char *given = getenv("LOCKSTEP_PLUGINS");
    if (given && try_folder(given, name, path)) return true;
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (len <= 0) return false;
    exe[len] = '\0';
    *strrchr(exe, '/') = '\0';
    if (try_folder(exe, name, path)) return true;
    return ls__path_join(folder, sizeof folder, exe, "../lib/lockstep") == LS_OK && try_folder(folder, name, path);
}

bool ls_comm_has_plugin(const char *mpi)
{
    char path[LS_PATH_BYTES];
    return find(mpi, path);
}

enum ls_status ls__plugin_load(struct ls_comm *c)
{
    const char *name = which_mpi();
    char path[LS_PATH_BYTES];
    if (!find(name, path))
        return ls_fail(LS_UNSUPPORTED,
                       "started as one of several processes, but the plug-in lockstep-%s.so was not found; install %s "
                       "and build again, or set LOCKSTEP_PLUGINS to the folder it is in",
                       name, strcmp(name, "openmpi") ? "libmpich-dev and mpich" : "libopenmpi-dev and openmpi-bin");
    c->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* Open MPI's own plug-ins look for its symbols */
    if (!c->library) return ls_fail(LS_UNSUPPORTED, "load %s: %s", path, dlerror());
    c->transport = dlsym(c->library, "ls_transport");
    if (!c->transport || c->transport->abi != LS_TRANSPORT_ABI)
        return ls_fail(LS_UNSUPPORTED, "%s is not a plug-in of this version; build it again", path);
    return LS_OK;
}

/* The library stays mapped: MPI leaves handlers behind that run when the process ends. */
void ls__plugin_unload(struct ls_comm *c)
{
    c->library = NULL;
    c->transport = NULL;
}
