/* rerun.c: turns the options of a manifest into the words of a command line, leaving out what is a default. See
 * rerun.h. */
#include "cli/rerun.h"

#include "base/buf.h"
#include "base/quote.h"
#include "cli/options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where it goes and what it tells: not what it trains. Threads and workers follow from the machine. */
static bool is_left_out(const char *name)
{
    static const char *const names[] = {"run", "resume", "accept-other-bits", "quiet", "json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Control characters are no part of any option of ours, but a manifest may be anybody's. */
static void add_word(struct ls_buf *b, const char *word)
{
    char clean[LS_QUOTED_BYTES / 4], quoted[LS_QUOTED_BYTES];
    size_t n = 0;
    for (; n < sizeof clean - 1 && word[n]; n++) clean[n] = (unsigned char)word[n] < ' ' ? '?' : word[n];
    clean[n] = '\0';
    ls__buf_addf(b, " %s", ls__quote_word(clean, quoted, sizeof quoted));
}

static void add_option(struct ls_buf *b, const struct ls_setting *s, const struct ls_train_options *o,
                       const struct ls_train_options *usual)
{
    char text[1024], as_usual[1024];
    if (!ls__setting_is_there(s, o) || is_left_out(s->name)) return;
    ls__setting_print(s, o, text, sizeof text);
    ls__setting_print(s, usual, as_usual, sizeof as_usual);
    if (ls__setting_is_there(s, usual) && strcmp(text, as_usual) == 0) return;
    if (s->type == LS_SETTING_FLAG) {
        ls__buf_addf(b, " --%s%s", strcmp(text, "on") == 0 ? "" : "no-", s->name);
        return;
    }
    if (text[0] == '-') { /* joined: it would be read as an option */
        char word[1100];
        snprintf(word, sizeof word, "--%s=%s", s->name, text);
        add_word(b, word);
        return;
    }
    ls__buf_addf(b, " --%s", s->name);
    add_word(b, text);
}

static bool is_of_train(const char *name)
{
    const struct ls_option *option = ls__option_find(name);
    return option && ls__option_is_of(option, LS_CMD_TRAIN);
}

char *ls__rerun_command(const struct ls_history *h)
{
    const json_t *options = json_object_get((json_t *)ls_history_manifest(h), "options");
    const char *model = json_string_value(json_object_get(options, "model")),
               *data = json_string_value(json_object_get(options, "data"));
    struct ls_train_options o = {0}, usual = {0};
    struct ls_buf b = LS_BUF_INIT;
    if (!model || !data) return NULL;
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        ls__setting_reset(&ls__settings[i], &o);
        ls__setting_reset(&ls__settings[i], &usual);
        if (ls__setting_from_json(&ls__settings[i], &o, options) != LS_OK) return NULL;
    }
    ls__buf_adds(&b, "lockstep train");
    add_word(&b, model);
    add_word(&b, data);
    for (int i = 0; i < LS_N_SETTINGS; i++)
        if (is_of_train(ls__settings[i].name)) add_option(&b, &ls__settings[i], &o, &usual);
    char *text = ls__buf_take(&b);
    ls__buf_release(&b);
    return text;
}
