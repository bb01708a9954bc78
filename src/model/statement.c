/* statement.c: the words of the model language, and what a misspelt one was meant to be. */
#include "model/internal.h"

#include <string.h>

#define A(NAME) (1u << LS_ATTR_##NAME)

const struct ls_word_def ls__word_defs[LS_N_WORDS] = {
    [LS_WORD_MODEL] = {"model", "model NAME", 1, 1, 0, false},
    [LS_WORD_INPUT] = {"input", "input CxHxW|any [fixed=yes|no]", 1, 1, A(FIXED), false},
    [LS_WORD_BLOCK] = {"block", "block NAME [PARAMETER[=DEFAULT]]...", 1, -1, 0, false},
    [LS_WORD_END] = {"end", "end", 0, 0, 0, false},
    [LS_WORD_USE] = {"use", "use BLOCK PREFIX [PARAMETER=VALUE]...", 2, 2, 0, false},
    [LS_WORD_KEEP] = {"keep", "keep LABEL", 1, 1, 0, false},
    [LS_WORD_FROM] = {"from", "from LABEL", 1, 1, 0, false},
    [LS_WORD_CONV] = {"conv", "conv NAME OUT KERNEL [stride= pad= dilation= groups= bias=yes|no]", 3, 3,
                      A(STRIDE) | A(PAD) | A(DILATION) | A(GROUPS) | A(BIAS), true},
    [LS_WORD_LINEAR] = {"linear", "linear NAME OUT [bias=yes|no]", 2, 2, A(BIAS), true},
    [LS_WORD_BIAS] = {"bias", "bias NAME", 1, 1, 0, true},
    [LS_WORD_BN] = {"bn", "bn NAME [eps= momentum=]", 1, 1, A(EPS) | A(MOMENTUM), true},
    [LS_WORD_GROUPNORM] = {"groupnorm", "groupnorm NAME GROUPS [eps=]", 2, 2, A(EPS), true},
    [LS_WORD_LAYERNORM] = {"layernorm", "layernorm NAME [eps= image=yes|no]", 1, 1, A(EPS) | A(IMAGE), true},
    [LS_WORD_RELU] = {"relu", "relu", 0, 0, 0, false},
    [LS_WORD_GELU] = {"gelu", "gelu [tanh=yes|no]", 0, 0, A(TANH), false},
    [LS_WORD_SILU] = {"silu", "silu", 0, 0, 0, false},
    [LS_WORD_HARDSWISH] = {"hardswish", "hardswish", 0, 0, 0, false},
    [LS_WORD_TANH] = {"tanh", "tanh", 0, 0, 0, false},
    [LS_WORD_SIGMOID] = {"sigmoid", "sigmoid", 0, 0, 0, false},
    [LS_WORD_LEAKYRELU] = {"leakyrelu", "leakyrelu [slope=]", 0, 0, A(SLOPE), false},
    [LS_WORD_RELU6] = {"relu6", "relu6", 0, 0, 0, false},
    [LS_WORD_MAXPOOL] = {"maxpool", "maxpool KERNEL [stride= pad= dilation= ceil=yes|no]", 1, 1,
                         A(STRIDE) | A(PAD) | A(DILATION) | A(CEIL), false},
    [LS_WORD_AVGPOOL] = {"avgpool", "avgpool KERNEL [stride= pad= ceil=yes|no countpad=yes|no]", 1, 1,
                         A(STRIDE) | A(PAD) | A(CEIL) | A(COUNTPAD), false},
    [LS_WORD_GLOBALAVGPOOL] = {"globalavgpool", "globalavgpool", 0, 0, 0, false},
    [LS_WORD_ADAPTIVEAVGPOOL] = {"adaptiveavgpool", "adaptiveavgpool HxW", 1, 1, 0, false},
    [LS_WORD_DROPOUT] = {"dropout", "dropout PROBABILITY", 1, 1, 0, false},
    [LS_WORD_LRN] = {"lrn", "lrn SIZE [alpha= beta= k=]", 1, 1, A(ALPHA) | A(BETA) | A(K), false},
    [LS_WORD_ADD] = {"add", "add LABEL", 1, 1, 0, false},
    [LS_WORD_CONCAT] = {"concat", "concat LABEL...", 1, LS_MODEL_REFS, 0, false},
    [LS_WORD_FLATTEN] = {"flatten", "flatten", 0, 0, 0, false},
};

bool ls__word_find(const char *word, enum ls_word *out)
{
    for (int i = 0; i < LS_N_WORDS; i++)
        if (strcmp(word, ls__word_defs[i].word) == 0) {
            *out = (enum ls_word)i;
            return true;
        }
    return false;
}

int ls__edit_tolerance(const char *word)
{
    size_t len = strlen(word);
    return len < 4 ? 1 : len < 8 ? 2 : 3;
}

const char *ls__word_nearest(const char *word)
{
    const char *best = NULL;
    int nearest = ls__edit_tolerance(word) + 1;
    for (int i = 0; i < LS_N_WORDS; i++) {
        int d = ls__edit_distance(word, ls__word_defs[i].word, nearest);
        if (d < nearest) {
            nearest = d;
            best = ls__word_defs[i].word;
        }
    }
    return best;
}

/* Levenshtein's, one row at a time. Long words are never near anything, which bounds the row. */
int ls__edit_distance(const char *a, const char *b, int limit)
{
    enum { LONGEST = 64 };
    int row[LONGEST + 1];
    int na = (int)strnlen(a, LONGEST + 1), nb = (int)strnlen(b, LONGEST + 1);
    if (na > LONGEST || nb > LONGEST) return limit;
    for (int j = 0; j <= nb; j++) row[j] = j;
    for (int i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[nb] < limit ? row[nb] : limit;
}
