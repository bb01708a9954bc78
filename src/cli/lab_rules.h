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
