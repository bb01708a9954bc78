/* mat5.c: SVHN's cropped digits, from the small part of the MAT-5 format that they use. Everything else is refused.
 *
 * In: a 128-byte header (little-endian: version 0x0100, "IM"), then elements, each an 8-byte tag {type, bytes} and a
 * body:
 *
 *     miCOMPRESSED (15)  a zlib stream that holds one miMATRIX element
 *     miMATRIX     (14)  sub-elements, each padded to 8 bytes:
 *                          miUINT32 (6)   array flags: class in the lowest byte
 *                          miINT32  (5)   dimensions
 *                          miINT8   (1)   name
 *                          the numbers, in any type that holds them (X and y: miUINT8; y also miDOUBLE)
 *
 * A sub-element of at most 4 bytes may be "small": type in the low half of the first word, size in the high half, data
 * in the second. There must be exactly two variables: X, uint8, 32x32x3xN, and y, Nx1 with labels 1 to 10, where 10
 * means digit 0.
 *
 * Out: samples in ds. MATLAB stores columns first, so each plane of X is transposed while it is read; besides the data
 * set itself the reader holds one sample.
 */
#include "data/catalog.h"
#include "data/formats/parsers.h"

#include <string.h>

enum { MI_INT8 = 1, MI_UINT8 = 2, MI_INT32 = 5, MI_UINT32 = 6, MI_DOUBLE = 9, MI_MATRIX = 14, MI_COMPRESSED = 15 };
enum { MX_DOUBLE = 6, MX_UINT8 = 9 };
enum { HEADER_BYTES = 128, SAMPLE_MAX_BYTES = 3 * 64 * 64, DIGIT_ZERO_LABEL = 10 };

/* A matrix being read: what is left of its declared bytes, and its header. */
struct matrix {
    struct ls_stream *s;
    uint64_t left;
    bool is_compressed;
    int class;
    int rank;
    int32_t dims[4];
    char name; /* 'X' or 'y' */
};

struct tag {
    uint32_t type, bytes;
    bool is_small;
    uint8_t small[4];
};

static uint32_t le32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static enum ls_status refuse(const struct ls_stream *s, const char *what)
{
    return ls_fail(LS_DATA, "%s: %s at %sbyte %llu; expected SVHN's MAT-5 file with X (uint8, 32x32x3xN) and y (Nx1)",
                   s->name, what, s->is_inflating ? "decompressed " : "", (unsigned long long)ls__stream_offset(s));
}

static enum ls_status read_part(struct matrix *m, void *out, size_t n, const char *what)
{
    if (n > m->left) return refuse(m->s, "a matrix element is larger than its matrix");
    m->left -= n;
    return ls__stream_read(m->s, out, n, what);
}

static enum ls_status read_tag(struct matrix *m, struct tag *tag)
{
    uint8_t b[8];
    TRY(read_part(m, b, 8, "an element's tag"));
    uint32_t first = le32(b);
    tag->is_small = first >> 16 != 0;
    tag->type = tag->is_small ? first & 0xffff : first;
    tag->bytes = tag->is_small ? first >> 16 : le32(b + 4);
    memcpy(tag->small, b + 4, 4);
    if (tag->is_small && tag->bytes > 4) return refuse(m->s, "a small element of more than 4 bytes");
    if (!tag->is_small && tag->bytes > m->left) return refuse(m->s, "a matrix element is larger than its matrix");
    return LS_OK;
}

/* The filler up to the next multiple of 8, as far as the matrix has it. */
static enum ls_status skip_padding(struct matrix *m, const struct tag *tag)
{
    uint8_t filler[8];
    uint64_t n = tag->is_small ? 0 : (8 - tag->bytes % 8) % 8;
    return read_part(m, filler, n < m->left ? (size_t)n : (size_t)m->left, "padding");
}

/* The body of an element of at most `room` bytes. */
static enum ls_status read_short(struct matrix *m, const struct tag *tag, void *out, size_t room, const char *what)
{
    if (tag->bytes > room) return refuse(m->s, what);
    if (tag->is_small) {
        memcpy(out, tag->small, tag->bytes);
        return LS_OK;
    }
    TRY(read_part(m, out, tag->bytes, what));
    return skip_padding(m, tag);
}

static enum ls_status read_flags(struct matrix *m)
{
    struct tag tag;
    uint8_t flags[8];
    TRY(read_tag(m, &tag));
    if (tag.type != MI_UINT32 || tag.bytes != 8 || tag.is_small) return refuse(m->s, "no array flags");
    TRY(read_short(m, &tag, flags, sizeof flags, "array flags"));
    m->class = flags[0];
    if (m->class != MX_DOUBLE && m->class != MX_UINT8) return refuse(m->s, "a variable of another class");
    if (flags[1] & 0x0e) return refuse(m->s, "a complex, global or logical variable");
    return LS_OK;
}

