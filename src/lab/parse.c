/* parse.c: the text of a lab -> a draft: one statement per line, checked as far as the line alone can be.
 *
 * In: any bytes. Out: a draft, or LS_USAGE with file, line and what to write instead. Memory is bounded by the length
 * of the text, which is bounded by LS_LAB_FILE_BYTES.
 */
#include "base/parse.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "lab/draft.h"

#include <stdlib.h>
#include <string.h>

/* --- settings --- */

enum ls_status ls__draft_key(struct draft *d, int line, const char *word, const char **key)
{
    size_t len = strlen(word);
    if (d->rules && d->rules->key(word, key) != LS_OK) return ls_fail_in(LS_USAGE, "%s:%d", d->origin, line);
    if (d->rules) return LS_OK;
    return ls__arena_text(&d->lab->memory, key, word, len);
}

/* "flip" alone: what to write instead. */
static enum ls_status without_value(struct draft *d, int line, const char *word)
{
    const char *key = NULL, *example;
    if (*word == '=' || !d->rules)
        return ls__draft_fail(d, line, "\"%s\": expected key=value, as batch-size=128", word);
    TRY(ls__draft_key(d, line, word, &key));
    example = d->rules->example ? d->rules->example(key) : NULL;
    return ls__draft_fail(d, line, "%s has no value: write %s=%s", key, key, example ? example : "VALUE");
}

/* "key=value" into the list; a key stands once in a line or block. */
static enum ls_status add_setting(struct draft *d, int line, struct draft_list *list, char *word)
{
    struct ls_lab_setting *s;
    char *equals = strchr(word, '=');
    const char *key, *value;
    if (!equals || equals == word) return without_value(d, line, word);
    *equals = '\0';
    if (!equals[1]) return ls__draft_fail(d, line, "%s= has no value: write %s=VALUE, or leave it out", word, word);
    TRY(ls__draft_key(d, line, word, &key));
    TRY(ls__arena_text(&d->lab->memory, &value, equals + 1, strlen(equals + 1)));
    for (int i = 0; i < list->n; i++) {
        s = (struct ls_lab_setting *)list->at + i;
        if (strcmp(s->key, key) == 0)
            return ls__draft_fail(d, line,
                                  "%s is set twice (line %d has %s=%s): keep one of them; several values are "
                                  "a line of their own: vary %s %s %s",
                                  key, s->line, key, s->value, key, s->value, value);
    }
    TRY(ls__draft_grow(d, list, sizeof *s, &s));
    *s = (struct ls_lab_setting){.key = key, .value = value, .line = line};
    return LS_OK;
}

static enum ls_status add_settings(struct draft *d, int line, struct draft_list *list, char *rest)
{
    char *word;
    for (int n = 0;; n++) {
        TRY(ls__draft_word(d, line, &rest, &word));
        if (!word) return LS_OK;
        TRY(add_setting(d, line, list, word));
    }
}

/* --- statements --- */

struct place {
    struct draft *d;
    struct draft_question *q; /* NULL: before the first question */
    int line;
};

static struct draft_run *last_run(const struct draft_question *q)
{
    return q->runs.n ? (struct draft_run *)q->runs.at + q->runs.n - 1 : NULL;
}

/* The rest of the line as it stands, without blanks around it. */
static char *trimmed(char *rest)
{
    while (*rest == ' ' || *rest == '\t') rest++;
    size_t len = strlen(rest);
    while (len > 0 && (rest[len - 1] == ' ' || rest[len - 1] == '\t' || rest[len - 1] == '\r')) len--;
    rest[len] = '\0';
    return rest;
}

/* Lines of a paragraph are joined by a blank; an empty one begins the next. */
static enum ls_status add_text(const struct place *at, struct draft_list *text, const char *more)
{
    char last = text->n ? ((const char *)text->at)[text->n - 1] : '\n', *c;
    if (last != '\n') {
        TRY(ls__draft_grow(at->d, text, 1, &c));
        *c = *more ? ' ' : '\n';
    }
    for (; *more; more++) {
        TRY(ls__draft_grow(at->d, text, 1, &c));
        *c = *more;
    }
    return LS_OK;
}

