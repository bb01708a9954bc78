/* idx.c: the IDX files of MNIST and Fashion-MNIST, plain or gzipped.
 *
 * In: two files per split. Labels: magic 0x00000801, n, n bytes. Images: magic 0x00000803, n, h, w, n*h*w bytes. All
 * numbers are big-endian 32 bits; the third byte of the magic is the type (8 = unsigned byte), the fourth the rank.
 * Out: the split's bytes in ds.
 *
 * The labels are read first, into a bounded buffer: they fix n. The image header must agree with n before the images
 * are allocated, so neither a lying header nor a bomb gets memory.
 */
#include "data/catalog.h"
#include "data/formats/parsers.h"

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Starts inflating if the file is gzip. */
static enum ls_status begin(struct ls_stream *s)
{
    uint8_t id[2];
    size_t n;
    TRY(ls__stream_peek(s, id, 2, &n));
    bool is_gzip = n == 2 && id[0] == 0x1f && id[1] == 0x8b;
    return is_gzip ? ls__stream_inflate(s, LS_GZIP, ls__stream_raw_left(s)) : LS_OK;
}

/* Magic and dimensions; the size they declare must be what the stream can hold. */
static enum ls_status read_header(struct ls_stream *s, int rank, uint32_t dims[3])
{
    uint8_t head[16];
    uint32_t magic = 0x0800u + (uint32_t)rank;
    uint64_t bytes = 1;
    TRY(ls__stream_read(s, head, 4 + 4 * (size_t)rank, "the IDX header"));
    if (be32(head) != magic)
        return ls_fail(LS_DATA, "%s: IDX magic number is 0x%08x, expected 0x%08x (%s)", s->name, be32(head), magic,
                       rank == 1 ? "labels" : "images");
    for (int i = 0; i < rank; i++) {
        dims[i] = be32(head + 4 + (size_t)4 * i);
        if (__builtin_mul_overflow(bytes, (uint64_t)dims[i], &bytes)) bytes = UINT64_MAX;
    }
    if (bytes > ls__stream_max_left(s) || (!s->is_inflating && bytes != ls__stream_max_left(s)))
        return ls_fail(LS_DATA, "%s: the IDX header at byte 0 declares %llu bytes of data, the file has %s%llu",
                       s->name, (unsigned long long)bytes, s->is_inflating ? "at most " : "",
                       (unsigned long long)ls__stream_max_left(s));
    return LS_OK;
}

enum ls_status ls__idx_read_labels(struct ls_dataset *ds, struct ls_stream *s, const struct ls_expect *e)
{
    uint32_t dims[3] = {0};
    TRY(begin(s));
    TRY(read_header(s, 1, dims));
    if (dims[0] == 0 || dims[0] > e->max_n)
        return ls_fail(LS_DATA, "%s: holds %u labels, expected 1 to %lld", s->name, dims[0], (long long)e->max_n);
    ds->n = dims[0];
    TRY(ls__dataset_alloc_labels(ds));
    uint16_t *labels = ds->impl->labels;
    uint8_t *bytes = (uint8_t *)labels + dims[0]; /* read into the upper half, widened from the front */
    TRY(ls__stream_read(s, bytes, dims[0], "the labels"));
    TRY(ls__stream_expect_end(s));
    for (uint32_t i = 0; i < dims[0]; i++) labels[i] = bytes[i];
    for (uint32_t i = 0; i < dims[0]; i++)
        if (labels[i] >= e->n_classes)
            return ls_fail(LS_DATA, "%s: label %u (at byte %u) is %u, expected 0 to %d", s->name, i, i + 8, labels[i],
                           e->n_classes - 1);
    return LS_OK;
}

enum ls_status ls__idx_read_images(struct ls_dataset *ds, struct ls_stream *s, const struct ls_expect *e)
{
    uint32_t dims[3] = {0};
    TRY(begin(s));
    TRY(read_header(s, 3, dims));
    if (dims[1] != (uint32_t)e->h || dims[2] != (uint32_t)e->w)
        return ls_fail(LS_DATA, "%s: images are %ux%u, expected %dx%d", s->name, dims[1], dims[2], e->h, e->w);
    if (dims[0] != ds->n)
        return ls_fail(LS_DATA, "%s: holds %u images, but the file of labels holds %lld", s->name, dims[0],
                       (long long)ds->n);
    TRY(ls__dataset_alloc(ds));
    TRY(ls__stream_read(s, ds->impl->pixels, (size_t)dims[0] * dims[1] * dims[2], "the images"));
    return ls__stream_expect_end(s);
}

static enum ls_status read_path(struct ls_dataset *ds, const char *path, bool is_labels, const struct ls_expect *e)
{
    struct ls_stream s;
    enum ls_status status = ls__stream_open(&s, path);
    if (status == LS_OK) status = is_labels ? ls__idx_read_labels(ds, &s, e) : ls__idx_read_images(ds, &s, e);
    ls__stream_close(&s);
    return status;
}

enum ls_status ls__idx_open(struct ls_dataset *ds, const struct ls_set *set, const char *const *paths, int n_paths)
{
    if (n_paths != 2) return ls_fail(LS_INTERNAL, "%s: an IDX split is two files, got %d", set->name, n_paths);
    struct ls_expect e = ls__set_expect(set);
    TRY(read_path(ds, paths[1], true, &e));
    return read_path(ds, paths[0], false, &e);
}
