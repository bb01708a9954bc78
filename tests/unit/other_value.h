/* other_value.h: for tests that walk a table of settings: a value the setting takes and that is not its default; NULL
 * if none of the texts below suits it. Good until the next call.
 */
#ifndef LS_TESTS_OTHER_VALUE_H
#define LS_TESTS_OTHER_VALUE_H

#include "settings/setting.h"

#include <stdio.h>
#include <string.h>

static inline const char *other_value(const struct ls_setting *s)
{
    static const char *const texts[] = {"224x160", "3,7,9",      "500",        "3x32x32", "local:4", "2ms", "3Gbit",
                                        "9:here",  "some/where", "matrix.png", "*=x0.5",  "1/7",     "2:4"};
    static char word[64];
    switch (s->type) {
    case LS_SETTING_FLAG:
        return s->def && strcmp(s->def, "on") == 0 ? "off" : "on";
    case LS_SETTING_INT:
        return "7";
    case LS_SETTING_REAL:
        return "0.125";
    case LS_SETTING_CHOICE:
        snprintf(word, sizeof word, "%s", strrchr(s->choices, '|') + 1);
        if (s->def && strcmp(word, s->def) == 0)
            snprintf(word, sizeof word, "%.*s", (int)strcspn(s->choices, "|"), s->choices);
        return word;
    case LS_SETTING_TEXT:
        break;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!s->is_valid || s->is_valid(texts[i])) return texts[i];
    return NULL;
}

#endif
