/* fetch_real.c: downloads by libcurl, checksums by libcrypto. The story is told in fetch.h.
 *
 * One file, one mirror, one attempt is `attempt`: open NAME.part, ask for what is missing of it, append. A connection
 * that breaks after some progress is tried again where it broke; one without progress, or a refusal by the server, goes
 * to the next mirror. The lock on the part keeps two downloads of the same file apart.
 */
#include "data/fetch.h"

#include "base/file.h"
#include "base/mem.h"
#include "data/catalog.h"
#include "data/stream.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    MAX_ATTEMPTS = 5,
    CONNECT_SECONDS = 20,
    SLOW_BYTES_PER_SECOND = 1000,
    SLOW_SECONDS = 30,
    MAX_UNPACKED = 1 << 28
};

/* Loaded when the first download begins: libcurl brings thirty libraries along, 5 of the 9 ms in which every other
 * command would start. */
static struct {
    CURL *(*init)(void);
    CURLcode (*setopt)(CURL *curl, CURLoption option, ...);
    CURLcode (*perform)(CURL *curl);
    CURLcode (*getinfo)(CURL *curl, CURLINFO info, ...);
    void (*cleanup)(CURL *curl);
    const char *(*strerror)(CURLcode code);
} curl_lib;

static enum ls_status load_curl(void)
{
    static const char *const files[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"curl_easy_init", &curl_lib.init},       {"curl_easy_setopt", &curl_lib.setopt},
                   {"curl_easy_perform", &curl_lib.perform}, {"curl_easy_getinfo", &curl_lib.getinfo},
                   {"curl_easy_cleanup", &curl_lib.cleanup}, {"curl_easy_strerror", &curl_lib.strerror}};
    void *library = NULL;
    if (curl_lib.init) return LS_OK;
    for (int i = 0; i < 3 && !library; i++) library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return ls_fail(LS_UNSUPPORTED,
                       "downloads need libcurl, which is not installed; on Debian: apt install libcurl4");
    for (int i = (int)(sizeof symbols / sizeof symbols[0]) - 1; i >= 0;
         i--) { /* init last: it says that all are there */
        void *found = dlsym(library, symbols[i].name);
        if (!found) return ls_fail(LS_UNSUPPORTED, "libcurl has no %s", symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found); /* the way POSIX has from an object's pointer to a function's */
    }
    return LS_OK;
}

/* One file on its way. */
struct job {
    const char *file;     /* name without folder */
    const char *md5;      /* of the whole file */
    int64_t expect_bytes; /* 0: not known */
    char part[LS_PATH_BYTES];
    int fd;
    CURL *curl;
    int64_t start, done; /* bytes in the part before this attempt, and now */
    bool has_started;    /* the first byte of the answer was seen */
    int write_error;     /* errno */
    bool is_too_long;
    ls_fetch_progress *progress;
    void *arg;
};

enum ls_status ls__file_md5(const char *path, char hex[33])
{
    struct ls_stream s;
    uint8_t *buffer = NULL, digest[EVP_MAX_MD_SIZE];
    unsigned n_digest = 0;
    size_t got = 1;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    enum ls_status status = ls__stream_open(&s, path);
    if (status == LS_OK) status = ls__calloc(&buffer, 1 << 20, 1);
    if (status == LS_OK && (!md || EVP_DigestInit_ex(md, EVP_md5(), NULL) != 1))
        status = ls_fail(LS_UNSUPPORTED, "libcrypto does not offer MD5 on this machine");
    while (status == LS_OK && got > 0) {
        status = ls__stream_read_some(&s, buffer, 1 << 20, &got);
        if (status == LS_OK) EVP_DigestUpdate(md, buffer, got);
    }
    if (status == LS_OK) EVP_DigestFinal_ex(md, digest, &n_digest);
    for (size_t i = 0; i < n_digest && i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    EVP_MD_CTX_free(md);
    free(buffer);
    ls__stream_close(&s);
    return status;
}

/* ---- one attempt ---- */

/* An answer of 200 to a request for the rest is the whole file: start again. */
static bool begin_answer(struct job *job)
{
    long code = 0;
    curl_lib.getinfo(job->curl, CURLINFO_RESPONSE_CODE, &code);
    job->has_started = true;
    if (job->start > 0 && code == 200) {
        if (ftruncate(job->fd, 0) != 0 || lseek(job->fd, 0, SEEK_SET) != 0) {
            job->write_error = errno;
            return false;
        }
        job->start = job->done = 0;
    }
    return true;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
    struct job *job = arg;
    size_t total = size * n, at = 0;
    if (!job->has_started && !begin_answer(job)) return 0;
    job->is_too_long = job->expect_bytes > 0 && job->done + (int64_t)total > job->expect_bytes;
    if (job->is_too_long) return 0;
    while (at < total) {
        ssize_t w = write(job->fd, bytes + at, total - at);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) {
            job->write_error = errno;
            return 0;
        }
        at += (size_t)w;
        job->done += w;
    }
    return total;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    struct job *job = arg;
    int64_t expected = job->expect_bytes ? job->expect_bytes : total > 0 ? job->start + total : 0;
    if (job->progress) job->progress(job->arg, job->file, job->done, expected);
    return 0;
}

