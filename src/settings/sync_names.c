/* sync_names.c: the list of ways to synchronise, and the one place where their names are read. */
#include "settings/sync_names.h"

#include "base/parse.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STEPS = 1000000 };

const struct ls_sync_name ls__sync_names[] = {
    {.name = "allreduce", .usage = "allreduce", .is_built = true},
    {.name = "ps", .usage = "ps", .is_built = true, .is_served = true, .no_compress = "sends whole sums"},
    {.name = "async",
     .usage = "async",
     .is_built = true,
     .is_served = true,
     .is_own_training = true,
     .no_compress = "sends whole sums"},
    {.name = "ssp",
     .usage = "ssp:K",
     .has_number = true,
     .min = 0,
     .max = MOST_STEPS,
     .is_built = true,
     .is_served = true,
     .is_own_training = true,
     .no_compress = "sends whole sums"},
    {.name = "local",
     .usage = "local:H",
     .has_number = true,
     .min = 1,
     .max = MOST_STEPS,
     .is_built = true,
     .is_own_training = true,
     .is_by_shard = true,
     .no_compress = "sends no gradients"},
    {.name = NULL},
};

bool ls__sync_parse(const char *text, struct ls_sync_choice *out)
{
    *out = (struct ls_sync_choice){0};
    for (const struct ls_sync_name *s = ls__sync_names; s->name; s++) {
        size_t len = strlen(s->name);
        if (strncmp(text, s->name, len) != 0) continue;
        bool is_it = s->has_number ? text[len] == ':' && ls__parse_i64(text + len + 1, s->min, s->max, &out->number)
                                   : text[len] == '\0';
        if (!is_it) continue;
        out->name = s;
        return true;
    }
    return false;
}

bool ls__sync_is_valid(const char *text)
{
    struct ls_sync_choice choice;
    return ls__sync_parse(text, &choice);
}

bool ls__sync_is_served(const char *text)
{
    struct ls_sync_choice choice;
    return ls__sync_parse(text, &choice) && choice.name->is_served;
}

/* "allreduce or local:H" */
static void list_built(char *out, size_t size)
{
    int n = 0, left = 0;
    for (const struct ls_sync_name *s = ls__sync_names; s->name; s++) left += s->is_built;
    *out = '\0';
    for (const struct ls_sync_name *s = ls__sync_names; s->name; s++) {
        if (!s->is_built) continue;
        size_t at = strlen(out);
        left--;
        snprintf(out + at, size - at, "%s%s", n++ == 0 ? "" : left == 0 ? " or " : ", ", s->usage);
    }
}

enum ls_status ls__sync_check(const char *text, int64_t compress)
{
    struct ls_sync_choice choice;
    char built[128];
    if (!ls__sync_parse(text, &choice) || !choice.name->is_built) {
        list_built(built, sizeof built);
        return ls_fail(LS_USAGE, "--sync %s: this build synchronises by %s", text, built);
    }
    if (compress && choice.name->no_compress)
        return ls_fail(LS_USAGE, "--compress is for --sync allreduce; %s %s", choice.name->usage,
                       choice.name->no_compress);
    return LS_OK;
}
