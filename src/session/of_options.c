/* of_options.c: what a session is opened with, of what a training was asked. The job, the trace and the way to
 * synchronise are the caller's to add.
 */
#include "lockstep/options.h"
#include "session/session.h"
#include "settings/augmentation.h"

#include <string.h>

struct session_options ls__session_options_of(const struct ls_train_options *o)
{
    return (struct session_options){
        .model = o->model,
        .model_text = o->model_text,
        .data = o->data,
        .train_images = o->train_images,
        .test_images = o->test_images,
        .data_dir = o->data_dir,
        .device = o->device,
        .precision = o->precision,
        .isa = o->isa,
        .tune = o->tune,
        .resize = o->resize,
        .validation = o->validation,
        .seed = (uint64_t)o->seed,
        .batch_size = o->batch_size,
        .shards = o->shards,
        .threads = o->threads,
        .is_training = true,
        .with_test = !o->no_eval,
        .normalize = o->normalize,
        .augmentation = ls__augmentation_of(o),
        .label_smoothing = o->label_smoothing,
        .float_sums = strcmp(o->sum, "float") == 0,
        .optim = {.is_adamw = strcmp(o->optimizer, "adamw") == 0,
                  .nesterov = o->nesterov,
                  .momentum = o->momentum,
                  .weight_decay = o->weight_decay,
                  .beta1 = o->beta1,
                  .beta2 = o->beta2,
                  .eps = o->eps},
        .freeze = o->freeze,
        .lr_of = o->lr_of,
        .lr = o->lr,
        .control = o->control,
        .gpus = o->gpus,
        .balance = o->balance,
        .compress = o->compress,
        .low_memory = strcmp(o->memory, "low") == 0,
    };
}
