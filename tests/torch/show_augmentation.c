/* show_augmentation.c: two drawn pictures through the augmentations, a row each, as raw RGB for
 * scripts/plot-augmentation: "WIDTH HEIGHT\n" and the pixels. */
#include "load_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 96, PLANE = SIDE * SIDE, COLUMNS = 8, GAP = 4, CELL = SIDE + GAP };

/* A house under the sun, or a ball on a chequered floor. */
static void draw(int which, uint8_t *out /* [3,SIDE,SIDE] */)
{
    for (int i = 0; i < PLANE; i++) {
        const int y = i / SIDE, x = i % SIDE, dx = x - 72, dy = y - 22, bx = x - 46, by = y - 44;
        int rgb[3] = {90 + y, 150 + y / 2, 235};
        if (which == 0) {
            if (dx * dx + dy * dy < 120) rgb[0] = 250, rgb[1] = 210, rgb[2] = 60;
            if (y > 66) rgb[0] = 60 + x / 3, rgb[1] = 140 - y / 4, rgb[2] = 60;
            if (y > 44 && y < 80 && x > 18 && x < 56) rgb[0] = 200, rgb[1] = 90, rgb[2] = 70;
            if (y > 24 && y <= 44 && abs(x - 37) < y - 22) rgb[0] = 110, rgb[1] = 50, rgb[2] = 45;
            if (y > 58 && y < 80 && x > 32 && x < 43) rgb[0] = 70, rgb[1] = 45, rgb[2] = 30;
        } else {
            const bool is_dark = (x / 12 + y / 12) % 2;
            if (y > 50) rgb[0] = is_dark ? 70 : 220, rgb[1] = is_dark ? 60 : 215, rgb[2] = is_dark ? 90 : 225;
            if (bx * bx + by * by < 900) {
                const int light = 255 - ((bx + 12) * (bx + 12) + (by + 12) * (by + 12)) / 9;
                rgb[0] = light < 60 ? 60 : light;
                rgb[1] = light / 4;
                rgb[2] = light / 3;
            }
        }
        for (int c = 0; c < 3; c++) out[c * PLANE + i] = (uint8_t)(rgb[c] < 0 ? 0 : rgb[c] > 255 ? 255 : rgb[c]);
    }
}

static const struct ls_transform rows[] = {
    {.flip = false},
    {.resized_crop = 0.2f, .flip = true},
    {.brightness = 0.4f, .contrast = 0.4f, .saturation = 0.4f, .hue = 0.1f},
    {.erasing = 1},
    {.mixup = 1},
    {.cutmix = 1},
};
enum { N_ROWS = sizeof rows / sizeof *rows, WIDTH = COLUMNS * CELL + GAP, HEIGHT = N_ROWS * CELL + GAP };

static uint8_t sheet[HEIGHT][WIDTH][3];

static void show(int row, const float *images)
{
    for (int k = 0; k < COLUMNS * PLANE; k++) {
        const int column = k / PLANE, y = k % PLANE / SIDE, x = k % SIDE;
        for (int c = 0; c < 3; c++) {
            const float v = images[((int64_t)column * 3 + c) * PLANE + k % PLANE] * 255.0f + 0.5f;
            sheet[GAP + row * CELL + y][GAP + column * CELL + x][c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
    }
}

int main(void)
{
    static uint8_t pictures[COLUMNS][3 * PLANE];
    static float images[COLUMNS * 3 * PLANE];
    uint16_t labels[COLUMNS];
    int32_t others[COLUMNS];
    float shares[COLUMNS];
    memset(sheet, 255, sizeof sheet);
    for (int i = 0; i < COLUMNS; i++) {
        draw(i % 2, pictures[i]);
        labels[i] = (uint16_t)(i % 2);
    }
    for (int r = 0; r < N_ROWS; r++) {
        struct ls_transform t = rows[r];
        t.c = 3, t.h = t.w = SIDE;
        for (int c = 0; c < 3; c++) t.std[c] = 1;
        if (t.erasing > 0) /* what is blank is the mean; here a grey */
            for (int c = 0; c < 3; c++) t.mean[c] = 0.5f;
        if (load_images(&t, 4, 0, COLUMNS, pictures[0], labels, images, others, shares) != LS_OK) return 1;
        for (int i = 0; t.erasing > 0 && i < COLUMNS * 3 * PLANE; i++) images[i] += 0.5f;
        show(r, images);
    }
    printf("%d %d\n", WIDTH, HEIGHT);
    return fwrite(sheet, sizeof sheet, 1, stdout) == 1 ? 0 : 1;
}