static enum ls_status once(const struct place *at, const char *word, const char **text, char *rest)
{
    rest = trimmed(rest);
    if (!*rest) return ls__draft_fail(at->d, at->line, "%s is empty: write it behind the word", word);
    if (**text) return ls__draft_fail(at->d, at->line, "a second %s; a lab has one", word);
    return ls__arena_text(&at->d->lab->memory, text, rest, strlen(rest));
}

static enum ls_status read_title(const struct place *at, char *rest)
{
    return once(at, "title", &at->d->lab->title, rest);
}

static enum ls_status read_source(const struct place *at, char *rest)
{
    return once(at, "source", &at->d->lab->source, rest);
}

static enum ls_status read_text(const struct place *at, char *rest)
{
    return add_text(at, at->q ? &at->q->text : &at->d->text, trimmed(rest));
}

static enum ls_status read_base(const struct place *at, char *rest)
{
    if (!*trimmed(rest)) return ls__draft_fail(at->d, at->line, "base sets nothing: write base key=value ...");
    return add_settings(at->d, at->line, at->q ? &at->q->base : &at->d->base, rest);
}

static enum ls_status read_repeat(const struct place *at, char *rest)
{
    int64_t n;
    int *repeat = at->q ? &at->q->repeat : &at->d->repeat;
    char *word;
    TRY(ls__draft_word(at->d, at->line, &rest, &word));
    if (!word || !ls__parse_i64(word, 1, LS_LAB_MAX_REPEATS, &n))
        return ls__draft_fail(at->d, at->line, "repeat %s: expected a number from 1 to %d", word ? word : "",
                              LS_LAB_MAX_REPEATS);
    if (*repeat)
        return ls__draft_fail(at->d, at->line, "a second repeat; one counts for the whole %s",
                              at->q ? "question" : "lab");
    *repeat = (int)n;
    return LS_OK;
}

static bool is_name(const char *word)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t len = strlen(word);
    return len > 0 && len <= 40 && *word != '-' && *word != '.' && strspn(word, good) == len;
}

/* "question Q1: title" */
static enum ls_status read_question(struct place *at, char *rest)
{
    char *id;
    struct draft_list *all = &at->d->questions;
    TRY(ls__draft_word(at->d, at->line, &rest, &id));
    size_t len = id ? strlen(id) : 0;
    const bool has_colon = len && id[len - 1] == ':';
    if (has_colon) id[len - 1] = '\0';
    rest = trimmed(rest);
    if (id && !has_colon)
        return ls__draft_fail(at->d, at->line,
                              "a question begins with a short name and a colon: write question Q%d: %s%s%s", all->n + 1,
                              id, *rest ? " " : "", rest);
    if (!id || !is_name(id) || !*rest)
        return ls__draft_fail(at->d, at->line, "expected a short name and a title: question Q1: What is asked?");
    for (int i = 0; i < all->n; i++) {
        const struct draft_question *other = (const struct draft_question *)all->at + i;
        if (strcmp(other->id, id) == 0)
            return ls__draft_fail(at->d, at->line,
                                  "a second question %s (the first is in line %d): give it another name", id,
                                  other->line);
    }
    TRY(ls__draft_grow(at->d, all, sizeof *at->q, &at->q));
    at->q->line = at->line;
    TRY(ls__arena_text(&at->d->lab->memory, &at->q->id, id, strlen(id)));
    return ls__arena_text(&at->d->lab->memory, &at->q->title, rest, strlen(rest));
}

static enum ls_status read_run(const struct place *at, char *rest)
{
    struct draft_run *run;
    char *name;
    TRY(ls__draft_word(at->d, at->line, &rest, &name));
    if (!name || strchr(name, '=') || !is_name(name))
        return ls__draft_fail(at->d, at->line,
                              "a run needs a name of letters, digits, - and _ first: run NAME key=value ...");
    TRY(ls__draft_grow(at->d, &at->q->runs, sizeof *run, &run));
    run->line = at->line;
    TRY(ls__arena_text(&at->d->lab->memory, &run->name, name, strlen(name)));
    return add_settings(at->d, at->line, &run->settings, rest);
}

