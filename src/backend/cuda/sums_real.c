/* sums_real.c: sums over the cards of several processes, by NCCL, in the cards' memory.
 *
 * NCCL is loaded when a job wants it; where it is missing or refuses on any rank, all ranks say LS_UNSUPPORTED and the
 * sums go through the host. Integers are added, so the order in which NCCL adds them is nothing.
 *
 * Sums that are ready before the last shard ends (aside.c) go in a stream of their own; the first one waits for it
 * before the next sum that does not, which is the control words at the latest.
 *
 * Its calls do not block (ncclConfig_t.blocking = 0), and every wait for them, or for the stream that they are in,
 * asks group->check: a rank that is gone ends it, by ncclCommAbort.
 *
 * Processes that share a card: NCCL refuses a card it sees twice on one host, so each then claims a host of its own
 * (NCCL_HOSTID) and they talk through sockets: right, for tests, not fast.
 */
#include "backend/cuda/cuda.h"

#include "base/clock.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What is asked of NCCL. */
#define NCCL_CALLS(X)                                                                                                  \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclCommInitRankConfig)                                                                                          \
    X(ncclCommGetAsyncError)                                                                                           \
    X(ncclAllReduce)                                                                                                   \
    X(ncclCommFinalize)                                                                                                \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclCommAbort)                                                                                                   \
    X(ncclGetErrorString)                                                                                              \
    X(ncclGetVersion)

struct ls_cuda_group {
    const struct ls_device_group *of;
    void *library;
    ncclComm_t comm;     /* NULL: not joined, or aborted */
    cudaStream_t beside; /* sums while shards are computed; NULL until there is one, as the next */
    cudaEvent_t is_done; /* the last of those */
    bool is_awaited;     /* by the first stream; false: some may still be under way */
    int64_t bucket;      /* as rank 0 said */
    int64_t *told;       /* in pinned memory: control words on their way, of one step */
    int64_t n_told;
#define MEMBER(call) __typeof__(&(call)) call;
    NCCL_CALLS(MEMBER)
#undef MEMBER
};

/* --- the library --- */

static bool load_library(struct ls_cuda_group *g, char *why, size_t size)
{
    const char *off = getenv("LOCKSTEP_NCCL");
    if (off && strcmp(off, "0") == 0) {
        snprintf(why, size, "LOCKSTEP_NCCL is 0");
        return false;
    }
    g->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!g->library) {
        snprintf(why, size, "%s", dlerror());
        return false;
    }
