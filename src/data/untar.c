/* untar.c: the regular files of one folder out of a .tar.gz, and nothing else.
 *
 * In: an archive of 512-byte blocks: a header (name, octal size, type, checksum, "ustar", prefix), then the file's
 * bytes padded to a block; zero blocks end it. Out: FOLDER/NAME as INTO/NAME, each written beside and renamed when
 * whole.
 *
 * Refused before anything is written for it: absolute names, "..", links, devices, sizes beyond MAX_FILE_BYTES, a wrong
 * header checksum. Folders, pax headers and files elsewhere in the archive are passed over.
 */
#include "base/file.h"
#include "base/mem.h"
#include "data/fetch.h"
#include "data/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 512, COPY_BYTES = 64 * 1024, MAX_FILE_BYTES = 1 << 30, MAX_TAIL_BYTES = 1 << 20, MAX_ENTRIES = 10000 };

struct entry {
    char name[260]; /* prefix and name joined, without a leading "./" */
    char type;
    uint64_t size;
};

static bool is_zero_block(const uint8_t *block)
{
    for (int i = 0; i < BLOCK; i++)
        if (block[i]) return false;
    return true;
}

/* A field of octal digits, ended by a blank or zero. */
static bool parse_octal(const uint8_t *field, int len, uint64_t *out)
{
    int i = 0, n_digits = 0;
    *out = 0;
    while (i < len && field[i] == ' ') i++;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++, n_digits++) *out = *out * 8 + (uint64_t)(field[i] - '0');
    return n_digits > 0 && (i == len || field[i] == ' ' || field[i] == '\0');
}

static bool is_checksum_right(const uint8_t *block)
{
    uint64_t declared, sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : block[i];
    return parse_octal(block + 148, 8, &declared) && declared == sum;
}

static bool is_safe_name(const char *name)
{
    if (name[0] == '/' || name[0] == '\0') return false;
    for (const char *part = name; part; part = strchr(part, '/')) {
        if (*part == '/') part++;
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == '\0')) return false;
    }
    return true;
}

static enum ls_status parse_header(const struct ls_stream *s, const uint8_t *block, struct entry *entry)
{
    char name[101], prefix[156];
    snprintf(name, sizeof name, "%.100s", (const char *)block);
    snprintf(prefix, sizeof prefix, "%.155s", (const char *)block + 345);
    if (!is_checksum_right(block) || memcmp(block + 257, "ustar", 5) != 0)
        return ls_fail(LS_DATA, "%s: no tar header at decompressed byte %llu", s->name,
                       (unsigned long long)(s->produced - BLOCK));
    bool has_prefix = prefix[0] && block[262] == '\0'; /* GNU's own kind keeps other things there */
    snprintf(entry->name, sizeof entry->name, "%s%s%s", has_prefix ? prefix : "", has_prefix ? "/" : "", name);
    if (strncmp(entry->name, "./", 2) == 0) memmove(entry->name, entry->name + 2, strlen(entry->name + 2) + 1);
    entry->type = (char)block[156];
    if (!parse_octal(block + 124, 12, &entry->size) || entry->size > MAX_FILE_BYTES)
        return ls_fail(LS_DATA, "%s: '%s' has a bad or too large size", s->name, entry->name);
    bool is_plain = entry->type == '0' || entry->type == '\0';
    bool is_known = is_plain || entry->type == '5' || entry->type == 'x' || entry->type == 'g';
    if (!is_known) return ls_fail(LS_DATA, "%s: '%s' is a link or device; refused", s->name, entry->name);
    if (entry->name[0] && !is_safe_name(entry->name))
        return ls_fail(LS_DATA, "%s: '%s' would be written outside the folder; refused", s->name, entry->name);
    return LS_OK;
}

