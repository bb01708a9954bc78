/* test_cuda_failures.c: what fails on the way to the card is told, and nothing is updated behind it: jobs.c, small.c,
 * record.c, aside.c and memory.c on a card of the test's own, whose memory is the host's and which fails when asked to.
 */
#include "backend/cuda/small.h"
#include "base/mem.h"

#include "engine.h"

/* --- the card --- */

static struct {
    bool fails_malloc, fails_small, fails_now, fails_join, fails_capture, fails_instantiate, is_capturing;
    int n_sums, n_updates, n_small, n_launched, n_graphs, n_external;
} card;

static cudaError_t failing(bool fails)
{
    return fails ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = card.fails_malloc ? NULL : malloc(bytes);
    return card.fails_malloc ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void *data)
{
    free(data);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return cudaMalloc(out, bytes);
}
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    memcpy(dst, src, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    memcpy(dst, src, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *data, int byte, size_t bytes, cudaStream_t stream)
{
    memset(data, byte, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    return cudaErrorUnknown;
}
cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return cudaSuccess;
}
/* aside.c: an event of a capture that is over cannot be waited for. */
static bool is_of_capture;
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    is_of_capture = card.is_capturing;
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    card.n_external++;
    return failing(flags != cudaEventRecordExternal || !card.is_capturing); /* invalid outside of a capture */
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return failing(card.fails_join || (is_of_capture && !card.is_capturing));
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = NULL;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    *stream = NULL;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return cudaSuccess;
}

static char a_graph, an_exec;
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    card.is_capturing = true;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    card.is_capturing = false;
    *graph = card.fails_capture ? NULL : (cudaGraph_t)&a_graph;
    card.n_graphs += !card.fails_capture;
    return failing(card.fails_capture);
}
#undef cudaGraphInstantiate
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    *exec = card.fails_instantiate ? NULL : (cudaGraphExec_t)&an_exec;
    return failing(card.fails_instantiate);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    card.n_graphs--;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    card.n_launched++;
    return cudaSuccess;
}

cudaError_t ls__cuda_allow_small(size_t *shared_bytes, bool *has_teams)
{
    *has_teams = false;
    return cudaSuccess;
}
cudaError_t ls__cuda_run_small(cudaStream_t stream, const struct ls_cuda_small_ops *list,
                               struct ls_cuda_small_shape shape)
{
    assert_non_null(list);
    card.n_small++;
    return failing(card.fails_small);
}
cudaError_t ls__cuda_run_across(cudaStream_t stream, struct ls_cuda_across *across)
{
    return cudaSuccess;
}
cudaError_t ls__cuda_run_jobs(cudaStream_t stream, struct ls_cuda_jobs *jobs, struct ls_cuda_fault *fault,
                              const struct ls_cuda_now *now)
{
    *(jobs->list[0].kind == LS_CUDA_JOB_SGD ? &card.n_updates : &card.n_sums) += jobs->n;
    return cudaSuccess;
}
cudaError_t ls__cuda_run_now(cudaStream_t stream, struct ls_cuda_next_now next)
{
    return failing(card.fails_now);
}
cudaError_t ls__cuda_run_show(cudaStream_t stream, struct ls_cuda_seen *seen, const void *data, int bytes,
                              const struct ls_cuda_fault *fault, uint32_t number)
{
    memcpy(seen->bytes, data, (size_t)bytes);
    seen->fault = *fault;
    seen->number = number;
    return cudaSuccess;
}

/* of the plug-in's other files */
enum ls_status ls__cuda_status(cudaError_t error, const char *call)
{
    return error == cudaSuccess ? LS_OK : ls_fail(LS_ERROR, "%s", call);
}
enum ls_status ls__cuda_wait(struct ls_device *d)
{
    return LS_OK;
}
void ls__cuda_make_current(const struct ls_device *d)
{
}
enum ls_status ls__cuda_prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls_fail(LS_INTERNAL, "not here");
}
struct ls_cuda_range ls__cuda_part(const struct ls_cuda_kernel *k, const struct ls_step_ctx *ctx)
{
    return (struct ls_cuda_range){0, 8};
}

/* --- what is done with it --- */

static struct ls_cuda_fault fault;
static struct ls_cuda_seen seen;
static struct ls_cuda_now now;
static struct cudaDeviceProp properties = {.sharedMemPerBlockOptin = 227 << 10};
static float values[64];
static int64_t sums[64];

static void open_card(struct ls_device *d)
{
    memset(&card, 0, sizeof card);
    is_of_capture = false;
    fault = (struct ls_cuda_fault){0};
    *d = (struct ls_device){.card = &properties, .fault = &fault, .seen = &seen, .now = &now};
    check_ok(ls__calloc(&d->jobs, 1, sizeof *d->jobs));
    check_ok(ls__calloc(&d->updates, 1, sizeof *d->updates));
    check_ok(ls__cuda_small_create(d));
}

static void close_card(struct ls_device *d)
{
    ls__cuda_small_destroy(d);
    free(d->jobs);
    free(d->updates);
    assert_int_equal(card.n_graphs, 0);
}

