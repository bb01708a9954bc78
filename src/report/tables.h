/* tables.h: what a run's files tell about ranks and layers, as parts of a page: of a report and of the live page. */
#ifndef LS_REPORT_TABLES_H
#define LS_REPORT_TABLES_H

#include "history/history.h"
#include "report/page.h"

/* A row per epoch and rank (ranks.csv), the newest last; where there are many, the last ones. With several ranks also
 * what each did in all (result.json). Nothing without either. */
void ls__table_ranks(struct ls_page *p, const struct ls_history *h);
/* What each layer costs (result.json): a picture of the dearest and a table. False: nothing is known of it. */
bool ls__table_layers(struct ls_page *p, const struct ls_history *h);

#endif
