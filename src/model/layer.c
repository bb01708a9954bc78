/* layer.c: the arguments and attributes of one line, read into a layer.
 *
 * In:  a line whose "$x" are replaced. Out: a layer with every default filled in and every number in its range, so that
 * building has only shapes left to check.
 */
#include "base/mem.h"
#include "base/parse.h"
#include "model/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, MOST_CHANNELS = 1 << 20 };

enum form { FORM_PAIR /* "3" or "3x5" */, FORM_WHOLE, FORM_NUMBER, FORM_FLAG };

static const struct attr_def {
    const char *word;
    enum form form;
    double min, max;
} attr_defs[LS_N_ATTRS] = {
    [LS_ATTR_STRIDE] = {"stride", FORM_PAIR, 1, MOST},
    [LS_ATTR_PAD] = {"pad", FORM_PAIR, 0, MOST},
    [LS_ATTR_DILATION] = {"dilation", FORM_PAIR, 1, MOST},
    [LS_ATTR_GROUPS] = {"groups", FORM_WHOLE, 1, MOST_CHANNELS},
    [LS_ATTR_BIAS] = {"bias", FORM_FLAG, 0, 0},
    [LS_ATTR_EPS] = {"eps", FORM_NUMBER, 1e-12, 1},
    [LS_ATTR_MOMENTUM] = {"momentum", FORM_NUMBER, 0, 1},
    [LS_ATTR_ALPHA] = {"alpha", FORM_NUMBER, 0, 1e3},
    [LS_ATTR_BETA] = {"beta", FORM_NUMBER, 0, 1e3},
    [LS_ATTR_K] = {"k", FORM_NUMBER, 1e-6, 1e3},
    [LS_ATTR_FIXED] = {"fixed", FORM_FLAG, 0, 0},
    [LS_ATTR_CEIL] = {"ceil", FORM_FLAG, 0, 0},
    [LS_ATTR_COUNTPAD] = {"countpad", FORM_FLAG, 0, 0},
    [LS_ATTR_TANH] = {"tanh", FORM_FLAG, 0, 0},
    [LS_ATTR_SLOPE] = {"slope", FORM_NUMBER, 0, 1},
    [LS_ATTR_IMAGE] = {"image", FORM_FLAG, 0, 0},
};

struct value {
    int a, b; /* PAIR; WHOLE has a only */
    double number;
    bool flag;
};

bool ls__name_is_good(const char *name)
{
    size_t len = strlen(name);
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    return len > 0 && len <= LS_MODEL_NAME && strspn(name, letters) == len && name[0] != '.' && name[0] != '-' &&
           name[len - 1] != '.' && !strstr(name, "..");
}

static bool read_pair(const char *text, const struct attr_def *def, struct value *out)
{
    char left[LS_WORD_BYTES];
    int64_t a, b;
    const char *x = strchr(text, 'x');
    snprintf(left, sizeof left, "%.*s", x ? (int)(x - text) : (int)strlen(text), text);
    if (!ls__parse_i64(left, (int64_t)def->min, (int64_t)def->max, &a)) return false;
    b = a;
    if (x && !ls__parse_i64(x + 1, (int64_t)def->min, (int64_t)def->max, &b)) return false;
    out->a = (int)a;
    out->b = (int)b;
    return true;
}

/* One value in its form and range; `def->word` names it in the message. */
static enum ls_status read_value(const char *origin, const struct ls_line *line, const struct attr_def *def,
                                 const char *text, struct value *out)
{
    const char *word = line->words[0];
    int64_t whole;
    switch (def->form) {
    case FORM_PAIR:
        if (read_pair(text, def, out)) return LS_OK;
        return ls__text_fail(origin, line->line, "%s: %s is \"%s\"; expected a number or AxB, each %.0f to %.0f", word,
                             def->word, text, def->min, def->max);
    case FORM_WHOLE:
        if (ls__parse_i64(text, (int64_t)def->min, (int64_t)def->max, &whole)) {
            out->a = (int)whole;
            return LS_OK;
        }
        return ls__text_fail(origin, line->line, "%s: %s is \"%s\"; expected a whole number, %.0f to %.0f", word,
                             def->word, text, def->min, def->max);
    case FORM_NUMBER:
        if (ls__parse_f64(text, &out->number) && out->number >= def->min && out->number <= def->max) return LS_OK;
        return ls__text_fail(origin, line->line, "%s: %s is \"%s\"; expected a number, %g to %g", word, def->word, text,
                             def->min, def->max);
    case FORM_FLAG:
        out->flag = strcmp(text, "yes") == 0;
        if (out->flag || strcmp(text, "no") == 0) return LS_OK;
        return ls__text_fail(origin, line->line, "%s: %s is \"%s\"; expected yes or no", word, def->word, text);
    }
    return ls_fail(LS_INTERNAL, "form %d", def->form);
}

static int find_attr(const char *word, size_t len)
{
    for (int i = 0; i < LS_N_ATTRS; i++)
        if (strlen(attr_defs[i].word) == len && memcmp(attr_defs[i].word, word, len) == 0) return i;
    return -1;
}

