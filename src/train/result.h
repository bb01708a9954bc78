/* result.h: struct ls_result as the JSON object of result.json and --json. */
#ifndef LS_TRAIN_RESULT_H
#define LS_TRAIN_RESULT_H

#include "lockstep/train.h"

struct json_t;

/* The members are the keys; a number that is not finite is null. NULL if memory is short; json_decref() it. */
struct json_t *ls__result_json(const struct ls_result *r);

#endif
