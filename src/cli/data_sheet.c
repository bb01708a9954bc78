/* data_sheet.c: samples of a data set as a picture, for `lockstep data info -o FILE`; see cmd.h.
 *
 * Up to twelve classes have a row each, its samples spread evenly over the class; of more classes each has one tile.
 * With augmentation a second sheet beside the first shows the same samples as a training with this seed sees them in
 * its first epoch, by the same code (ls_backend_load). Mixup and cutmix work on pairs of a shard; here a pair is two
 * tiles above each other, which are of different classes. One pair is in memory at a time, and tiles are small, however
 * large the images.
 */
#include "base/mem.h"
#include "cli/cmd.h"
#include "data/classes.h"
#include "data/data.h"
#include "data/resize.h"
#include "draw/draw.h"
#include "settings/augmentation.h"
#include "settings/setting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 8, MAX_ROWS = 12, MAX_TILES = COLUMNS * MAX_ROWS, LARGEST_TILE = 224, MAX_TEXT = 160 };

struct sheet {
    const struct ls_dataset *ds;
    const struct ls_options *o;
    struct ls_classes classes;
    bool is_augmented;
    int n_tiles;
    int tile_c, tile_h, tile_w; /* the image's, but of two channels there is a third, black */
    int64_t samples[MAX_TILES]; /* -1: an empty place */
    uint8_t *pixels;            /* [2,c,h,w]: a pair */
    float *augmented;           /* [2,c,h,w] */
    uint8_t *small;             /* [2,n_tiles,tile_c,tile_h,tile_w]: as they are, as training sees them */
    char (*texts)[2][MAX_TEXT]; /* [2 * n_tiles]: below the tile, and to who points at it */
    struct ls_draw_tile *tiles; /* [2 * n_tiles] */
};

/* --- which samples --- */

/* Few classes: a row each. */
static void choose_rows(struct sheet *s, const int64_t *counts, int64_t *seen)
{
    s->n_tiles = COLUMNS * s->ds->n_classes;
    int n_chosen[MAX_ROWS] = {0};
    for (int64_t i = 0; i < s->ds->n; i++) {
        const int label = s->ds->labels[i];
        const int64_t n_wanted = counts[label] < COLUMNS ? counts[label] : COLUMNS, k = n_chosen[label];
        if (k < n_wanted && seen[label] == (2 * k + 1) * counts[label] / (2 * n_wanted))
            s->samples[label * COLUMNS + n_chosen[label]++] = i;
        seen[label]++;
    }
}

/* Many: one tile for each of as many as fit, spread evenly over those that have samples. */
static void choose_classes(struct sheet *s, const int64_t *counts, int64_t *place)
{
    int64_t n_there = 0, k = 0;
    for (int i = 0; i < s->ds->n_classes; i++) n_there += counts[i] > 0;
    s->n_tiles = n_there < MAX_TILES ? (int)n_there : MAX_TILES;
    for (int i = 0; i < s->ds->n_classes; i++) {
        place[i] = -1;
        if (counts[i] == 0 || n_there == 0) continue;
        if (k * s->n_tiles / n_there != (k - 1) * s->n_tiles / n_there || k == 0) place[i] = k * s->n_tiles / n_there;
        k++;
    }
    for (int64_t i = 0; i < s->ds->n; i++) {
        const int64_t at = place[s->ds->labels[i]];
        if (at >= 0 && s->samples[at] < 0) s->samples[at] = i;
    }
}

static enum ls_status choose(struct sheet *s)
{
    int64_t *counts = NULL, *own = NULL;
    const size_t n = (size_t)s->ds->n_classes;
    for (int i = 0; i < MAX_TILES; i++) s->samples[i] = -1;
    enum ls_status status = ls__calloc(&counts, n, sizeof *counts);
    if (status == LS_OK) status = ls__calloc(&own, n, sizeof *own);
    if (status == LS_OK) {
        for (int64_t i = 0; i < s->ds->n; i++) counts[s->ds->labels[i]]++;
        (s->ds->n_classes <= MAX_ROWS ? choose_rows : choose_classes)(s, counts, own);
    }
    free(counts);
    free(own);
    return status;
}

/* --- their pixels --- */

static enum ls_status build(struct sheet *s)
{
    const struct ls_dataset *ds = s->ds;
    const size_t image = (size_t)ds->c * (size_t)ds->h * (size_t)ds->w;
    const int larger = ds->h > ds->w ? ds->h : ds->w;
    s->tile_c = ds->c == 1 ? 1 : 3;
    s->tile_h = larger <= LARGEST_TILE ? ds->h : ds->h * LARGEST_TILE / larger;
    s->tile_w = larger <= LARGEST_TILE ? ds->w : ds->w * LARGEST_TILE / larger;
    if (s->tile_h < 1) s->tile_h = 1;
    if (s->tile_w < 1) s->tile_w = 1;
    const size_t tile = (size_t)s->tile_h * (size_t)s->tile_w, n = 2 * (size_t)s->n_tiles;
    TRY(ls__classes_init(&s->classes, ds->class_names, ds->n_classes));
    TRY(ls__calloc(&s->pixels, 2, image));
    TRY(ls__calloc(&s->augmented, 2 * image, sizeof *s->augmented));
    TRY(ls__calloc(&s->small, n, (size_t)s->tile_c * tile));
    TRY(ls__calloc(&s->texts, n, sizeof *s->texts));
    return ls__calloc(&s->tiles, n, sizeof *s->tiles);
}

