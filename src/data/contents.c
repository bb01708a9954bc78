/* contents.c: see contents.h.
 *
 * The memory's file, numbers as this machine writes them (it never leaves the machine):
 *
 *     "lockstep checksums 1\n", zeros up to 32 bytes
 *     n entries of 32 bytes, sorted by key: key, digest    (key: XXH3-128 of name, size, mtime, ctime, inode)
 *     XXH3-128 of everything before
 *
 * A file that had changed less than SETTLED_NS before it was read is not remembered: it could change once more without
 * its times moving on, for clocks of file systems tick as slowly as every two seconds.
 */
#include "data/contents.h"

#include "base/clock.h"
#include "base/control.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "data/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    BUFFER_BYTES = 256 * 1024,
    FILES_PER_ITEM = 16,
    MIN_THREADS = 4, /* also on one core: most of the time is spent waiting for the disk */
    MAX_THREADS = 16,
    ROUND_FILES = 4096,
    ROUND_BYTES = 256 << 20, /* between two looks at the clock and at signals */
    MEMORY_MAX_BYTES = 1 << 30,
};
static const int64_t SETTLED_NS = 2000000000, TOLD_AFTER_NS = 2000000000, SAVE_EVERY_NS = 20000000000;

struct entry {
    struct ls_digest key, digest;
};

struct memory_head {
    char magic[32];
};
static const struct memory_head head = {"lockstep checksums 1\n"};

/* One call of ls__contents_hash. */
struct job {
    struct ls_contents *c;
    struct ls_pool *pool;
    uint8_t *buffers;          /* [n_threads,BUFFER_BYTES] */
    struct ls_digest *keys;    /* [n] */
    int64_t *bytes;            /* [n] sizes */
    int64_t *changed_ns;       /* [n] the later of mtime and ctime */
    bool *is_settled;          /* [n] may be remembered: it was read long enough after it changed */
    uint32_t *missing;         /* [n_missing] files whose digest nobody remembers, in order */
    size_t n_missing;          /* of them */
    size_t first, end;         /* of missing: what the threads hash now */
    const struct entry *known; /* [n_known] sorted; points into text */
    size_t n_known;
    char *text; /* the memory as read */
    int64_t start_ns, saved_ns, total_bytes, done_bytes;
    bool is_told;
};

static struct ls_digest digest_of(XXH128_hash_t h)
{
    return (struct ls_digest){h.low64, h.high64};
}

