/* test_cuda_small.c: how the ops of small networks are put together, on a card of the test's own: its memory is the
 * host's, and its kernel looks at what it is given. Nothing that lives at the same time shares a place, everything is
 * inside the shared memory asked for, every op comes once and in order, alone or as part of the one before, and a list
 * is uploaded once.
 */
#include "backend/cuda/small.c"

#include "engine.h"

/* --- the card --- */

static struct {
    size_t shared_bytes;
    bool has_teams;
    int n_uploads, n_launches, n_across, n_ops;
    struct ls_cuda_small_ops last;
    struct ls_cuda_small_shape shape;
    const float *outs[4 * LS_CUDA_SMALL_MAX_OPS]; /* of all ops since the last look */
} card;

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    card.n_uploads++;
    *out = malloc(bytes);
    return cudaSuccess;
}
cudaError_t cudaFree(void *data)
{
    free(data);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    memcpy(dst, src, bytes);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return cudaSuccess;
}
cudaError_t ls__cuda_allow_small(size_t *shared_bytes, bool *has_teams)
{
    *has_teams = card.has_teams;
    return cudaSuccess;
}
enum ls_status ls__cuda_status(cudaError_t error, const char *call)
{
    return error == cudaSuccess ? LS_OK : ls_fail(LS_ERROR, "%s", call);
}
enum ls_status ls__cuda_let_jobs_go(struct ls_device *d)
{
    return LS_OK;
}
cudaError_t ls__cuda_run_across(cudaStream_t stream, struct ls_cuda_across *across)
{
    card.n_across += across->n;
    return cudaSuccess;
}

/* A stretch of shared memory and the ops for which it is needed. */
struct stretch {
    int begin, end, first, last;
    const char *what;
    const float *data; /* of a value */
};

static void check_apart(const struct stretch *s, int n, size_t bytes)
{
    for (int a = 0; a < n; a++) {
        assert_true(s[a].begin >= 0 && s[a].begin % 4 == 0);
        assert_true((size_t)s[a].end * sizeof(float) <= bytes);
        for (int b = 0; b < a; b++) {
            const bool meet = s[a].first <= s[b].last && s[b].first <= s[a].last;
            if (meet && s[a].begin < s[b].end && s[b].begin < s[a].end)
                fail_msg("%s at [%d, %d) and %s at [%d, %d) live together", s[a].what, s[a].begin, s[a].end, s[b].what,
                         s[b].begin, s[b].end);
        }
    }
}

static struct stretch stretch_of(const struct ls_cuda_small_value *v, int op)
{
    const int n = v->gap > 0 ? v->n + v->n / (int)v->row.by * v->gap : v->n;
    return (struct stretch){v->at - v->gap, v->at + n, op, op, "value", v->data};
}

static void hold(struct stretch *s, int *n, const struct ls_cuda_small_value *v, int op, bool is_made)
{
    if (!v->data) return;
    for (int i = 0; i < *n; i++)
        if (s[i].data == v->data) {
            assert_false(is_made); /* once */
            assert_int_equal(s[i].begin, stretch_of(v, op).begin);
            assert_int_equal(s[i].end, stretch_of(v, op).end);
            s[i].last = op;
            return;
        }
    if (!is_made) fail_msg("op %d reads [%d, %d), which nobody made or fetched", op, v->at, v->at + v->n);
    s[(*n)++] = stretch_of(v, op);
}

/* The last chunk of a convolution's last row reads behind its source: nothing that anybody writes meanwhile. */
static void check_behind(const struct ls_cuda_small_op *op, int phase, const struct stretch *s, int n, size_t bytes)
{
    const struct ls_cuda_small_conv *c = &op->of.conv;
    const struct ls_cuda_small_value *v = &op->in[0];
    const int row = v->at + (c->ic * c->ih - 1) * (c->iw + v->gap);
    const int end = row + (int)c->chunks.by * LS_CUDA_SMALL_CHUNK + c->k - 1 - c->pad;
    assert_true((size_t)end * sizeof(float) <= bytes);
    for (int i = 0; i < n; i++)
        if (s[i].data != v->data && s[i].first <= phase && phase <= s[i].last && row < s[i].end && s[i].begin < end)
            fail_msg("a convolution of [%d, ...) reads up to %d, where %s at [%d, %d) may be written", v->at, end,
                     s[i].what, s[i].begin, s[i].end);
}

