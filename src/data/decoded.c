/* decoded.c: the file of decoded pictures: a header, a hash and a claim per picture, the pictures.
 *
 *     struct header | uint64 hashes[n] (0: not there) | int32 claims[n] (process number; 0: nobody) | pad | bytes
 * [n,c,h,w]
 *
 * The file is sparse: pictures that were never read take no space. Hashes and claims are mapped and atomic.
 */
#include "data/decoded.h"

#include "base/clock.h"
#include "base/dir.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PAGE = 4096, VERSION = 1, KEEP_DAYS = 14 };
static const char magic[8] = "lsdecod";
static const int64_t patience_ns = 5 * (int64_t)1000000000; /* a large picture takes a tenth of a second */

struct header {
    char magic[8];
    int32_t version, c, h, w;
    int64_t n;
};

struct ls_decoded_cache {
    int fd;
    uint8_t *head; /* hashes and claims, mapped; the file has their space */
    size_t head_bytes, image_bytes;
    _Atomic uint64_t *hashes;
    _Atomic int32_t *claims;
};

/* --- the file --- */

static size_t bytes_of_head(int64_t n)
{
    size_t at = sizeof(struct header) + (size_t)n * (sizeof(uint64_t) + sizeof(int32_t));
    return (at + PAGE - 1) / PAGE * PAGE;
}

static bool has_room(int fd, size_t bytes)
{
    struct statvfs fs;
    struct stat st;
    if (fstatvfs(fd, &fs) != 0 || fstat(fd, &st) != 0) return false;
    double have = (double)st.st_blocks * 512, room = (double)fs.f_bavail * (double)fs.f_frsize;
    return (double)bytes - have <= room / 4;
}

struct old_file {
    const struct ls_dir *dir;
    time_t before;
};

/* What nobody has read for two weeks goes. */
static bool remove_old(void *arg, const char *name)
{
    const struct old_file *old = arg;
    struct stat st;
    const char *end = strrchr(name, '.');
    if (end && strcmp(end, ".decoded") == 0 && fstatat(old->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(st.st_mode) && st.st_mtime < old->before)
        unlinkat(old->dir->fd, name, 0);
    return true;
}

/* Whether fd is a file of these pictures; an empty one is made so. Two that begin at once write the same. */
static bool is_ours(int fd, const struct header *wanted, size_t head_bytes, size_t bytes)
{
    struct header found = {0};
    struct stat st;
    if (fstat(fd, &st) != 0) return false;
    if (st.st_size == 0)
        return posix_fallocate(fd, 0, (off_t)head_bytes) == 0 && ftruncate(fd, (off_t)bytes) == 0 &&
               pwrite(fd, wanted, sizeof *wanted, 0) == sizeof *wanted;
    return (size_t)st.st_size == bytes && pread(fd, &found, sizeof found, 0) == sizeof found &&
           memcmp(&found, wanted, sizeof found) == 0;
}

/* Opened or made; one that is damaged is made anew. -1: there is none. */
static int open_in(const struct ls_dir *dir, const char *name, const struct header *wanted, size_t head_bytes,
                   size_t bytes)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        int fd = -1;
        if (ls__dir_open_file(dir, name, O_RDWR | O_CREAT, &fd, LS_IO) != LS_OK) return -1;
        bool is_large = !has_room(fd, bytes);
        if (!is_large && is_ours(fd, wanted, head_bytes, bytes)) {
            futimens(fd, NULL); /* it is in use */
            return fd;
        }
        close(fd);
        unlinkat(dir->fd, name, 0);
        if (is_large) return -1;
    }
    return -1;
}

static int open_file(const char *name, const struct header *wanted, size_t head_bytes, size_t bytes)
{
    char folder[LS_PATH_BYTES];
    struct ls_dir dir;
    if (ls__cache_dir(folder, sizeof folder, "pictures") != LS_OK || ls__mkdirs(folder) != LS_OK) return -1;
    if (ls__dir_open(&dir, folder, LS_IO) != LS_OK) return -1;
    ls__dir_each(&dir, remove_old, &(struct old_file){&dir, time(NULL) - KEEP_DAYS * 86400L});
    int fd = open_in(&dir, name, wanted, head_bytes, bytes);
    ls__dir_close(&dir);
    return fd;
}

