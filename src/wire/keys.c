/* keys.c: key files; see keys.h. */
#include "wire/keys.h"

#include "base/file.h"
#include "base/parse.h"
#include "wire/wire_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 16 << 10 };

static const char first_line[] = "# Lockstep key file 1. Keep it secret; copy it only over ssh.";

void ls_wire_key_forget(struct ls_wire_key *key)
{
    explicit_bzero(key, sizeof *key);
}

enum ls_status ls_wire_keys_make(struct ls_wire_key *server, struct ls_wire_key *worker)
{
    *server = (struct ls_wire_key){0};
    TRY(ls__wire_keypair(server->public_key, server->secret_key));
    const struct ls_wire_key *who = server;
    if (worker) {
        *worker = (struct ls_wire_key){0};
        TRY(ls__wire_keypair(worker->public_key, worker->secret_key));
        memcpy(worker->server_key, server->public_key, sizeof worker->server_key);
        who = worker;
    } else {
        memcpy(server->server_key, server->public_key, sizeof server->server_key);
    }
    memcpy(server->allowed[0], who->public_key, sizeof server->allowed[0]);
    server->n_allowed = 1;
    return LS_OK;
}

/* --- writing --- */

size_t ls_wire_key_print(const struct ls_wire_key *key, char out[LS_WIRE_KEY_TEXT])
{
    size_t at = (size_t)snprintf(out, LS_WIRE_KEY_TEXT, "%s\npublic: %s\nsecret: %s\n", first_line, key->public_key,
                                 key->secret_key);
    if (key->server_key[0]) at += (size_t)snprintf(out + at, LS_WIRE_KEY_TEXT - at, "server: %s\n", key->server_key);
    for (int i = 0; i < key->n_allowed; i++)
        at += (size_t)snprintf(out + at, LS_WIRE_KEY_TEXT - at, "allow: %s\n", key->allowed[i]);
    return at;
}

static bool write_text(int fd, const struct ls_wire_key *key)
{
    char text[LS_WIRE_KEY_TEXT];
    const size_t n = ls_wire_key_print(key, text);
    const bool is_written = write(fd, text, n) == (ssize_t)n && fsync(fd) == 0;
    const int error = errno;
    explicit_bzero(text, sizeof text);
    errno = error;
    return is_written;
}

enum ls_status ls_wire_key_write(const struct ls_wire_key *key, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return ls_fail(LS_IO, "%s is there already; keys are not replaced: remove it first, or choose another folder",
                       path);
    if (fd < 0) return ls_fail(LS_IO, "create %s: %s", path, strerror(errno));
    bool is_written = write_text(fd, key);
    int error = errno;
    close(fd);
    if (is_written) return LS_OK;
    unlink(path);
    return ls_fail(LS_IO, "write %s: %s", path, strerror(error));
}

enum ls_status ls_wire_keygen(const char *dir)
{
    static const char *const names[] = {"server.key", "worker.key", "node.key"};
    struct ls_wire_key keys[3];
    char paths[3][LS_PATH_BYTES];
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) return ls_fail(LS_IO, "make folder %s: %s", dir, strerror(errno));
    for (int i = 0; i < 3; i++) {
        struct stat st;
        TRY(ls__path_join(paths[i], sizeof paths[i], dir, names[i]));
        if (lstat(paths[i], &st) == 0)
            return ls_fail(LS_IO, "%s is there already; keys are not replaced: remove it, or choose another folder",
                           paths[i]);
    }
    TRY(ls_wire_keys_make(&keys[0], &keys[1]));
    TRY(ls_wire_keys_make(&keys[2], NULL));
    enum ls_status status = LS_OK;
    for (int i = 0; i < 3 && status == LS_OK; i++) status = ls_wire_key_write(&keys[i], paths[i]);
    for (int i = 0; i < 3; i++) ls_wire_key_forget(&keys[i]);
    return status;
}

/* --- reading --- */

