/* folder.c: `folder:PATH`, one sub-folder per class, PNG or JPEG files in it; decoded when read.
 *
 * In:   PATH/train/CLASS/FILE and PATH/test/CLASS/FILE (else PATH/val); or PATH/CLASS/FILE, and then every tenth file
 * in sorted order is the test split. Names are sorted by their bytes, so the order is the same everywhere. Names that
 * start with a dot, and files with other endings, are passed over. Nothing else is: a dangling link, or a name that
 * ends like a picture and is no file, is an error, for a set that is silently smaller trains another model.
 * Out:  n labelled files. The classes are those of the training split; the test split may not have others. The checksum
 * covers names, labels and every byte of the files (contents.h).
 *
 * State: all names in one block of text, and one offset and one digest per sample: 10^6 files cost some 60 MB, not 10^6
 * allocations.
 */
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "data/contents.h"
#include "data/decoded.h"
#include "data/format.h"
#include "data/formats/parsers.h"
#include "data/pictures.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { DEFAULT_SIDE = 224, MAX_CLASSES = 65536, MAX_RESIZE = 4096, FILE_MAX_BYTES = 256 << 20, TEST_EVERY = 10 };

struct folder {
    char base[LS_PATH_BYTES];
    struct ls_buf text; /* "class/file\0" for each sample */
    size_t *offset;     /* [n] into text */
    uint16_t *label;    /* [n] */
    size_t n, cap;
    struct ls_digest *digest;         /* [n] of the files */
    struct ls_decoded_cache *decoded; /* NULL: none */
    char memory[LS_PATH_BYTES];
};

/* What an entry of a folder is, links followed: S_IFREG, S_IFDIR, another kind. */
static enum ls_status kind_of(const char *path, const struct dirent *entry, mode_t *kind)
{
    char full[LS_PATH_BYTES];
    struct stat st;
    *kind = DTTOIF(entry->d_type);
    if (*kind == S_IFREG || *kind == S_IFDIR) return LS_OK; /* saves a call for each of a million files */
    TRY(ls__path_join(full, sizeof full, path, entry->d_name));
    if (stat(full, &st) != 0)
        return ls_fail(LS_DATA, "%s: %s; mend or remove it", full,
                       errno == ENOENT ? "a link that leads nowhere" : strerror(errno));
    *kind = st.st_mode & S_IFMT;
    return LS_OK;
}

/* Adds the entry if it is a sub-folder (or an image file). Other files beside classes and images are passed over. */
static enum ls_status list_entry(const char *path, const struct dirent *entry, bool want_folders,
                                 struct ls_names *names)
{
    mode_t kind;
    if (entry->d_name[0] == '.' || (!want_folders && !ls__picture_is_named(entry->d_name))) return LS_OK;
    TRY(kind_of(path, entry, &kind));
    if (kind == (want_folders ? S_IFDIR : S_IFREG)) return ls__names_add(names, entry->d_name);
    if (want_folders) return LS_OK;
    return ls_fail(LS_DATA, "%s/%s: named like a picture, but it is %s; rename or remove it", path, entry->d_name,
                   kind == S_IFDIR ? "a folder" : "not a regular file");
}

/* Sub-folders (or image files) of a folder, sorted. */
static enum ls_status list(const char *path, bool want_folders, struct ls_names *names)
{
    DIR *dir = opendir(path);
    enum ls_status status = LS_OK;
    struct dirent *entry;
    if (!dir) return ls_fail(LS_DATA, "open folder %s: %s", path, strerror(errno));
    while (status == LS_OK && (errno = 0, entry = readdir(dir))) status = list_entry(path, entry, want_folders, names);
    if (status == LS_OK && errno) status = ls_fail(LS_DATA, "read folder %s: %s", path, strerror(errno));
    closedir(dir);
    ls__names_sort(names, 0);
    return status;
}

