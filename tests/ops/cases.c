/* cases.c: parses a line and remembers which keys were asked for (cases.h). */
#include "cases.h"

#include "base/parse.h"

#include <stdio.h>
#include <string.h>

static enum ls_status parse_word(struct test_case *c, const char *word)
{
    const char *equals = strchr(word, '=');
    if (!equals) return ls_fail(LS_USAGE, "'%s' is not key=value", word);
    if (c->n_keys == CASE_MAX_KEYS || equals - word >= CASE_WORD)
        return ls_fail(LS_USAGE, "too many or too long keys at '%s'", word);
    snprintf(c->keys[c->n_keys].key, CASE_WORD, "%.*s", (int)(equals - word), word);
    if (!ls__parse_f64(equals + 1, &c->keys[c->n_keys].value))
        return ls_fail(LS_USAGE, "'%s' does not end in a number", word);
    c->n_keys++;
    return LS_OK;
}

enum ls_status case_parse(struct test_case *c, const char *line)
{
    char copy[CASE_LINE], *rest;
    *c = (struct test_case){0};
    if (strlen(line) >= CASE_LINE) return ls_fail(LS_USAGE, "line longer than %d bytes", CASE_LINE - 1);
    snprintf(c->line, sizeof c->line, "%s", line);
    snprintf(copy, sizeof copy, "%s", line);
    const char *op = strtok_r(copy, " \t\n", &rest);
    if (!op || strlen(op) >= CASE_WORD) return ls_fail(LS_USAGE, "no op in '%s'", line);
    snprintf(c->op, sizeof c->op, "%s", op);
    for (const char *word; (word = strtok_r(NULL, " \t\n", &rest));) TRY(parse_word(c, word));
    return LS_OK;
}

double case_get(struct test_case *c, const char *key, double otherwise)
{
    for (int i = 0; i < c->n_keys; i++) {
        if (strcmp(c->keys[i].key, key) != 0) continue;
        c->keys[i].is_used = true;
        return c->keys[i].value;
    }
    return otherwise;
}

int64_t case_int(struct test_case *c, const char *key, int64_t otherwise)
{
    return (int64_t)case_get(c, key, (double)otherwise);
}

enum ls_status case_check_used(const struct test_case *c)
{
    for (int i = 0; i < c->n_keys; i++)
        if (!c->keys[i].is_used) return ls_fail(LS_USAGE, "%s has no key '%s'", c->op, c->keys[i].key);
    return LS_OK;
}

uint64_t case_seed(const struct test_case *c)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *p = c->line; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    return hash;
}
