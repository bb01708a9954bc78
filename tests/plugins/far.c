/* far.c: a backend whose memory the host cannot read, for tests of the seam: `--device far`.
 *
 * Its addresses lie in a mapping without any permission; the same pages are mapped a second time, readable, for its
 * kernels (which are ref's) and its copies only. Whoever touches store, sums or arenas other than through the backend
 * dies of it. Failures of launches are kept until settle, as on a device that only enqueues, and updates after a
 * failure change nothing. The weights must be ref's to the last bit.
 *
 * With LOCKSTEP_FAR_SUMS=1 devices of several processes add their sums themselves, through a file that all of them map;
 * LOCKSTEP_FAR_SUMS=one-cannot: rank 1 cannot, so nobody does. A machine has LOCKSTEP_FAR_CARDS of them (2). Its clock
 * is the host's; LOCKSTEP_FAR_ADDING_MS: it says that sums took so much longer, LOCKSTEP_FAR_SLOW_MS: rank 1's shards.
 * Sums of LOCKSTEP_FAR_BUCKET elements (4,096; 0: all at once) and more may be added while shards are computed, as they
 * were when they were ready.
 * LOCKSTEP_FAR_FAILS=STEP: a sum of rank 1 fails in that step, from 0. Then the other ranks' devices update nothing any
 * more, however often the host settles; with LOCKSTEP_FAR_COUNT each says of how many updates it was asked for nothing.
 *
 * Bytes of images that it does not keep can be fetched early; they are lost when two other loads come between. With
 * LOCKSTEP_FAR_COUNT it says how many fetches there were while launches waited for the host to hear of them, and how
 * many loads found what was fetched.
 *
 * With LOCKSTEP_FAR_RECORDING=1 launches are recorded and replayed, images are kept, and steps may be enqueued before
 * the host has heard of those before; with 0 nothing of it, but the plans are the same. With LOCKSTEP_FAR_EXACT it
 * cannot round gradients.
 */
#include "backend/backend.h"
#include "base/clock.h"
#include "exec/exec_internal.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct ls_device {
    char unused;
};

/* One for the process, as a card is. */
static struct {
    pthread_mutex_t lock;
    char *far, *near; /* the same pages */
    size_t used, n_live;
    enum ls_status failure;
    char message[512];
    struct recording *recorded; /* the one that launches join; NULL: they run */
    struct ls_step_ctx now;
    int n_waits, n_withheld;
    atomic_bool is_busy; /* something was launched that the host has not waited for */
} card = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What was fetched last. */
static struct {
    int64_t number; /* 0: nothing, or it was lost or loaded */
    uint8_t *bytes; /* [n,c,h,w] */
    int n_since;    /* loads */
    int n_beside, n_found;
} fetched;

static int n_early; /* sums that were added when they were ready */

enum { ALIGNMENT = 256, MOST_SAMPLES = 4096 /* of a shard */ };
static const size_t card_bytes = (size_t)16 << 30; /* of addresses */

static void *near(const void *p)
{
    if (!p) return NULL;
    size_t at = (size_t)((const char *)p - card.far);
    if (at >= card_bytes) {
        fprintf(stderr, "far: %p is not an address of this device\n", p);
        abort();
    }
    return card.near + at;
}

/* --- device --- */