static enum ls_status add_sample(struct folder *f, const char *class, const char *file, int label)
{
    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 1024;
        TRY(ls__grow(&f->offset, f->cap, cap, sizeof *f->offset));
        TRY(ls__grow(&f->label, f->cap, cap, sizeof *f->label));
        f->cap = cap;
    }
    f->offset[f->n] = f->text.len;
    f->label[f->n++] = (uint16_t)label;
    ls__buf_addf(&f->text, "%s/%s", class, file);
    ls__buf_add(&f->text, "", 1);
    return ls__buf_check(&f->text);
}

/* How the split is taken from the files of f->base: all of them, or by position. */
enum take { TAKE_ALL, TAKE_TEST, TAKE_REST };

static enum ls_status add_class(struct folder *f, const char *class, int label, enum take take, size_t *position)
{
    char path[LS_PATH_BYTES];
    struct ls_names files = {0};
    TRY(ls__path_join(path, sizeof path, f->base, class));
    enum ls_status status = list(path, false, &files);
    if (status == LS_OK && files.n == 0)
        status = ls_fail(LS_DATA, "%s: no .png, .jpg or .jpeg files in this class's folder", path);
    for (size_t i = 0; status == LS_OK && i < files.n; i++) {
        bool is_test = (*position)++ % TEST_EVERY == TEST_EVERY - 1;
        if (take == TAKE_ALL || (take == TAKE_TEST) == is_test) status = add_sample(f, class, files.at[i], label);
    }
    ls__names_release(&files);
    return status;
}

/* Names of another data set's classes need not be sorted; such sets have few. */
static int class_of(const struct ls_names *classes, const char *name)
{
    char **hit = bsearch(&name, classes->at, classes->n, sizeof *classes->at, ls__names_compare);
    if (hit) return (int)(hit - classes->at);
    for (size_t i = 0; i < classes->n; i++)
        if (strcmp(classes->at[i], name) == 0) return (int)i;
    return -1;
}

static enum ls_status add_classes(struct folder *f, const struct ls_names *classes, enum take take)
{
    struct ls_names here = {0};
    size_t position = 0;
    enum ls_status status = list(f->base, true, &here);
    for (size_t i = 0; status == LS_OK && i < here.n; i++) {
        int label = class_of(classes, here.at[i]);
        if (label < 0)
            status = ls_fail(LS_DATA, "%s/%s: this class has no folder in the training split", f->base, here.at[i]);
        else
            status = add_class(f, here.at[i], label, take, &position);
    }
    ls__names_release(&here);
    return status;
}

/* f->base for this split, and the folder that names the classes. */
static enum ls_status choose_layout(struct folder *f, const char *path, enum ls_split split, char *train,
                                    enum take *take)
{
    if (!ls__dir_exists(path)) return ls_fail(LS_DATA, "folder:%s: there is no such folder", path);
    TRY(ls__path_join(train, LS_PATH_BYTES, path, "train"));
    if (!ls__dir_exists(train)) {
        TRY(ls__path_join(train, LS_PATH_BYTES, path, ""));
        snprintf(f->base, sizeof f->base, "%s", train);
        *take = split == LS_TEST ? TAKE_TEST : TAKE_REST;
        return LS_OK;
    }
    *take = TAKE_ALL;
    TRY(ls__path_join(f->base, sizeof f->base, path, split == LS_TRAIN ? "train" : "test"));
    if (split == LS_TEST && !ls__dir_exists(f->base)) TRY(ls__path_join(f->base, sizeof f->base, path, "val"));
    if (!ls__dir_exists(f->base)) return ls_fail(LS_DATA, "folder:%s: has train/ but neither val/ nor test/", path);
    return LS_OK;
}

