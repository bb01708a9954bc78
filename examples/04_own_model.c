/* 04_own_model: a network of our own, as text, without a file.
 *
 *     cc 04_own_model.c $(pkg-config --cflags --libs lockstep) -o model && ./model runs/own
 *
 * docs/formats/model-language.md has every statement. A mistake is LS_DATA with the line it is on.
 */
#include <lockstep/train.h>

#include <stdio.h>

static const char network[] = "model tiny\n"
                              "input any\n"
                              "conv conv1 8 3 pad=1\n"
                              "bn bn1\n"
                              "relu\n"
                              "maxpool 2\n"
                              "conv conv2 16 3 pad=1\n"
                              "relu\n"
                              "maxpool 2\n"
                              "flatten\n"
                              "linear fc classes\n";

int main(int argc, char **argv)
{
    struct ls_train_options options;
    struct ls_result result;
    ls_train_options_default(&options);
    options.model = "tiny.net"; /* what messages call it */
    options.model_text = network;
    options.data = "digits";
    options.run_dir = argc > 1 ? argv[1] : "runs/own";
    options.iterations = 20;
    options.optimizer = "adamw";
    options.lr = 0.002;
    options.quiet = true;
    enum ls_status status = ls_train(&options, &result);
    if (status != LS_OK)
        fprintf(stderr, "%s\n", ls_error_message());
    else
        printf("%s: test accuracy %.1f %%, weights %s\n", result.model, 100 * result.test_accuracy,
               result.weights_hash);
    return ls_status_exit_code(status);
}
