/* transport.c: how this process talks to the others of its job: over ZeroMQ if it was told its number
 * ($LOCKSTEP_WORLD_SIZE), else by the plug-in for the MPI that started it. Which MPI: $LOCKSTEP_MPI, else by the
 * variables that Open MPI's mpirun, MPICH's and Slurm set.
 */
#include "comm/comm_internal.h"

#include "base/plugin.h"
#include "comm/meet.h"
#include "wire/wire.h"

#include <stdio.h>

#include <stdlib.h>
#include <string.h>

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : 0; /* ok: set by a launcher; anything odd counts as not set */
}

bool ls_comm_is_node(void)
{
    return number_of("LOCKSTEP_WORLD_SIZE") > 1;
}

bool ls_comm_is_launched(void)
{
    return ls_comm_is_node() || number_of("OMPI_COMM_WORLD_SIZE") > 1 || number_of("PMI_SIZE") > 1 ||
           (getenv("PMIX_RANK") && number_of("SLURM_STEP_NUM_TASKS") > 1) || number_of("SLURM_STEP_NUM_TASKS") > 1;
}

bool ls_comm_is_first(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    if (ls_comm_is_node()) return number_of("LOCKSTEP_RANK") == 0;
    for (size_t i = 0; ls_comm_is_launched() && i < sizeof ranks / sizeof *ranks; i++)
        if (getenv(ranks[i])) return number_of(ranks[i]) == 0;
    return true;
}

enum ls_status ls_comm_be_node(int rank, int n, const char *master, const char *key_file)
{
    char number[2][16];
    if (n < 2 || rank < 0 || rank >= n)
        return ls_fail(LS_USAGE, "rank %d of %d nodes: expected 0 to %d", rank, n, n - 1);
    snprintf(number[0], sizeof number[0], "%d", n);
    snprintf(number[1], sizeof number[1], "%d", rank);
    bool is_set = setenv("LOCKSTEP_WORLD_SIZE", number[0], 1) == 0 && setenv("LOCKSTEP_RANK", number[1], 1) == 0 &&
                  setenv("LOCKSTEP_MASTER", master, 1) == 0 &&
                  (key_file ? setenv("LOCKSTEP_KEY", key_file, 1) : unsetenv("LOCKSTEP_KEY")) == 0;
    return is_set ? LS_OK : ls_fail(LS_NOMEM, "out of memory for the environment");
}

static enum ls_status use_nodes(struct ls_comm *c)
{
    const char *master = getenv("LOCKSTEP_MASTER"), *key = getenv("LOCKSTEP_KEY");
    const struct ls__meet_config config = {.rank = number_of("LOCKSTEP_RANK"),
                                           .n = number_of("LOCKSTEP_WORLD_SIZE"),
                                           .master = master,
                                           .key_file = key && *key ? key : NULL,
                                           .timeout = c->timeout,
                                           .is_stopped = c->is_stopped,
                                           .context = c->is_ended_context};
    TRY(ls_wire_load());
    if (!master || config.rank < 0 || config.rank >= config.n)
        return ls_fail(LS_USAGE, "LOCKSTEP_WORLD_SIZE without LOCKSTEP_MASTER, or a LOCKSTEP_RANK that is not 0 to %d",
                       config.n - 1);
    ls__meet_configure(&config);
    c->transport = &ls__meet_transport;
    return LS_OK;
}

enum ls_status ls_comm_wanted_mpi(const char **name)
{
    const char *wanted = getenv("LOCKSTEP_MPI");
    *name = wanted ? wanted : "";
    if (!**name || strcmp(wanted, "openmpi") == 0 || strcmp(wanted, "mpich") == 0) return LS_OK;
    return ls_fail(LS_USAGE, "LOCKSTEP_MPI is \"%s\"; expected openmpi or mpich", wanted);
}

static enum ls_status which_mpi(const char **name)
{
    TRY(ls_comm_wanted_mpi(name));
    if (!**name) *name = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") ? "openmpi" : "mpich";
    return LS_OK;
}

bool ls_comm_has_plugin(const char *mpi)
{
    return ls__plugin_exists(mpi);
}

enum ls_status ls__transport_load(struct ls_comm *c)
{
    const char *name;
    if (ls_comm_is_node()) return use_nodes(c);
    TRY(which_mpi(&name));
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