static enum ls_status add_value(const struct place *at, struct draft_vary *vary, struct draft_list *values, char *word)
{
    const char **value;
    size_t len = strlen(word);
    if (len > 1 && word[len - 1] == ',') word[--len] = '\0'; /* "128, 256" */
    for (int i = 0; i < values->n; i++)
        if (strcmp(((const char **)values->at)[i], word) == 0)
            return ls__draft_fail(at->d, at->line, "vary %s: %s stands there twice", vary->key, word);
    TRY(ls__draft_grow(at->d, values, sizeof *value, &value));
    return ls__arena_text(&at->d->lab->memory, value, word, len);
}

static enum ls_status read_vary(const struct place *at, char *rest)
{
    struct draft_run *run = last_run(at->q);
    struct draft_vary *vary;
    struct draft_list values = {0};
    char *word;
    TRY(ls__draft_word(at->d, at->line, &rest, &word));
    if (!run)
        return ls__draft_fail(at->d, at->line,
                              "vary belongs to the run above it, and there is none: write run NAME first");
    if (!word) return ls__draft_fail(at->d, at->line, "vary what? Write vary batch-size 64 128 256");
    if (strchr(word, '='))
        return ls__draft_fail(at->d, at->line,
                              "\"vary %s\": write the values apart by blanks, without =: vary "
                              "batch-size 64 128 256",
                              word);
    TRY(ls__draft_grow(at->d, &run->varies, sizeof *vary, &vary));
    vary->line = at->line;
    TRY(ls__draft_key(at->d, at->line, word, &vary->key));
    for (;;) {
        TRY(ls__draft_word(at->d, at->line, &rest, &word));
        if (!word) break;
        TRY(add_value(at, vary, &values, word));
    }
    char examples[128];
    const bool has_examples = at->d->rules && at->d->rules->values;
    if (values.n == 0)
        return ls__draft_fail(at->d, at->line, "vary %s has no values: write them behind it, as vary %s %s", vary->key,
                              vary->key,
                              has_examples ? at->d->rules->values(vary->key, examples, sizeof examples) : "ONE OTHER");
    vary->values = values.at;
    vary->n_values = values.n;
    return LS_OK;
}

static enum ls_status read_use(const struct place *at, char *rest)
{
    struct draft_word *use;
    char *word;
    for (int n = 0;; n++) {
        TRY(ls__draft_word(at->d, at->line, &rest, &word));
        if (!word && n > 0) return LS_OK;
        if (!word)
            return ls__draft_fail(at->d, at->line, "use what? Name runs or questions above: use Q1, or use NAME");
        TRY(ls__draft_grow(at->d, &at->q->uses, sizeof *use, &use));
        use->line = at->line;
        TRY(ls__arena_text(&at->d->lab->memory, &use->text, word, strlen(word)));
    }
}

static enum ls_status read_show(const struct place *at, char *rest)
{
    return ls__draft_read_show(at->d, at->q, at->line, rest);
}

static enum ls_status read_compare(const struct place *at, char *rest)
{
    return ls__draft_read_compare(at->d, at->q, at->line, rest);
}

static enum ls_status read_published(const struct place *at, char *rest)
{
    return ls__draft_read_published(at->d, at->q, at->line, rest);
}

static enum ls_status read_baseline(const struct place *at, char *rest)
{
    char *word;
    TRY(ls__draft_word(at->d, at->line, &rest, &word));
    if (!word) return ls__draft_fail(at->d, at->line, "baseline which? Write the name of a run of this question");
    if (at->q->baseline.text) return ls__draft_fail(at->d, at->line, "a second baseline; a question has one");
    at->q->baseline.line = at->line;
    return ls__arena_text(&at->d->lab->memory, &at->q->baseline.text, word, strlen(word));
}

/* --- lines --- */

enum where { IN_LAB = 1, IN_QUESTION = 2 };
static const struct statement {
    const char *word;
    unsigned where;
    enum ls_status (*read)(const struct place *at, char *rest);
} statements[] = {
    {"title", IN_LAB, read_title},
    {"source", IN_LAB, read_source},
    {"text", IN_LAB | IN_QUESTION, read_text},
    {"base", IN_LAB | IN_QUESTION, read_base},
    {"repeat", IN_LAB | IN_QUESTION, read_repeat},
    {"run", IN_QUESTION, read_run},
    {"vary", IN_QUESTION, read_vary},
    {"use", IN_QUESTION, read_use},
    {"show", IN_QUESTION, read_show},
    {"baseline", IN_QUESTION, read_baseline},
    {"compare", IN_QUESTION, read_compare},
    {"published", IN_QUESTION, read_published},
    {"question", 0, NULL},
};
enum { N_STATEMENTS = sizeof statements / sizeof *statements };

