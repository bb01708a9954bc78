/* cmd_sweep.c: `lockstep sweep train MODEL DATA --vary KEY=A,B ...`: a lab of one question, written from the command
 * line. The text it makes is the lab.txt of its folder, so that a sweep can grow into a lab.
 */
#include "base/buf.h"
#include "cli/cmd.h"
#include "cli/lab_go.h"
#include "cli/lab_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_value(struct ls_buf *b, const char *key, const char *value)
{
    const char *quote = strpbrk(value, " \t#") ? "\"" : "";
    ls__buf_addf(b, " %s=%s%s%s", key, quote, value, quote);
}

/* Of options that are the sweep's own, or every run's. */
static bool is_left_out(const char *name)
{
    static const char *const names[] = {"vary", "repeat", "run", "json", "quiet", "verbose", "help"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static bool is_varied(const struct ls_options *o, const char *key)
{
    const size_t len = strlen(key);
    for (int i = 0; i < o->n_varies; i++)
        if (strncmp(o->varies[i], key, len) == 0 && o->varies[i][len] == '=') return true;
    return false;
}

/* Whether `vary`, "model=a,b", has the value. */
static bool has_value(const char *vary, const char *value)
{
    const char *equals = strchr(vary, '='), apart[] = {strchr(equals, '|') ? '|' : ',', '\0'};
    for (const char *p = equals + 1;; p++) {
        const size_t len = strcspn(p, apart);
        if (len == strlen(value) && strncmp(p, value, len) == 0) return true;
        p += len;
        if (!*p) return false;
    }
}

/* The command has to name a model and data; where they vary, one of the values. */
static enum ls_status check_argument(const struct ls_options *o, const char *key, const char *value)
{
    const size_t len = strlen(key);
    for (int i = 0; i < o->n_varies; i++)
        if (strncmp(o->varies[i], key, len) == 0 && o->varies[i][len] == '=' && !has_value(o->varies[i], value))
            return ls_fail(LS_USAGE,
                           "--vary %s does not have %s, which the command names: name one of its values there",
                           o->varies[i], value);
    return LS_OK;
}

static enum ls_status add_base(struct ls_buf *b, const struct ls_options *o)
{
    char text[1024];
    TRY(check_argument(o, "model", o->args[1]));
    TRY(check_argument(o, "data", o->args[2]));
    ls__buf_adds(b, "base   ");
    add_value(b, "model", o->args[1]);
    add_value(b, "data", o->args[2]);
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        const struct ls_setting *s = option->setting;
        if (!ls__option_is_given(o, s->name) || is_left_out(s->name)) continue;
        size_t len = ls__setting_print(s, o, text, sizeof text);
        if (len >= sizeof text || strchr(text, '"'))
            return ls_fail(LS_USAGE, "--%s: too long, or with \" in it", s->name);
        if (is_varied(o, s->name))
            return ls_fail(LS_USAGE, "--vary %s, but --%s %s is given too: take one of them away", s->name, s->name,
                           text);
        add_value(b, s->name, text);
    }
    ls__buf_adds(b, "\n");
    return LS_OK;
}

static enum ls_status add_vary(struct ls_buf *b, const char *vary)
{
    const char *equals = strchr(vary, '='), apart = strchr(equals, '|') ? '|' : ',';
    ls__buf_addf(b, "  vary   %.*s", (int)(equals - vary), vary);
    for (const char *p = equals + 1;; p++) {
        const char *end = strchr(p, apart);
        size_t len = end ? (size_t)(end - p) : strlen(p);
        if (len == 0)
            return ls_fail(LS_USAGE, "--vary %s: a value is empty; expected %.*s=A%cB", vary, (int)(equals - vary),
                           vary, apart);
        const char *quote = strcspn(p, " \t#") < len ? "\"" : "";
        ls__buf_addf(b, " %s%.*s%s", quote, (int)len, p, quote);
        if (!end) break;
        p = end;
    }
    ls__buf_adds(b, "\n");
    return LS_OK;
}

static bool is_name(const char *text)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t len = strlen(text);
    return len > 0 && len <= 40 && *text != '-' && *text != '.' && strspn(text, good) == len;
}

static enum ls_status write_lab(struct ls_buf *b, const struct ls_options *o)
{
    ls__buf_addf(b, "title   %s on %s by", is_varied(o, "model") ? "Models" : o->args[1],
                 is_varied(o, "data") ? "data" : o->args[2]);
    for (int i = 0; i < o->n_varies; i++)
        ls__buf_addf(b, "%s %.*s", i ? "," : "", (int)strcspn(o->varies[i], "="), o->varies[i]);
    ls__buf_adds(b, "\n");
    TRY(add_base(b, o));
    ls__buf_addf(b, "repeat  %" PRId64 "\n\nquestion Q1: What differs?\n", o->repeat);
    ls__buf_addf(b, "  run    %s\n", is_varied(o, "model") ? "model" : is_name(o->args[1]) ? o->args[1] : "run");
    for (int i = 0; i < o->n_varies; i++) TRY(add_vary(b, o->varies[i]));
    ls__buf_adds(b, "  show   time speed-up accuracy curves resources communication hash\n");
    return ls__buf_check(b);
}

/* Messages name lines of a text that nobody has seen: without them. */
static enum ls_status without_line(enum ls_status status)
{
    int line, at = 0;
    char message[1024];
    snprintf(message, sizeof message, "%s", ls_error_message());
    if (sscanf(message, "sweep:%d: %n", &line, &at) != 1 || at == 0) return status;
    return ls_fail(status, "%s", message + at);
}

enum ls_status ls__cmd_sweep(const struct ls_options *o)
{
    struct ls_buf b = LS_BUF_INIT;
    struct ls_lab *lab = NULL;
    const struct ls_lab_rules rules = ls__lab_rules(o->train.device); /* what is wrong is told as train tells it */
    if (strcmp(o->args[0], "train") != 0)
        return ls_fail(LS_USAGE, "sweep %s: only trainings are swept: lockstep sweep train MODEL DATA --vary ...",
                       o->args[0]);
    if (o->n_varies == 0) return ls_fail(LS_USAGE, "sweep without --vary: what varies? --vary batch-size=128,256");
    if (ls__option_is_given(o, "resume"))
        return ls_fail(LS_USAGE, "a sweep goes on by `lockstep lab run DIR`, with its folder, not by --resume");
    enum ls_status status = write_lab(&b, o);
    if (status == LS_OK) status = ls__lab_parse(&lab, "sweep", b.text, b.len, &rules);
    if (status != LS_OK) status = without_line(status);
    if (status == LS_OK) status = ls__lab_go(o, lab, o->train.run_dir);
    ls__lab_destroy(&lab);
    ls__buf_release(&b);
    return status;
}
