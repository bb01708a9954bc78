/* cifar.c: CIFAR-10 in its binary form.
 *
 * In: files of records, each one label byte and 3*32*32 bytes of pixels (red, green, blue plane), nothing else.
 * Out: ds->pixels and ds->labels, apart, in the order of the files. The records are taken apart while reading.
 */
#include "data/catalog.h"
#include "data/formats/parsers.h"

static int64_t record_bytes(const struct ls_expect *e)
{
    return 1 + (int64_t)e->c * e->h * e->w;
}

enum ls_status ls__cifar_count(const struct ls_stream *s, const struct ls_expect *e, int64_t *n)
{
    int64_t record = record_bytes(e);
    if (s->len == 0 || s->len % (uint64_t)record != 0)
        return ls_fail(LS_DATA, "%s: has %llu bytes, expected a multiple of %lld (label and pixels of one image)%s",
                       s->name, (unsigned long long)s->len, (long long)record,
                       s->len ? ": the file is cut short or not CIFAR-10 binary" : ": the file is empty");
    *n = (int64_t)(s->len / (uint64_t)record);
    if (*n > e->max_n)
        return ls_fail(LS_DATA, "%s: holds %lld images, expected at most %lld", s->name, (long long)*n,
                       (long long)e->max_n);
    return LS_OK;
}

enum ls_status ls__cifar_read(struct ls_dataset *ds, int64_t first, int64_t n, struct ls_stream *s,
                              const struct ls_expect *e)
{
    size_t sample_bytes = (size_t)(record_bytes(e) - 1);
    for (int64_t i = first; i < first + n; i++) {
        uint8_t label;
        TRY(ls__stream_read(s, &label, 1, "a label"));
        if (label >= e->n_classes)
            return ls_fail(LS_DATA, "%s: label %lld (at byte %llu) is %u, expected 0 to %d", s->name,
                           (long long)(i - first), (unsigned long long)(ls__stream_offset(s) - 1), label,
                           e->n_classes - 1);
        ds->impl->labels[i] = label;
        TRY(ls__stream_read(s, ds->impl->pixels + (size_t)i * sample_bytes, sample_bytes, "an image"));
    }
    return ls__stream_expect_end(s);
}

static enum ls_status count_path(const char *path, const struct ls_expect *e, int64_t *n)
{
    struct ls_stream s;
    enum ls_status status = ls__stream_open(&s, path);
    if (status == LS_OK) status = ls__cifar_count(&s, e, n);
    ls__stream_close(&s);
    return status;
}

static enum ls_status read_path(struct ls_dataset *ds, int64_t first, int64_t n, const char *path,
                                const struct ls_expect *e)
{
    struct ls_stream s;
    int64_t n_now = 0;
    enum ls_status status = ls__stream_open(&s, path);
    if (status == LS_OK) status = ls__cifar_count(&s, e, &n_now);
    if (status == LS_OK && n_now != n) status = ls_fail(LS_DATA, "%s: changed its size while being read", path);
    if (status == LS_OK) status = ls__cifar_read(ds, first, n, &s, e);
    ls__stream_close(&s);
    return status;
}

enum ls_status ls__cifar_open(struct ls_dataset *ds, const struct ls_set *set, const char *const *paths, int n_paths)
{
    struct ls_expect e = ls__set_expect(set);
    int64_t n[LS_SET_MAX_FILES];
    ds->n = 0;
    for (int i = 0; i < n_paths; i++) {
        TRY(count_path(paths[i], &e, &n[i]));
        ds->n += n[i];
    }
    TRY(ls__dataset_alloc(ds));
    int64_t first = 0;
    for (int i = 0; i < n_paths; i++) {
        TRY(read_path(ds, first, n[i], paths[i], &e));
        first += n[i];
    }
    return LS_OK;
}