/* A step: an op of a small network, a sum, an update. They wait in the lists. */
static void launch_step(struct ls_device *d)
{
    const struct ls_cuda_small_op op = {.kind = LS_CUDA_SMALL_RELU, .in = {{values, 4, 0}}, .out = {values + 8, 4, 0}};
    const struct ls_cuda_job sum = {.kind = LS_CUDA_JOB_REDUCE, .n = 4, .src = values + 8, .sum = sums},
                             update = {.kind = LS_CUDA_JOB_SGD, .n = 4, .a = values + 16, .sum = sums + 8};
    check_ok(ls__cuda_small_op(d, 8, &op));
    check_ok(ls__cuda_job(d, &sum));
    check_ok(ls__cuda_job(d, &update));
}

static enum ls_status read_one(struct ls_device *d)
{
    float x;
    return ls__cuda_memory.read(d, &x, values, sizeof x);
}

static void check_nothing_summed(void)
{
    assert_int_equal(card.n_sums, 0);
    assert_int_equal(card.n_updates, 0);
}

/* settle and read tell it, once; later updates of the step are not enqueued either, and the step after it is well. */
static void test_not_enqueued(void **state)
{
    for (int by_read = 0; by_read < 2; by_read++) {
        struct ls_device d;
        open_card(&d);
        launch_step(&d);
        card.fails_small = true;
        (void)ls__cuda_stream(&d); /* whoever takes it cannot say that it failed */
        card.fails_small = false;
        launch_step(&d);
        check_fails(by_read ? read_one(&d) : ls__cuda_memory.settle(&d), LS_ERROR, "ls__cuda_run_small");
        check_nothing_summed();
        launch_step(&d);
        check_ok(by_read ? read_one(&d) : ls__cuda_memory.settle(&d));
        assert_int_equal(card.n_sums, 1);
        assert_int_equal(card.n_updates, 1);
        close_card(&d);
    }
}

/* Many parts at once, small ones and one that is larger than what they pass through: all arrive; what failed is told.
 */
static void test_many(void **state)
{
    enum { N_PARTS = 5, MANY = 5 << 20, LARGE = 17 << 20 };
    static const size_t sizes[N_PARTS] = {1, 100, MANY, LARGE, 4};
    struct ls_device d;
    struct ls_copy_part parts[N_PARTS];
    open_card(&d);
    for (int i = 0; i < N_PARTS; i++) {
        parts[i] = (struct ls_copy_part){malloc(sizes[i]), malloc(sizes[i]), sizes[i]};
        memset(parts[i].data, 0, sizes[i]);
        memset(parts[i].host, i + 1, sizes[i]);
    }
    check_ok(ls__cuda_memory.copy_all(&d, parts, N_PARTS, LS_TO_DEVICE));
    for (int i = 0; i < N_PARTS; i++) assert_memory_equal(parts[i].data, parts[i].host, sizes[i]);
    for (int i = 0; i < N_PARTS; i++) memset(parts[i].data, 2 * i + 50, sizes[i]);
    check_ok(ls__cuda_memory.copy_all(&d, parts, N_PARTS, LS_TO_HOST));
    for (int i = 0; i < N_PARTS; i++) assert_memory_equal(parts[i].data, parts[i].host, sizes[i]);
    launch_step(&d);
    card.fails_small = true;
    check_fails(ls__cuda_memory.copy_all(&d, parts, N_PARTS, LS_TO_HOST), LS_ERROR, "ls__cuda_run_small");
    for (int i = 0; i < N_PARTS; i++) {
        free(parts[i].data);
        free(parts[i].host);
    }
    free(d.passing);
    close_card(&d);
}

/* The words of a step that did not get there, and what should have waited for the stream beside. */
static void test_small_things(void **state)
{
    struct ls_device d;
    open_card(&d);
    d.has_next_now = card.fails_now = true;
    check_fails(ls__cuda_memory.settle(&d), LS_ERROR, "ls__cuda_run_now");
    d.n_aside = 1;
    card.fails_join = true;
    check_fails(ls__cuda_memory.settle(&d), LS_ERROR, "cudaStreamWaitEvent");
    check_ok(ls__cuda_memory.settle(&d));
    close_card(&d);
}

/* A list that could not be uploaded is not found the next time. */
static void test_upload(void **state)
{
    struct ls_device d;
    open_card(&d);
    for (int i = 0; i < 2; i++) {
        launch_step(&d);
        card.fails_malloc = true;
        check_fails(ls__cuda_memory.settle(&d), LS_ERROR, "cudaMalloc");
        check_nothing_summed();
    }
    card.fails_malloc = false;
    launch_step(&d);
    check_ok(ls__cuda_memory.settle(&d));
    assert_int_equal(card.n_small, 1);
    assert_int_equal(card.n_updates, 1);
    close_card(&d);
}

