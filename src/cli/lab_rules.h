/* lab_rules.h: what the lab module asks of the program: options of train, models, data sets, speeds. */
#ifndef LS_CLI_LAB_RULES_H
#define LS_CLI_LAB_RULES_H

#include "lab/run.h"

/* device: of --device; "": not given. */
struct ls_lab_rules ls__lab_rules(const char *device);

/* Images of a split as the set is published; 0: it is no published set. */
int64_t ls__lab_published_images(const char *data, bool is_test);
/* Its shape and classes; false: not known without its files. */
bool ls__lab_shape(const char *data, int64_t dims[3], int *n_classes);
const char *ls__lab_stand_in(const char *data);

/* LS_UNSUPPORTED if a job's device cannot compute on this machine, with why. */
enum ls_status ls__lab_check_devices(const struct ls_lab *lab, const struct ls_lab_state *state) LS_MUST_CHECK;
/* LS_DATA if a job's data set is not there, with what to do. */
enum ls_status ls__lab_check_data(const struct ls_lab_state *state) LS_MUST_CHECK;

/* --- lab_say.c --- */

/* A message of `train` in the words of a lab file: "--nodes 3" as "nodes=3". */
void ls__lab_retell(const char *message, char *out, size_t size);
/* The last line of those that set what the message names; the run's, if it names nothing that the run sets. */
int ls__lab_line_told(const struct ls_lab_run *run, const char *message);
/* Values that may stand behind `vary KEY`, apart by blanks. */
enum { LS_LAB_VALUES_BYTES = 128 };
const char *ls__lab_values(const char *key, char *out, size_t size);

/* --- lab_images.c --- */

/* Images of data sets, counted when they are first asked for, and kept. */
struct ls_lab_counts;
enum ls_status ls__lab_counts_create(struct ls_lab_counts **out) LS_MUST_CHECK;
void ls__lab_counts_destroy(struct ls_lab_counts **counts);
/* For ls_lab_means; context is the counts. Those on this machine, else those published; 0: not known. */
int64_t ls__lab_images(void *context, const struct ls_lab_job *job, bool is_test);

/* --- lab_predict.c --- */

/* Rates of step are measured when they are first asked for, each for a second or two, and kept. */
struct ls_lab_rates;
enum ls_status ls__lab_rates_create(struct ls_lab_rates **out, struct ls_lab_counts *counts) LS_MUST_CHECK;
void ls__lab_rates_destroy(struct ls_lab_rates **rates);
/* For ls_lab_means; context is the rates. */
void ls__lab_predict(void *context, const struct ls_lab_job *job, double *seconds, double *bytes);

#endif