/* https stays https, also through redirects; http may become https. */
static void allow_protocols(CURL *curl, const char *url)
{
    bool is_https = strncmp(url, "https://", 8) == 0;
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_lib.setopt(curl, CURLOPT_PROTOCOLS_STR, is_https ? "https" : "http,https");
    curl_lib.setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "http,https");
#else
    long allowed = is_https ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS;
    curl_lib.setopt(curl, CURLOPT_PROTOCOLS, allowed);
    curl_lib.setopt(curl, CURLOPT_REDIR_PROTOCOLS, allowed);
#endif
}

static bool is_local(const char *url)
{
    static const char *const hosts[] = {"http://127.0.0.1", "http://localhost"};
    if (strchr(url, '@')) return false; /* http://127.0.0.1@elsewhere/ */
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(hosts[i]);
        if (strncmp(url, hosts[i], n) == 0 && (url[n] == ':' || url[n] == '/' || url[n] == '\0')) return true;
    }
    return false;
}

static void set_options(struct job *job, const char *url, char *why)
{
    CURL *curl = job->curl;
    char range[40];
    curl_lib.setopt(curl, CURLOPT_URL, url);
    allow_protocols(curl, url);
    curl_lib.setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_lib.setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_lib.setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_lib.setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_lib.setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_lib.setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_PER_SECOND);
    curl_lib.setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SLOW_SECONDS);
    curl_lib.setopt(curl, CURLOPT_USERAGENT, "lockstep/" LOCKSTEP_VERSION);
    curl_lib.setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_lib.setopt(curl, CURLOPT_WRITEDATA, job);
    curl_lib.setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_lib.setopt(curl, CURLOPT_XFERINFODATA, job);
    curl_lib.setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_lib.setopt(curl, CURLOPT_ERRORBUFFER, why);
    if (is_local(url)) curl_lib.setopt(curl, CURLOPT_NOPROXY, "*");
    if (job->start > 0) {
        snprintf(range, sizeof range, "%lld-", (long long)job->start);
        curl_lib.setopt(curl, CURLOPT_RANGE, range); /* copied by curl */
    }
}

static enum ls_status outcome(const struct job *job, const char *url, CURLcode rc, const char *why)
{
    if (job->write_error)
        return ls_fail(LS_IO,
                       "write %s: %s (%lld of %lld bytes written); what is there is kept and continued next time",
                       job->part, strerror(job->write_error), (long long)job->done, (long long)job->expect_bytes);
    if (job->is_too_long)
        return ls_fail(LS_DATA, "%s sends more than the %lld bytes of the published file", url,
                       (long long)job->expect_bytes);
    if (rc != CURLE_OK)
        return ls_fail(LS_IO, "download %s: %s (%lld bytes are kept and continued next time)", url,
                       why[0] ? why : curl_lib.strerror(rc), (long long)job->done);
    return LS_OK;
}

