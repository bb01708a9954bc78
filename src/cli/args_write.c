/* args_write.c: options that were read, as arguments again: one canonical form for another process to read.
 *
 * What a person may write in many ways ("-w2", "--run=x", "--procs_per_node 2", "-- model") comes out in one: the
 * arguments first, then "--name value" for each option that was given. A word that begins with '-' would be read as an
 * option, so such a value is joined to its name ("--run=-x"), and such arguments come last, after "--".
 */
#include "cli/options.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls__words_add(struct ls_words *w, const char *word)
{
    if (w->status == LS_OK) w->status = ls__grow(&w->argv, (size_t)w->n, (size_t)w->n + 2, sizeof *w->argv);
    if (w->status == LS_OK) w->status = ls__strdup(&w->argv[w->n], word);
    if (w->status == LS_OK) w->n++;
}

void ls__words_release(struct ls_words *w)
{
    for (int i = 0; i < w->n; i++) free(w->argv[i]);
    free(w->argv);
    *w = (struct ls_words){0};
}

void ls__words_add_option(struct ls_words *w, const char *name, const char *value)
{
    bool is_joined = *value == '-' || *value == '\0';
    size_t size = strlen(name) + strlen(value) + 4;
    char *word = NULL;
    if (w->status == LS_OK) w->status = ls__calloc(&word, size, 1);
    if (w->status != LS_OK) return;
    snprintf(word, size, is_joined ? "--%s=%s" : "--%s", name, value);
    ls__words_add(w, word);
    if (!is_joined) ls__words_add(w, value);
    free(word);
}

static void add_given(struct ls_words *w, const struct ls_options *o, const struct ls_setting *s)
{
    char text[64];
    if (s->type == LS_SETTING_TEXT || s->type == LS_SETTING_CHOICE) { /* of any length */
        ls__words_add_option(w, s->name, *(const char *const *)((const char *)o + s->offset));
        return;
    }
    ls__setting_print(s, o, text, sizeof text);
    if (s->type != LS_SETTING_FLAG) {
        ls__words_add_option(w, s->name, text);
        return;
    }
    bool is_on = strcmp(text, "on") == 0;
    snprintf(text, sizeof text, "--%s%s", is_on ? "" : "no-", s->name);
    ls__words_add(w, text);
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0) names++;
    return *names;
}

void ls__words_add_options(struct ls_words *w, const struct ls_options *o, const char *const *without)
{
    bool is_dashed = false;
    for (int i = 0; i < o->n_args; i++) is_dashed |= o->args[i][0] == '-';
    for (int i = 0; i < o->n_args && !is_dashed; i++) ls__words_add(w, o->args[i]);
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        const struct ls_setting *s = option->setting;
        if (ls__option_is_given(o, s->name) && !is_among(s->name, without)) add_given(w, o, s);
    }
    if (is_dashed) ls__words_add(w, "--");
    for (int i = 0; i < o->n_args && is_dashed; i++) ls__words_add(w, o->args[i]);
}