static enum ls_status check_attr(const char *origin, const struct ls_line *line, const char *word, unsigned *seen)
{
    const struct ls_word_def *def = &ls__word_defs[line->kind];
    size_t len = strcspn(word, "=");
    int attr = find_attr(word, len);
    if (attr < 0 || !(def->attrs & 1u << attr))
        return ls__text_fail(origin, line->line, "%s has no attribute \"%.*s\"; usage: %s", def->word, (int)len, word,
                             def->usage);
    if (*seen & 1u << attr)
        return ls__text_fail(origin, line->line, "%s: attribute %s is given twice", def->word, attr_defs[attr].word);
    *seen |= 1u << attr;
    return LS_OK;
}

enum ls_status ls__line_check(const char *origin, const struct ls_line *line, int *n_args)
{
    const struct ls_word_def *def = &ls__word_defs[line->kind];
    bool has_own_attrs = line->kind == LS_WORD_USE || line->kind == LS_WORD_BLOCK; /* the block's parameters */
    unsigned seen = 0;
    int n = 0, n_attrs = 0;
    for (int i = 1; i < line->n_words; i++) {
        if (strchr(line->words[i], '=')) {
            n_attrs++;
            if (!has_own_attrs) TRY(check_attr(origin, line, line->words[i], &seen));
        } else if (n_attrs && line->kind != LS_WORD_BLOCK) {
            return ls__text_fail(origin, line->line, "%s: \"%s\" after an attribute; usage: %s", def->word,
                                 line->words[i], def->usage);
        } else {
            n++;
        }
    }
    if (n < def->min_args || (def->max_args >= 0 && n > def->max_args))
        return ls__text_fail(origin, line->line, "%s with %d argument%s; usage: %s", def->word, n, n == 1 ? "" : "s",
                             def->usage);
    *n_args = n;
    return LS_OK;
}

enum ls_status ls__line_flag(const char *origin, const struct ls_line *line, const char *word, bool *out)
{
    struct value v = {0};
    int attr = find_attr(word, strcspn(word, "="));
    if (attr < 0) return ls_fail(LS_INTERNAL, "flag %s", word);
    TRY(read_value(origin, line, &attr_defs[attr], strchr(word, '=') + 1, &v));
    *out = v.flag;
    return LS_OK;
}

static void set_attr(struct ls_layer *l, enum ls_word_attr attr, const struct value *v)
{
    struct ls_attrs *a = &l->attrs;
    switch (attr) {
    case LS_ATTR_STRIDE:
        a->sh = v->a, a->sw = v->b;
        break;
    case LS_ATTR_PAD:
        a->ph = v->a, a->pw = v->b;
        break;
    case LS_ATTR_DILATION:
        a->dh = v->a, a->dw = v->b;
        break;
    case LS_ATTR_GROUPS:
        a->groups = v->a;
        break;
    case LS_ATTR_BIAS:
        l->has_bias = v->flag;
        break;
    case LS_ATTR_EPS:
        a->eps = (float)v->number;
        break;
    case LS_ATTR_MOMENTUM:
        a->momentum = (float)v->number;
        break;
    case LS_ATTR_ALPHA:
        a->alpha = (float)v->number;
        break;
    case LS_ATTR_BETA:
        a->beta = (float)v->number;
        break;
    case LS_ATTR_K:
        a->k = (float)v->number;
        break;
    case LS_ATTR_CEIL:
        a->ceil = v->flag;
        break;
    case LS_ATTR_COUNTPAD:
        a->skip_pad = !v->flag;
        break;
    case LS_ATTR_TANH:
        a->activation = v->flag ? LS_ACT_GELU_TANH : LS_ACT_GELU;
        break;
    case LS_ATTR_SLOPE:
        a->alpha = (float)v->number;
        break;
    case LS_ATTR_IMAGE:
        l->is_whole = v->flag;
        break;
    default:
        break;
    }
}

static enum ls_status read_out(const char *origin, const struct ls_line *line, struct ls_layer *l)
{
    static const struct attr_def channels = {"OUT", FORM_WHOLE, 1, MOST_CHANNELS};
    struct value v = {0};
    if (strcmp(line->words[2], "classes") != 0) TRY(read_value(origin, line, &channels, line->words[2], &v));
    l->out = v.a; /* 0 = classes */
    l->has_bias = true;
    return LS_OK;
}

/* Kernel of a window that moves by `stride` (0 = by its own size) unless told otherwise. */
static enum ls_status read_window(const char *origin, const struct ls_line *line, int word, int stride,
                                  struct ls_layer *l)
{
    static const struct attr_def kernel = {"the size", FORM_PAIR, 1, MOST};
    struct value v = {0};
    TRY(read_value(origin, line, &kernel, line->words[word], &v));
    l->attrs.kh = v.a;
    l->attrs.kw = v.b;
    l->attrs.sh = stride ? stride : v.a;
    l->attrs.sw = stride ? stride : v.b;
    l->attrs.dh = l->attrs.dw = 1;
    return LS_OK;
}