static enum ls_status unknown_word(const struct place *at, const char *word)
{
    const char *best = NULL;
    int distance = -1;
    for (int i = 0; i < N_STATEMENTS; i++) ls__suggest(word, statements[i].word, &best, &distance);
    if (best) return ls__draft_fail(at->d, at->line, "unknown word \"%.40s\"; did you mean %s?", word, best);
    return ls__draft_fail(at->d, at->line,
                          "unknown word \"%.40s\"; a line begins with title, source, text, base, repeat, "
                          "question, run, vary, use, show, baseline, compare or published",
                          word);
}

static enum ls_status read_line(struct place *at, char *line)
{
    line = trimmed(line);
    if (!*line || *line == '#') return LS_OK;
    for (const char *p = line; *p; p++)
        if ((unsigned char)*p < ' ' && *p != '\t')
            return ls__draft_fail(at->d, at->line, "byte 0x%02x: a lab is plain text", (unsigned char)*p);
    size_t len = strcspn(line, " \t");
    char *rest = line + len + (line[len] != '\0');
    line[len] = '\0';
    if (strcmp(line, "question") == 0) return read_question(at, rest);
    for (int i = 0; i < N_STATEMENTS; i++) {
        const struct statement *s = &statements[i];
        if (strcmp(s->word, line) != 0) continue;
        if (!(s->where & (at->q ? IN_QUESTION : IN_LAB)))
            return ls__draft_fail(at->d, at->line, "%s belongs %s: move it there", s->word,
                                  at->q ? "before the first question" : "to a question");
        return s->read(at, rest);
    }
    return unknown_word(at, line);
}

static enum ls_status read_lines(struct draft *d, char *text, size_t len)
{
    struct place at = {.d = d};
    char *stop = text + len;
    if (len > LS_LAB_FILE_BYTES) return ls__draft_fail(d, 1, "%zu bytes; a lab has at most %d", len, LS_LAB_FILE_BYTES);
    for (char *p = text; p < stop;) {
        char *end = memchr(p, '\n', (size_t)(stop - p));
        if (!end) end = stop;
        *end = '\0';
        at.line++;
        if (strlen(p) != (size_t)(end - p)) return ls__draft_fail(d, at.line, "byte 0x00: a lab is plain text");
        TRY(read_line(&at, p));
        p = end + 1;
    }
    if (!*d->lab->title) return ls__draft_fail(d, 1, "the lab has no title: begin with title What is it about?");
    if (d->questions.n == 0)
        return ls__draft_fail(d, at.line,
                              "the lab has no question: write question Q1: What is asked?, and a run below it");
    return LS_OK;
}

/* "labs/svhn.lab" -> "svhn" */
static enum ls_status name_lab(struct ls_lab *lab, const char *origin)
{
    const char *slash = strrchr(origin, '/'), *name = slash ? slash + 1 : origin, *dot = strrchr(name, '.');
    return ls__arena_text(&lab->memory, &lab->name, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

static enum ls_status build(struct ls_lab *lab, const char *origin, const char *text, size_t len,
                            const struct ls_lab_rules *rules)
{
    struct draft d = {.lab = lab, .origin = origin, .rules = rules};
    char *copy;
    lab->title = lab->text = lab->source = "";
    TRY(name_lab(lab, origin));
    TRY(ls__arena_text(&lab->memory, &lab->file, text, len));
    lab->file_len = len;
    TRY(ls__arena_alloc(&lab->memory, &copy, len + 1, 1));
    memcpy(copy, text, len);
    TRY(read_lines(&d, copy, len));
    return ls__draft_expand(&d);
}

enum ls_status ls__lab_parse(struct ls_lab **out, const char *origin, const char *text, size_t len,
                             const struct ls_lab_rules *rules)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = build(*out, origin, text, len, rules);
    if (status != LS_OK) ls__lab_destroy(out);
    return status;
}