struct ls_decoded_cache *ls__decoded_open(const char *checksum, int64_t n, int c, int h, int w)
{
    struct ls_decoded_cache *cache;
    struct header header = {.version = VERSION, .c = c, .h = h, .w = w, .n = n};
    char name[96];
    memcpy(header.magic, magic, sizeof magic);
    if (ls__calloc(&cache, 1, sizeof *cache) != LS_OK) return NULL;
    cache->image_bytes = (size_t)c * (size_t)h * (size_t)w;
    cache->head_bytes = bytes_of_head(n);
    snprintf(name, sizeof name, "%s-%dx%d.decoded", checksum, h, w);
    cache->fd = open_file(name, &header, cache->head_bytes, cache->head_bytes + (size_t)n * cache->image_bytes);
    void *head = MAP_FAILED;
    if (cache->fd >= 0) head = mmap(NULL, cache->head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cache->fd, 0);
    if (head == MAP_FAILED) {
        if (cache->fd >= 0) close(cache->fd);
        free(cache);
        ls__log(LS_LOG_DEBUG, "pictures are decoded each time they are read: no room for, or no access to, a cache");
        return NULL;
    }
    cache->head = head;
    cache->hashes = (_Atomic uint64_t *)(cache->head + sizeof(struct header));
    cache->claims = (_Atomic int32_t *)(cache->hashes + n);
    return cache;
}

void ls__decoded_close(struct ls_decoded_cache **cache)
{
    if (!*cache) return;
    munmap((*cache)->head, (*cache)->head_bytes);
    close((*cache)->fd);
    free(*cache);
    *cache = NULL;
}

/* --- pictures --- */

static off_t place_of(const struct ls_decoded_cache *cache, int64_t sample)
{
    return (off_t)(cache->head_bytes + (size_t)sample * cache->image_bytes);
}

/* Never 0, which means that there is nothing. */
static uint64_t hash_of(const struct ls_decoded_cache *cache, const uint8_t *bytes)
{
    return XXH3_64bits(bytes, cache->image_bytes) | 1;
}

static bool is_there(struct ls_decoded_cache *cache, int64_t sample, uint8_t *out)
{
    uint64_t hash = atomic_load_explicit(&cache->hashes[sample], memory_order_acquire);
    if (hash == 0) return false;
    ssize_t n = pread(cache->fd, out, cache->image_bytes, place_of(cache, sample));
    return n == (ssize_t)cache->image_bytes && hash == hash_of(cache, out);
}

static bool is_alive(int32_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

/* Whether it is this process's to decode now. */
static bool claim(struct ls_decoded_cache *cache, int64_t sample)
{
    int32_t owner = 0, self = (int32_t)getpid();
    if (atomic_compare_exchange_strong(&cache->claims[sample], &owner, self)) return true;
    if (owner == self || is_alive(owner)) return false; /* a thread of ours, or another process */
    return atomic_compare_exchange_strong(&cache->claims[sample], &owner, self);
}

bool ls__decoded_get(struct ls_decoded_cache *cache, int64_t sample, uint8_t *out)
{
    const struct timespec nap = {.tv_nsec = 200000};
    int64_t start = ls__now_ns();
    if (!cache) return false;
    for (;;) {
        if (is_there(cache, sample, out)) return true;
        if (claim(cache, sample)) break;
        if (ls__now_ns() - start > patience_ns) return false;
        nanosleep(&nap, NULL);
    }
    if (!is_there(cache, sample, out)) return false;
    atomic_store(&cache->claims[sample], 0); /* it had just been put when we claimed it */
    return true;
}

void ls__decoded_put(struct ls_decoded_cache *cache, int64_t sample, const uint8_t *bytes)
{
    if (!cache) return;
    if (bytes) {
        ssize_t n = pwrite(cache->fd, bytes, cache->image_bytes, place_of(cache, sample));
        if (n == (ssize_t)cache->image_bytes)
            atomic_store_explicit(&cache->hashes[sample], hash_of(cache, bytes), memory_order_release);
    }
    atomic_store(&cache->claims[sample], 0);
}