static enum ls_status read_args(const char *origin, const struct ls_line *line, struct ls_layer *l)
{
    static const struct attr_def probability = {"the probability", FORM_NUMBER, 0, 0.999};
    static const struct attr_def size = {"SIZE", FORM_WHOLE, 1, MOST};
    static const struct attr_def groups = {"GROUPS", FORM_WHOLE, 1, MOST_CHANNELS};
    struct value v = {0};
    switch (line->kind) {
    case LS_WORD_CONV:
        l->attrs.groups = 1;
        TRY(read_out(origin, line, l));
        return read_window(origin, line, 3, 1, l);
    case LS_WORD_LINEAR:
        return read_out(origin, line, l);
    case LS_WORD_BN:
        l->attrs.eps = 1e-5f;
        l->attrs.momentum = 0.1f;
        return LS_OK;
    case LS_WORD_GROUPNORM:
        TRY(read_value(origin, line, &groups, line->words[2], &v));
        l->attrs.groups = v.a;
        l->attrs.eps = 1e-5f;
        return LS_OK;
    case LS_WORD_LAYERNORM:
        l->attrs.eps = 1e-5f;
        return LS_OK;
    case LS_WORD_LEAKYRELU:
        l->attrs.alpha = 0.01f;
        return LS_OK;
    case LS_WORD_MAXPOOL:
    case LS_WORD_AVGPOOL:
    case LS_WORD_ADAPTIVEAVGPOOL:
        return read_window(origin, line, 1, 0, l);
    case LS_WORD_DROPOUT:
        TRY(read_value(origin, line, &probability, line->words[1], &v));
        l->attrs.p = (float)v.number;
        return LS_OK;
    case LS_WORD_LRN:
        TRY(read_value(origin, line, &size, line->words[1], &v));
        l->attrs.size = v.a;
        l->attrs.alpha = 1e-4f;
        l->attrs.beta = 0.75f;
        l->attrs.k = 1;
        return LS_OK;
    default:
        return LS_OK;
    }
}

static enum ls_status read_attrs(const char *origin, const struct ls_line *line, int n_args, struct ls_layer *l)
{
    for (int i = 1 + n_args; i < line->n_words; i++) {
        const char *word = line->words[i];
        struct value v = {0};
        int attr = find_attr(word, strcspn(word, "="));
        if (attr < 0) return ls_fail(LS_INTERNAL, "attribute %s", word);
        TRY(read_value(origin, line, &attr_defs[attr], strchr(word, '=') + 1, &v));
        set_attr(l, (enum ls_word_attr)attr, &v);
    }
    return LS_OK;
}

/* optimizer.momentum.c.weight is the momentum of c.weight: a layer of that name would share its memory and its place in
 * a checkpoint. */
static bool is_reserved(const char *name)
{
    static const char *const prefixes[] = {"optimizer.", "sum.", "kept."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

/* The layer's full name and what messages call it. */
static enum ls_status name_layer(const char *origin, const struct ls_line *line, const char *prefix, int number,
                                 struct ls_layer *l)
{
    const struct ls_word_def *def = &ls__word_defs[line->kind];
    char name[2 * LS_WORD_BYTES + 16], title[4 * LS_WORD_BYTES];
    if (def->is_named) {
        if (!ls__name_is_good(line->words[1]))
            return ls__text_fail(origin, line->line,
                                 "%s: \"%s\" is not a name (letters, digits, '_', '-' and '.' between them)", def->word,
                                 line->words[1]);
        snprintf(name, sizeof name, "%s%s", prefix, line->words[1]);
        if (is_reserved(name))
            return ls__text_fail(
                origin, line->line,
                "%s %s: names that begin with optimizer., sum. or kept. are for what training makes of "
                "the parameters; choose another",
                def->word, name);
        snprintf(title, sizeof title, "%s %s", def->word, name);
    } else {
        const char *arg = line->n_words > 1 ? line->words[1] : "";
        snprintf(name, sizeof name, "%s%s%d", prefix, def->word, number);
        snprintf(title, sizeof title, "%s%s%s%s%.*s%s", def->word, *arg ? " " : "", arg, *prefix ? " (in " : "",
                 *prefix ? (int)strlen(prefix) - 1 : 0, prefix, *prefix ? ")" : "");
    }
    if (strlen(name) > LS_MODEL_NAME)
        return ls__text_fail(origin, line->line, "%s: the full name %s has more than %d characters", def->word, name,
                             LS_MODEL_NAME);
    TRY(ls__strdup(&l->name, name));
    return ls__strdup(&l->title, title);
}

enum ls_status ls__layer_read(const char *origin, const struct ls_line *line, const char *prefix, int number,
                              struct ls_layer *out)
{
    int n_args;
    out->kind = line->kind;
    out->line = line->line;
    TRY(ls__line_check(origin, line, &n_args));
    TRY(name_layer(origin, line, prefix, number, out));
    TRY(read_args(origin, line, out));
    return read_attrs(origin, line, n_args, out);
}

void ls__layer_release(struct ls_layer *layer)
{
    free(layer->name);
    free(layer->title);
    for (int i = 0; i < layer->n_refs; i++) free(layer->refs[i].label);
    *layer = (struct ls_layer){0};
}
