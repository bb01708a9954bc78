/* cmd.h: one function per command, and what they print with. Results go to stdout; failures are returned. */
#ifndef LS_CLI_CMD_H
#define LS_CLI_CMD_H

#include "base/buf.h"
#include "base/json.h"
#include "cli/options.h"

#include <stddef.h>

enum ls_status ls__cmd_train(const struct ls_options *o) LS_MUST_CHECK;
/* The same for `server`: no workers are started. */
enum ls_status ls__train_as_server(const struct ls_options *o, const char *listen) LS_MUST_CHECK;
/* "[::1]" and "10.0.0.1" have no port; "[::1]:4711" and "host:4711" do. cmd_server.c */
bool ls__address_has_port(const char *address);
enum ls_status ls__cmd_eval(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_classify(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_export(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_bench(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_plan(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_tune(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_predict(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_models(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_data(const struct ls_options *o) LS_MUST_CHECK;
/* *exit_code: of the command that was recorded. */
enum ls_status ls__cmd_record(const struct ls_options *o, int *exit_code) LS_MUST_CHECK;
enum ls_status ls__cmd_inspect(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_report(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_show(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_watch(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_server(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_serve(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_diff(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_plot(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_doctor(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_lab(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_sweep(const struct ls_options *o) LS_MUST_CHECK;
enum ls_status ls__cmd_help(const struct ls_options *o) LS_MUST_CHECK;

/* "lockstep 0.1.0", backends with their libraries and instruction set, other libraries. */
enum ls_status ls__cmd_version(void) LS_MUST_CHECK;

struct ls_bench_options;
/* What bench, plan and predict measure: the network, its data, what computes; the rest is the command's. cmd_bench.c */
struct ls_bench_options ls__bench_options_of(const struct ls_options *o);

/* --- data_classes.c --- */

struct json_t;
struct ls_dataset;
/* A line for each class: name and images. */
enum ls_status ls__data_print_classes(const struct ls_dataset *ds) LS_MUST_CHECK;
/* The same as members "class_names" and "class_counts". */
enum ls_status ls__data_json_classes(const struct ls_dataset *ds, struct json_t *object) LS_MUST_CHECK;

/* --- data_sheet.c --- */

/* LS_USAGE if the options ask for a sheet that cannot be, or for augmentation without one. Before anything is read. */
enum ls_status ls__data_sheet_check(const struct ls_options *o) LS_MUST_CHECK;
/* Samples of every class as a picture, to o->output; with augmentation also as training sees them. */
enum ls_status ls__data_draw_sheet(const struct ls_dataset *ds, const struct ls_options *o) LS_MUST_CHECK;

/* --- print.c --- */

/* Prints and drops the object; NULL is LS_NOMEM. */
enum ls_status ls__print_json(struct json_t *object) LS_MUST_CHECK;
/* Prints and releases the buffer. */
enum ls_status ls__print_buf(struct ls_buf *b) LS_MUST_CHECK;
/* A field of a CSV file, quoted where it must be, with a comma before it unless it begins the line. */
void ls__csv_add(struct ls_buf *b, const char *text);
void ls__csv_addf(struct ls_buf *b, const char *fmt, ...) LS_PRINTF(2, 3);
/* Before long work: whether ls__print_file could write there. */
enum ls_status ls__print_try(const char *path) LS_MUST_CHECK;
/* Writes the buffer to a file at once, or to stdout for "-", and releases it. */
enum ls_status ls__print_file(struct ls_buf *b, const char *path) LS_MUST_CHECK;
/* Columns that a text takes in a terminal, as ls__print_plain shows it: of UTF-8 one for each character. */
int ls__columns_of(const char *text);
/* Text from a file, padded to `width` columns; control characters become '?', so that no file talks to the terminal. */
void ls__print_plain(const char *text, int width);
/* "61.7 k", "11.2 M"; "1.5 MiB"; "98.91 %" or "not measured". Return out. */
enum { LS_TEXT_BYTES = 32 };
const char *ls__count_text(double count, char out[LS_TEXT_BYTES]);
const char *ls__bytes_text(double bytes, char out[LS_TEXT_BYTES]);
const char *ls__percent_text(double fraction, char out[LS_TEXT_BYTES]);

#endif
