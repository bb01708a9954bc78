/* mpi.c: the plug-in for MPI. The only file that includes mpi.h; built once for every MPI the build finds. */
#include "comm/transport.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LS_MPI_NAME
#define LS_MPI_NAME "mpi"
#endif

static char message[MPI_MAX_ERROR_STRING + 64], version[MPI_MAX_LIBRARY_VERSION_STRING];

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request does not fit");

static int check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (code == MPI_SUCCESS) return 0;
    MPI_Error_string(code, text, &len);
    snprintf(message, sizeof message, "%s: %.*s", what, len, text);
    return 1;
}

static int open_job(int *rank, int *n_ranks)
{
    int provided;
    if (check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init")) return 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (check(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank")) return 1;
    return check(MPI_Comm_size(MPI_COMM_WORLD, n_ranks), "MPI_Comm_size");
}

/* MPICH before 4.2 over UCX may hang in MPI_Finalize: a rank that has closed its connections waits for the others in
 * PMI's barrier, where it answers nobody, and the others wait for its answers to close theirs (mended in MPICH's pull
 * request 6596). All ranks have agreed to end when they come here, so nothing is lost by leaving the connections to the
 * kernel; mpirun is told what MPI_Finalize would tell it, or it would take the end of the process for a death. */
static bool has_left_mpich(void)
{
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
    static const char good_bye[] = "cmd=finalize\n";
    char answer[64];
    const char *text = getenv("PMI_FD"); /* others than MPICH's own mpirun (MPI_LOCALRANKID) speak PMI 2 there */
    int fd = text && getenv("MPI_LOCALRANKID") ? (int)strtol(text, NULL, 10) : -1;
    return fd > 2 && write(fd, good_bye, sizeof good_bye - 1) == sizeof good_bye - 1 &&
           read(fd, answer, sizeof answer) > 0;
#else
    return false;
#endif
}

static void close_job(void)
{
    if (!has_left_mpich()) MPI_Finalize();
}

/* "Open MPI v4.1.4, package: ..." and "MPICH Version: 4.0.2 ..." cut to a name and a number. */
static const char *describe(void)
{
    int len = 0;
    MPI_Get_library_version(version, &len);
    version[strcspn(version, ",\n")] = '\0';
    for (char *p = version; *p; p++)
        if (*p == '\t') *p = ' ';
    return version;
}

static const char *error(void)
{
    return message;
}

static void keep(struct ls_request *request, const MPI_Request *made)
{
    memcpy(&request->opaque, made, sizeof *made);
    request->is_open = true;
}

static int send(const void *data, size_t bytes, int to, int tag, struct ls_request *request)
{
    MPI_Request made;
    if (check(MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &made), "MPI_Isend")) return 1;
    keep(request, &made);
    return 0;
}

static int receive(void *data, size_t bytes, int from, int tag, struct ls_request *request)
{
    MPI_Request made;
    if (check(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &made), "MPI_Irecv")) return 1;
    keep(request, &made);
    return 0;
}

/* One call for all: each call of MPI looks at every socket, which costs more than the requests do. */
static int poll(struct ls_request *const *requests, int n)
{
    MPI_Request made[LS_TRANSPORT_MOST];
    MPI_Status statuses[LS_TRANSPORT_MOST];
    int which[LS_TRANSPORT_MOST], n_done = 0;
    for (int i = 0; i < n; i++) memcpy(&made[i], &requests[i]->opaque, sizeof made[i]);
    if (check(MPI_Testsome(n, made, &n_done, which, statuses), "MPI_Testsome")) return 1;
    for (int k = 0; k < n_done; k++) { /* n_done is MPI_UNDEFINED, negative, when n is 0 */
        int count = 0;
        MPI_Get_count(&statuses[k], MPI_BYTE, &count);
        requests[which[k]]->bytes = count < 0 ? 0 : (size_t)count; /* MPI_UNDEFINED for a send */
        requests[which[k]]->is_open = false;
    }
    return 0;
}

static int allreduce(int64_t *data, size_t n)
{
    return check(MPI_Allreduce(MPI_IN_PLACE, data, (int)n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
}

extern const struct ls_transport ls_transport;
const struct ls_transport ls_transport = {
    .abi = LS_TRANSPORT_ABI,
    .name = LS_MPI_NAME,
    .open = open_job,
    .close = close_job,
    .describe = describe,
    .error = error,
    .send = send,
    .receive = receive,
    .poll = poll,
    .allreduce = allreduce,
};
