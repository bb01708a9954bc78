/* parts.h: what a report is made of; shared by the files of this module. */
#ifndef LS_REPORT_PARTS_H
#define LS_REPORT_PARTS_H

#include "report/figures.h"
#include "report/groups.h"
#include "report/report.h"
#include "report/tables.h"
#include "report/words.h"

void ls__report_one(struct ls_page *p, const struct ls_history *h, const struct ls_report_options *o);
void ls__report_several(struct ls_page *p, struct ls_history *const *runs, int n, const struct ls_report_options *o);

/* compare.c: pictures of groups. */
void ls__compare_figures(struct ls_page *p, const struct ls_groups *g);
/* findings.c: sentences that follow from the numbers. */
void ls__compare_findings(struct ls_page *p, const struct ls_groups *g);

#endif