static enum ls_status read_dims(struct matrix *m)
{
    struct tag tag;
    uint8_t body[16];
    TRY(read_tag(m, &tag));
    if (tag.type != MI_INT32 || tag.bytes % 4 || tag.bytes < 8) return refuse(m->s, "no dimensions");
    TRY(read_short(m, &tag, body, sizeof body, "too many dimensions"));
    m->rank = (int)(tag.bytes / 4);
    for (int i = 0; i < m->rank; i++) {
        m->dims[i] = (int32_t)le32(body + (size_t)4 * i);
        if (m->dims[i] <= 0) return refuse(m->s, "a dimension that is not positive");
    }
    return LS_OK;
}

static enum ls_status read_name(struct matrix *m)
{
    struct tag tag;
    uint8_t body[64];
    TRY(read_tag(m, &tag));
    if (tag.type != MI_INT8) return refuse(m->s, "no name");
    TRY(read_short(m, &tag, body, sizeof body, "a long name"));
    if (tag.bytes != 1 || (body[0] != 'X' && body[0] != 'y')) return refuse(m->s, "a variable that is neither X nor y");
    m->name = (char)body[0];
    return LS_OK;
}

/* Class, rank and dimensions of a variable against what SVHN has; *n is its number of samples. */
static enum ls_status check_shape(const struct matrix *m, const struct ls_expect *e, int64_t *n)
{
    if (m->name == 'X') {
        if (m->class != MX_UINT8) return refuse(m->s, "X is not uint8");
        if (m->rank != 4 || m->dims[0] != e->h || m->dims[1] != e->w || m->dims[2] != e->c)
            return refuse(m->s, "X has other dimensions");
        *n = m->dims[3];
    } else {
        if (m->rank != 2 || m->dims[1] != 1) return refuse(m->s, "y has other dimensions");
        *n = m->dims[0];
    }
    if (*n > e->max_n)
        return ls_fail(LS_DATA, "%s: %c declares %lld samples, expected at most %lld", m->s->name, m->name,
                       (long long)*n, (long long)e->max_n);
    return LS_OK;
}

/* The next variable up to and including its name. */
static enum ls_status begin_matrix(struct matrix *m, struct ls_stream *s)
{
    uint8_t b[8];
    *m = (struct matrix){.s = s};
    TRY(ls__stream_read(s, b, 8, "an element's tag"));
    if (le32(b) == MI_COMPRESSED) {
        m->is_compressed = true;
        TRY(ls__stream_inflate(s, LS_ZLIB, le32(b + 4)));
        TRY(ls__stream_read(s, b, 8, "a compressed element's tag"));
    }
    if (le32(b) != MI_MATRIX) return refuse(s, "an element that is not a matrix");
    m->left = le32(b + 4);
    if (m->left > ls__stream_max_left(s)) return refuse(s, "a matrix that claims more bytes than the file can hold");
    TRY(read_flags(m));
    TRY(read_dims(m));
    return read_name(m);
}

static enum ls_status end_matrix(struct matrix *m)
{
    if (m->left != 0) return refuse(m->s, "bytes left over in a matrix");
    return m->is_compressed ? ls__stream_inflate_end(m->s) : LS_OK;
}

static void transpose(const uint8_t *src /* [c,w,h] */, uint8_t *dst /* [c,h,w] */, const struct ls_expect *e)
{
    for (int c = 0; c < e->c; c++)
        for (int y = 0; y < e->h; y++)
            for (int x = 0; x < e->w; x++) dst[(c * e->h + y) * e->w + x] = src[(c * e->w + x) * e->h + y];
}

static enum ls_status read_pixels(struct matrix *m, uint8_t *pixels, int64_t n, const struct ls_expect *e)
{
    uint8_t sample[SAMPLE_MAX_BYTES];
    size_t sample_bytes = (size_t)e->c * e->h * e->w;
    struct tag tag;
    TRY(read_tag(m, &tag));
    if (sample_bytes > sizeof sample) return ls_fail(LS_INTERNAL, "%s: samples too large for this reader", m->s->name);
    if (tag.type != MI_UINT8 || tag.is_small || tag.bytes != sample_bytes * (uint64_t)n)
        return refuse(m->s, "X's data has another type or size than its dimensions say");
    for (int64_t i = 0; i < n; i++) {
        TRY(read_part(m, sample, sample_bytes, "X"));
        transpose(sample, pixels + (size_t)i * sample_bytes, e);
    }
    return skip_padding(m, &tag);
}

/* A label is one byte or one double with a whole value. -1: neither. */
static int label_value(const uint8_t *p, uint32_t type)
{
    if (type == MI_UINT8) return *p;
    double value;
    memcpy(&value, p, sizeof value); /* little-endian, as this machine */
    return value >= 0 && value <= 255 && value == (int)value ? (int)value : -1;
}

