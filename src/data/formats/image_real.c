/* image_real.c: PNG by libpng and JPEG by TurboJPEG, to RGB rows.
 *
 * The header is read first and decides: more than MAX_PIXELS, or more than the file's length can encode, is refused
 * before anything of that size is allocated. Grey, palette, alpha and CMYK become RGB (alpha is dropped); 16 bits
 * become 8; EXIF and colour profiles are ignored. A JPEG much larger than needed is decoded at a fraction of its size,
 * which is cheap. A damaged image is an error, not a grey patch; stray bytes between markers, common in the wild, are
 * let pass.
 */
#include "base/mem.h"
#include "data/formats/parsers.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

enum {
    MAX_PIXELS = 89478485, /* as PIL: a quarter of a GiB of RGB */
    MAX_SIDE = 65535,
    DEFLATE_MAX_RATIO = 1032,
    JPEG_PIXELS_PER_BYTE = 512, /* one bit for each 8x8 block is the least that Huffman coding needs */
    PNG_CHUNK_BYTES = 8 << 20,
};

static enum ls_status check_size(const char *name, const char *kind, int64_t h, int64_t w)
{
    if (h > 0 && w > 0 && h <= MAX_SIDE && w <= MAX_SIDE && h * w <= MAX_PIXELS) return LS_OK;
    return ls_fail(LS_DATA, "%s: its %s header declares %lldx%lld pixels, expected 1 to %d altogether", name, kind,
                   (long long)w, (long long)h, MAX_PIXELS);
}

static enum ls_status too_short(const char *name, const char *kind, size_t len, int64_t h, int64_t w)
{
    return ls_fail(LS_DATA, "%s: its %s header declares %lldx%lld pixels, more than its %zu bytes can hold", name, kind,
                   (long long)w, (long long)h, len);
}

/* ---- PNG ---- */

struct png_job {
    const char *name;
    const uint8_t *data;
    size_t len, at;
    char why[160];
    png_structp png;
    png_infop info;
    struct ls_image *image;
};

static void on_png_error(png_structp png, png_const_charp why)
{
    struct png_job *job = png_get_error_ptr(png);
    strncpy(job->why, why, sizeof job->why - 1);
    png_longjmp(png, 1);
}

static void on_png_warning(png_structp png, png_const_charp why)
{
    (void)png;
    (void)why;
}

static void on_png_read(png_structp png, png_bytep out, size_t n)
{
    struct png_job *job = png_get_io_ptr(png);
    if (n > job->len - job->at) png_error(png, "the file is cut short");
    memcpy(out, job->data + job->at, n);
    job->at += n;
}

static enum ls_status png_check(struct png_job *job)
{
    int64_t h = png_get_image_height(job->png, job->info), w = png_get_image_width(job->png, job->info);
    TRY(check_size(job->name, "PNG", h, w));
    uint64_t raw_bytes = png_get_rowbytes(job->png, job->info) * (uint64_t)h;
    if (raw_bytes > job->len * (uint64_t)DEFLATE_MAX_RATIO) return too_short(job->name, "PNG", job->len, h, w);
    job->image->h = job->image->file_h = (int)h;
    job->image->w = job->image->file_w = (int)w;
    job->image->is_grey = !(png_get_color_type(job->png, job->info) & PNG_COLOR_MASK_COLOR);
    return LS_OK;
}

static void png_to_rgb(struct png_job *job)
{
    png_set_expand(job->png);
    png_set_strip_16(job->png);
    png_set_gray_to_rgb(job->png);
    png_set_strip_alpha(job->png);
}

/* Everything that may longjmp. No locals change between setjmp and a jump; the job is outside. */
static enum ls_status png_run(struct png_job *job)
{
    if (setjmp(png_jmpbuf(job->png)))
        return ls_fail(LS_DATA, "%s: bad PNG near byte %zu: %s", job->name, job->at, job->why);
    png_set_user_limits(job->png, MAX_SIDE, MAX_SIDE);
    png_set_chunk_malloc_max(job->png, PNG_CHUNK_BYTES);
    png_set_chunk_cache_max(job->png, 64);
    png_set_read_fn(job->png, job, on_png_read);
    png_read_info(job->png, job->info);
    TRY(png_check(job));
    png_to_rgb(job);
    int n_passes = png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    size_t row_bytes = png_get_rowbytes(job->png, job->info);
    if (row_bytes != (size_t)job->image->w * 3)
        return ls_fail(LS_DATA, "%s: a kind of PNG this program cannot turn into RGB", job->name);
    TRY(ls__calloc(&job->image->rgb, (size_t)job->image->h, row_bytes));
    for (int pass = 0; pass < n_passes; pass++)
        for (int y = 0; y < job->image->h; y++) png_read_row(job->png, job->image->rgb + (size_t)y * row_bytes, NULL);
    png_read_end(job->png, NULL);
    return LS_OK;
}

