/* report_public.c: a report that others may read: without what only concerns the machine it was made on
 * (report_impl.h).
 *
 * Of an absolute path the last part stays, so that a command is one to type where the data lies; the machines of
 * `hosts` are HOSTS. All texts of the page are gone through, whoever wrote them: a message of a run that failed has
 * paths, too.
 */
#include "base/buf.h"
#include "lab/report_impl.h"
#include "lab/run.h"

#include <ctype.h>
#include <string.h>

/* Where a path begins: a slash behind nothing, a blank or a sign, and not one of "1/16", "images/s" or "http://". */
static bool begins_path(const char *text, const char *at)
{
    const bool is_behind_word = at > text && (isalnum((unsigned char)at[-1]) || strchr("./_~-)", at[-1]));
    return *at == '/' && !is_behind_word && (isalnum((unsigned char)at[1]) || at[1] == '.' || at[1] == '_');
}

static size_t path_len(const char *at)
{
    size_t n = strcspn(at, " \t\n'\"|,;:()<>");
    while (n > 1 && (at[n - 1] == '/' || at[n - 1] == '.')) n--; /* of the sentence */
    return n;
}

static const char *without_paths(struct ls_page *p, const char *text)
{
    struct ls_buf b = LS_BUF_INIT;
    for (const char *at = text; *at;) {
        if (!begins_path(text, at)) {
            ls__buf_add(&b, at++, 1);
            continue;
        }
        const size_t len = path_len(at);
        size_t from = len;
        while (from > 0 && at[from - 1] != '/') from--;
        ls__buf_add(&b, at + from, len - from);
        at += len;
    }
    const char *made = ls__page_format(p, "%s", b.len ? b.text : "");
    if (b.failed && p->status == LS_OK) p->status = ls__buf_check(&b);
    ls__buf_release(&b);
    return made;
}

static size_t match_len(const char *hosts, const char *at, size_t least)
{
    const size_t n = strlen(hosts);
    return n > least && strncmp(at, hosts, n) == 0 ? n : least;
}

/* Of the longest list of hosts that stands there; 0: none does. One list may begin as another does. */
static size_t hosts_len(const struct ls_lab_state *s, const char *at)
{
    size_t len = match_len(s->hosts, at, 0);
    for (int i = 0; i < s->n_jobs; i++) {
        const char *hosts = ls__lab_job_setting(&s->jobs[i], "hosts");
        if (hosts) len = match_len(hosts, at, len);
    }
    return len;
}

static const char *without_hosts(const struct ls_lab_view *v, const char *text)
{
    const char *begun = text; /* what is not written yet */
    const char *made = "";
    for (const char *at = text; *at;) {
        const size_t len = hosts_len(v->state, at);
        if (len > 0) {
            made = ls__page_format(v->p, "%s%.*sHOSTS", made, (int)(at - begun), begun);
            begun = at + len;
        }
        at += len > 0 ? len : 1;
    }
    return begun == text ? text : ls__page_format(v->p, "%s%s", made, begun);
}

static const char *cleaned(const struct ls_lab_view *v, const char *text)
{
    return text ? without_paths(v->p, without_hosts(v, text)) : NULL;
}

void ls__lab_make_public(const struct ls_lab_view *v)
{
    for (int i = 0; i < v->p->n_parts; i++) {
        struct ls_part *part = &v->p->parts[i];
        const size_t n = (size_t)part->n_rows * (size_t)part->n_columns;
        if (part->kind == LS_PART_FIGURE) continue;
        part->text = cleaned(v, part->text);
        const char **cells = part->cells ? ls__page_alloc(v->p, n, sizeof *cells) : NULL;
        if (!cells) continue;
        for (size_t k = 0; k < n; k++) cells[k] = cleaned(v, part->cells[k]);
        part->cells = cells;
    }
}