#define FIND(call)                                                                                                     \
    *(void **)&g->call = dlsym(g->library, #call);                                                                     \
    if (!g->call) {                                                                                                    \
        snprintf(why, size, "%s is missing in this NCCL", #call);                                                      \
        return false;                                                                                                  \
    }
    NCCL_CALLS(FIND)
#undef FIND
    return true;
}

static enum ls_status failure(const struct ls_cuda_group *g, ncclResult_t error, const char *what)
{
    return ls_fail(error == ncclRemoteError ? LS_REMOTE : LS_ERROR,
                   "NCCL: %s: %s; NCCL_DEBUG=WARN tells more, LOCKSTEP_NCCL=0 does without it", what,
                   g->ncclGetErrorString(error));
}

/* --- waiting --- */

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* After a failure nobody may wait for what NCCL has begun. */
static void abort_group(struct ls_cuda_group *g)
{
    if (g->comm) (void)g->ncclCommAbort(g->comm);
    g->comm = NULL;
}

/* NCCL hears of a lost peer at once, but cannot say which; those who watch over the ranks can, a moment later. */
static enum ls_status lost(struct ls_cuda_group *g, ncclResult_t error, const char *what)
{
    enum { PATIENCE_S = 5, NAP_NS = 20000000 };
    const int64_t began = ls__now_ns();
    abort_group(g);
    while (error == ncclRemoteError && ls__seconds_since(began) < PATIENCE_S) {
        TRY(g->of->check(g->of->context, 0));
        nap(NAP_NS);
    }
    return failure(g, error, what);
}

/* Until NCCL has done what a call that did not block began. */
static enum ls_status finish(struct ls_cuda_group *g, ncclResult_t result, const char *what)
{
    const int64_t began = ls__now_ns();
    while (result == ncclInProgress) {
        nap(20000);
        enum ls_status status = g->of->check(g->of->context, ls__seconds_since(began));
        if (status != LS_OK) {
            abort_group(g);
            return status;
        }
        const ncclResult_t asked = g->ncclCommGetAsyncError(g->comm, &result);
        if (asked != ncclSuccess) result = asked;
    }
    return result == ncclSuccess ? LS_OK : lost(g, result, what);
}

/* The stream may hang in a sum that waits for another rank. */
enum ls_status ls__cuda_wait(struct ls_device *d)
{
    enum { SPIN_NS = 2000000, NAP_NS = 100000 }; /* a step is shorter than this, or does not mind */
    struct ls_cuda_group *g = d->group;
    if (!g || !g->comm) return LS_CUDA(cudaStreamSynchronize(d->stream));
    const int64_t began = ls__now_ns();
    for (;;) {
        ncclResult_t result = ncclSuccess;
        const cudaError_t error = cudaStreamQuery(d->stream);
        if (error != cudaErrorNotReady) return LS_CUDA(error);
        if (ls__now_ns() - began < SPIN_NS) continue;
        enum ls_status status = g->of->check(g->of->context, ls__seconds_since(began));
        if (status == LS_OK && g->ncclCommGetAsyncError(g->comm, &result) == ncclSuccess && result != ncclSuccess &&
            result != ncclInProgress)
            return lost(g, result, "sum");
        if (status != LS_OK) {
            abort_group(g);
            return status;
        }
        nap(NAP_NS);
    }
}

/* --- joining --- */

/* What the ranks tell each other first. */
struct card {
    bool is_able;
    char why[160];
    char host[64];
    cudaUUID_t uuid;
    ncclUniqueId id; /* rank 0's, as the next */
    int64_t bucket;  /* LOCKSTEP_NCCL_BUCKET; -1: by whether cards are shared */
};

static bool is_shared(const struct card *cards, int n)
{
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            if (strcmp(cards[a].host, cards[b].host) == 0 &&
                memcmp(&cards[a].uuid, &cards[b].uuid, sizeof cards[a].uuid) == 0)
                return true;
    return false;
}

static bool is_one_host(const struct card *cards, int n)
{
    for (int i = 1; i < n; i++)
        if (strcmp(cards[i].host, cards[0].host) != 0) return false;
    return true;
}

static void claim_hosts(const struct card *cards, const struct ls_device_group *of)
{
    char name[32];
    if (!is_shared(cards, of->n_ranks)) return;
    snprintf(name, sizeof name, "rank%d", of->rank);
    (void)setenv("NCCL_HOSTID", name, 1);
    if (is_one_host(cards, of->n_ranks)) (void)setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

static int64_t wanted_bucket(void)
{
    const char *text = getenv("LOCKSTEP_NCCL_BUCKET");
    return text ? strtoll(text, NULL, 10) : -1;
}

/* 32 MB, where every process has a card of its own. Processes that share one lose by more than one sum: they take turns
 * on the card, and each sum waits for theirs (docs/decisions/0026-cards-overlap.md). */
static int64_t choose_bucket(const struct card *cards, int n)
{
    if (cards[0].bucket >= 0) return cards[0].bucket;
    return is_shared(cards, n) ? 0 : (int64_t)1 << 22;
}

static enum ls_status init(struct ls_cuda_group *g, const struct card *cards)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    claim_hosts(cards, g->of);
    const ncclResult_t result = g->ncclCommInitRankConfig(&g->comm, g->of->n_ranks, cards[0].id, g->of->rank, &config);
    return finish(g, result, "start");
}

/* All ranks learn whether all are well: LS_UNSUPPORTED with the first reason, on all alike. */
static enum ls_status agree(struct ls_cuda_group *g, struct card *mine, struct card *all)
{
    TRY(g->of->exchange(g->of->context, mine, sizeof *mine, all));
    for (int i = 0; i < g->of->n_ranks; i++)
        if (!all[i].is_able)
            return ls_fail(LS_UNSUPPORTED, "NCCL cannot be used by rank %d on %s: %s", i, all[i].host, all[i].why);
    return LS_OK;
}

static enum ls_status join_by(struct ls_device *d, struct ls_cuda_group *g, struct card *all)
{
    struct card mine = {.is_able = true, .uuid = d->card->uuid, .bucket = wanted_bucket()};
    void *told = NULL;
    snprintf(mine.host, sizeof mine.host, "%s", g->of->host);
    mine.is_able = load_library(g, mine.why, sizeof mine.why);
    if (mine.is_able && g->of->rank == 0) mine.is_able = g->ncclGetUniqueId(&mine.id) == ncclSuccess;
    if (!mine.is_able && !mine.why[0]) snprintf(mine.why, sizeof mine.why, "it finds no network");
    TRY(agree(g, &mine, all));
    const enum ls_status status = init(g, all);
    if (status != LS_OK && status != LS_ERROR) return status; /* the job ends */
    mine.is_able = status == LS_OK;
    if (!mine.is_able) snprintf(mine.why, sizeof mine.why, "%s", ls_error_message());
    TRY(agree(g, &mine, all));
    g->bucket = choose_bucket(all, g->of->n_ranks);
    g->n_told = 64 + (int64_t)g->of->n_ranks;
    TRY(LS_CUDA(cudaMallocHost(&told, (size_t)g->n_told * sizeof *g->told)));
    g->told = told;
    return LS_OK;
}

static void leave(struct ls_device *d)
{
    struct ls_cuda_group *g = d->group;
    if (!g) return;
    if (g->comm && ls__cuda_wait(d) == LS_OK && g->comm) { /* the others may still be reading from us */
        if (finish(g, g->ncclCommFinalize(g->comm), "end") == LS_OK && g->comm) (void)g->ncclCommDestroy(g->comm);
        g->comm = NULL;
    }
    abort_group(g);
    if (g->beside) (void)cudaStreamSynchronize(g->beside);
    if (g->is_done) (void)cudaEventDestroy(g->is_done);
    if (g->beside) (void)cudaStreamDestroy(g->beside);
    (void)cudaFreeHost(g->told);
    free(g); /* the library stays: it has threads */
    d->group = NULL;
}

static enum ls_status join(struct ls_device *d, const struct ls_device_group *of)
{
    struct card *all;
    TRY(ls__calloc(&d->group, 1, sizeof *d->group));
    d->group->of = of;
    enum ls_status status = ls__calloc(&all, (size_t)of->n_ranks, sizeof *all);
    if (status == LS_OK) status = join_by(d, d->group, all);
    if (status == LS_OK || !d->group) {
        free(all);
        return status;
    }
    abort_group(d->group);
    leave(d);
    free(all);
    return status;
}

/* --- sums --- */

/* Made with the first sum that goes beside the shards: urgent, for few blocks of it wait for other cards. */
static enum ls_status need_beside(struct ls_cuda_group *g)
{
    int urgent = 0;
    if (g->beside) return LS_OK;
    TRY(LS_CUDA(cudaDeviceGetStreamPriorityRange(NULL, &urgent)));
    TRY(LS_CUDA(cudaEventCreateWithFlags(&g->is_done, cudaEventDisableTiming)));
    return LS_CUDA(cudaStreamCreateWithPriority(&g->beside, cudaStreamNonBlocking, urgent));
}

static enum ls_status sum(struct ls_cuda_group *g, int64_t *data, int64_t n, cudaStream_t stream)
{
    return finish(g, g->ncclAllReduce(data, data, (size_t)n, ncclInt64, ncclSum, g->comm, stream), "sum");
}

static enum ls_status add_beside(struct ls_device *d, int64_t *data, int64_t n, int which)
{
    struct ls_cuda_group *g = d->group;
    TRY(need_beside(g));
    TRY(LS_CUDA(cudaStreamWaitEvent(g->beside, d->ready[which], 0)));
    TRY(ls__cuda_mark_adding(d, g->beside));
    TRY(sum(g, data, n, g->beside));
    g->is_awaited = false;
    return LS_CUDA(cudaEventRecord(g->is_done, g->beside));
}

static enum ls_status add(struct ls_device *d, int64_t *data, int64_t n, int which)
{
    struct ls_cuda_group *g = d->group;
    if (!g || !g->comm) return ls_fail(LS_REMOTE, "NCCL: the group is gone");
    if (which != LS_NOT_READY) return add_beside(d, data, n, which);
    cudaStream_t stream = ls__cuda_stream(d);
    TRY(ls__cuda_join(d));
    if (g->is_done && !g->is_awaited) TRY(LS_CUDA(cudaStreamWaitEvent(stream, g->is_done, 0)));
    g->is_awaited = true;
    return sum(g, data, n, stream);
}

static enum ls_status tell(struct ls_device *d, int64_t *words, const int64_t *mine, int64_t n)
{
    struct ls_cuda_group *g = d->group;
    if (n > g->n_told) return ls_fail(LS_INTERNAL, "cuda: %lld control words", (long long)n);
    cudaStream_t stream = ls__cuda_stream(d);
    memcpy(g->told, mine, (size_t)n * sizeof *mine); /* the words of the step before have been read */
    g->told[0] += d->failure.status != LS_OK;        /* the card's flag does not know what it was never given */
    TRY(LS_CUDA(cudaMemcpyAsync(words, g->told, (size_t)n * sizeof *mine, cudaMemcpyHostToDevice, stream)));
    TRY(LS_CUDA(ls__cuda_run_tell(stream, words, d->fault)));
    TRY(add(d, words, n, LS_NOT_READY));
    return LS_CUDA(ls__cuda_run_heed(stream, words, d->fault));
}

static int64_t bucket(const struct ls_device *d)
{
    return d->group ? d->group->bucket : 0;
}

const struct ls_device_sums ls__cuda_sums = {
    .join = join, .leave = leave, .bucket = bucket, .ready = ls__cuda_ready, .add = add, .tell = tell};