static int by_key(const void *a, const void *b)
{
    const struct ls_digest *x = a, *y = b; /* an entry begins with its key */
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* ---- the memory ---- */

/* c->memory from the folder's real path and the split; "" where there is no cache folder. */
static void name_memory(struct ls_contents *c)
{
    char cache[LS_PATH_BYTES], name[48];
    char *real = realpath(c->base, NULL);
    c->memory[0] = '\0';
    if (real && ls__cache_dir(cache, sizeof cache, "checksums") == LS_OK) {
        XXH128_hash_t h = XXH3_128bits_withSeed(real, strlen(real), (XXH64_hash_t)c->split);
        snprintf(name, sizeof name, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
        if (ls__path_join(c->memory, sizeof c->memory, cache, name) != LS_OK) c->memory[0] = '\0';
    }
    free(real);
}

static bool is_whole(const char *text, size_t len)
{
    struct ls_digest sum;
    if (len < sizeof head + sizeof sum || (len - sizeof head - sizeof sum) % sizeof(struct entry)) return false;
    if (memcmp(text, &head, sizeof head) != 0) return false;
    memcpy(&sum, text + len - sizeof sum, sizeof sum);
    struct ls_digest now = digest_of(XXH3_128bits(text, len - sizeof sum));
    return now.low == sum.low && now.high == sum.high;
}

static void recall(struct job *j)
{
    size_t len;
    if (!j->c->memory[0] || ls__file_read(j->c->memory, MEMORY_MAX_BYTES, &j->text, &len) != LS_OK) return;
    if (!is_whole(j->text, len)) return; /* all files are read then, and it is written anew */
    j->known = (const struct entry *)(j->text + sizeof head);
    j->n_known = (len - sizeof head - sizeof(struct ls_digest)) / sizeof(struct entry);
}

/* Everything known now; `n` of the missing ones are done. */
static enum ls_status write_memory(const struct job *j, size_t n)
{
    const struct ls_contents *c = j->c;
    uint8_t *text;
    size_t n_entries = 0;
    TRY(ls__calloc(&text, sizeof head + c->n * sizeof(struct entry) + sizeof(struct ls_digest), 1));
    memcpy(text, &head, sizeof head);
    struct entry *entries = (struct entry *)(text + sizeof head);
    for (size_t i = 0, m = 0; i < c->n; i++) {
        bool is_missing = m < j->n_missing && j->missing[m] == i;
        bool is_done = !is_missing || m < n;
        m += is_missing;
        if (is_done && j->is_settled[i]) entries[n_entries++] = (struct entry){j->keys[i], c->digest[i]};
    }
    qsort(entries, n_entries, sizeof *entries, by_key);
    size_t len = sizeof head + n_entries * sizeof *entries;
    struct ls_digest sum = digest_of(XXH3_128bits(text, len));
    memcpy(text + len, &sum, sizeof sum);
    enum ls_status status =
        ls__file_write_atomic(c->memory, &(struct ls_piece){.data = text, .len = len + sizeof sum}, 1, LS_IO);
    free(text);
    return status;
}

/* Forgetting costs time and nothing else, so a failure is no more than a word to those who ask. */
static void remember(struct job *j, size_t n)
{
    char folder[LS_PATH_BYTES];
    if (!j->c->memory[0]) return;
    snprintf(folder, sizeof folder, "%s", j->c->memory);
    *strrchr(folder, '/') = '\0';
    enum ls_status status = ls__mkdirs(folder);
    if (status == LS_OK) status = write_memory(j, n);
    if (status != LS_OK) ls__log(LS_LOG_DEBUG, "checksums are not remembered: %s", ls_error_message());
    j->saved_ns = ls__now_ns();
}

/* ---- looking ---- */

static const char *name_of(const struct ls_contents *c, size_t i)
{
    return c->text + c->offset[i];
}

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* One file's key; its digest if it is remembered. */
static enum ls_status look_at(struct job *j, size_t i)
{
    struct ls_contents *c = j->c;
    char path[LS_PATH_BYTES];
    struct stat st;
    TRY(ls__path_join(path, sizeof path, c->base, name_of(c, i)));
    if (stat(path, &st) != 0) return ls_fail(LS_DATA, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return ls_fail(LS_DATA, "%s is not a regular file", path);
    if (st.st_size > c->max_bytes)
        return ls_fail(LS_DATA, "%s has %lld bytes, expected %lld at most", path, (long long)st.st_size,
                       (long long)c->max_bytes);
    const int64_t id[4] = {st.st_size, ns_of(st.st_mtim), ns_of(st.st_ctim), (int64_t)st.st_ino};
    XXH64_hash_t of_id = XXH3_64bits(id, sizeof id);
    j->keys[i] = digest_of(XXH3_128bits_withSeed(name_of(c, i), strlen(name_of(c, i)), of_id));
    j->bytes[i] = st.st_size;
    j->changed_ns[i] = id[1] > id[2] ? id[1] : id[2];
    const struct entry *hit = j->known ? bsearch(&j->keys[i], j->known, j->n_known, sizeof *hit, by_key) : NULL;
    if (hit) c->digest[i] = hit->digest;
    j->is_settled[i] = hit != NULL; /* or it would not be there */
    j->missing[i] = hit ? 0 : 1;    /* gathered when all have been looked at */
    return LS_OK;
}

static enum ls_status look_at_some(void *arg, int item, int worker)
{
    struct job *j = arg;
    size_t first = (size_t)item * FILES_PER_ITEM;
    for (size_t i = first; i < first + FILES_PER_ITEM && i < j->c->n; i++) TRY(look_at(j, i));
    return LS_OK;
}

static int items_for(size_t n_files)
{
    return (int)((n_files + FILES_PER_ITEM - 1) / FILES_PER_ITEM);
}

static enum ls_status look_at_all(struct job *j)
{
    TRY(ls__pool_run(j->pool, items_for(j->c->n), look_at_some, j));
    for (size_t i = 0; i < j->c->n; i++) {
        if (!j->missing[i]) continue;
        j->missing[j->n_missing++] = (uint32_t)i;
        j->total_bytes += j->bytes[i];
    }
    return LS_OK;
}

/* ---- hashing ---- */

static enum ls_status hash_fd(int fd, const char *path, uint8_t *buffer, struct ls_digest *out)
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    for (;;) {
        ssize_t n = read(fd, buffer, BUFFER_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ls_fail(LS_DATA, "read %s: %s", path, strerror(errno));
        if (n == 0) break;
        XXH3_128bits_update(&state, buffer, (size_t)n);
    }
    *out = digest_of(XXH3_128bits_digest(&state));
    return LS_OK;
}

static enum ls_status hash_file(struct job *j, size_t i, uint8_t *buffer)
{
    char path[LS_PATH_BYTES];
    struct stat st;
    struct timespec now;
    TRY(ls__path_join(path, sizeof path, j->c->base, name_of(j->c, i)));
    clock_gettime(CLOCK_REALTIME, &now);
    j->is_settled[i] = j->changed_ns[i] < ns_of(now) - SETTLED_NS;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* NONBLOCK: it may have become a fifo */
    if (fd < 0) return ls_fail(LS_DATA, "open %s: %s", path, strerror(errno));
    enum ls_status status = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
                                ? hash_fd(fd, path, buffer, &j->c->digest[i])
                                : ls_fail(LS_DATA, "%s is not a regular file", path);
    close(fd);
    return status;
}

static enum ls_status hash_some(void *arg, int item, int worker)
{
    struct job *j = arg;
    size_t first = j->first + (size_t)item * FILES_PER_ITEM;
    uint8_t *buffer = j->buffers + (size_t)worker * BUFFER_BYTES;
    for (size_t m = first; m < first + FILES_PER_ITEM && m < j->end; m++) TRY(hash_file(j, j->missing[m], buffer));
    return LS_OK;
}

static void tell(struct job *j)
{
    char line[256];
    if (ls__now_ns() - j->start_ns < TOLD_AFTER_NS) return;
    if (!j->is_told)
        ls__log(LS_LOG_INFO, "reading %zu pictures of %s for their checksum (%.3g GB)%s", j->n_missing, j->c->base,
                (double)j->total_bytes * 1e-9, j->c->memory[0] ? "; the next start knows it" : "");
    j->is_told = true;
    snprintf(line, sizeof line, "checksum: %.3g of %.3g GB", (double)j->done_bytes * 1e-9,
             (double)j->total_bytes * 1e-9);
    ls__log_progress(line);
}

/* Round by round, so that a person hears how far it is, a signal is seen, and what is done is not lost. */
static enum ls_status hash_missing(struct job *j)
{
    for (j->first = 0; j->first < j->n_missing; j->first = j->end) {
        int64_t bytes = 0;
        for (j->end = j->first; j->end < j->n_missing && j->end < j->first + ROUND_FILES && bytes < ROUND_BYTES;)
            bytes += j->bytes[j->missing[j->end++]];
        TRY(ls__pool_run(j->pool, items_for(j->end - j->first), hash_some, j));
        j->done_bytes += bytes;
        tell(j);
        bool is_stopped = ls__control_stop_wanted(j->c->control);
        if (is_stopped || ls__now_ns() - j->saved_ns > SAVE_EVERY_NS) remember(j, j->end);
        if (is_stopped)
            return ls_fail(LS_ERROR, "stopped by %s while reading %s", ls__control_stopped_by(j->c->control),
                           j->c->base);
    }
    return LS_OK;
}

static enum ls_status run(struct job *j)
{
    size_t n = j->c->n;
    int n_threads = ls__cpu_count();
    if (n_threads < MIN_THREADS) n_threads = MIN_THREADS;
    if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
    if (n_threads > items_for(n)) n_threads = items_for(n);
    TRY(ls__calloc(&j->keys, n, sizeof *j->keys));
    TRY(ls__calloc(&j->bytes, n, sizeof *j->bytes));
    TRY(ls__calloc(&j->changed_ns, n, sizeof *j->changed_ns));
    TRY(ls__calloc(&j->is_settled, n, sizeof *j->is_settled));
    TRY(ls__calloc(&j->missing, n, sizeof *j->missing));
    TRY(ls__calloc(&j->buffers, (size_t)n_threads, BUFFER_BYTES));
    TRY(ls__pool_create(&j->pool, n_threads, false, NULL));
    TRY(look_at_all(j));
    TRY(hash_missing(j));
    ls__log_progress("");
    if (j->n_missing > 0 || j->n_known != n) remember(j, j->n_missing);
    return LS_OK;
}

enum ls_status ls__contents_hash(struct ls_contents *c)
{
    struct job j = {.c = c, .start_ns = ls__now_ns(), .saved_ns = ls__now_ns()};
    name_memory(c);
    recall(&j);
    enum ls_status status = run(&j);
    ls__pool_destroy(&j.pool);
    free(j.keys);
    free(j.bytes);
    free(j.changed_ns);
    free(j.is_settled);
    free(j.missing);
    free(j.buffers);
    free(j.text);
    return status;
}

enum ls_status ls__contents_check(const struct ls_digest *digest, const char *memory, const char *path,
                                  const void *data, size_t len)
{
    struct ls_digest now = digest_of(XXH3_128bits(data, len));
    if (now.low == digest->low && now.high == digest->high) return LS_OK;
    if (memory[0]) unlink(memory);
    return ls_fail(LS_DATA, "%s has changed since the data set was opened; start again with the contents you want",
                   path);
}