static enum ls_status read_labels(struct matrix *m, uint16_t *labels, int64_t n)
{
    struct tag tag;
    TRY(read_tag(m, &tag));
    size_t width = tag.type == MI_DOUBLE ? 8 : 1;
    if ((tag.type != MI_UINT8 && tag.type != MI_DOUBLE) || tag.bytes != width * (uint64_t)n)
        return refuse(m->s, "y's data has another type or size than its dimensions say");
    for (int64_t i = 0; i < n; i++) {
        uint8_t b[8] = {0};
        if (tag.is_small)
            b[0] = tag.small[i]; /* a small element has at most 4 bytes and was checked to have n */
        else
            TRY(read_part(m, b, width, "y"));
        int label = label_value(b, tag.type);
        if (label < 1 || label > DIGIT_ZERO_LABEL)
            return ls_fail(LS_DATA, "%s: label %lld in y is not one of 1 to 10", m->s->name, (long long)i);
        labels[i] = (uint16_t)(label == DIGIT_ZERO_LABEL ? 0 : label);
    }
    return skip_padding(m, &tag);
}

static enum ls_status read_header(struct ls_stream *s)
{
    uint8_t head[HEADER_BYTES];
    TRY(ls__stream_read(s, head, sizeof head, "the MAT header"));
    if (memcmp(head, "MATLAB 7.3", 10) == 0)
        return ls_fail(LS_DATA, "%s: is a MATLAB 7.3 (HDF5) file; save it with -v7 or take the published one", s->name);
    if (head[126] == 'M' && head[127] == 'I') return ls_fail(LS_DATA, "%s: is a big-endian MAT file", s->name);
    if (memcmp(head, "MATLAB 5.0", 10) != 0 || head[124] != 0 || head[125] != 1 || head[126] != 'I' || head[127] != 'M')
        return ls_fail(LS_DATA, "%s: is not a MAT-5 file (its header at byte 0 says otherwise)", s->name);
    return LS_OK;
}

enum ls_status ls__mat5_count(struct ls_stream *s, const struct ls_expect *e, int64_t *n)
{
    struct matrix m;
    TRY(read_header(s));
    TRY(begin_matrix(&m, s));
    TRY(check_shape(&m, e, n));
    /* The caller allocates for n samples: a short file must not be able to ask for that. */
    if ((uint64_t)*n * (uint64_t)(e->c * e->h * e->w) > ls__stream_most_inflated(s->len))
        return refuse(s, "more samples declared than the file can hold");
    return LS_OK;
}

enum ls_status ls__mat5_read(struct ls_dataset *ds, int64_t first, int64_t n, struct ls_stream *s,
                             const struct ls_expect *e)
{
    bool has_pixels = false, has_labels = false;
    TRY(read_header(s));
    while (ls__stream_raw_left(s) > 0) {
        struct matrix m;
        int64_t n_here = 0;
        TRY(begin_matrix(&m, s));
        TRY(check_shape(&m, e, &n_here));
        if (n_here != n)
            return ls_fail(LS_DATA, "%s: %c holds %lld samples, but the other variable %lld", s->name, m.name,
                           (long long)n_here, (long long)n);
        bool *has = m.name == 'X' ? &has_pixels : &has_labels;
        if (*has) return refuse(s, "a second variable of the same name");
        *has = true;
        if (m.name == 'X')
            TRY(read_pixels(&m, ds->impl->pixels + (size_t)first * (size_t)(e->c * e->h * e->w), n, e));
        else
            TRY(read_labels(&m, ds->impl->labels + first, n));
        TRY(end_matrix(&m));
    }
    if (!has_pixels || !has_labels) return refuse(s, has_pixels ? "no variable y" : "no variable X");
    return LS_OK;
}

static enum ls_status with_path(struct ls_dataset *ds, int64_t first, int64_t *n, const char *path,
                                const struct ls_expect *e)
{
    struct ls_stream s;
    enum ls_status status = ls__stream_open(&s, path);
    if (status == LS_OK) status = ds ? ls__mat5_read(ds, first, *n, &s, e) : ls__mat5_count(&s, e, n);
    ls__stream_close(&s);
    return status;
}

enum ls_status ls__mat5_open(struct ls_dataset *ds, const struct ls_set *set, const char *const *paths, int n_paths)
{
    struct ls_expect e = ls__set_expect(set);
    int64_t n[LS_SET_MAX_FILES];
    ds->n = 0;
    for (int i = 0; i < n_paths; i++) {
        TRY(with_path(NULL, 0, &n[i], paths[i], &e));
        ds->n += n[i];
    }
    TRY(ls__dataset_alloc(ds));
    int64_t first = 0;
    for (int i = 0; i < n_paths; i++) {
        TRY(with_path(ds, first, &n[i], paths[i], &e));
        first += n[i];
    }
    return LS_OK;
}
