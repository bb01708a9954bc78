/* cudnn_engines.c: times every engine that cuDNN offers for convolutions in bf16 with channels last and writes rows for
 * src/backend/cuda/engines.inc: those that beat the first one of its heuristics by 4 %, with results that agree.
 *
 *     cmake --build build --target cudnn-engines
 *     build/cudnn-engines <problems >src/backend/cuda/engines.inc
 *
 * A problem is a line "op ending mb ic ih oc k s pad": op 0 forward, 1 by data, 2 by weights; ending 1: with bias and
 * relu. Needs a card that nobody else uses. It reaches into dnn.c, whose functions are static for a reason, so it
 * includes it.
 */
#include "backend/cuda/dnn.c"

#include <stdlib.h>

enum { N_WARM = 3, N_TIMED = 10, N_ROUNDS = 3, N_COMPARED = 1 << 18, N_RANDOM = 1 << 21, MAX_TRIED = 28 };
static const double better = 0.96, agreed = 0.01; /* of the first one's time; of its largest result */

enum ls_status ls__cuda_need_dnn(struct ls_device *d)
{
    return d->dnn ? LS_OK : LS_DNN(cudnnCreate(&d->dnn));
}

struct bench {
    struct ls_device device;
    struct ls_cuda_conv conv;
    struct ls_cuda_conv_form form;
    struct wish wish;
    struct problem problem;
    struct ls_cuda_conv_data data;
    void *workspace, *result;
    size_t n_result; /* elements */
    float *first;    /* what the first one computed, [N_COMPARED] */
    double first_us, best_us;
    char best[KNOBS_TEXT + 32];
    int n_tried;
};

static double agreement(const struct bench *b, const float *got)
{
    double error = 0, norm = 1e-9;
    for (int i = 0; i < N_COMPARED; i++) {
        const double e = (double)got[i] - (double)b->first[i], x = (double)b->first[i];
        if (!((e < 0 ? -e : e) <= error)) error = e < 0 ? -e : e;
        if ((x < 0 ? -x : x) > norm) norm = x < 0 ? -x : x;
    }
    return error / norm;
}

static void read_result(const struct bench *b, float *out)
{
    static uint16_t narrow[N_COMPARED];
    const size_t n = b->n_result < N_COMPARED ? b->n_result : N_COMPARED;
    (void)cudaMemcpy(narrow, b->result, n * sizeof *narrow, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < N_COMPARED; i++) {
        const uint32_t bits = i < n ? (uint32_t)narrow[i] << 16 : 0;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static double time_plan(struct bench *b, const struct ls_cuda_dnn_plan *plan, cudnnBackendDescriptor_t pack)
{
    cudaEvent_t begin, end;
    float least = 1e9f, ms = 0;
    int failed = 0;
    (void)cudaEventCreate(&begin);
    (void)cudaEventCreate(&end);
    for (int i = 0; i < N_WARM; i++) failed |= cudnnBackendExecute(b->device.dnn, plan->plan, pack) != 0;
    for (int round = 0; round < N_ROUNDS && !failed; round++) {
        (void)cudaEventRecord(begin, b->device.stream);
        for (int i = 0; i < N_TIMED; i++) failed |= cudnnBackendExecute(b->device.dnn, plan->plan, pack) != 0;
        (void)cudaEventRecord(end, b->device.stream);
        (void)cudaEventSynchronize(end);
        (void)cudaEventElapsedTime(&ms, begin, end);
        if (ms < least) least = ms;
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    return failed ? 1e9 : (double)least * 1e3 / N_TIMED;
}

static void try_one(struct bench *b, cudnnBackendDescriptor_t config)
{
    static float got[N_COMPARED];
    struct ls_cuda_dnn_plan plan = {0};
    cudnnBackendDescriptor_t pack = NULL;
    char knobs[KNOBS_TEXT];
    if (try_config(&b->device, &b->wish, config, &plan) == LS_OK &&
        ls__cuda_dnn_bind(&b->data, b->workspace, &pack) == LS_OK) {
        const double us = time_plan(b, &plan, pack);
        if (b->n_tried == 0) read_result(b, b->first);
        if (b->n_tried == 0) b->first_us = b->best_us = us;
        read_result(b, got);
        if (us < b->best_us && agreement(b, got) <= agreed) {
            write_knobs(config, knobs);
            b->best_us = us;
            snprintf(b->best, sizeof b->best, "%lld, \"%s\"", (long long)plan.engine, knobs);
        }
        b->n_tried++;
    }
    destroy(&pack);
    ls__cuda_dnn_release(&plan);
}

static enum ls_status try_all(struct bench *b, cudnnBackendHeurMode_t mode)
{
    cudnnBackendDescriptor_t heuristics = NULL, configs[MAX_CONFIGS] = {NULL};
    int64_t n = 0;
    TRY(create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics));
    TRY(set_one(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, b->problem.graph));
    TRY(set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    for (int i = 0; i < MAX_CONFIGS; i++) TRY(create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]));
    TRY(finalize(heuristics));
    TRY(LS_DNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        MAX_CONFIGS, &n, configs)));
    for (int64_t i = 0; i < n && b->n_tried < MAX_TRIED; i++) try_one(b, configs[i]);
    for (int i = 0; i < MAX_CONFIGS; i++) destroy(&configs[i]);
    destroy(&heuristics);
    return LS_OK;
}

