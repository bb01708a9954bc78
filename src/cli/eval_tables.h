/* eval_tables.h: what `lockstep eval` tells of classes: tables for the terminal, JSON, CSV, a picture. */
#ifndef LS_CLI_EVAL_TABLES_H
#define LS_CLI_EVAL_TABLES_H

#include "train/predictions.h"

struct json_t;

enum ls_status ls__eval_print_classes(const struct predictions *p) LS_MUST_CHECK;
/* The matrix where it fits 80 columns, else the pairs that are confused most. */
enum ls_status ls__eval_print_confusion(const struct predictions *p) LS_MUST_CHECK;

/* Members of the object that --json prints. */
enum ls_status ls__eval_json_classes(const struct predictions *p, struct json_t *object) LS_MUST_CHECK;
enum ls_status ls__eval_json_confusion(const struct predictions *p, struct json_t *object) LS_MUST_CHECK;

/* A line for every sample. */
enum ls_status ls__eval_write_csv(const struct predictions *p, const char *path) LS_MUST_CHECK;
/* The matrix as a heat map; .png, .svg or .pdf. Whether this build can, and the file can be written. */
enum ls_status ls__eval_can_draw(const char *path) LS_MUST_CHECK;
enum ls_status ls__eval_draw_confusion(const struct predictions *p, const char *title, const char *path) LS_MUST_CHECK;

#endif