static enum ls_status scan(struct ls_dataset *ds, struct folder *f, const char *path, struct ls_names *classes)
{
    char train[LS_PATH_BYTES];
    enum take take;
    TRY(choose_layout(f, path, ds->split, train, &take));
    TRY(list(train, true, classes));
    if (classes->n < 1 || classes->n > MAX_CLASSES)
        return ls_fail(LS_DATA, "%s: has %zu sub-folders, expected one for each class, 1 to %d", train, classes->n,
                       MAX_CLASSES);
    ds->n_classes = (int)classes->n;
    TRY(add_classes(f, classes, take));
    if (f->n == 0)
        return ls_fail(LS_DATA, "%s: no images for the %s split%s", f->base, ds->split == LS_TEST ? "test" : "training",
                       take == TAKE_TEST ? " (every tenth file, and there are fewer than ten)" : "");
    return LS_OK;
}

static enum ls_status decode(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    const struct folder *f = ds->impl->state;
    char path[LS_PATH_BYTES], *data;
    size_t len;
    TRY(ls__path_join(path, sizeof path, f->base, f->text.text + f->offset[sample]));
    enum ls_status status = ls__file_read(path, FILE_MAX_BYTES, &data, &len);
    if (status != LS_OK) return ls_fail_in(status == LS_NOMEM ? LS_NOMEM : LS_DATA, "picture");
    status = ls__contents_check(&f->digest[sample], f->memory, path, data, len);
    if (status == LS_OK) status = ls__image_decode(path, (const uint8_t *)data, len, ds->h, ds->w, out);
    free(data);
    return status;
}

/* A picture that is kept was checked when it was decoded: its file need not be opened again. */
static enum ls_status folder_read(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    const struct folder *f = ds->impl->state;
    if (ls__decoded_get(f->decoded, sample, out)) return LS_OK;
    enum ls_status status = decode(ds, sample, out);
    ls__decoded_put(f->decoded, sample, status == LS_OK ? out : NULL);
    return status;
}

static const char *folder_file(const struct ls_dataset *ds, int64_t sample)
{
    const struct folder *f = ds->impl->state;
    return f->text.text + f->offset[sample];
}

static void folder_close(struct ls_dataset *ds)
{
    struct folder *f = ds->impl->state;
    if (!f) return;
    ls__decoded_close(&f->decoded);
    ls__buf_release(&f->text);
    free(f->offset);
    free(f->label);
    free(f->digest);
    free(f);
}

/* Of everything a step can see: names, labels, number of classes and the files' bytes, in the order of the samples. */
static enum ls_status checksum(struct ls_dataset *ds, struct folder *f, const struct ls_control *control)
{
    TRY(ls__calloc(&f->digest, f->n, sizeof *f->digest));
    struct ls_contents c = {.base = f->base,
                            .text = f->text.text,
                            .offset = f->offset,
                            .n = f->n,
                            .split = ds->split,
                            .max_bytes = FILE_MAX_BYTES,
                            .control = control,
                            .digest = f->digest};
    TRY(ls__contents_hash(&c));
    memcpy(f->memory, c.memory, sizeof f->memory);
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &ds->n_classes, sizeof ds->n_classes);
    XXH3_128bits_update(&state, f->text.text, f->text.len);
    XXH3_128bits_update(&state, f->label, f->n * sizeof *f->label);
    XXH3_128bits_update(&state, f->digest, f->n * sizeof *f->digest);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    snprintf(ds->checksum, sizeof ds->checksum, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return LS_OK;
}

/* One per line; a folder whose name has a line break is not told. */
static enum ls_status name_classes(struct ls_dataset *ds, const struct ls_names *classes)
{
    struct ls_buf b = LS_BUF_INIT;
    for (size_t i = 0; i < classes->n; i++) {
        if (!strchr(classes->at[i], '\n')) ls__buf_adds(&b, classes->at[i]);
        ls__buf_adds(&b, "\n");
    }
    enum ls_status status = ls__buf_check(&b);
    if (status == LS_OK) ds->class_names = ds->impl->class_names = ls__buf_take(&b);
    ls__buf_release(&b);
    return status;
}

