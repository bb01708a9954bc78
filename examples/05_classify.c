/* 05_classify: a trained network says what is on a picture.
 *
 *     cc 05_classify.c $(pkg-config --cflags --libs lockstep) -o classify && ./classify RUN PICTURE.pgm...
 *
 * RUN is a run directory or a checkpoint file; pictures are grey PGM files ("P5") of the size the network expects.
 */
#include <lockstep/classify.h>

#include <stdio.h>
#include <stdlib.h>

enum { TOP = 3 };

/* The bytes of a binary PGM of w x h; 0 if it is none. */
static int read_pgm(const char *path, int w, int h, unsigned char *pixels)
{
    int its_w = 0, its_h = 0, most = 0;
    size_t n = (size_t)w * (size_t)h;
    FILE *file = fopen(path, "rb");
    int is_good = file && fscanf(file, "P5 %d %d %d", &its_w, &its_h, &most) == 3 && its_w == w && its_h == h &&
                  most == 255 && fgetc(file) != EOF && fread(pixels, 1, n, file) == n;
    if (file) fclose(file);
    return is_good;
}

static enum ls_status classify(struct ls_classifier *classifier, const char *path, const unsigned char *pixels)
{
    struct ls_guess guesses[TOP];
    enum ls_status status = ls_classify_top(classifier, 1, pixels, TOP, guesses);
    if (status != LS_OK) return status;
    printf("%s:", path);
    for (int i = 0; i < TOP; i++) {
        const char *name = ls_classifier_class_name(classifier, guesses[i].label);
        printf(" %d", guesses[i].label);
        if (name) printf(" (%s)", name);
        printf(" %.1f %%%s", 100 * guesses[i].probability, i + 1 < TOP ? "," : "\n");
    }
    return LS_OK;
}

int main(int argc, char **argv)
{
    const struct ls_classifier_options options = {.what = argc > 1 ? argv[1] : "runs/first"};
    struct ls_classifier *classifier;
    enum ls_status status = ls_classifier_open(&classifier, &options);
    if (status != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message());
        return ls_status_exit_code(status);
    }
    const struct ls_classifier_info info = ls_classifier_describe(classifier);
    unsigned char *pixels = malloc((size_t)info.c * (size_t)info.h * (size_t)info.w);
    fprintf(stderr, "%s after %lld steps, pictures of %dx%d\n", info.model, (long long)info.step, info.w, info.h);
    for (int i = 2; pixels && status == LS_OK && i < argc; i++) {
        if (info.c == 1 && read_pgm(argv[i], info.w, info.h, pixels))
            status = classify(classifier, argv[i], pixels);
        else
            fprintf(stderr, "%s: not a PGM file of %dx%d grey pixels\n", argv[i], info.w, info.h);
    }
    if (status != LS_OK) fprintf(stderr, "%s\n", ls_error_message());
    free(pixels);
    ls_classifier_close(&classifier);
    return ls_status_exit_code(status);
}
