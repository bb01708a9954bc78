/* json.h: JSON text, made in one place. Values are jansson's, which packs and parses; what is here is what every writer
 * of ours must do alike: numbers that are not finite are null, names and paths may be any bytes while JSON takes UTF-8
 * only, and memory that is short is found out once, at the end.
 *
 *     char *text;
 *     TRY(ls__json_dump(json_pack("{s:o, s:o}", "model", ls__json_text(name), "loss", ls__json_number(loss)),
 *                       LS_JSON_FOR_PEOPLE, "result.json", &text));
 *     ... free(text);
 */
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include "lockstep/status.h"

struct json_t;

/* null if it is not finite. */
struct json_t *ls__json_number(double value);
/* null for NULL, a note for what is not UTF-8. */
struct json_t *ls__json_text(const char *text);

enum ls_json_style {
    LS_JSON_FOR_PEOPLE, /* indented by two; nine digits: a float comes back as it was */
    LS_JSON_SETTINGS,   /* indented by two; fifteen digits: what a person typed comes back as typed */
    LS_JSON_LINE,       /* one line, nine digits */
    LS_JSON_EXACT       /* one line without blanks; every double comes back */
};

/* Drops the value, also on failure; NULL, of which a part could not be made, is LS_NOMEM naming `what`. free() *text,
 * which has no newline at its end. */
enum ls_status ls__json_dump(struct json_t *value, enum ls_json_style style, const char *what,
                             char **text) LS_MUST_CHECK;

#endif