/* replay tells what failed before it, instead of going on. */
static void test_replay(void **state)
{
    struct ls_device d;
    open_card(&d);
    launch_step(&d);
    card.fails_small = true;
    check_fails(ls__cuda_recording.replay(&d, &an_exec), LS_ERROR, "ls__cuda_run_small");
    assert_int_equal(card.n_launched, 0);
    card.fails_small = false;
    check_ok(ls__cuda_recording.replay(&d, &an_exec));
    assert_int_equal(card.n_launched, 1);
    check_nothing_summed();
    close_card(&d);
}

/* What fails in a recording makes it none, and leaves nothing behind; what failed before it is still told. */
static void test_record(void **state)
{
    struct ls_device d;
    void *recording;
    open_card(&d);
    check_ok(ls__cuda_recording.begin(&d));
    launch_step(&d);
    card.fails_small = true;
    check_fails(ls__cuda_recording.end(&d, &recording), LS_ERROR, "ls__cuda_run_small");
    assert_null(recording);
    check_ok(ls__cuda_memory.settle(&d));
    check_nothing_summed();
    launch_step(&d);
    check_fails(ls__cuda_recording.begin(&d), LS_ERROR, "ls__cuda_run_small");
    assert_false(card.is_capturing);
    check_fails(ls__cuda_memory.settle(&d), LS_ERROR, "ls__cuda_run_small");
    card.fails_small = false;
    check_ok(ls__cuda_recording.begin(&d));
    launch_step(&d);
    check_ok(ls__cuda_recording.end(&d, &recording));
    assert_ptr_equal(recording, &an_exec);
    close_card(&d);
}

static void aside(struct ls_device *d)
{
    cudaStream_t stream;
    check_ok(ls__cuda_aside_begin(d, &stream));
    check_ok(ls__cuda_aside_end(d));
}

/* A recording that fails while ops are beside the stream: nobody waits for those of the capture that is no more. */
static void test_aside_of_a_dead_capture(void **state)
{
    for (int how = 0; how < 3; how++) {
        struct ls_device d;
        void *recording;
        open_card(&d);
        card.fails_capture = how == 0;
        card.fails_instantiate = how == 1;
        check_ok(ls__cuda_recording.begin(&d));
        for (int i = 0; i < LS_ASIDE; i++) aside(&d);
        const enum ls_status ended = ls__cuda_recording.end(&d, &recording); /* how 2: a launch failed before it */
        assert_int_equal(ended, how < 2 ? LS_ERROR : LS_OK);
        aside(&d); /* launched plainly */
        check_ok(ls__cuda_memory.settle(&d));
        close_card(&d);
    }
}

static void launch_sum(struct ls_device *d)
{
    check_ok(ls__cuda_job(d, &(struct ls_cuda_job){.kind = LS_CUDA_JOB_REDUCE, .n = 4, .src = values, .sum = sums}));
}

/* Sums that other cards wait for are enqueued at once, and their event is for those outside of a recording; behind a
 * failure they are not. */
static void test_ready(void **state)
{
    struct ls_device d;
    void *recording;
    open_card(&d);
    launch_sum(&d);
    check_ok(ls__cuda_ready(&d, 1, sums, 4));
    assert_int_equal(card.n_sums, 1);
    assert_int_equal(d.n_aside, 1); /* the stream has not waited for it */
    check_ok(ls__cuda_memory.settle(&d));
    assert_int_equal(d.n_aside, 0);
    assert_int_equal(card.n_external, 0);
    check_ok(ls__cuda_recording.begin(&d));
    aside(&d);
    launch_sum(&d);
    check_ok(ls__cuda_ready(&d, 1, sums, 4));
    check_ok(ls__cuda_recording.end(&d, &recording));
    assert_int_equal(card.n_external, 1);
    assert_int_equal(card.n_sums, 2);
    ls__cuda_keep_failure(&d, ls_fail(LS_ERROR, "before"));
    launch_sum(&d);
    check_ok(ls__cuda_ready(&d, 1, sums, 4));
    assert_int_equal(card.n_sums, 2);
    check_fails(ls__cuda_memory.settle(&d), LS_ERROR, "before");
    close_card(&d);
}

/* What failed on another card is told there; here nothing is updated any more, however often the host waits. */
static void test_elsewhere(void **state)
{
    struct ls_device d;
    open_card(&d);
    fault.id = LS_CUDA_FAULT_ELSEWHERE;
    for (int i = 0; i < 2; i++) {
        check_ok(ls__cuda_memory.settle(&d));
        check_ok(read_one(&d));
        assert_int_equal(fault.id, LS_CUDA_FAULT_ELSEWHERE);
    }
    fault.id = 1; /* one of its own is told, and forgotten */
    check_fails(ls__cuda_memory.settle(&d), LS_INTERNAL, "unknown origin");
    assert_int_equal(fault.id, 0);
    check_ok(ls__cuda_memory.settle(&d));
    close_card(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_not_enqueued),
                                       cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_small_things),
                                       cmocka_unit_test(test_upload),
                                       cmocka_unit_test(test_replay),
                                       cmocka_unit_test(test_record),
                                       cmocka_unit_test(test_aside_of_a_dead_capture),
                                       cmocka_unit_test(test_ready),
                                       cmocka_unit_test(test_elsewhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