cudaError_t ls__cuda_run_small(cudaStream_t stream, const struct ls_cuda_small_ops *list,
                               struct ls_cuda_small_shape shape)
{
    static struct stretch s[8 * LS_CUDA_SMALL_MAX_OPS];
    int n = 0;
    card.n_launches++;
    card.last = *list;
    card.shape = shape;
    assert_true(shape.shared_bytes <= card.shared_bytes);
    assert_int_equal(shape.n, list->n);
    s[n++] = (struct stretch){0, list->n * (int)(sizeof *list->list / sizeof(float)), -1, list->n, "the list", NULL};
    s[n++] = (struct stretch){list->fetched_at,
                              list->fetched_at + list->n_fetched * (int)(sizeof *list->fetched / sizeof(float)),
                              -1,
                              list->n,
                              "what is fetched",
                              NULL};
    for (int i = 0; i < list->n_fetched; i++) s[n++] = stretch_of(&list->fetched[i], -1);
    for (int i = 0, phase = 0; i < list->n; i++) {
        const struct ls_cuda_small_op *op = &list->list[i];
        phase += i > 0 && !op->is_beside;
        for (int k = 0; k < 2; k++) hold(s, &n, &op->in[k], phase, false);
        hold(s, &n, &op->mask, phase, false);
        hold(s, &n, &op->out, phase, true);
        hold(s, &n, &op->chosen, phase, true);
        if (op->kind == LS_CUDA_SMALL_LINEAR && op->of.linear.n_near > 0)
            s[n++] = (struct stretch){op->weights_at,
                                      op->weights_at + op->of.linear.n_near * op->of.linear.ic,
                                      -1,
                                      list->n,
                                      "rows of weights",
                                      NULL};
        if (op->kind != LS_CUDA_SMALL_CONV) continue;
        const struct ls_cuda_small_conv *c = &op->of.conv;
        const int blocks = (c->oc + c->block - 1) / c->block;
        assert_true(c->block == 4 || c->block == 2);
        s[n++] = (struct stretch){
            op->weights_at, op->weights_at + c->ic * c->k * c->k * blocks * c->block, -1, list->n, "weights", NULL};
        assert_true(op->in[0].gap >= c->pad);
    }
    check_apart(s, n, shape.shared_bytes);
    for (int i = 0, phase = 0; i < list->n; i++) {
        phase += i > 0 && !list->list[i].is_beside;
        if (list->list[i].kind == LS_CUDA_SMALL_CONV) check_behind(&list->list[i], phase, s, n, shape.shared_bytes);
    }
    for (int i = 0; i < list->n; i++) card.outs[card.n_ops++] = list->list[i].out.data;
    return cudaSuccess;
}

/* --- networks --- */

static void open_card(struct ls_device *d, size_t shared_bytes, bool has_teams)
{
    static struct cudaDeviceProp properties;
    memset(&card, 0, sizeof card);
    *d = (struct ls_device){.card = &properties};
    properties.sharedMemPerBlockOptin = card.shared_bytes = shared_bytes;
    card.has_teams = has_teams;
    check_ok(ls__cuda_small_create(d));
}

static float memory[64]; /* addresses only: value i lies at memory + i */

static struct ls_cuda_small_value value(int number, int n)
{
    return (struct ls_cuda_small_value){.data = number < 0 ? NULL : memory + number, .n = n};
}

