/* fetch_stub.c: in the place of fetch_real.c where libcurl or libcrypto is missing. */
#include "data/fetch.h"

enum ls_status ls_data_fetch(const char *name, const char *data_dir, const char *base_url, ls_fetch_progress *progress,
                             void *arg)
{
    return ls_fail(
        LS_UNSUPPORTED,
        "cannot fetch '%s': this build has no downloads; install libcurl4-openssl-dev and libssl-dev and build "
        "again, or put the files into a data folder yourself (`lockstep data list` names them)",
        name);
}

enum ls_status ls__file_md5(const char *path, char hex[33])
{
    hex[0] = '\0';
    return ls_fail(LS_UNSUPPORTED, "%s: this build has no libcrypto to compute MD5 with", path);
}
