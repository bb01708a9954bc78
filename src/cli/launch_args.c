/* launch_args.c: what --mpi-args says, as far as the launcher must know: which of mpirun's options the user has set.
 *
 * In: words apart by spaces: options of Open MPI's or MPICH's mpirun, then perhaps a program to put before ours with
 * arguments of its own, which are none of mpirun's. Where the options end follows from how many values each takes; of
 * one that is not known here, the word behind it is a value unless it is a program.
 */
#include "cli/launch_impl.h"
#include "cli/machine.h"

#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 256 };

static const char one_value[] =
    " n np c N npernode npersocket host H hostfile machinefile default-hostfile x bind-to map-by rank-by wdir wd path "
    "prefix output-filename timeout stdin rf rankfile report-pid report-uri app tune am cpu-set cpu-list f hosts ppn "
    "iface binding membind rmk launcher launcher-exec bootstrap bootstrap-exec envlist genvlist prepend-pattern ";
static const char two_values[] = " mca gmca omca env genv ";

/* Whether a list " a b " has the word. */
static bool has_word(const char *list, const char *word)
{
    char between[WORD_BYTES + 2];
    snprintf(between, sizeof between, " %s ", word);
    return strstr(list, between);
}

static bool take_word(const char **at, char word[WORD_BYTES])
{
    *at += strspn(*at, " \t");
    const size_t n = strcspn(*at, " \t");
    snprintf(word, WORD_BYTES, "%.*s", (int)n, *at);
    *at += n;
    return n > 0;
}

static bool is_program(const char *word)
{
    char path[LS_PATH_BYTES];
    return strchr(word, '/') || ls__find_program(word, path);
}

/* The next option without its dashes, for --mca the parameter it sets; false: no more of mpirun's. */
static bool take_option(const char **at, char name[WORD_BYTES])
{
    char word[WORD_BYTES], rest[WORD_BYTES];
    do {
        if (!take_word(at, word) || (word[0] != '-' && is_program(word))) return false;
    } while (word[0] != '-');
    const char *bare = word + strspn(word, "-");
    const size_t n = strcspn(bare, "=");
    snprintf(name, WORD_BYTES, "%.*s", (int)n, bare);
    if (bare[n] == '=') return true;
    const bool is_parameter = has_word(" mca gmca omca ", name);
    if (has_word(two_values, name) && take_word(at, rest) && is_parameter) memcpy(name, rest, WORD_BYTES);
    if (is_parameter || has_word(one_value, name) || has_word(two_values, name)) take_word(at, rest);
    return true;
}

bool ls__mpi_args_have(const char *text, const char *names)
{
    char name[WORD_BYTES];
    if (!text || text[strspn(text, " \t")] != '-') return false; /* a program, and its own arguments */
    while (take_option(&text, name))
        if (has_word(names, name)) return true;
    return false;
}
