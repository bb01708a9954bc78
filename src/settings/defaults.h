/* defaults.h: the options of a training run as a list, for the default values and for the manifest.
 *
 * The command line's table (src/cli/options.c) says the same for people; tests/unit/test_options.c holds the two
 * together.
 */
#ifndef LS_TRAIN_DEFAULTS_H
#define LS_TRAIN_DEFAULTS_H

#include "lockstep/options.h"

struct json_t;

/* Every option as it stands, keyed by its long name with '_' for '-' ("batch_size"); NULL if memory is short. */
struct json_t *ls__train_options_json(const struct ls_train_options *o);
/* Texts that are NULL get their defaults. */
void ls__train_options_complete(struct ls_train_options *o);
/* LS_USAGE for what no command line could have given: a number out of range, an unknown word, no model. */
enum ls_status ls__train_options_check(const struct ls_train_options *o) LS_MUST_CHECK;
/* null for NULL; a path may be any bytes: a note for what is not UTF-8. */
struct json_t *ls__text_json(const char *text);

#endif