/* *is_final: another attempt or mirror would not help. */
static enum ls_status attempt(struct job *job, const char *url, bool *is_final)
{
    char why[CURL_ERROR_SIZE] = "";
    job->start = job->done = lseek(job->fd, 0, SEEK_END);
    job->has_started = job->is_too_long = false;
    job->write_error = 0;
    if (job->expect_bytes && job->done == job->expect_bytes) return LS_OK;
    TRY(load_curl());
    job->curl = curl_lib.init();
    if (!job->curl) return ls_fail(LS_NOMEM, "out of memory for a download");
    set_options(job, url, why);
    CURLcode rc = curl_lib.perform(job->curl);
    long code = 0;
    curl_lib.getinfo(job->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_lib.cleanup(job->curl);
    job->curl = NULL;
    enum ls_status status = outcome(job, url, rc, why);
    *is_final = job->write_error != 0;
    bool is_useless =
        job->is_too_long || (job->start > 0 && code == 416); /* the part is not a beginning of this file */
    if (status != LS_OK && is_useless && ftruncate(job->fd, 0) != 0) *is_final = true;
    return status;
}

/* ---- one file ---- */

static enum ls_status download(struct job *job, const char *url)
{
    enum ls_status status = LS_OK;
    for (int i = 0; i < MAX_ATTEMPTS; i++) {
        bool is_final = false;
        status = attempt(job, url, &is_final);
        bool is_progress = job->done > job->start || (job->start > 0 && !job->has_started);
        if (status == LS_OK || is_final || !is_progress) break;
    }
    return status;
}

static enum ls_status check_room(const struct job *job, const char *folder)
{
    struct statvfs vfs;
    struct stat st;
    if (!job->expect_bytes || statvfs(folder, &vfs) != 0 || fstat(job->fd, &st) != 0) return LS_OK;
    int64_t needed = job->expect_bytes - st.st_size, room = (int64_t)(vfs.f_bavail * (uint64_t)vfs.f_frsize);
    if (needed <= room) return LS_OK;
    return ls_fail(LS_IO, "%s: no space left: %s needs %lld more bytes, %lld are free", folder, job->file,
                   (long long)needed, (long long)room);
}

/* A wrong file is emptied, so that nothing continues it. */
static enum ls_status verify(const struct job *job, const char *url)
{
    char md5[33];
    if (fsync(job->fd) != 0) return ls_fail(LS_IO, "fsync %s: %s", job->part, strerror(errno));
    TRY(ls__file_md5(job->part, md5));
    if (strcmp(md5, job->md5) == 0) return LS_OK;
    if (ftruncate(job->fd, 0) != 0) return ls_fail(LS_IO, "truncate %s: %s", job->part, strerror(errno));
    return ls_fail(LS_DATA, "%s: what was downloaded has MD5 %s, published is %s; it was removed", url, md5, job->md5);
}

/* Downloads and verifies; if the checksum is wrong and an old part was continued, once more from nothing. */
static enum ls_status from_mirror(struct job *job, const char *url)
{
    struct stat st = {0};
    bool was_continued = fstat(job->fd, &st) == 0 && st.st_size > 0;
    TRY(download(job, url));
    enum ls_status status = verify(job, url);
    if (status != LS_DATA || !was_continued) return status;
    TRY(download(job, url));
    return verify(job, url);
}

/* Mirrors in order until one gives the right file. */
static enum ls_status from_mirrors(struct job *job, const char *const *urls, int n_urls)
{
    enum ls_status status = ls_fail(LS_INTERNAL, "%s: no mirror", job->file);
    for (int i = 0; i < n_urls && urls[i]; i++) {
        char url[LS_PATH_BYTES];
        TRY(ls__path_join(url, sizeof url, urls[i], job->file));
        status = from_mirror(job, url);
        if (status == LS_OK || job->write_error) break;
    }
    struct stat st;
    if (status != LS_OK && fstat(job->fd, &st) == 0 && st.st_size == 0) unlink(job->part);
    return status;
}

static enum ls_status sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : fsync(fd), error = errno;
    if (fd >= 0) close(fd);
    return rc == 0 ? LS_OK : ls_fail(LS_IO, "fsync folder %s: %s", folder, strerror(error));
}

