/* data.c: opening a data set by its spec, and what all data sets share.
 *
 * In: "NAME" or "NAME:ARG". The name is looked up in the table of built-in formats below, then in the catalogue
 * (catalog.c), whose files are searched for in the data folders. Out: a data set whose checksum is set.
 */
#include "base/mem.h"
#include "base/suggest.h"
#include "data/catalog.h"
#include "data/format.h"
#include "data/resize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static enum ls_status open_digits(struct ls_dataset *ds, const char *arg, const struct ls_data_options *options)
{
    return ls__digits_open(ds, false);
}

static enum ls_status open_digits_rgb(struct ls_dataset *ds, const char *arg, const struct ls_data_options *options)
{
    return ls__digits_open(ds, true);
}

static enum ls_status open_fake(struct ls_dataset *ds, const char *arg, const struct ls_data_options *options)
{
    return ls__fake_open(ds, arg);
}

static enum ls_status open_folder(struct ls_dataset *ds, const char *arg, const struct ls_data_options *options)
{
    return ls__folder_open(ds, arg, options);
}

/* Formats that need no search. */
static const struct ls_format {
    const char *name;
    const char *arg; /* what follows the colon; NULL: nothing may */
    enum ls_status (*open)(struct ls_dataset *ds, const char *arg, const struct ls_data_options *options);
    int c; /* channels; 0: the argument says it */
} formats[] = {
    {.name = "digits", .open = open_digits, .c = 1},
    {.name = "digits-rgb", .open = open_digits_rgb, .c = 3},
    {.name = "folder", .arg = "PATH", .open = open_folder, .c = 3},
    {.name = "fake", .arg = "CxHxW:CLASSES:N", .open = open_fake},
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

static const struct ls_format *find_format(const char *spec, const char **arg)
{
    size_t name_len = strcspn(spec, ":");
    *arg = spec[name_len] == ':' ? spec + name_len + 1 : NULL;
    for (int i = 0; i < N_FORMATS; i++)
        if (strlen(formats[i].name) == name_len && memcmp(formats[i].name, spec, name_len) == 0) return &formats[i];
    return NULL;
}

int ls__data_channels(const char *spec)
{
    const char *arg;
    bool with_extra;
    const struct ls_format *format = find_format(spec, &arg);
    const struct ls_set *set = ls__catalog_from_spec(spec, &with_extra);
    if (format && format->c == 0 && arg) return (int)strtol(arg, NULL, 10); /* opening it checks the rest */
    return format ? format->c : set ? set->c : 0;
}

static enum ls_status unknown_spec(const char *spec)
{
    struct ls_buf known = LS_BUF_INIT;
    const struct ls_set *set;
    const char *best = NULL;
    char name[32];
    int distance = -1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(spec, ":+"), spec);
    for (int i = 0; (set = ls__catalog_at(i)); i++) {
        ls__suggest(name, set->name, &best, &distance);
        ls__buf_addf(&known, "%s, ", set->name);
        for (int f = 0; f < set->n_files; f++)
            if (set->files[f].is_extra) ls__buf_addf(&known, "%s+extra, ", set->name);
    }
    for (int i = 0; i < N_FORMATS; i++) {
        ls__suggest(name, formats[i].name, &best, &distance);
        ls__buf_addf(&known, "%s%s%s%s", i ? ", " : "", formats[i].name, formats[i].arg ? ":" : "",
                     formats[i].arg ? formats[i].arg : "");
    }
    enum ls_status status = ls_fail(LS_USAGE, "unknown data set '%s'; %s%s%sknown are: %s", spec,
                                    best ? "did you mean " : "", best ? best : "", best ? "? " : "", known.text);
    ls__buf_release(&known);
    return status;
}

static enum ls_status open_format(struct ls_dataset *ds, const struct ls_format *format, const char *arg,
                                  const struct ls_data_options *options)
{
    if (format->arg && (!arg || !*arg))
        return ls_fail(LS_USAGE, "data set '%s' needs an argument: %s:%s", ds->name, format->name, format->arg);
    if (!format->arg && arg) return ls_fail(LS_USAGE, "data set '%s': '%s' takes no argument", ds->name, format->name);
    return format->open(ds, arg, options);
}

static enum ls_status open_set(struct ls_dataset *ds, const struct ls_set *set, bool with_extra, const char *data_dir)
{
    struct ls_found *found;
    const char *paths[LS_SET_MAX_FILES];
    ds->c = set->c;
    ds->h = set->h;
    ds->w = set->w;
    ds->n_classes = set->n_classes;
    ds->class_names = set->class_names;
    ls__dataset_set_mean_std(ds, set->mean, set->std);
    TRY(ls__calloc(&found, 1, sizeof *found));
    enum ls_status status = ls__catalog_locate(found, set, ds->split, with_extra, data_dir);
    for (int i = 0; i < found->n; i++) paths[i] = found->path[i];
    if (status == LS_OK) status = set->read(ds, set, paths, found->n);
    free(found);
    return status;
}

static enum ls_status build(struct ls_dataset *ds, const char *spec, enum ls_split split,
                            const struct ls_data_options *options)
{
    const char *arg;
    bool with_extra;
    snprintf(ds->name, sizeof ds->name, "%s", spec); /* a very long folder name is cut; it is for people only */
    ds->split = split;
    ls__dataset_set_mean_std(ds, (const float[3]){0.5f, 0.5f, 0.5f}, (const float[3]){0.25f, 0.25f, 0.25f});
    TRY(ls__calloc(&ds->impl, 1, sizeof *ds->impl));
    const struct ls_format *format = find_format(spec, &arg);
    const struct ls_set *set = ls__catalog_from_spec(spec, &with_extra);
    if (format)
        TRY(open_format(ds, format, arg, options));
    else if (set)
        TRY(open_set(ds, set, with_extra, options->data_dir));
    else
        return unknown_spec(spec);
    if (!ds->checksum[0]) ls__dataset_checksum(ds);
    return LS_OK;
}