static struct ls_cuda_small_op conv(int in, int n_in, int out, int ic, int oc, int oh, int k, int pad)
{
    struct ls_cuda_small_op op = {.kind = LS_CUDA_SMALL_CONV, .in = {value(in, n_in)}, .out = value(out, oc * oh * oh)};
    op.of.conv = (struct ls_cuda_small_conv){.ic = ic,
                                             .ih = oh + k - 1 - 2 * pad,
                                             .iw = oh + k - 1 - 2 * pad,
                                             .oc = oc,
                                             .oh = oh,
                                             .ow = oh,
                                             .k = k,
                                             .pad = pad,
                                             .split = 1,
                                             .chunks = ls__cuda_divisor((oh + 4) / 5)};
    return op;
}

static struct ls_cuda_small_op simple(enum ls_cuda_small_kind kind, int a, int n_a, int b, int n_b, int out, int n)
{
    return (struct ls_cuda_small_op){.kind = kind, .in = {value(a, n_a), value(b, n_b)}, .out = value(out, n)};
}

static struct ls_cuda_small_op conv_weights(int in, int n_in, int diff, int ic, int oc, int oh, int k, int pad)
{
    struct ls_cuda_small_op op = simple(LS_CUDA_SMALL_CONV_WEIGHTS, in, n_in, diff, oc * oh * oh, -1, 0);
    op.of.conv = conv(in, n_in, diff, ic, oc, oh, k, pad).of.conv;
    op.of.conv.split = 4;
    op.of.conv.block = 2;
    return op;
}

static struct ls_cuda_small_op linear(enum ls_cuda_small_kind kind, int in, int n_in, int out, int n_out, int weights)
{
    const bool is_bwd = kind == LS_CUDA_SMALL_LINEAR_BWD;
    struct ls_cuda_small_op op = simple(kind, in, n_in, -1, 0, out, n_out);
    op.weights = memory + weights;
    op.of.linear = (struct ls_cuda_small_linear){.ic = is_bwd ? n_out : n_in, .oc = is_bwd ? n_in : n_out};
    return op;
}

/* LeNet-5, there and back; returns how many ops. */
static int add_lenet(struct ls_device *d, int mb)
{
    struct ls_cuda_small_op pool1 = simple(LS_CUDA_SMALL_MAX, 1, 4704, -1, 0, 2, 1176),
                            pool2 = simple(LS_CUDA_SMALL_MAX, 4, 1600, -1, 0, 5, 400);
    pool1.chosen = value(3, 1176);
    pool2.chosen = value(6, 400);
    const struct ls_cuda_small_op ops[] = {
        conv(0, 784, 1, 1, 6, 28, 5, 2),
        pool1,
        conv(2, 1176, 4, 6, 16, 10, 5, 0),
        pool2,
        linear(LS_CUDA_SMALL_LINEAR, 5, 400, 7, 120, 40),
        linear(LS_CUDA_SMALL_LINEAR, 7, 120, 8, 84, 41),
        linear(LS_CUDA_SMALL_LINEAR, 8, 84, 9, 10, 42),
        simple(LS_CUDA_SMALL_LOSS, 9, 10, 10, 1, 11, 10),
        linear(LS_CUDA_SMALL_LINEAR_BWD, 11, 10, 12, 84, 42),
        simple(LS_CUDA_SMALL_RELU_BWD, 8, 84, 12, 84, 13, 84),
        linear(LS_CUDA_SMALL_LINEAR_BWD, 13, 84, 14, 120, 41),
        simple(LS_CUDA_SMALL_RELU_BWD, 7, 120, 14, 120, 15, 120),
        linear(LS_CUDA_SMALL_LINEAR_BWD, 15, 120, 16, 400, 40),
        simple(LS_CUDA_SMALL_MAX_BWD, 16, 400, 6, 400, 17, 1600),
        simple(LS_CUDA_SMALL_RELU_BWD, 4, 1600, 17, 1600, 18, 1600),
        conv_weights(2, 1176, 18, 6, 16, 10, 5, 0),
        conv(18, 1600, 19, 16, 6, 14, 5, 4),
        simple(LS_CUDA_SMALL_MAX_BWD, 19, 1176, 3, 1176, 20, 4704),
        simple(LS_CUDA_SMALL_RELU_BWD, 1, 4704, 20, 4704, 21, 4704),
        conv_weights(0, 784, 21, 1, 6, 28, 5, 2),
    };
    const int n = (int)(sizeof ops / sizeof *ops);
    for (int i = 0; i < n; i++) check_ok(ls__cuda_small_op(d, mb, &ops[i]));
    return n;
}

