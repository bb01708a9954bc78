/* scratch.h: where a unit test writes: below $TMPDIR, which ctest sets to a folder of the build; in the working
 * directory, which is one too, if the name of that is too long. */
#ifndef LS_TESTS_SCRATCH_H
#define LS_TESTS_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_BYTES = 256 };

/* A template for mkdtemp and mkstemps: $TMPDIR/NAME.XXXXXX and what follows. */
static inline char *scratch_name(char out[SCRATCH_BYTES], const char *name, const char *after)
{
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp) tmp = "/tmp";
    snprintf(out, SCRATCH_BYTES, "%s/%s.XXXXXX%s", strlen(tmp) < 200 ? tmp : ".", name, after);
    return out;
}

#endif