/* Z85's alphabet, and as long as a key is. */
static bool is_key(const char *text, size_t n)
{
    static const char alphabet[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    return n == LS_WIRE_KEY_CHARS && strspn(text, alphabet) >= n;
}

/* One line of n characters without its end; false if it is none that is known. */
static bool take_line(struct ls_wire_key *key, const char *line, size_t n)
{
    const struct {
        const char *name;
        char *to;
    } fields[] = {{"public: ", key->public_key}, {"secret: ", key->secret_key}, {"server: ", key->server_key}};
    if (n == 0 || *line == '#') return true;
    for (int i = 0; i < 3; i++) {
        size_t skip = strlen(fields[i].name);
        if (n < skip || strncmp(line, fields[i].name, skip) != 0) continue;
        if (fields[i].to[0] || !is_key(line + skip, n - skip)) return false;
        memcpy(fields[i].to, line + skip, n - skip);
        return true;
    }
    if (n < 7 || strncmp(line, "allow: ", 7) != 0 || !is_key(line + 7, n - 7)) return false;
    if (key->n_allowed == LS_WIRE_MAX_ALLOWED) return false;
    memcpy(key->allowed[key->n_allowed++], line + 7, n - 7);
    return true;
}

static enum ls_status parse(struct ls_wire_key *key, const char *path, const char *text, size_t len)
{
    int number = 0;
    if (memchr(text, 0, len)) return ls_fail(LS_USAGE, "%s is not a key file", path);
    for (const char *at = text; *at; at += *at == '\n') {
        size_t n = strcspn(at, "\n");
        number++;
        if (!take_line(key, at, n))
            return ls_fail(LS_USAGE,
                           "%s line %d: not a line of a key file; make keys with `lockstep server --keygen DIR`", path,
                           number);
        at += n;
    }
    if (key->public_key[0] && key->secret_key[0]) return LS_OK;
    return ls_fail(LS_USAGE,
                   "%s: a key file has a public and a secret key; make keys with `lockstep server --keygen DIR`", path);
}

static enum ls_status check_mode(int fd, const char *path)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return ls_fail(LS_IO, "stat %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return ls_fail(LS_USAGE, "%s is not a regular file; a key must be one", path);
    if (st.st_mode & 077)
        return ls_fail(LS_USAGE,
                       "%s has mode %04o: others may read the key; `chmod 600 %s`, or make new ones if they did", path,
                       (unsigned)(st.st_mode & 07777), path);
    if (st.st_uid != geteuid() && geteuid() != 0)
        return ls_fail(LS_USAGE, "%s belongs to another user; a key must be your own", path);
    return LS_OK;
}

/* "fd:0": a file that is open already, from a parent who holds its other end. Read byte by byte: it stays open, and
 * what comes after the key is somebody else's. */
static enum ls_status read_open(struct ls_wire_key *key, const char *name, int fd)
{
    char text[LS_WIRE_KEY_TEXT + 2] = "";
    size_t n = 0;
    ssize_t got = 0;
    bool is_whole = false;
    while (!is_whole && n + 1 < sizeof text) {
        got = read(fd, text + n, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n++;
        is_whole = n > 1 && text[n - 1] == '\n' && text[n - 2] == '\n';
    }
    enum ls_status status = got < 0                ? ls_fail(LS_IO, "read the key from %s: %s", name, strerror(errno))
                            : n + 1 == sizeof text ? ls_fail(LS_USAGE, "%s is not a key file", name)
                                                   : parse(key, name, text, n);
    explicit_bzero(text, sizeof text);
    if (status != LS_OK) ls_wire_key_forget(key);
    return status;
}

enum ls_status ls_wire_key_read(struct ls_wire_key *key, const char *path)
{
    char *text = NULL;
    size_t len = 0;
    int64_t number;
    *key = (struct ls_wire_key){0};
    if (strncmp(path, "fd:", 3) == 0 && ls__parse_i64(path + 3, 0, 1 << 20, &number))
        return read_open(key, path, (int)number);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP) return ls_fail(LS_USAGE, "%s is a link; give the key file itself", path);
    if (fd < 0) return ls_fail(LS_USAGE, "open key file %s: %s", path, strerror(errno));
    enum ls_status status = check_mode(fd, path);
    if (status != LS_OK) {
        close(fd);
        return status;
    }
    TRY(ls__file_read_fd(fd, path, MAX_FILE_BYTES, &text, &len));
    status = parse(key, path, text, len);
    explicit_bzero(text, len);
    free(text);
    if (status != LS_OK) ls_wire_key_forget(key);
    return status;
}