static void check_order(int n)
{
    static const int outs[] = {1, 2, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, -1, 19, 20, 21, -1};
    assert_int_equal(card.n_ops, n);
    for (int i = 0; i < n; i++) assert_ptr_equal(card.outs[i], outs[i] < 0 ? NULL : memory + outs[i]);
    card.n_ops = 0;
}

static void test_one_list(void **state)
{
    struct ls_device d;
    open_card(&d, 227 << 10, true);
    const int n = add_lenet(&d, 128);
    assert_true(ls__cuda_small_is_waiting(&d));
    assert_int_equal(card.n_launches, 0);
    check_ok(ls__cuda_small_flush(&d));
    assert_false(ls__cuda_small_is_waiting(&d));
    assert_int_equal(card.n_launches, 1);
    assert_int_equal(card.last.n_fetched, 2); /* the image and its label */
    check_order(n);
    for (int i = 0; i < 3; i++) { /* the same again, and another batch */
        add_lenet(&d, i < 2 ? 128 : 64);
        check_ok(ls__cuda_small_flush(&d));
        check_order(n);
    }
    assert_int_equal(card.n_uploads, 2);
    ls__cuda_small_destroy(&d);
}

/* The last chunk of a row of 28 reads two words behind an image of 32 x 32 without gaps: they are its own. */
static void test_behind(void **state)
{
    struct ls_device d;
    open_card(&d, 227 << 10, true);
    const struct ls_cuda_small_op op = conv(0, 3072, 1, 3, 6, 28, 5, 0);
    check_ok(ls__cuda_small_op(&d, 128, &op));
    check_ok(ls__cuda_small_flush(&d));
    ls__cuda_small_destroy(&d);
}

/* What does not fit is cut, down to single ops; the smallest memory is what every card of compute capability 8 has. */
static void test_cuts(void **state)
{
    static const int kib[] = {163, 99, 64, 56};
    for (int i = 0; i < 4; i++) {
        struct ls_device d;
        open_card(&d, (size_t)kib[i] << 10, false);
        const int n = add_lenet(&d, 32);
        check_ok(ls__cuda_small_flush(&d));
        check_order(n);
        if (kib[i] < 64) assert_true(card.n_launches > 1);
        ls__cuda_small_destroy(&d);
    }
}

