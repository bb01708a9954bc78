/* cmd_version.c: `lockstep --version`: everything that decides the bits of a result, apart from the run itself. */
#include "backend/backend.h"
#include "cli/cmd.h"
#include "cli/machine.h"

#include <jansson.h>
#include <stdio.h>
#include <xxhash.h>
#include <zlib.h>

enum ls_status ls__cmd_version(void)
{
    char text[256];
    unsigned xxh = XXH_versionNumber();
    printf("lockstep %s\n", LOCKSTEP_VERSION);
    for (int i = 0; ls_backends[i]; i++) {
        ls__backend_text(ls_backends[i], text, sizeof text);
        printf("backend %s: %s\n", ls_backends[i]->name, text);
    }
    printf("instruction set: %s\n", ls__machine_isa(text, sizeof text));
    printf("zlib %s, jansson %s, xxhash %u.%u.%u\n", zlibVersion(), jansson_version_str(), xxh / 10000, xxh / 100 % 100,
           xxh % 100);
    return LS_OK;
}