static enum ls_status map_card(void)
{
    int fd = memfd_create("far", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)card_bytes) != 0) return ls_fail(LS_NOMEM, "far: no memory");
    card.far = mmap(NULL, card_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    card.near = mmap(NULL, card_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    return card.far != MAP_FAILED && card.near != MAP_FAILED ? LS_OK : ls_fail(LS_NOMEM, "far: no memory");
}

static enum ls_status device_open(struct ls_device **out)
{
    static struct ls_device device;
    *out = &device;
    return card.far ? LS_OK : map_card();
}

static int device_count(const struct ls_device *device)
{
    const char *cards = getenv("LOCKSTEP_FAR_CARDS");
    return cards ? (int)strtol(cards, NULL, 10) : 2;
}

static enum ls_status device_open_at(struct ls_device **out, int turn, bool is_own)
{
    const int n = device_count(NULL);
    if (is_own && turn >= n) return ls_fail(LS_UNSUPPORTED, "far: %d cards, none for process %d", n, turn);
    return device_open(out);
}

static void device_close(struct ls_device **device)
{
    if (getenv("LOCKSTEP_FAR_COUNT"))
        fprintf(stderr,
                "far: the host waited %d times\nfar: %d updates withheld\nfar: %d fetches, %d found\n"
                "far: %d early sums\n",
                card.n_waits, card.n_withheld, fetched.n_beside, fetched.n_found, n_early);
    free(fetched.bytes);
    fetched.bytes = NULL;
    if (card.n_live) {
        fprintf(stderr, "far: %zu allocations were not given back\n", card.n_live);
        abort();
    }
    *device = NULL;
}

static void describe(const struct ls_device *device, char *text, size_t size)
{
    snprintf(text, size, "reference kernels in memory the host cannot read");
}

static void identify(const struct ls_device *device, struct ls_backend_id *id)
{
    *id = (struct ls_backend_id){.software = "lockstep", .isa = "any"};
}

/* --- memory --- */

static enum ls_status mem_alloc(struct ls_device *device, size_t bytes, void **out)
{
    size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    pthread_mutex_lock(&card.lock);
    bool fits = whole <= card_bytes - card.used;
    if (fits) {
        *out = card.far + card.used;
        card.used += whole; /* never used twice, so it is zero */
        card.n_live += bytes > 0;
    }
    pthread_mutex_unlock(&card.lock);
    return fits ? LS_OK : ls_fail(LS_NOMEM, "far: %zu bytes are more than is left", bytes);
}

static void mem_free(struct ls_device *device, void *data, size_t bytes)
{
    memset(near(data), 0xff, bytes); /* NaN, for who reads it later */
    pthread_mutex_lock(&card.lock);
    card.n_live -= bytes > 0;
    pthread_mutex_unlock(&card.lock);
}

static enum ls_status mem_copy(struct ls_device *device, void *dst, const void *src, size_t bytes, enum ls_copy to)
{
    memcpy(to == LS_TO_DEVICE ? near(dst) : dst, to == LS_TO_HOST ? near(src) : src, bytes);
    return LS_OK;
}

static enum ls_status mem_fill(struct ls_device *device, void *data, int byte, size_t bytes)
{
    memset(near(data), byte, bytes);
    return LS_OK;
}

/* LOCKSTEP_FAR_LOST: after so many waits the card is gone, and all that is asked of it fails. */
static bool is_lost(void)
{
    static atomic_int n_waits;
    const char *after = getenv("LOCKSTEP_FAR_LOST");
    return after && atomic_fetch_add(&n_waits, 1) >= strtol(after, NULL, 10);
}

static int64_t ns_of(const char *name)
{
    const char *ms = getenv(name);
    return ms ? strtol(ms, NULL, 10) * 1000000 : 0;
}

/* LOCKSTEP_FAR_LAG_MS: for so long the device is still computing when the host asks. */
static void lag(void)
{
    const int64_t ns = ns_of("LOCKSTEP_FAR_LAG_MS");
    if (ns) nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static enum ls_status settle(struct ls_device *device)
{
    lag();
    card.n_waits++;
    card.is_busy = false;
    if (is_lost())
        return ls_fail(LS_ERROR, "far: the card failed; checkpoints are whole, --resume goes on from the newest");
    pthread_mutex_lock(&card.lock);
    enum ls_status status = card.failure;
    if (status != LS_OK) status = ls_fail(status, "%s", card.message);
    card.failure = LS_OK;
    pthread_mutex_unlock(&card.lock);
    return status;
}

/* --- kernels: ref's, with near addresses --- */

struct wrapped {
    struct ls_impl outer; /* first: a kernel's impl points here */
    const struct ls_impl *inner;
};
static struct wrapped wrapped[LS_N_OPS];
static const struct ls_impl *impls[LS_N_OPS + 1];

static const struct ls_impl *inner_of(const struct ls_bound *b)
{
    return ((const struct wrapped *)b->kernel->impl)->inner;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct wrapped *w = &wrapped[prep->node->op];
    struct ls_kernel *forward = (struct ls_kernel *)prep->forward;
    const struct ls_impl *impl = forward ? forward->impl : NULL;
    if (forward) forward->impl = ((const struct wrapped *)impl)->inner; /* ref's backward wants to see ref's forward */
    enum ls_status status = w->inner->prepare(prep, out);
    if (forward) forward->impl = impl;
    if (status == LS_OK) (*out)->impl = &w->outer;
    return status;
}

static enum ls_status bind(struct ls_bound *b)
{
    struct ls_bound *mine = malloc(sizeof *mine);
    if (!mine) return ls_fail(LS_NOMEM, "far: no memory");
    *mine = *b;
    for (int i = 0; i < LS_MAX_IN; i++) mine->in[i] = near(b->in[i]);
    for (int i = 0; i < LS_MAX_OUT; i++) mine->out[i] = near(b->out[i]);
    mine->scratch = near(b->scratch);
    mine->samples = near(b->samples);
    b->extra = mine;
    return inner_of(b)->bind ? inner_of(b)->bind(mine) : LS_OK;
}

static void unbind(struct ls_bound *b)
{
    if (b->extra && inner_of(b)->unbind) inner_of(b)->unbind(b->extra);
    free(b->extra);
    b->extra = NULL;
}

static enum ls_status keep(enum ls_status status)
{
    if (status == LS_OK) return LS_OK;
    pthread_mutex_lock(&card.lock);
    if (card.failure == LS_OK) snprintf(card.message, sizeof card.message, "%s", ls_error_message());
    if (card.failure == LS_OK) card.failure = status;
    pthread_mutex_unlock(&card.lock);
    return LS_OK;
}

/* --- sums over processes --- */

enum { PIECE = 1 << 12, MOST_RANKS = 16 };
struct meeting { /* in the file */
    atomic_int n_come, round;
    int64_t piece[MOST_RANKS][PIECE];
};

static struct {
    const struct ls_device_group *of;
    struct meeting *at;
    bool has_failed_elsewhere; /* for good */
} group;

static enum ls_status meet(void)
{
    const int round = atomic_load(&group.at->round);
    if (atomic_fetch_add(&group.at->n_come, 1) + 1 == group.of->n_ranks) {
        atomic_store(&group.at->n_come, 0);
        atomic_fetch_add(&group.at->round, 1);
        return LS_OK;
    }
    for (int i = 0; atomic_load(&group.at->round) == round; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        enum ls_status status = i % 20 == 0 ? group.of->check(group.of->context, i * 1e-4) : LS_OK;
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

static void leave(struct ls_device *device)
{
    if (group.at) munmap(group.at, sizeof *group.at);
    group.at = NULL;
}

static enum ls_status join(struct ls_device *device, const struct ls_device_group *of)
{
    const char *how = getenv("LOCKSTEP_FAR_SUMS");
    char mine[64] = "", all[MOST_RANKS][64];
    int file = -1;
    if (of->n_ranks > MOST_RANKS) return ls_fail(LS_UNSUPPORTED, "far: more than %d ranks", MOST_RANKS);
    if (how && (of->rank != 1 || strcmp(how, "1") == 0)) {
        snprintf(mine, sizeof mine, "/dev/shm/far.%d", (int)getpid());
        file = open(mine, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (ftruncate(file, sizeof *group.at) != 0) mine[0] = 0;
    }
    enum ls_status status = of->exchange(of->context, mine, sizeof mine, all);
    if (file >= 0) close(file);
    bool can_all = true;
    for (int i = 0; status == LS_OK && i < of->n_ranks; i++) can_all &= all[i][0] != 0;
    if (status == LS_OK && !can_all) status = ls_fail(LS_UNSUPPORTED, "far: not every device can add");
    if (status == LS_OK) {
        group.of = of;
        file = open(all[0], O_RDWR | O_CLOEXEC);
        group.at = mmap(NULL, sizeof *group.at, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        status = meet(); /* all have opened it */
    }
    if (mine[0]) unlink(mine);
    return status;
}

static int64_t moments[LS_N_MOMENTS]; /* the clock's; ADDING: 0 until the first sum that was ready */

/* What was ready, as it was then: whatever comes into the sums afterwards is missing in what is added. */
static struct {
    int64_t *copy;
    const int64_t *data;
    int64_t n;
} ready[LS_MAX_READY];
static enum ls_status make_ready(int which, const int64_t *data, int64_t n)
{
    int64_t *copy = realloc(ready[which].copy, (size_t)n * sizeof *copy);
    if (!copy) return ls_fail(LS_NOMEM, "far: no memory");
    memcpy(copy, near(data), (size_t)n * sizeof *copy);
    ready[which].copy = copy;
    ready[which].data = data;
    ready[which].n = n;
    return LS_OK;
}

static enum ls_status take_ready(int64_t *data, int64_t n, int which)
{
    if (!ready[which].data || ready[which].data != data || ready[which].n != n)
        return ls_fail(LS_INTERNAL, "far: sums %d are not ready", which);
    memcpy(near(data), ready[which].copy, (size_t)n * sizeof *data);
    ready[which].data = NULL; /* once in a step */
    n_early++;
    if (moments[LS_MOMENT_ADDING] == 0) moments[LS_MOMENT_ADDING] = ls__now_ns();
    return LS_OK;
}

static enum ls_status sum_add(struct ls_device *device, int64_t *data, int64_t n, int which)
{
    int64_t *x = near(data);
    enum ls_status early = which == LS_NOT_READY ? LS_OK : take_ready(data, n, which);
    if (early != LS_OK) return early;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = n - at < PIECE ? n - at : PIECE;
        memcpy(group.at->piece[group.of->rank], x + at, (size_t)m * sizeof *x);
        enum ls_status status = meet();
        for (int64_t i = 0; i < m; i++) {
            x[at + i] = 0;
            for (int r = 0; r < group.of->n_ranks; r++) x[at + i] += group.at->piece[r][i];
        }
        if (status == LS_OK) status = meet();
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

static bool has_failed(void)
{
    pthread_mutex_lock(&card.lock);
    bool failed = card.failure != LS_OK;
    pthread_mutex_unlock(&card.lock);
    return failed;
}

static enum ls_status sum_tell(struct ls_device *device, int64_t *words, const int64_t *mine, int64_t n)
{
    int64_t *x = near(words);
    memcpy(x, mine, (size_t)n * sizeof *x);
    x[0] += has_failed();
    enum ls_status status = sum_add(device, words, n, LS_NOT_READY);
    if (x[0] != 0) group.has_failed_elsewhere = true;
    return status;
}

/* --- the clock --- */

static enum ls_status mark(struct ls_device *device, enum ls_moment moment)
{
    if (moment == LS_MOMENT_BEGIN) moments[LS_MOMENT_ADDING] = 0;
    moments[moment] = ls__now_ns();
    return LS_OK;
}

static enum ls_status read_moments(struct ls_device *device, int64_t ns[LS_N_MOMENTS])
{
    const int64_t slow = group.of->rank == 1 ? ns_of("LOCKSTEP_FAR_SLOW_MS") : 0;
    const int64_t more[LS_N_MOMENTS] = {0, slow, slow + ns_of("LOCKSTEP_FAR_ADDING_MS")};
    for (int i = 0; i <= LS_MOMENT_END; i++)
        ns[i] = moments[i] - moments[0] + more[i < LS_MOMENT_SUMS ? i : LS_MOMENT_SUMS];
    ns[LS_MOMENT_ADDING] =
        moments[LS_MOMENT_ADDING] ? moments[LS_MOMENT_ADDING] - moments[0] + slow : ns[LS_MOMENT_SHARDS];
    return LS_OK;
}

static bool is_update(enum ls_op op)
{
    return op == LS_OP_SGD || op == LS_OP_ADAMW || op == LS_OP_RUNNING_STATS;
}

static bool is_to_fail(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const char *step = getenv("LOCKSTEP_FAR_FAILS");
    return step && b->kernel->impl->op == LS_OP_REDUCE && group.of && group.of->rank == 1 &&
           ctx->step == strtol(step, NULL, 10);
}

static enum ls_status launch_now(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    if (is_update(b->kernel->impl->op) && (has_failed() || group.has_failed_elsewhere)) {
        card.n_withheld++;
        return LS_OK;
    }
    card.is_busy = true;
    if (is_to_fail(b, ctx)) return keep(ls_fail(LS_NONFINITE, "far: it was asked to fail"));
    return keep(inner_of(b)->launch(b->extra, ctx));
}

/* Of a range of sums. ref's launch comes here too, with near addresses. */
static void update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    const bool is_far = (size_t)((char *)b->in[0] - card.far) < card_bytes;
    if (is_far && (has_failed() || group.has_failed_elsewhere)) {
        card.n_withheld++;
        return;
    }
    inner_of(b)->update(is_far ? b->extra : b, ctx, begin, n, is_far ? near(sums) : sums);
}

/* As the host does it for ref. */
static enum ls_status launch_coarse(const struct ls_bound *b, const struct ls_step_ctx *ctx, float *remainder, int bits)
{
    const struct ls_bound *mine = b->extra;
    int64_t begin, end;
    ls_part_range((int64_t)(b->kernel->in[0].bytes / sizeof(float)), ctx->part, ctx->n_parts, &begin, &end);
    ls__compress_part((float *)mine->in[0] + begin, (float *)near(remainder) + begin, end - begin, bits);
    return launch_now(b, ctx);
}

/* --- recording --- */

struct recording {
    struct recorded_launch {
        const struct ls_bound *b; /* NULL: sums are ready */
        struct ls_step_ctx ctx;
        int which;
        const int64_t *data;
        int64_t n;
    } * list;
    int n, room;
};

static enum ls_status keep_launch(struct recording *r, struct recorded_launch launch)
{
    if (r->n == r->room) {
        void *list = realloc(r->list, (size_t)(r->room = 2 * r->room + 16) * sizeof *r->list);
        if (!list) return ls_fail(LS_NOMEM, "far: no memory");
        r->list = list;
    }
    r->list[r->n++] = launch;
    return LS_OK;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    struct recording *r = card.recorded;
    return r ? keep_launch(r, (struct recorded_launch){.b = b, .ctx = *ctx}) : launch_now(b, ctx);
}

static enum ls_status sum_ready(struct ls_device *device, int which, const int64_t *data, int64_t n)
{
    struct recording *r = card.recorded;
    return r ? keep_launch(r, (struct recorded_launch){.which = which, .data = data, .n = n})
             : make_ready(which, data, n);
}

static enum ls_status begin(struct ls_device *device)
{
    card.recorded = calloc(1, sizeof *card.recorded);
    return card.recorded ? LS_OK : ls_fail(LS_NOMEM, "far: no memory");
}

static enum ls_status end(struct ls_device *device, void **recording)
{
    *recording = card.recorded;
    card.recorded = NULL;
    return LS_OK;
}

static enum ls_status replay(struct ls_device *device, void *recording)
{
    const struct recording *r = recording;
    for (int i = 0; i < r->n; i++) {
        struct ls_step_ctx ctx = r->list[i].ctx;
        ctx.seed = card.now.seed;
        ctx.step = card.now.step;
        ctx.lr = card.now.lr;
        const struct recorded_launch *l = &r->list[i];
        enum ls_status status = l->b ? launch_now(l->b, &ctx) : make_ready(l->which, l->data, l->n);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

static void free_recording(struct ls_device *device, void *recording)
{
    free(((struct recording *)recording)->list);
    free(recording);
}

static enum ls_status now(struct ls_device *device, const struct ls_step_ctx *ctx)
{
    if (!has_failed()) card.now = *ctx;
    return LS_OK;
}

static int64_t failed_step(struct ls_device *device)
{
    return card.now.step;
}

static enum ls_status launch_join(const struct ls_bound *b, const struct ls_step_ctx *ctx, const struct ls_join *join)
{
    return keep(inner_of(b)->launch_join(b->extra, ctx, join));
}

static size_t image_bytes(const struct ls_load *l)
{
    return (size_t)l->transform->c * (size_t)l->transform->h * (size_t)l->transform->w;
}

static enum ls_status fetch(struct ls_device *device, const struct ls_load *l, int64_t number)
{
    const size_t image = image_bytes(l);
    uint8_t *bytes = malloc((size_t)l->n * image);
    if (!bytes) return ls_fail(LS_NOMEM, "far: no memory");
    for (int i = 0; i < l->n; i++) memcpy(bytes + (size_t)i * image, l->pixels[i], image);
    pthread_mutex_lock(&card.lock);
    free(fetched.bytes);
    fetched.bytes = bytes;
    fetched.number = number;
    fetched.n_since = 0;
    fetched.n_beside += card.is_busy;
    pthread_mutex_unlock(&card.lock);
    return LS_OK;
}

/* Where the images of a load are that was fetched; NULL: it was not, or is lost. */
static const uint8_t *find_fetched(const struct ls_load *l)
{
    pthread_mutex_lock(&card.lock);
    const bool is_it = l->fetched > 0 && l->fetched == fetched.number;
    if (is_it || ++fetched.n_since == 2) fetched.number = 0;
    fetched.n_found += is_it;
    pthread_mutex_unlock(&card.lock);
    return is_it ? fetched.bytes : NULL;
}

static enum ls_status load(struct ls_device *device, const struct ls_load *l)
{
    const size_t image = image_bytes(l);
    const uint8_t *pixels[MOST_SAMPLES], *here = l->kept ? NULL : find_fetched(l);
    struct ls_load mine = *l;
    if (l->kept || here) {
        if (l->n > MOST_SAMPLES) return ls_fail(LS_UNSUPPORTED, "far: more than %d samples", MOST_SAMPLES);
        for (int i = 0; i < l->n; i++)
            pixels[i] = here ? here + image * (size_t)i : (const uint8_t *)near(l->kept) + image * l->samples[i];
        mine.pixels = pixels;
    }
    mine.dst = near(l->dst);
    mine.dst_labels = near(l->dst_labels);
    mine.dst_samples = near(l->dst_samples);
    mine.dst_mix_labels = near(l->dst_mix_labels);
    mine.dst_mix_shares = near(l->dst_mix_shares);
    return ls_backend_load(device, &mine);
}

static const struct ls_device_memory memory = {
    .alloc = mem_alloc, .free = mem_free, .copy = mem_copy, .fill = mem_fill, .settle = settle};

static int64_t bucket(const struct ls_device *device)
{
    const char *elements = getenv("LOCKSTEP_FAR_BUCKET");
    return elements ? strtol(elements, NULL, 10) : 1 << 12;
}

static const struct ls_device_sums sums = {
    .join = join, .leave = leave, .bucket = bucket, .ready = sum_ready, .add = sum_add, .tell = sum_tell};

static const struct ls_device_recording recording = {
    .begin = begin, .end = end, .replay = replay, .free = free_recording, .now = now, .failed_step = failed_step};

static const struct ls_device_clock device_clock = {.mark = mark, .read = read_moments};

static struct ls_backend far_backend = {
    .name = "far",
    .device_open = device_open,
    .device_open_at = device_open_at,
    .device_count = device_count,
    .device_close = device_close,
    .describe = describe,
    .identify = identify,
    .memory = &memory,
    .sums = &sums,
    .clock = &device_clock,
    .load = load,
    .fetch = fetch,
    .impls = impls,
};

__attribute__((constructor)) static void wrap(void)
{
    const char *records = getenv("LOCKSTEP_FAR_RECORDING");
    int n = 0;
    far_backend.is_reduce_last = records != NULL;
    if (records && strcmp(records, "1") == 0) {
        far_backend.recording = &recording;
        far_backend.can_keep_images = true;
    }
    for (const struct ls_impl *const *i = ls_backend_ref.impls; *i; i++) {
        struct wrapped *w = &wrapped[(*i)->op];
        *w = (struct wrapped){
            .outer = {.name = "far", .op = (*i)->op, .prepare = prepare, .bind = bind, .unbind = unbind}, .inner = *i};
        w->outer.release = (*i)->release;
        if ((*i)->update) w->outer.update = update;
        if ((*i)->launch) w->outer.launch = launch;
        if ((*i)->launch_join) w->outer.launch_join = launch_join;
        if ((*i)->op == LS_OP_REDUCE && !getenv("LOCKSTEP_FAR_EXACT")) w->outer.launch_coarse = launch_coarse;
        impls[n++] = &w->outer;
    }
}

extern const struct ls_backend_plugin ls_backend_plugin;
const struct ls_backend_plugin ls_backend_plugin = {LS_BACKEND_ABI, &far_backend};
