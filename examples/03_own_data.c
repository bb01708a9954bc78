/* 03_own_data: images of our own making, straight from memory: is the bright spot left or right, above or below?
 *
 *     cc 03_own_data.c $(pkg-config --cflags --libs lockstep) -o data && ./data runs/spots
 */
#include <lockstep/data.h>
#include <lockstep/train.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 16, N_TRAIN = 2000, N_TEST = 400 };

static const char *const names[] = {"upper left", "upper right", "lower left", "lower right"};

/* n images [n,1,SIDE,SIDE], dark and noisy, with one bright square. */
static void draw(int n, unsigned seed, uint8_t *pixels, uint16_t *labels)
{
    for (int i = 0; i < n; i++) {
        uint8_t *image = pixels + (size_t)i * SIDE * SIDE;
        for (int k = 0; k < SIDE * SIDE; k++) image[k] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 26);
        labels[i] = (uint16_t)((seed = seed * 1664525u + 1013904223u) >> 30);
        int y = labels[i] / 2 * 8 + (int)((seed = seed * 1664525u + 1013904223u) >> 30);
        int x = labels[i] % 2 * 8 + (int)((seed = seed * 1664525u + 1013904223u) >> 30);
        for (int k = 0; k < 16; k++) image[(y + k / 4) * SIDE + x + k % 4] = 200;
    }
}

int main(int argc, char **argv)
{
    uint8_t *pixels = malloc((size_t)(N_TRAIN + N_TEST) * SIDE * SIDE);
    uint16_t *labels = malloc((N_TRAIN + N_TEST) * sizeof *labels);
    if (!pixels || !labels) return 1;
    draw(N_TRAIN, 1, pixels, labels);
    draw(N_TEST, 2, pixels + (size_t)N_TRAIN * SIDE * SIDE, labels + N_TRAIN);

    const struct ls_images train = {.n = N_TRAIN,
                                    .c = 1,
                                    .h = SIDE,
                                    .w = SIDE,
                                    .n_classes = 4,
                                    .pixels = pixels,
                                    .labels = labels,
                                    .class_names = names}; /* borrowed: the arrays stay ours */
    struct ls_images test = train;
    test.n = N_TEST;
    test.pixels = pixels + (size_t)N_TRAIN * SIDE * SIDE;
    test.labels = labels + N_TRAIN;

    struct ls_train_options options;
    struct ls_result result;
    ls_train_options_default(&options);
    options.model = "mlp";
    options.data = "spots"; /* its name in the run's files */
    options.train_images = &train;
    options.test_images = &test;
    options.run_dir = argc > 1 ? argv[1] : "runs/spots";
    options.batch_size = 50;
    options.epochs = 2;
    options.quiet = true;
    enum ls_status status = ls_train(&options, &result);
    free(pixels);
    free(labels);
    if (status != LS_OK)
        fprintf(stderr, "%s\n", ls_error_message());
    else
        printf("test accuracy %.1f %%, weights %s\n", 100 * result.test_accuracy, result.weights_hash);
    return ls_status_exit_code(status);
}