static enum ls_status fetch_into(struct job *job, const char *folder, const char *path, const char *const *urls,
                                 int n_urls)
{
    struct stat st;
    TRY(ls__mkdirs(folder));
    int n = snprintf(job->part, sizeof job->part, "%s.part", path);
    if (n < 0 || (size_t)n >= sizeof job->part) return ls_fail(LS_IO, "path too long: %s", path);
    job->fd = open(job->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (job->fd < 0) return ls_fail(LS_IO, "create %s: %s", job->part, strerror(errno));
    if (fstat(job->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return ls_fail(LS_IO, "%s is not a regular file; remove it", job->part);
    if (flock(job->fd, LOCK_EX | LOCK_NB) != 0)
        return ls_fail(LS_IO, "%s: another download of this file is running", job->part);
    TRY(check_room(job, folder));
    TRY(from_mirrors(job, urls, n_urls));
    if (rename(job->part, path) != 0) return ls_fail(LS_IO, "rename %s: %s", path, strerror(errno));
    return sync_folder(folder);
}

/* ---- one set ---- */

struct request {
    const struct ls_set *set;
    const char *const *urls;
    int n_urls;
    ls_fetch_progress *progress;
    void *arg;
};

/* One file as folder/name, unless it is there with the right checksum. */
static enum ls_status fetch_file(const struct request *r, const char *folder, const char *name, const char *md5,
                                 int64_t size_bytes)
{
    char path[LS_PATH_BYTES], there[33];
    TRY(ls__path_join(path, sizeof path, folder, name));
    if (ls__file_exists(path) && ls__file_md5(path, there) == LS_OK && strcmp(there, md5) == 0) return LS_OK;
    struct job *job;
    TRY(ls__calloc(&job, 1, sizeof *job));
    *job = (struct job){
        .file = name, .md5 = md5, .expect_bytes = size_bytes, .fd = -1, .progress = r->progress, .arg = r->arg};
    enum ls_status status = fetch_into(job, folder, path, r->urls, r->n_urls);
    if (job->fd >= 0) close(job->fd);
    free(job);
    return status;
}

/* The plain file beside the gzipped one, as torchvision has it: it opens ten times as fast. */
static enum ls_status gunzip_beside(const char *gz)
{
    char path[LS_PATH_BYTES];
    struct ls_stream s;
    uint8_t *data = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%.*s", (int)(strlen(gz) - 3), gz);
    enum ls_status status = ls__stream_open(&s, gz);
    if (status == LS_OK) status = ls__stream_inflate(&s, LS_GZIP, ls__stream_raw_left(&s));
    if (status == LS_OK) status = ls__alloc_aligned(&data, MAX_UNPACKED); /* touched only as far as filled */
    if (status == LS_OK) status = ls__stream_read_some(&s, data, MAX_UNPACKED, &len);
    if (status == LS_OK) status = ls__stream_expect_end(&s);
    if (status == LS_OK) status = ls__file_write_atomic(path, &(struct ls_piece){data, len}, 1, LS_IO);
    ls__free_aligned(data, MAX_UNPACKED);
    ls__stream_close(&s);
    return status;
}

static enum ls_status fetch_one(const struct request *r, const char *folder, const struct ls_set_file *file)
{
    char name[256], path[LS_PATH_BYTES], plain[LS_PATH_BYTES];
    snprintf(name, sizeof name, "%s%s", file->name, file->is_gzip ? ".gz" : "");
    TRY(fetch_file(r, folder, name, file->md5, file->size_bytes));
    if (!file->is_gzip) return LS_OK;
    TRY(ls__path_join(path, sizeof path, folder, name));
    TRY(ls__path_join(plain, sizeof plain, folder, file->name));
    return ls__file_exists(plain) ? LS_OK : gunzip_beside(path);
}

static bool has_all_files(const struct ls_set *set, const char *folder)
{
    for (int i = 0; i < set->n_files; i++) {
        char path[LS_PATH_BYTES];
        struct stat st;
        if (ls__path_join(path, sizeof path, folder, set->files[i].name) != LS_OK) return false;
        if (stat(path, &st) != 0 || st.st_size != set->files[i].size_bytes) return false;
    }
    return true;
}

static enum ls_status fetch_archive(const struct request *r, const char *root, const char *folder)
{
    const struct ls_set_archive *archive = &r->set->archive;
    char path[LS_PATH_BYTES];
    if (has_all_files(r->set, folder)) return LS_OK;
    TRY(fetch_file(r, root, archive->name, archive->md5, archive->size_bytes));
    TRY(ls__path_join(path, sizeof path, root, archive->name));
    TRY(ls__untar_gz(path, archive->folder, folder));
    TRY(sync_folder(folder));
    if (!has_all_files(r->set, folder))
        return ls_fail(LS_DATA, "%s: unpacked, but not all files of %s are in %s", path, r->set->name, folder);
    unlink(path);
    return LS_OK;
}

static enum ls_status check_url(const char *url)
{
    if (strncmp(url, "https://", 8) == 0 || is_local(url)) return LS_OK;
    return ls_fail(LS_USAGE, "download address '%s': expected https:// (or http:// on 127.0.0.1 or localhost)", url);
}

enum ls_status ls_data_fetch(const char *name, const char *data_dir, const char *base_url, ls_fetch_progress *progress,
                             void *arg)
{
    char root[LS_PATH_BYTES], folder[LS_PATH_BYTES];
    bool with_extra;
    struct request r = {.set = ls__catalog_from_spec(name, &with_extra), .progress = progress, .arg = arg};
    if (!r.set)
        return ls_fail(LS_USAGE, "'%s' is not a set that can be downloaded; `lockstep data list` names them", name);
    if (base_url) TRY(check_url(base_url));
    r.urls = base_url ? &base_url : r.set->urls;
    r.n_urls = base_url ? 1 : LS_SET_MAX_URLS;
    if (data_dir)
        TRY(ls__path_join(root, sizeof root, data_dir, ""));
    else
        TRY(ls__data_cache_dir(root, sizeof root));
    TRY(ls__path_join(folder, sizeof folder, root, r.set->subfolders[0]));
    if (r.set->archive.name) return fetch_archive(&r, root, folder);
    for (int i = 0; i < r.set->n_files; i++) {
        if (r.set->files[i].is_extra && !with_extra) continue;
        TRY(fetch_one(&r, folder, &r.set->files[i]));
    }
    return LS_OK;
}
