/* words.h: numbers for people, in texts of the page's memory; "" for what is not finite. */
#ifndef LS_REPORT_WORDS_H
#define LS_REPORT_WORDS_H

#include "history/history.h"
#include "report/page.h"

const char *ls__say_count(struct ls_page *p, double count);     /* "28,364" */
const char *ls__say_seconds(struct ls_page *p, double seconds); /* "6.35 s", "12 min 5 s", "3 h 20 min" */
const char *ls__say_bytes(struct ls_page *p, double bytes);     /* "73.6 MiB" */
const char *ls__say_percent(struct ls_page *p, double fraction, int digits);
const char *ls__say_number(struct ls_page *p, double value); /* four digits */

/* The part after its last value: texts of the run's files. */
const char *ls__say_value(struct ls_page *p, const struct ls_history *h, const char *path);

/* "LeNet-5 on digits"-like: "lenet5 on digits". */
const char *ls__say_run(struct ls_page *p, const struct ls_history *h);
/* How a run ended that is not finished, and how to go on; NULL for one that is. */
const char *ls__say_end(struct ls_page *p, const struct ls_history *h);

#endif