/* The entry's bytes to fd, or nowhere if fd is -1; with the padding. */
static enum ls_status copy_body(struct ls_stream *s, const struct entry *entry, uint8_t *buffer, int fd,
                                const char *path)
{
    uint64_t left = (entry->size + BLOCK - 1) / BLOCK * BLOCK, useful = entry->size;
    while (left > 0) {
        size_t n = left < COPY_BYTES ? (size_t)left : COPY_BYTES;
        TRY(ls__stream_read(s, buffer, n, entry->name));
        size_t n_useful = useful < n ? (size_t)useful : n;
        for (size_t done = 0; fd >= 0 && done < n_useful;) {
            ssize_t w = write(fd, buffer + done, n_useful - done);
            if (w < 0 && errno == EINTR) continue;
            if (w < 0) return ls_fail(LS_IO, "write %s: %s", path, strerror(errno));
            done += (size_t)w;
        }
        left -= n;
        useful -= n_useful;
    }
    return LS_OK;
}

static enum ls_status unpack(struct ls_stream *s, const struct entry *entry, uint8_t *buffer, const char *path)
{
    char temp[LS_PATH_BYTES];
    int n = snprintf(temp, sizeof temp, "%s.part", path);
    if (n < 0 || (size_t)n >= sizeof temp) return ls_fail(LS_IO, "path too long: %s", path);
    if (unlink(temp) != 0 && errno != ENOENT) return ls_fail(LS_IO, "remove %s: %s", temp, strerror(errno));
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); /* EXCL: never through a link or into a fifo */
    if (fd < 0) return ls_fail(LS_IO, "create %s: %s", temp, strerror(errno));
    enum ls_status status = copy_body(s, entry, buffer, fd, temp);
    if (status == LS_OK && fsync(fd) != 0) status = ls_fail(LS_IO, "fsync %s: %s", temp, strerror(errno));
    if (close(fd) != 0 && status == LS_OK) status = ls_fail(LS_IO, "close %s: %s", temp, strerror(errno));
    if (status == LS_OK && rename(temp, path) != 0) status = ls_fail(LS_IO, "rename %s: %s", path, strerror(errno));
    if (status != LS_OK) unlink(temp);
    return status;
}

/* NAME if the entry is a regular file FOLDER/NAME, else NULL. */
static const char *wanted_name(const struct entry *entry, const char *folder)
{
    size_t n = strlen(folder);
    if (entry->type != '0' && entry->type != '\0') return NULL;
    if (strncmp(entry->name, folder, n) != 0 || entry->name[n] != '/') return NULL;
    const char *name = entry->name + n + 1;
    return *name && *name != '.' && !strchr(name, '/') ? name : NULL;
}

/* What follows the last entry: zeros, not without end. Reading it to the end checks the gzip checksum. */
static enum ls_status read_tail(struct ls_stream *s, uint8_t *buffer)
{
    size_t got = 1, total = 0;
    while (got > 0 && total <= MAX_TAIL_BYTES) {
        TRY(ls__stream_read_some(s, buffer, COPY_BYTES, &got));
        total += got;
    }
    return total <= MAX_TAIL_BYTES ? LS_OK : ls_fail(LS_DATA, "%s: too much behind the end of the archive", s->name);
}

static enum ls_status untar(struct ls_stream *s, const char *folder, const char *into, uint8_t *buffer)
{
    char path[LS_PATH_BYTES];
    struct entry entry;
    TRY(ls__stream_inflate(s, LS_GZIP, ls__stream_raw_left(s)));
    for (int i = 0; i < MAX_ENTRIES; i++) {
        TRY(ls__stream_read(s, buffer, BLOCK, "a tar header"));
        if (is_zero_block(buffer)) return read_tail(s, buffer);
        TRY(parse_header(s, buffer, &entry));
        const char *name = wanted_name(&entry, folder);
        if (!name) {
            TRY(copy_body(s, &entry, buffer, -1, ""));
            continue;
        }
        TRY(ls__path_join(path, sizeof path, into, name));
        TRY(unpack(s, &entry, buffer, path));
    }
    return ls_fail(LS_DATA, "%s: has more than %d entries", s->name, MAX_ENTRIES);
}

enum ls_status ls__untar_gz(const char *archive, const char *folder, const char *into)
{
    struct ls_stream s;
    uint8_t *buffer = NULL;
    enum ls_status status = ls__stream_open(&s, archive);
    if (status == LS_OK) status = ls__calloc(&buffer, COPY_BYTES, 1);
    if (status == LS_OK) status = ls__mkdirs(into);
    if (status == LS_OK) status = untar(&s, folder, into, buffer);
    free(buffer);
    ls__stream_close(&s);
    return status;
}