/* An image becomes the tile at `place`, small enough. */
static enum ls_status set_tile(struct sheet *s, int place, const uint8_t *image /* [c,h,w] */)
{
    const struct ls_dataset *ds = s->ds;
    const size_t row = (size_t)ds->w;
    const struct ls_image_layout layout = {
        .c = ds->c, .h = ds->h, .w = ds->w, .channel = row * (size_t)ds->h, .row = row, .pixel = 1};
    uint8_t *out = s->small + (size_t)place * (size_t)s->tile_c * (size_t)s->tile_h * (size_t)s->tile_w;
    TRY(ls__resample(image, &layout, s->tile_h, s->tile_w, out));
    s->tiles[place] = (struct ls_draw_tile){.pixels = out,
                                            .c = s->tile_c,
                                            .h = s->tile_h,
                                            .w = s->tile_w,
                                            .text = s->texts[place][0],
                                            .tip = s->texts[place][1]};
    return LS_OK;
}

static void set_texts(struct sheet *s, int place, int64_t sample, int other, double share)
{
    char number[LS_CLASS_TEXT], other_number[LS_CLASS_TEXT], *text = s->texts[place][0];
    const int label = s->ds->labels[sample];
    const char *name = ls__classes_show(&s->classes, label, number), *file = ls_dataset_file(s->ds, sample);
    if (other == label || share >= 1)
        snprintf(text, MAX_TEXT, "%s", name);
    else
        snprintf(text, MAX_TEXT, "%.0f %% %s, %s", 100 * share, name,
                 ls__classes_show(&s->classes, other, other_number));
    snprintf(s->texts[place][1], MAX_TEXT, "%.80s, sample %" PRId64 "%s%.60s", text, sample, file ? ", " : "",
             file ? file : "");
}

/* What ls_backend_load makes of n samples, back as bytes. Training images are normalised by the data's own numbers, so
 * that what is blank is the mean; here that is undone. */