static void test_teams(void **state)
{
    static const struct {
        bool has_teams;
        int mb, team, threads;
    } cases[] = {{true, 16, 4, FEW_THREADS},   {true, 32, 4, FEW_THREADS},  {true, 33, 2, FEW_THREADS},
                 {true, 64, 2, FEW_THREADS},   {true, 65, 1, MANY_THREADS}, {true, 128, 1, MANY_THREADS},
                 {true, 129, 1, FEW_THREADS},  {true, 512, 1, FEW_THREADS}, {false, 16, 1, MANY_THREADS},
                 {false, 512, 1, FEW_THREADS}, {true, 1, 4, FEW_THREADS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ls_device d;
        open_card(&d, 227 << 10, cases[i].has_teams);
        add_lenet(&d, cases[i].mb);
        check_ok(ls__cuda_small_flush(&d));
        assert_int_equal(card.shape.team, cases[i].team);
        assert_int_equal(card.shape.threads, cases[i].threads);
        assert_int_equal(card.shape.mb, cases[i].mb);
        ls__cuda_small_destroy(&d);
    }
}

/* What is added up over samples comes after all ops, and an op that reads such a sum after it. */
static void test_sums(void **state)
{
    struct ls_device d;
    open_card(&d, 227 << 10, true);
    const struct ls_cuda_across_job job = {
        .kind = LS_CUDA_ACROSS_SUM, .a = memory + 1, .n_a = 4, .stride = 4, .out = memory + 2};
    const struct ls_cuda_small_op make = simple(LS_CUDA_SMALL_RELU, 0, 4, -1, 0, 1, 4),
                                  reads = simple(LS_CUDA_SMALL_RELU, 2, 4, -1, 0, 3, 4);
    check_ok(ls__cuda_small_op(&d, 8, &make));
    check_ok(ls__cuda_small_sum(&d, 8, &job));
    assert_int_equal(card.n_launches + card.n_across, 0);
    check_ok(ls__cuda_small_op(&d, 8, &reads));
    assert_int_equal(card.n_launches, 1);
    assert_int_equal(card.n_across, 1);
    check_ok(ls__cuda_small_flush(&d));
    assert_int_equal(card.n_launches, 2);
    assert_int_equal(card.n_across, 1);
    ls__cuda_small_destroy(&d);
}

/* A RELU_BWD that alone reads what an op makes becomes a part of it; what only ops of the list read is not written;
 * ops that do not read each other's results do not wait for each other, and share no place. */
static void test_joins(void **state)
{
    struct ls_device d;
    open_card(&d, 227 << 10, true);
    struct ls_cuda_small_op ops[] = {
        linear(LS_CUDA_SMALL_LINEAR_BWD, 0, 8, 1, 392, 40),
        simple(LS_CUDA_SMALL_RELU_BWD, 2, 392, 1, 392, 3, 392),
        conv_weights(2, 392, 3, 2, 2, 14, 5, 2),
        conv(3, 392, 4, 2, 2, 14, 5, 2),
        simple(LS_CUDA_SMALL_RELU_BWD, 5, 392, 4, 392, 6, 392),
    };
    ops[0].out.n_readers = 1;
    ops[1].out.n_readers = 2;
    for (int i = 0; i < 5; i++) check_ok(ls__cuda_small_op(&d, 128, &ops[i]));
    check_ok(ls__cuda_small_flush(&d));
    const struct ls_cuda_small_op *list = card.last.list;
    assert_int_equal(card.last.n, 4); /* the second RELU_BWD is not the only one to read, for all we know */
    assert_ptr_equal(list[0].mask.data, memory + 2);
    assert_ptr_equal(list[0].out.data, memory + 3);
    assert_true(list[0].out.gap >= 2);
    assert_int_equal(list[0].out.row.by, 14);
    assert_false(list[0].out.is_written);
    assert_false(list[1].is_beside);
    assert_true(list[2].is_beside);
    assert_true(list[2].out.is_written && list[3].out.is_written);
    assert_false(list[3].is_beside);
    ls__cuda_small_destroy(&d);
}

/* Rows of linear layers' weights fill what is left of shared memory where a block has a multiprocessor of its own. */
static void test_near(void **state)
{
    struct ls_device d;
    open_card(&d, 227 << 10, true);
    for (int mb = 128; mb <= 256; mb += 128) {
        add_lenet(&d, mb);
        check_ok(ls__cuda_small_flush(&d));
        for (int i = 0, n = 0; i < card.last.n; i++) {
            const struct ls_cuda_small_op *op = &card.last.list[i];
            if (op->kind != LS_CUDA_SMALL_LINEAR && op->kind != LS_CUDA_SMALL_LINEAR_BWD) continue;
            const struct ls_cuda_small_linear *l = &op->of.linear;
            assert_int_equal(op->awaits_weights, mb == 128 && n++ == 0);
            if (mb > 128)
                assert_int_equal(l->n_near, 0);
            else if (l->ic < 400)
                assert_int_equal(l->n_near, l->oc);
            else
                assert_in_range(l->n_near, 1, l->oc - 1);
        }
    }
    ls__cuda_small_destroy(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_list), cmocka_unit_test(test_behind),
                                       cmocka_unit_test(test_cuts),     cmocka_unit_test(test_teams),
                                       cmocka_unit_test(test_sums),     cmocka_unit_test(test_joins),
                                       cmocka_unit_test(test_near)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
