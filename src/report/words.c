/* words.c: writes counts, times, sizes and shares as people read them. See words.h. */
#include "report/words.h"

#include "base/quote.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ls__say_count(struct ls_page *p, double count)
{
    char digits[40], out[64];
    size_t at = 0;
    if (!isfinite(count) || fabs(count) > 1e18) return "";
    snprintf(digits, sizeof digits, "%.0f", fabs(count));
    if (count <= -0.5) out[at++] = '-';
    for (size_t i = 0, n = strlen(digits); i < n; i++) {
        if (i && (n - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return ls__page_format(p, "%s", out);
}

const char *ls__say_seconds(struct ls_page *p, double seconds)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e15) return "";
    if (seconds < 0.1) return ls__page_format(p, "%.3g ms", 1e3 * seconds);
    if (seconds < 100) return ls__page_format(p, "%.3g s", seconds);
    if (seconds < 3600) return ls__page_format(p, "%.0f min %.0f s", floor(seconds / 60), floor(fmod(seconds, 60)));
    if (seconds < 172800)
        return ls__page_format(p, "%.0f h %.0f min", floor(seconds / 3600), floor(fmod(seconds, 3600) / 60));
    return ls__page_format(p, "%.0f days %.0f h", floor(seconds / 86400), floor(fmod(seconds, 86400) / 3600));
}

const char *ls__say_bytes(struct ls_page *p, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;
    if (!isfinite(bytes)) return "";
    for (; fabs(bytes) >= 1023.5 && i < 4; i++) bytes /= 1024;
    return ls__page_format(p, fabs(bytes) < 99.95 && i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
}

const char *ls__say_percent(struct ls_page *p, double fraction, int digits)
{
    return isfinite(fraction) ? ls__page_format(p, "%.*f %%", digits, 100 * fraction) : "";
}

const char *ls__say_number(struct ls_page *p, double value)
{
    return isfinite(value) ? ls__page_format(p, "%.4g", value) : "";
}

const char *ls__say_value(struct ls_page *p, const struct ls_history *h, const char *path)
{
    char text[1024];
    ls_history_value(h, path, text, sizeof text);
    return ls__page_format(p, "%s", text);
}

const char *ls__say_run(struct ls_page *p, const struct ls_history *h)
{
    const char *model = ls_history_text(h, "model"), *data = ls_history_text(h, "options.data");
    if (!data) data = ls_history_text(h, "data");
    if (!model) return ls__page_format(p, "%s", ls_history_name(h));
    return data ? ls__page_format(p, "%.200s on %.200s", model, data) : ls__page_format(p, "%.200s", model);
}

/* From its newest checkpoint, if it has one. */
static const char *say_how_to_go_on(struct ls_page *p, const struct ls_history *h)
{
    char name[1024];
    const int64_t *steps;
    const size_t n = ls_history_checkpoints(h, &steps);
    if (n == 0) return "It left no checkpoint to go on from.";
    return ls__page_format(p, "`lockstep train --resume %s` goes on from its newest checkpoint, of step %s.",
                           ls__quote_path(ls_history_name(h), name, sizeof name),
                           ls__say_count(p, (double)steps[n - 1]));
}

const char *ls__say_end(struct ls_page *p, const struct ls_history *h)
{
    const enum ls_run_state state = ls_history_state(h);
    const char *why = ls_history_why(h);
    if (state == LS_RUN_DONE) return NULL;
    if (state == LS_RUN_RUNNING) return "It is still running; this is what its files told so far.";
    const char *then = say_how_to_go_on(p, h);
    if (state == LS_RUN_STOPPED)
        return ls__page_format(p, "It ended in good order before its last step: %.1000s. %s", why ? why : "stopped",
                               then);
    if (state == LS_RUN_FAILED)
        return ls__page_format(p, "It failed: %.1000s. %s", why ? why : "no reason is told", then);
    return ls__page_format(p, "It died before it could say why: it was killed, or its machine went down. %s", then);
}