static enum ls_status augment(struct sheet *s, int n, const int places[2])
{
    const struct ls_dataset *ds = s->ds;
    struct ls_transform t = ls__augmentation_of(&s->o->train);
    const size_t plane = (size_t)ds->h * (size_t)ds->w, image = plane * (size_t)ds->c;
    const uint8_t *pixels[2] = {s->pixels, s->pixels + image};
    uint16_t labels[2];
    uint32_t samples[2], numbers[2];
    int32_t dst_labels[2], mix_labels[2];
    float mix_shares[2] = {1, 1};
    t.c = ds->c, t.h = ds->h, t.w = ds->w;
    memcpy(t.mean, ds->mean, sizeof t.mean);
    memcpy(t.std, ds->std, sizeof t.std);
    for (int i = 0; i < n; i++) {
        samples[i] = (uint32_t)s->samples[places[i]];
        labels[i] = ds->labels[samples[i]];
        mix_labels[i] = labels[i];
    }
    const bool is_mixing = ls_transform_is_mixing(&t);
    const struct ls_load load = {.transform = &t,
                                 .is_training = true,
                                 .seed = (uint64_t)s->o->train.seed,
                                 .n = n,
                                 .mb = n,
                                 .samples = samples,
                                 .labels = labels,
                                 .pixels = pixels,
                                 .dst = s->augmented,
                                 .dst_labels = dst_labels,
                                 .dst_samples = numbers,
                                 .dst_mix_labels = is_mixing ? mix_labels : NULL,
                                 .dst_mix_shares = is_mixing ? mix_shares : NULL};
    TRY(ls_backend_load(NULL, &load));
    for (size_t i = 0; i < (size_t)n * image; i++) {
        const size_t c = i / plane % (size_t)ds->c;
        const float v = (s->augmented[i] * t.std[c] + t.mean[c]) * 255.0f + 0.5f;
        s->pixels[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
    for (int i = 0; i < n; i++) {
        TRY(set_tile(s, s->n_tiles + places[i], s->pixels + (size_t)i * image));
        set_texts(s, s->n_tiles + places[i], samples[i], mix_labels[i], (double)mix_shares[i]);
    }
    return LS_OK;
}

/* Tiles column by column, two at a time: neighbours are of different classes. */
static enum ls_status fill(struct sheet *s)
{
    const size_t image = (size_t)s->ds->c * (size_t)s->ds->h * (size_t)s->ds->w;
    const int n_rows = (s->n_tiles + COLUMNS - 1) / COLUMNS;
    int places[2], n = 0;
    for (int i = 0; i < COLUMNS * n_rows; i++) {
        const int place = i % n_rows * COLUMNS + i / n_rows;
        if (place < s->n_tiles && s->samples[place] >= 0) {
            TRY(ls_dataset_read(s->ds, s->samples[place], s->pixels + (size_t)n * image));
            TRY(set_tile(s, place, s->pixels + (size_t)n * image));
            set_texts(s, place, s->samples[place], s->ds->labels[s->samples[place]], 1);
            places[n++] = place;
        }
        if (n == 0 || (n == 1 && i < COLUMNS * n_rows - 1)) continue;
        if (s->is_augmented) TRY(augment(s, n, places));
        n = 0;
    }
    return LS_OK;
}

/* --- the picture --- */

/* "--crop-pad 4 --flip" */
static void describe(const struct ls_options *o, struct ls_buf *out)
{
    static const enum ls_setting_id ids[] = {LS_SET_CROP_PAD, LS_SET_RESIZED_CROP, LS_SET_FLIP,  LS_SET_BRIGHTNESS,
                                             LS_SET_CONTRAST, LS_SET_SATURATION,   LS_SET_HUE,   LS_SET_CUTOUT,
                                             LS_SET_ERASING,  LS_SET_MIXUP,        LS_SET_CUTMIX};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const struct ls_setting *setting = &ls__settings[ids[i]];
        char value[64];
        ls__setting_print(setting, &o->train, value, sizeof value);
        if (strcmp(value, "0") == 0 || strcmp(value, "off") == 0) continue;
        ls__buf_addf(out, " --%s%s%s", setting->name, setting->type == LS_SETTING_FLAG ? "" : " ",
                     setting->type == LS_SETTING_FLAG ? "" : value);
    }
}

static enum ls_status draw(const struct sheet *s)
{
    struct ls_buf title = LS_BUF_INIT, seen = LS_BUF_INIT;
    int n_there = 0;
    for (int i = 0; i < s->n_tiles; i++) n_there += s->samples[i] >= 0;
    ls__buf_addf(&title, "%s: %d of %" PRId64 " training images of %dx%dx%d, %d classes", s->ds->name, n_there,
                 s->ds->n, s->ds->c, s->ds->h, s->ds->w, s->ds->n_classes);
    ls__buf_addf(&seen, "As training sees them (seed %" PRId64 ", epoch 1):", s->o->train.seed);
    describe(s->o, &seen);
    const struct ls_draw_panel panels[] = {
        {.kind = LS_DRAW_TILES,
         .title = s->is_augmented ? "As they are" : NULL,
         .tiles = s->tiles,
         .n_tiles = s->n_tiles,
         .n_columns = COLUMNS},
        {.kind = LS_DRAW_TILES,
         .title = seen.text,
         .tiles = s->tiles + s->n_tiles,
         .n_tiles = s->n_tiles,
         .n_columns = COLUMNS},
    };
    const struct ls_draw_picture picture = {.title = title.text,
                                            .panels = panels,
                                            .n_panels = s->is_augmented ? 2 : 1,
                                            .n_columns = s->is_augmented ? 2 : 1,
                                            .width = s->is_augmented ? 1700 : 880};
    enum ls_status status = ls__buf_check(&title);
    if (status == LS_OK) status = ls__buf_check(&seen);
    if (status == LS_OK) status = ls_draw_write(&picture, s->o->output);
    ls__buf_release(&title);
    ls__buf_release(&seen);
    return status;
}

enum ls_status ls__data_sheet_check(const struct ls_options *o)
{
    if (!o->output && ls__augmentation_is_on(&o->train))
        return ls_fail(LS_USAGE, "data info shows augmentation in a picture of samples: add -o samples.png");
    if (!o->output) return LS_OK;
    TRY(ls__augmentation_check(&o->train));
    TRY(ls_draw_can_write(o->output));
    return ls__print_try(o->output);
}

enum ls_status ls__data_draw_sheet(const struct ls_dataset *ds, const struct ls_options *o)
{
    struct sheet *s = NULL;
    TRY(ls__calloc(&s, 1, sizeof *s));
    s->ds = ds;
    s->o = o;
    s->is_augmented = ls__augmentation_is_on(&o->train);
    enum ls_status status = choose(s);
    if (status == LS_OK) status = build(s);
    if (status == LS_OK) status = fill(s);
    if (status == LS_OK) status = draw(s);
    ls__classes_release(&s->classes);
    free(s->pixels);
    free(s->augmented);
    free(s->small);
    free(s->texts);
    free(s->tiles);
    free(s);
    return status;
}