/* Numbers between -1 and 1: on zeros the card would run faster. */
static enum ls_status random_data(void **out, size_t n)
{
    static uint16_t numbers[N_RANDOM];
    uint32_t state = 1;
    for (size_t i = 0; numbers[N_RANDOM - 1] == 0 && i < N_RANDOM; i++) {
        state = state * 1664525u + 1013904223u;
        const float x = (float)(state >> 8) / 8388608.0f - 1.0f;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        numbers[i] = (uint16_t)(bits >> 16);
    }
    TRY(LS_CUDA(cudaMalloc(out, n * sizeof *numbers)));
    for (size_t i = 0; i < n; i += N_RANDOM)
        TRY(LS_CUDA(cudaMemcpy((uint16_t *)*out + i, numbers, (n - i < N_RANDOM ? n - i : N_RANDOM) * sizeof *numbers,
                               cudaMemcpyHostToDevice)));
    return LS_OK;
}

static enum ls_status measure(struct bench *b, enum ls_cuda_conv_op op)
{
    const struct ls_cuda_conv *c = &b->conv;
    const size_t n[3] = {(size_t)(c->mb * c->oc * c->oh * c->ow), (size_t)(c->mb * c->ic * c->ih * c->iw),
                         (size_t)(c->oc * c->ic * c->kh * c->kw)};
    TRY(ls__cuda_need_dnn(&b->device));
    TRY(make_problem(&b->device, op, c, &b->form, &b->problem));
    TRY(random_data(&b->data.dst, n[LS_CUDA_CONV_FORWARD]));
    TRY(random_data(&b->data.src, n[LS_CUDA_CONV_BWD_DATA]));
    TRY(random_data(&b->data.weights, n[LS_CUDA_CONV_BWD_WEIGHTS]));
    if (b->form.has_bias) TRY(LS_CUDA(cudaMalloc(&b->data.bias, (size_t)c->oc * sizeof(float))));
    if (b->form.has_bias) TRY(LS_CUDA(cudaMemset(b->data.bias, 0, (size_t)c->oc * sizeof(float))));
    TRY(LS_CUDA(cudaMalloc(&b->workspace, max_workspace)));
    void *const results[3] = {b->data.dst, b->data.src, b->data.weights};
    b->result = results[op];
    b->n_result = n[op];
    TRY(try_all(b, CUDNN_HEUR_MODE_A));
    b->n_tried = b->n_tried > MAX_TRIED / 2 ? MAX_TRIED / 2 : b->n_tried;
    return try_all(b, CUDNN_HEUR_MODE_B);
}

static int run_line(const char *line)
{
    static const char *const names[] = {"FORWARD", "BWD_DATA", "BWD_WEIGHTS"};
    int op, ending, mb, ic, ih, oc, k, s, pad;
    if (sscanf(line, "%d %d %d %d %d %d %d %d %d", &op, &ending, &mb, &ic, &ih, &oc, &k, &s, &pad) != 9 || op < 0 ||
        op > 2) {
        fprintf(stderr, "cudnn-engines: expected 'op ending mb ic ih oc k s pad', not %s", line);
        return 2;
    }
    const int oh = (ih + 2 * pad - k) / s + 1;
    struct bench b = {.conv = {mb, ic, ih, ih, oc, oh, oh, k, k, s, s, pad, pad, 1, 1, 1},
                      .form = {LS_CUDA_BF16, LS_CUDA_BF16, true, true, ending != 0, ending != 0},
                      .wish = {(enum ls_cuda_conv_op)op, true, true, NULL}};
    b.first = calloc(N_COMPARED, sizeof *b.first);
    const enum ls_status status = b.first ? measure(&b, (enum ls_cuda_conv_op)op) : LS_NOMEM;
    if (status != LS_OK) fprintf(stderr, "cudnn-engines: %s", line);
    if (status == LS_OK && b.best_us < better * b.first_us)
        printf("    {LS_CUDA_CONV_%s, %d, %d, %d, %d, %d, %d, %d, %d, %s}, /* %.0f us, not %.0f */\n", names[op],
               ending, mb, ic, ih, oc, k, s, pad, b.best, b.best_us, b.first_us);
    problem_release(&b.problem);
    void *const all[] = {b.data.src, b.data.weights, b.data.dst, b.data.bias, b.workspace};
    for (int i = 0; i < 5; i++) (void)cudaFree(all[i]);
    if (b.device.dnn) (void)cudnnDestroy(b.device.dnn);
    free(b.first);
    return status != LS_OK;
}

int main(void)
{
    char line[256];
    int failed = 0;
    while (fgets(line, sizeof line, stdin)) failed |= run_line(line);
    return failed;
}
