/* contents.h: what is in the files of a folder: a hash for each, by several threads, remembered between runs. Internal
 * to src/data.
 *
 * Two machines that hold other pixels under the same names must be told apart before the first step, so every byte
 * counts. Reading them all costs what the disk costs (XXH3 itself does many GB/s per thread); a file that was read once
 * is known again by its name, size, times of change (mtime and ctime, in ns) and inode, and is then only looked at by
 * stat(). The reader of a sample compares what it reads with the hash found here (ls__contents_check), so that a file
 * that changes later, or a memory that lies, is an error and never other weights.
 *
 * The memory is one file for each folder and split, $XDG_CACHE_HOME/lockstep/checksums/HASH: whole or absent, with a
 * checksum of its own; one that is missing, damaged or cannot be written costs time and nothing else. Runs that start
 * together each write the whole file and rename it: the last one stays.
 */
#ifndef LS_DATA_CONTENTS_H
#define LS_DATA_CONTENTS_H

#include "base/file.h"
#include "data/data.h"

struct ls_digest {
    uint64_t low, high; /* XXH3-128 */
};

struct ls_contents {
    const char *base;                 /* the folder */
    const char *text;                 /* names below it, each ended by '\0' */
    const size_t *offset;             /* [n] into text */
    size_t n;                         /* files */
    enum ls_split split;              /* a folder may be shared by two splits */
    int64_t max_bytes;                /* of a file */
    const struct ls_control *control; /* (optional) asked now and then */
    struct ls_digest *digest;         /* [n] out */
    char memory[LS_PATH_BYTES];       /* out: the file that remembers; "": none */
};

/* Fills digest and memory. A file that cannot be read, is too large, or is none, is LS_DATA and named. */
enum ls_status ls__contents_hash(struct ls_contents *c) LS_MUST_CHECK;

/* Whether bytes just read are the ones that were hashed. If not the memory is removed, for it may be wrong. */
enum ls_status ls__contents_check(const struct ls_digest *digest, const char *memory, const char *path,
                                  const void *data, size_t len) LS_MUST_CHECK;

#endif
