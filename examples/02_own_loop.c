/* 02_own_loop: the loop is ours: a step, a look at the loss, an evaluation and a checkpoint when we like.
 *
 *     cc 02_own_loop.c $(pkg-config --cflags --libs lockstep) -o loop && ./loop runs/loop
 *
 * The weights are those of `lockstep train lenet5 digits -i 40`: when it is evaluated or saved does not matter.
 */
#include <lockstep/trainer.h>

#include <stdio.h>

static enum ls_status train(struct ls_trainer *trainer)
{
    struct ls_step step;
    struct ls_result result;
    double loss, accuracy;
    enum ls_status status = LS_OK;
    while (!ls_trainer_is_done(trainer)) {
        status = ls_trainer_step(trainer, &step);
        if (status != LS_OK) return status;
        if (step.step % 10 != 0) continue;
        status = ls_trainer_evaluate(trainer, &loss, &accuracy);
        if (status != LS_OK) return status;
        printf("step %lld, lr %.4f: loss %.4f, test accuracy %.2f %%\n", (long long)step.step, step.lr, step.loss,
               100 * accuracy);
        status = ls_trainer_save(trainer);
        if (status != LS_OK) return status;
    }
    status = ls_trainer_finish(trainer, &result);
    if (status == LS_OK) printf("weights %s\n", result.weights_hash);
    return status;
}

/* The other way: ls_train's own loop calls us. It goes into options.control, like the wish to stop. */
static void on_step(void *context, const struct ls_step *step)
{
    double *sum = context;
    *sum += step->loss;
}

int main(int argc, char **argv)
{
    double sum = 0;
    const struct ls_control control = {.context = &sum, .on_step = on_step};
    struct ls_train_options options;
    struct ls_trainer *trainer;
    ls_train_options_default(&options);
    options.model = "lenet5";
    options.data = "digits";
    options.run_dir = argc > 1 ? argv[1] : "runs/loop";
    options.iterations = 40;
    options.quiet = true;
    options.control = &control;
    enum ls_status status = ls_trainer_open(&trainer, &options);
    if (status == LS_OK) {
        status = train(trainer);
        ls_trainer_close(&trainer);
    }
    if (status != LS_OK) fprintf(stderr, "%s\n", ls_error_message());
    printf("mean loss %.4f\n", sum / 40);
    return ls_status_exit_code(status);
}
