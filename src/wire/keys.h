/* keys.h: key files: who a process is, whom it trusts, and who may connect to it.
 *
 * A text file that only its owner may read (mode 0600 or less, a regular file, not a link; refused otherwise):
 *
 *     # Lockstep key file 1. Keep it secret; copy it only over ssh.
 *     public: <40 characters, Z85>
 *     secret: <40 characters, Z85>
 *     server: <40>    the public key of the listening end, for those who connect
 *     allow: <40>     may connect, for one that listens; any number of these lines
 *
 * `lockstep server --keygen DIR` makes three: server.key (listens, allows worker.key), worker.key (connects to it),
 * and node.key, the same on every node of a job by --nodes, which does both.
 *
 * A parent hands a key to its child without a file: the name fd:N means the open file N, up to an empty line or its
 * end.
 */
#ifndef LS_WIRE_KEYS_H
#define LS_WIRE_KEYS_H

#include "base/status.h"

#include <stddef.h>

enum { LS_WIRE_KEY_CHARS = 40, LS_WIRE_MAX_ALLOWED = 64, LS_WIRE_KEY_TEXT = 4096 };

struct ls_wire_key {
    char public_key[LS_WIRE_KEY_CHARS + 1]; /* Z85 */
    char secret_key[LS_WIRE_KEY_CHARS + 1];
    char server_key[LS_WIRE_KEY_CHARS + 1]; /* "": cannot connect */
    char allowed[LS_WIRE_MAX_ALLOWED][LS_WIRE_KEY_CHARS + 1];
    int n_allowed; /* 0: cannot listen */
};

/* Keys for a server and its workers, or (worker NULL) one for nodes that are both. LS_UNSUPPORTED without ZeroMQ. */
enum ls_status ls_wire_keys_make(struct ls_wire_key *server, struct ls_wire_key *worker) LS_MUST_CHECK;
/* A new file, mode 0600; LS_IO if something is there. */
enum ls_status ls_wire_key_write(const struct ls_wire_key *key, const char *path) LS_MUST_CHECK;
/* The text of a key file; returns its length. It is secret: overwrite it after use. */
size_t ls_wire_key_print(const struct ls_wire_key *key, char out[LS_WIRE_KEY_TEXT]);
/* LS_USAGE when others may read it or it is no key file. */
enum ls_status ls_wire_key_read(struct ls_wire_key *key, const char *path) LS_MUST_CHECK;
/* server.key, worker.key and node.key in dir, which is made (mode 0700). Nothing is replaced. */
enum ls_status ls_wire_keygen(const char *dir) LS_MUST_CHECK;
void ls_wire_key_forget(struct ls_wire_key *key); /* overwrites the secret */

#endif
