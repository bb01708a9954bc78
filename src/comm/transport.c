/* transport.c: the plug-in for the MPI that started this process. Which MPI: $LOCKSTEP_MPI, else by the variables that
 * Open MPI's mpirun, MPICH's and Slurm set.
 */
#include "comm/comm_internal.h"

#include "base/plugin.h"

#include <stdlib.h>
#include <string.h>

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

bool ls_comm_is_first(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; ls_comm_is_launched() && i < sizeof ranks / sizeof *ranks; i++)
        if (getenv(ranks[i])) return number_of(ranks[i]) == 0;
    return true;
}

static const char *which_mpi(void)
{
    const char *wanted = getenv("LOCKSTEP_MPI");
    if (wanted && *wanted) return wanted;
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK")) return "openmpi";
    return "mpich";
}

bool ls_comm_has_plugin(const char *mpi)
{
    return ls__plugin_exists(mpi);
}

enum ls_status ls__transport_load(struct ls_comm *c)
{
    const char *name = which_mpi();
    const char *advice = strcmp(name, "openmpi") == 0
                             ? "this process was started as one of several: install libopenmpi-dev and openmpi-bin and "
                               "build again, or set LOCKSTEP_PLUGINS to the folder it is in"
                             : "this process was started as one of several: install libmpich-dev and mpich and build "
                               "again, or set LOCKSTEP_PLUGINS to the folder it is in";
    const void *table;
    setenv("UCX_LOG_FILE", "stderr", 0); /* MPICH's network library; stdout is for the result */
    TRY(ls__plugin_symbol(name, "ls_transport", true, advice, &table)); /* Open MPI's own plug-ins look for symbols */
    c->transport = table;
    if (c->transport->abi == LS_TRANSPORT_ABI) return LS_OK;
    c->transport = NULL;
    return ls_fail(LS_UNSUPPORTED, "lockstep-%s.so is not of this version; build it again", name);
}