static enum ls_status load_png(const char *name, const uint8_t *data, size_t len, struct ls_image *image)
{
    struct png_job job = {.name = name, .data = data, .len = len, .image = image};
    job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_png_error, on_png_warning);
    job.info = job.png ? png_create_info_struct(job.png) : NULL;
    enum ls_status status = job.info ? png_run(&job) : ls_fail(LS_NOMEM, "%s: out of memory for PNG", name);
    png_destroy_read_struct(&job.png, &job.info, NULL);
    return status;
}

/* ---- JPEG ---- */

/* The smallest of the decoder's scales that keeps at least min_h x min_w. */
static void choose_scale(int min_h, int min_w, int *h, int *w)
{
    int n, best_h = *h, best_w = *w;
    const tjscalingfactor *f = tjGetScalingFactors(&n);
    for (int i = 0; f && i < n; i++) {
        int sh = TJSCALED(*h, f[i]), sw = TJSCALED(*w, f[i]);
        if (sh >= min_h && sw >= min_w && sh <= best_h && sw <= best_w) {
            best_h = sh;
            best_w = sw;
        }
    }
    *h = best_h;
    *w = best_w;
}

/* CMYK as Adobe writes it (0 = full ink) to RGB, in place, 4 bytes to 3. */
static void cmyk_to_rgb(uint8_t *p, size_t n_pixels)
{
    for (size_t i = 0; i < n_pixels; i++)
        for (int c = 0; c < 3; c++) {
            int key = p[4 * i + 3], ink = p[4 * i + (size_t)c];
            p[3 * i + (size_t)c] = (uint8_t)((ink * key + 127) / 255);
        }
}

static enum ls_status jpeg_failed(const char *name, tjhandle tj)
{
    return ls_fail(LS_DATA, "%s: bad JPEG: %s", name, tjGetErrorStr2(tj));
}

static enum ls_status decompress(tjhandle tj, const char *name, const uint8_t *data, size_t len, int min_h, int min_w,
                                 struct ls_image *image)
{
    /* A file of tables only (or one cut before its frame) is no error to the library, and sets none of these. */
    int h = 0, w = 0, subsampling = -1, colours = -1;
    if (tjDecompressHeader3(tj, data, len, &w, &h, &subsampling, &colours) != 0) return jpeg_failed(name, tj);
    if (colours < 0) return ls_fail(LS_DATA, "%s: bad JPEG: it has tables, but no picture", name);
    TRY(check_size(name, "JPEG", h, w));
    if ((int64_t)h * w > (int64_t)len * JPEG_PIXELS_PER_BYTE) return too_short(name, "JPEG", len, h, w);
    image->file_h = h;
    image->file_w = w;
    image->is_grey = colours == TJCS_GRAY;
    choose_scale(min_h, min_w, &h, &w);
    bool is_cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
    TRY(ls__calloc(&image->rgb, (size_t)h * (size_t)w, is_cmyk ? 4 : 3));
    image->h = h;
    image->w = w;
    int rc = tjDecompress2(tj, data, len, image->rgb, w, 0, h, is_cmyk ? TJPF_CMYK : TJPF_RGB,
                           TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS);
    bool is_harmless = tjGetErrorCode(tj) == TJERR_WARNING && strstr(tjGetErrorStr2(tj), "extraneous bytes");
    if (rc != 0 && !is_harmless) return jpeg_failed(name, tj);
    if (is_cmyk) cmyk_to_rgb(image->rgb, (size_t)h * (size_t)w);
    return LS_OK;
}

static enum ls_status load_jpeg(const char *name, const uint8_t *data, size_t len, int min_h, int min_w,
                                struct ls_image *image)
{
    tjhandle tj = tjInitDecompress();
    if (!tj) return ls_fail(LS_NOMEM, "%s: out of memory for JPEG", name);
    enum ls_status status = decompress(tj, name, data, len, min_h, min_w, image);
    tjDestroy(tj);
    return status;
}

enum ls_status ls__image_load(const char *name, const uint8_t *data, size_t len, int min_h, int min_w,
                              struct ls_image *image)
{
    static const uint8_t png_id[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (len >= 8 && memcmp(data, png_id, 8) == 0) return load_png(name, data, len, image);
    if (len >= 3 && data[0] == 0xff && data[1] == 0xd8 && data[2] == 0xff)
        return load_jpeg(name, data, len, min_h, min_w, image);
    return ls_fail(LS_DATA, "%s: is neither PNG nor JPEG (its first bytes say)", name);
}
