/* validation.c: parses and checks the value of --validation (validation.h). */
#include "settings/validation.h"

#include "base/parse.h"

#include <string.h>

bool ls__validation_parse(const char *text, struct ls_validation *v)
{
    *v = (struct ls_validation){.share = 0};
    if (strspn(text, "0123456789") == strlen(text)) return ls__parse_i64(text, 1, INT64_MAX, &v->n);
    if (ls__parse_f64(text, &v->share)) return v->share > 0 && v->share < 1;
    v->share = 0;
    v->folder = text;
    return *text != '-';
}

bool ls__validation_is_valid(const char *text)
{
    struct ls_validation v;
    return ls__validation_parse(text, &v);
}
