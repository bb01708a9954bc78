/* catalog.h: the data sets Lockstep knows by name: their files, where they come from, what they must be, and where they
 * lie.
 *
 * The table is const data; adding a set of a known format is one entry in catalog.c. Used by data.c (to open), by
 * fetch_real.c (to download) and by the commands `lockstep data list|check`.
 */
#ifndef LS_DATA_CATALOG_H
#define LS_DATA_CATALOG_H

#include "base/buf.h"
#include "base/file.h"
#include "data/format.h"

enum { LS_SET_MAX_FILES = 6, LS_SET_MAX_URLS = 3, LS_SET_MAX_SUBFOLDERS = 4 };

/* One file the set is read from. */
struct ls_set_file {
    const char *name; /* as torchvision stores it, without .gz */
    enum ls_split split;
    int64_t n;          /* samples in the published file */
    const char *md5;    /* of the published file (with .gz where is_gzip); NULL: only the archive's is published */
    int64_t size_bytes; /* of the published file; 0: not known */
    bool is_gzip;       /* published as name.gz; both are read */
    bool is_extra;      /* only in SET+extra */
    bool is_labels;     /* of the images of another file */
};

/* One file to download that is not itself in `files`: a tar archive that holds them. */
struct ls_set_archive {
    const char *name, *md5, *folder; /* folder: the only top folder in it that is unpacked */
    int64_t size_bytes;
};

typedef enum ls_status ls_set_reader(struct ls_dataset *ds, const struct ls_set *set, const char *const *paths,
                                     int n_paths);

struct ls_set {
    const char *name, *title, *licence;
    int c, h, w, n_classes;
    const char *class_names; /* one per line */
    float mean[3], std[3];
    ls_set_reader *read;
    struct ls_set_file files[LS_SET_MAX_FILES];
    int n_files;
    struct ls_set_archive archive;     /* name NULL: the files are downloaded one by one */
    const char *urls[LS_SET_MAX_URLS]; /* mirrors in order, each ends in '/' */
    const char
        *subfolders[LS_SET_MAX_SUBFOLDERS]; /* looked into below each data folder; the first is where fetch writes */
    const char
        *content[2]; /* XXH3-128 of each split's published pixels and labels (ls_dataset.checksum); NULL: not known */
};

const struct ls_set *ls__catalog_find(const char *name); /* NULL: no such set */
const struct ls_set *ls__catalog_at(int i);              /* NULL: past the end */

/* Images of a split, as the set is published. */
int64_t ls__set_images(const struct ls_set *set, enum ls_split split, bool with_extra);

/* What each file of the set must be. Four times the published number of samples is still taken: people put larger or
 * smaller sets into the same files. */
struct ls_expect ls__set_expect(const struct ls_set *set);

/* "svhn+extra" -> svhn and true. NULL if the spec is not one of the catalogue's. */
const struct ls_set *ls__catalog_from_spec(const char *spec, bool *with_extra);

/* Channels of the images of any spec (catalogue, built in, folder), by its text alone; 0: no such data. */
int ls__data_channels(const char *spec);

/* The folders that are searched, in order: data_dir (may be NULL), $LOCKSTEP_DATA, the cache folder, the system's. */
struct ls_roots {
    char path[6][LS_PATH_BYTES];
    int n;
};
void ls__data_roots(struct ls_roots *roots, const char *data_dir);

/* A cache folder: $XDG_CACHE_HOME/lockstep/WHAT, or ~/.cache/lockstep/WHAT; and the one of data sets. */
enum ls_status ls__cache_dir(char *out, size_t size, const char *what) LS_MUST_CHECK;
enum ls_status ls__data_cache_dir(char *out, size_t size) LS_MUST_CHECK;

/* Where the files of one split are. */
struct ls_found {
    char path[LS_SET_MAX_FILES][LS_PATH_BYTES];
    int file[LS_SET_MAX_FILES]; /* index into set->files */
    int n;
};
/* LS_DATA with the searched folders, or the missing file, and the command that gets the set. */
enum ls_status ls__catalog_locate(struct ls_found *found, const struct ls_set *set, enum ls_split split,
                                  bool with_extra, const char *data_dir) LS_MUST_CHECK;

bool ls__catalog_has_extra(const struct ls_set *set); /* whether SET+extra is one too */

/* `lockstep data list`: every kind of data that can be named, whether it is here, and where or how to get it. */
struct ls_data_row {
    char name[32];
    const char *title, *terms;
    bool is_here;
    char where[LS_PATH_BYTES];
};
enum ls_status ls_data_list(const char *data_dir, struct ls_data_row **rows,
                            int *n_rows) LS_MUST_CHECK; /* free() them */

/* `lockstep data check SPEC`: every file's path, size and checksum against the published one, then both splits opened
 * and described (n, shape, classes, label histogram, measured mean and deviation). The report is filled as far as it
 * went even on failure; the status is that of the first file or split that is bad. */
enum ls_status ls_data_check(const char *spec, const struct ls_data_options *options,
                             struct ls_buf *report) LS_MUST_CHECK;

#endif