/* Folders have resized while decoding; the others are shown resized. */
enum ls_status ls__dataset_show_resized(struct ls_dataset **ds, const struct ls_data_options *options)
{
    int h = options->resize_h ? options->resize_h : (*ds)->h, w = options->resize_w ? options->resize_w : (*ds)->w;
    return h == (*ds)->h && w == (*ds)->w ? LS_OK : ls__dataset_resize(ds, h, w);
}

enum ls_status ls_data_open(struct ls_dataset **out, const char *spec, enum ls_split split,
                            const struct ls_data_options *options)
{
    static const struct ls_data_options none = {0};
    *out = NULL;
    if (!spec) return ls_fail(LS_USAGE, "no data set was named");
    if (split != LS_TRAIN && split != LS_TEST) return ls_fail(LS_USAGE, "%s: there is no split %d", spec, (int)split);
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = build(*out, spec, split, options ? options : &none);
    if (status == LS_OK) status = ls__dataset_show_resized(out, options ? options : &none);
    if (status != LS_OK) ls_dataset_close(out);
    return status;
}

void ls_dataset_close(struct ls_dataset **ds)
{
    if (!*ds) return;
    struct ls_dataset_impl *impl = (*ds)->impl;
    if (impl) {
        if (impl->close) impl->close(*ds);
        ls__free_aligned(impl->pixels, impl->pixels_bytes);
        ls__free_aligned(impl->labels, impl->labels_bytes);
        free(impl->class_names);
    }
    free(impl);
    free(*ds);
    *ds = NULL;
}

bool ls_dataset_is_at_hand(const struct ls_dataset *ds)
{
    return ds->pixels || (ds->impl && ds->impl->view);
}

enum ls_status ls_dataset_read(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    if (sample < 0 || sample >= ds->n)
        return ls_fail(LS_INTERNAL, "%s: sample %lld of %lld asked for", ds->name, (long long)sample, (long long)ds->n);
    if (!ds->pixels) return ds->impl->read(ds, sample, out);
    size_t bytes = (size_t)ds->c * (size_t)ds->h * (size_t)ds->w;
    memcpy(out, ds->pixels + (size_t)sample * bytes, bytes);
    return LS_OK;
}

const char *ls_dataset_file(const struct ls_dataset *ds, int64_t sample)
{
    bool is_there = ds->impl && ds->impl->file && sample >= 0 && sample < ds->n;
    return is_there ? ds->impl->file(ds, sample) : NULL;
}

enum ls_status ls__dataset_alloc_labels(struct ls_dataset *ds)
{
    if (ds->n <= 0 || ds->n > UINT32_MAX)
        return ls_fail(LS_DATA, "%s: %lld samples, expected 1 to %u", ds->name, (long long)ds->n, UINT32_MAX);
    ds->impl->labels_bytes = (size_t)ds->n * sizeof *ds->impl->labels;
    TRY(ls__alloc_aligned(&ds->impl->labels, ds->impl->labels_bytes));
    ds->labels = ds->impl->labels;
    return LS_OK;
}

enum ls_status ls__dataset_alloc(struct ls_dataset *ds)
{
    int64_t bytes;
    if (__builtin_mul_overflow((int64_t)ds->c * ds->h, (int64_t)ds->w, &bytes) ||
        __builtin_mul_overflow(bytes, ds->n, &bytes) || bytes <= 0 || bytes > LS_DATA_MAX_BYTES)
        return ls_fail(LS_DATA, "%s: %lld samples of %dx%dx%d are more than a data set may hold (64 GiB)", ds->name,
                       (long long)ds->n, ds->c, ds->h, ds->w);
    if (!ds->impl->labels) TRY(ls__dataset_alloc_labels(ds));
    TRY(ls__alloc_aligned(&ds->impl->pixels, (size_t)bytes));
    ds->impl->pixels_bytes = (size_t)bytes;
    ds->pixels = ds->impl->pixels;
    return LS_OK;
}

void ls__dataset_set_mean_std(struct ls_dataset *ds, const float mean[3], const float std[3])
{
    memcpy(ds->mean, mean, sizeof ds->mean);
    memcpy(ds->std, std, sizeof ds->std);
}

/* As bytes where they fit, so that the checksum is that of the published files. */
static void hash_labels(XXH3_state_t *state, const struct ls_dataset *ds)
{
    uint8_t bytes[4096];
    if (ds->n_classes > 256) {
        XXH3_128bits_update(state, ds->labels, (size_t)ds->n * sizeof *ds->labels);
        return;
    }
    for (int64_t i = 0; i < ds->n;) {
        size_t n = 0;
        for (; n < sizeof bytes && i < ds->n; i++) bytes[n++] = (uint8_t)ds->labels[i];
        XXH3_128bits_update(state, bytes, n);
    }
}

void ls__dataset_checksum(struct ls_dataset *ds)
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    if (ds->pixels)
        XXH3_128bits_update(&state, ds->pixels, (size_t)ds->n * (size_t)ds->c * (size_t)ds->h * (size_t)ds->w);
    if (ds->labels) hash_labels(&state, ds);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    snprintf(ds->checksum, sizeof ds->checksum, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}
