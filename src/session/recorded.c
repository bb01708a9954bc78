/* recorded.c: see recorded.h. Only the settings of the input are read, so that a checkpoint whose other settings this
 * version does not know can still be evaluated.
 */
#include "session/recorded.h"

#include "base/json.h"
#include "base/mem.h"
#include "settings/setting.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char part[] = "input";

static enum ls_status read_options(struct recorded *r, const char *text)
{
    r->options = json_loads(text, 0, NULL);
    if (!json_is_object(r->options)) return ls_fail(LS_DATA, "they are not a JSON object");
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        if (s->part && strcmp(s->part, part) == 0) TRY(ls__setting_from_json(s, &r->o, r->options));
    }
    return LS_OK;
}

/* Checkpoints of before LS_RECORDED_KEY: "crop_pad=0 flip=0 cutout=0 normalize=1 resize=". Works in place. */
static enum ls_status read_old_input(struct recorded *r)
{
    char *rest = r->input, *word;
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');
        if (!value || value[1] == '\0') continue;
        *value = '\0';
        const struct ls_setting *s = ls__setting_find(word);
        if (s && s->part && strcmp(s->part, part) == 0) TRY(ls__setting_store(s, &r->o, value + 1));
    }
    return LS_OK;
}

enum ls_status ls__recorded_open(struct recorded *r, const struct ls_ckpt *ckpt, const char *path)
{
    const char *options = ls_ckpt_meta(ckpt, LS_RECORDED_KEY), *input = ls_ckpt_meta(ckpt, part);
    enum ls_status status = LS_OK;
    *r = (struct recorded){.options = NULL};
    ls_train_options_default(&r->o);
    if (options)
        status = read_options(r, options);
    else if (input) {
        TRY(ls__strdup(&r->input, input));
        status = read_old_input(r);
    }
    if (status == LS_OK) return LS_OK;
    return ls_fail_in(LS_CHECKPOINT, "%s: the options it was made with cannot be read", path);
}

void ls__recorded_close(struct recorded *r)
{
    json_decref(r->options);
    free(r->input);
    *r = (struct recorded){.options = NULL};
}

enum ls_status ls__recorded_text(const struct ls_train_options *o, char **text)
{
    return ls__json_dump(ls__options_json(o, LS_ROLE_RUN), LS_JSON_EXACT, "the options of the run", text);
}
