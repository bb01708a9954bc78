/* report.c: the report of a lab. */
#include "lab/lab.h"

enum ls_status ls__lab_report(const struct ls_lab *lab, const struct ls_lab_state *state, const char *dir,
                              const char *output)
{
    return ls_fail(LS_UNSUPPORTED, "lab report: not there yet");
}
