/* image_real.c: PNG by libpng and JPEG by libjpeg, to RGB rows.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* wants FILE */

#include <jerror.h>

enum {
    MAX_PIXELS = 89478485, /* as PIL: a quarter of a GiB of RGB */
    MAX_SIDE = 65535,
    DEFLATE_MAX_RATIO = 1032,
    JPEG_PIXELS_PER_BYTE = 512, /* one bit for each 8x8 block is the least that Huffman coding needs */
    JPEG_MAX_SCANS = 500,       /* a small file can ask for many passes over a large picture */
    JPEG_SCALES = 8,            /* the decoder makes eighths of the size */
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

static int scaled(int side, int eighths)
{
    return (side * eighths + JPEG_SCALES - 1) / JPEG_SCALES;
}

/* Of the scales that keep at least min_h x min_w the smallest; of those that give the same size the largest. */
static int choose_scale(int h, int w, int min_h, int min_w)
{
    int best = JPEG_SCALES;
    for (int n = JPEG_SCALES - 1; n > 0; n--) {
        if (scaled(h, n) < min_h || scaled(w, n) < min_w) break;
        if (scaled(h, n) != scaled(h, best) || scaled(w, n) != scaled(w, best)) best = n;
    }
    return best;
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

struct jpeg_job {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char why[JMSG_LENGTH_MAX];
    bool is_header, is_memory; /* which is being read; what failed */
    const char *name;
    size_t len;
    int min_h, min_w;
    struct ls_image *image;
};

static void on_jpeg_error(j_common_ptr d)
{
    struct jpeg_job *job = d->client_data;
    d->err->format_message(d, job->why);
    job->is_memory = d->err->msg_code == JERR_OUT_OF_MEMORY;
    longjmp(job->back, 1);
}

/* Every kind of damage is looked at, not only the first: the library would go on and fill in grey. A file that ends
 * before its frame is said to have no picture. */
static void on_jpeg_message(j_common_ptr d, int level)
{
    const struct jpeg_job *job = d->client_data;
    bool is_end_of_header = job->is_header && d->err->msg_code == JWRN_JPEG_EOF;
    if (level < 0 && d->err->msg_code != JWRN_EXTRANEOUS_DATA && !is_end_of_header) on_jpeg_error(d);
}

static void on_jpeg_output(j_common_ptr d)
{
    (void)d;
}

static void on_jpeg_progress(j_common_ptr d)
{
    struct jpeg_job *job = d->client_data;
    if (job->d.input_scan_number <= JPEG_MAX_SCANS) return;
    snprintf(job->why, sizeof job->why, "more than %d scans", JPEG_MAX_SCANS);
    longjmp(job->back, 1);
}

static enum ls_status jpeg_header(struct jpeg_job *job)
{
    struct jpeg_decompress_struct *d = &job->d;
    job->is_header = true;
    if (jpeg_read_header(d, FALSE) != JPEG_HEADER_OK)
        return ls_fail(LS_DATA, "%s: bad JPEG: it has tables, but no picture", job->name);
    job->is_header = false;
    int64_t h = d->image_height, w = d->image_width;
    TRY(check_size(job->name, "JPEG", h, w));
    if (h * w > (int64_t)job->len * JPEG_PIXELS_PER_BYTE) return too_short(job->name, "JPEG", job->len, h, w);
    job->image->file_h = (int)h;
    job->image->file_w = (int)w;
    job->image->is_grey = d->jpeg_color_space == JCS_GRAYSCALE;
    return LS_OK;
}

/* Everything that may longjmp. No locals change between setjmp and a jump; the job is outside. */
static enum ls_status jpeg_run(struct jpeg_job *job, const uint8_t *data)
{
    struct jpeg_decompress_struct *d = &job->d;
    if (setjmp(job->back)) return ls_fail(job->is_memory ? LS_NOMEM : LS_DATA, "%s: bad JPEG: %s", job->name, job->why);
    jpeg_create_decompress(d);
    d->progress = &job->progress;
    jpeg_mem_src(d, data, job->len);
    TRY(jpeg_header(job));
    bool is_cmyk = d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK;
    d->out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    d->dct_method = JDCT_ISLOW;
    d->scale_num = (unsigned)choose_scale((int)d->image_height, (int)d->image_width, job->min_h, job->min_w);
    d->scale_denom = JPEG_SCALES;
    jpeg_start_decompress(d);
    size_t row_bytes = (size_t)d->output_width * (is_cmyk ? 4 : 3);
    TRY(ls__calloc(&job->image->rgb, d->output_height, row_bytes));
    job->image->h = (int)d->output_height;
    job->image->w = (int)d->output_width;
    while (d->output_scanline < d->output_height) {
        uint8_t *row = job->image->rgb + d->output_scanline * row_bytes;
        jpeg_read_scanlines(d, &row, 1);
    }
    jpeg_finish_decompress(d);
    if (is_cmyk) cmyk_to_rgb(job->image->rgb, (size_t)d->output_height * d->output_width);
    return LS_OK;
}

static enum ls_status load_jpeg(const char *name, const uint8_t *data, size_t len, int min_h, int min_w,
                                struct ls_image *image)
{
    struct jpeg_job job = {.name = name, .len = len, .min_h = min_h, .min_w = min_w, .image = image};
    job.d.err = jpeg_std_error(&job.errors);
    job.d.client_data = &job;
    job.errors.error_exit = on_jpeg_error;
    job.errors.emit_message = on_jpeg_message;
    job.errors.output_message = on_jpeg_output;
    job.progress.progress_monitor = on_jpeg_progress;
    enum ls_status status = jpeg_run(&job, data);
    jpeg_destroy_decompress(&job.d);
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
