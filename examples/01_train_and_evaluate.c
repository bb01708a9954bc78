/* 01_train_and_evaluate: a whole training in one call, then its newest checkpoint on the test images.
 *
 *     cc 01_train_and_evaluate.c $(pkg-config --cflags --libs lockstep) -o train && ./train runs/first
 */
#include <lockstep/train.h>

#include <stdio.h>

/* Every failure is a status and one line that says what to do. */
static int fail(enum ls_status status)
{
    fprintf(stderr, "%s\n", ls_error_message());
    return ls_status_exit_code(status);
}

int main(int argc, char **argv)
{
    struct ls_train_options options;
    struct ls_result result;
    enum ls_status status;

    ls_train_options_default(&options); /* what the command line starts from */
    options.model = "lenet5";
    options.data =
        "digits"; /* built in; "mnist", "cifar10", "folder:PATH", ... are found where the program finds them */
    options.run_dir = argc > 1 ? argv[1] : "runs/first";
    options.iterations = 40;
    options.quiet = true;
    status = ls_train(&options, &result);
    if (status != LS_OK) return fail(status);
    printf("trained %lld steps: accuracy %.2f %%, weights %s\n", (long long)result.steps, 100 * result.test_accuracy,
           result.weights_hash);

    struct ls_eval_options eval;
    struct ls_eval_result again;
    ls_eval_options_default(&eval);
    eval.what = result.run_dir; /* or a checkpoint file */
    status = ls_eval(&eval, &again);
    if (status != LS_OK) return fail(status);
    printf("evaluated %lld images: accuracy %.2f %%, weights %s\n", (long long)again.images, 100 * again.accuracy,
           again.weights_hash);
    return 0;
}
