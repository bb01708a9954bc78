/* json.c: what every writer of JSON does alike; see json.h. */
#include "base/json.h"

#include <jansson.h>
#include <math.h>

json_t *ls__json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *ls__json_text(const char *text)
{
    json_t *string = text ? json_string(text) : json_null();
    return string ? string : json_string("(not UTF-8)");
}

enum ls_status ls__json_dump(json_t *value, enum ls_json_style style, const char *what, char **text)
{
    static const size_t flags[] = {
        [LS_JSON_FOR_PEOPLE] = JSON_INDENT(2) | JSON_REAL_PRECISION(9),
        [LS_JSON_SETTINGS] = JSON_INDENT(2) | JSON_REAL_PRECISION(15),
        [LS_JSON_LINE] = JSON_REAL_PRECISION(9),
        [LS_JSON_EXACT] = JSON_COMPACT | JSON_REAL_PRECISION(17),
    };
    *text = value ? json_dumps(value, flags[style]) : NULL;
    json_decref(value);
    return *text ? LS_OK : ls_fail(LS_NOMEM, "out of memory while writing %s", what);
}
