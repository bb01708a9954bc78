/* view.h: shared by the files that make pages. */
#ifndef LS_SERVE_VIEW_H
#define LS_SERVE_VIEW_H

#include "report/parts.h"
#include "serve/site.h"

/* Locked: the parts of a run's page. A heading begins a section, which a browser replaces when it has changed. */
void ls__view_run_parts(struct ls_page *p, const struct ls_site *site, const struct ls_site_run *run);
/* Locked: the list, as HTML. */
void ls__view_list(struct ls_buf *b, struct ls_page *p, const struct ls_site *site);

/* "running", "finished", "stopped": how a run's state is called and which class it has. */
/* <span class="state running">running</span> */
void ls__view_add_state(struct ls_buf *b, const struct ls_history *h);
/* Epochs done and asked for; NAN if unknown. */
double ls__view_epoch(const struct ls_history *h, double *of);
/* How much of it is done, 0 to 1; NAN if unknown. */
double ls__view_progress(const struct ls_history *h);
double ls__view_result_or_last(const struct ls_history *h, const char *path, const char *split, const char *value);

#define LS_SECTION_FOLDED "All options" /* this heading's section is closed at first */

#endif