/* All pictures below the path, with the classes of another set: by its names, else in their order. */
static enum ls_status scan_like(struct ls_dataset *ds, struct folder *f, const char *path,
                                const struct ls_dataset *like, struct ls_names *classes)
{
    if (!ls__dir_exists(path)) return ls_fail(LS_DATA, "%s: there is no such folder", path);
    if (snprintf(f->base, sizeof f->base, "%s", path) >= (int)sizeof f->base)
        return ls_fail(LS_DATA, "%s: the path is too long", path);
    for (const char *at = like->class_names; at && *at;) {
        char name[LS_PATH_BYTES];
        size_t len = strcspn(at, "\n");
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        TRY(ls__names_add(classes, name));
        at += len + (at[len] == '\n');
    }
    if (!like->class_names) TRY(list(f->base, true, classes));
    if (classes->n != (size_t)like->n_classes)
        return ls_fail(LS_DATA, "%s: has %zu sub-folders, but %s has %d classes", path, classes->n, like->name,
                       like->n_classes);
    ds->n_classes = like->n_classes;
    TRY(add_classes(f, classes, TAKE_ALL));
    return f->n > 0 ? LS_OK : ls_fail(LS_DATA, "%s: no sub-folder with pictures in it", path);
}

static enum ls_status fill(struct ls_dataset *ds, struct folder *f, const char *path, const struct ls_dataset *like,
                           const struct ls_control *control)
{
    struct ls_names classes = {0};
    enum ls_status status = like ? scan_like(ds, f, path, like, &classes) : scan(ds, f, path, &classes);
    if (status == LS_OK) status = name_classes(ds, &classes);
    ls__names_release(&classes);
    TRY(status);
    ds->n = (int64_t)f->n;
    TRY(ls__dataset_alloc_labels(ds)); /* also checks n */
    TRY(checksum(ds, f, control));
    memcpy(ds->impl->labels, f->label, f->n * sizeof *f->label);
    free(f->label);
    f->label = NULL;
    f->decoded = ls__decoded_open(ds->checksum, ds->n, ds->c, ds->h, ds->w);
    return LS_OK;
}

static enum ls_status open_folder(struct ls_dataset *ds, const char *path, const struct ls_dataset *like,
                                  const struct ls_data_options *options)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f}; /* ImageNet's */
    struct folder *f;
    ds->c = 3;
    ds->h = options->resize_h ? options->resize_h : DEFAULT_SIDE;
    ds->w = options->resize_w ? options->resize_w : DEFAULT_SIDE;
    if (ds->h < 1 || ds->w < 1 || ds->h > MAX_RESIZE || ds->w > MAX_RESIZE)
        return ls_fail(LS_USAGE, "folder:%s: size %dx%d, expected 1 to %d", path, ds->h, ds->w, MAX_RESIZE);
    ls__dataset_set_mean_std(ds, mean, std);
    TRY(ls__calloc(&f, 1, sizeof *f));
    f->text = (struct ls_buf)LS_BUF_INIT;
    ds->impl->state = f;
    ds->impl->read = folder_read;
    ds->impl->file = folder_file;
    ds->impl->close = folder_close;
    return fill(ds, f, path, like, options->control);
}

enum ls_status ls__folder_open(struct ls_dataset *ds, const char *path, const struct ls_data_options *options)
{
    return open_folder(ds, path, NULL, options);
}

static enum ls_status build_like(struct ls_dataset *ds, const char *path, const struct ls_dataset *like,
                                 const struct ls_data_options *options)
{
    struct ls_data_options own = *options;
    snprintf(ds->name, sizeof ds->name, "%s", path);
    ds->split = LS_TEST;
    if (like->c != 3)
        return ls_fail(LS_USAGE, "%s: pictures have 3 channels, the images of %s have %d", path, like->name, like->c);
    own.resize_h = like->h;
    own.resize_w = like->w;
    TRY(ls__calloc(&ds->impl, 1, sizeof *ds->impl));
    return open_folder(ds, path, like, &own);
}

enum ls_status ls__data_open_like(struct ls_dataset **out, const char *path, const struct ls_dataset *like,
                                  const struct ls_data_options *options)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = build_like(*out, path, like, options);
    if (status != LS_OK) ls_dataset_close(out);
    return status;
}
