/* augmentation.h: how a training changes its images, from its settings to what `load` takes. */
#ifndef LS_SETTINGS_AUGMENTATION_H
#define LS_SETTINGS_AUGMENTATION_H

#include "backend/backend.h"
#include "lockstep/options.h"

/* LS_USAGE for what does not go together. */
enum ls_status ls__augmentation_check(const struct ls_train_options *o) LS_MUST_CHECK;
/* Sizes and normalisation are not set: they are the data's. */
struct ls_transform ls__augmentation_of(const struct ls_train_options *o);
/* Whether a training image may be another than the file's. */
bool ls__augmentation_is_on(const struct ls_train_options *o);

#endif
