/* fetch.h: getting the published data sets.
 *
 * Each file is downloaded to NAME.part, continued there after an interruption (HTTP Range), checked against the
 * published checksum, synced and renamed; a name without .part is therefore always a whole, verified file. A wrong
 * checksum removes the part. Plain http is used only for mirrors that offer nothing else, and never trusted: the
 * checksum decides.
 */
#ifndef LS_DATA_FETCH_H
#define LS_DATA_FETCH_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Called now and then while `file` arrives; total 0 = not known yet. */
typedef void ls_fetch_progress(void *arg, const char *file, int64_t done, int64_t total);

/* name: a set of the catalogue, "svhn+extra" too. data_dir NULL: the cache folder. base_url NULL: the published
 * mirrors; otherwise all files come from there (https, or http on this machine: 127.0.0.1 or localhost). Files that are
 * there are not fetched. */
enum ls_status ls_data_fetch(const char *name, const char *data_dir, const char *base_url, ls_fetch_progress *progress,
                             void *arg) LS_MUST_CHECK;

/* MD5 of a file in hex; LS_UNSUPPORTED in a build without libcrypto. */
enum ls_status ls__file_md5(const char *path, char hex[33]) LS_MUST_CHECK;

/* Unpacks the regular files `folder`/NAME of a .tar.gz into `into` (as into/NAME). Links, devices, absolute names and
 * names with ".." are refused and nothing is written for them. */
enum ls_status ls__untar_gz(const char *archive, const char *folder, const char *into) LS_MUST_CHECK;

#endif
