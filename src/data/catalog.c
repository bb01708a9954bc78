/* catalog.c: the table of known sets and the search for their files. See catalog.h.
 *
 * Checksums are those published with the sets (and used by torchvision); `content` was computed from files with those
 * checksums, so that repacked copies (Debian strips the gzip headers) can still be recognised. Mean and deviation are
 * the usual constants, so that results compare with others'.
 */
#include "data/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ls_set sets[] = {
    {
        .name = "mnist",
        .title = "handwritten digits, 28x28 grey",
        .licence = "CC BY-SA 3.0",
        .c = 1,
        .h = 28,
        .w = 28,
        .n_classes = 10,
        .class_names = LS_DIGIT_NAMES,
        .mean = {0.1307f, 0.1307f, 0.1307f},
        .std = {0.3081f, 0.3081f, 0.3081f},
        .read = ls__idx_open,
        .n_files = 4,
        .files = {{.name = "train-images-idx3-ubyte",
                   .split = LS_TRAIN,
                   .n = 60000,
                   .md5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                   .size_bytes = 9912422,
                   .is_gzip = true},
                  {.name = "train-labels-idx1-ubyte",
                   .split = LS_TRAIN,
                   .is_labels = true,
                   .n = 60000,
                   .md5 = "d53e105ee54ea40749a09fcbcd1e9432",
                   .size_bytes = 28881,
                   .is_gzip = true},
                  {.name = "t10k-images-idx3-ubyte",
                   .split = LS_TEST,
                   .n = 10000,
                   .md5 = "9fb629c4189551a2d022fa330f9573f3",
                   .size_bytes = 1648877,
                   .is_gzip = true},
                  {.name = "t10k-labels-idx1-ubyte",
                   .split = LS_TEST,
                   .is_labels = true,
                   .n = 10000,
                   .md5 = "ec29112dd5afa0611ce80d1b7f02629c",
                   .size_bytes = 4542,
                   .is_gzip = true}},
        .urls = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                 "https://storage.googleapis.com/cvdf-datasets/mnist/"},
        .subfolders = {"MNIST/raw", "mnist", ""},
        .content = {"d62a412bf71926c7ea184c6a70f11642", "25a485066fdd2305d3abf20dfd144ebc"},
    },
    {
        .name = "fashion-mnist",
        .title = "clothes, 28x28 grey",
        .licence = "MIT",
        .c = 1,
        .h = 28,
        .w = 28,
        .n_classes = 10,
        .class_names = "T-shirt/top\nTrouser\nPullover\nDress\nCoat\nSandal\nShirt\nSneaker\nBag\nAnkle boot\n",
        .mean = {0.2860f, 0.2860f, 0.2860f},
        .std = {0.3530f, 0.3530f, 0.3530f},
        .read = ls__idx_open,
        .n_files = 4,
        .files = {{.name = "train-images-idx3-ubyte",
                   .split = LS_TRAIN,
                   .n = 60000,
                   .md5 = "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                   .size_bytes = 26421880,
                   .is_gzip = true},
                  {.name = "train-labels-idx1-ubyte",
                   .split = LS_TRAIN,
                   .is_labels = true,
                   .n = 60000,
                   .md5 = "25c81989df183df01b3e8a0aad5dffbe",
                   .size_bytes = 29515,
                   .is_gzip = true},
                  {.name = "t10k-images-idx3-ubyte",
                   .split = LS_TEST,
                   .n = 10000,
                   .md5 = "bef4ecab320f06d8554ea6380940ec79",
                   .size_bytes = 4422102,
                   .is_gzip = true},
                  {.name = "t10k-labels-idx1-ubyte",
                   .split = LS_TEST,
                   .is_labels = true,
                   .n = 10000,
                   .md5 = "bb300cfdad3c16e7a12a480ee83cd310",
                   .size_bytes = 5148,
                   .is_gzip = true}},
        .urls = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
        .subfolders = {"FashionMNIST/raw", "fashion-mnist", ""},
        .content = {"722bb52b5d65e83562317e8059a30d27", "616582a7efbc97b4d5bdb45c1f089691"},
    },
    {
        .name = "cifar10",
        .title = "small photographs, 32x32 colour",
        .licence = "none stated",
        .c = 3,
        .h = 32,
        .w = 32,
        .n_classes = 10,
        .class_names = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n",
        .mean = {0.4914f, 0.4822f, 0.4465f},
        .std = {0.2470f, 0.2435f, 0.2616f},
        .read = ls__cifar_open,
        .n_files = 6,
        .files = {{.name = "data_batch_1.bin", .split = LS_TRAIN, .n = 10000, .size_bytes = 30730000},
                  {.name = "data_batch_2.bin", .split = LS_TRAIN, .n = 10000, .size_bytes = 30730000},
                  {.name = "data_batch_3.bin", .split = LS_TRAIN, .n = 10000, .size_bytes = 30730000},
                  {.name = "data_batch_4.bin", .split = LS_TRAIN, .n = 10000, .size_bytes = 30730000},
                  {.name = "data_batch_5.bin", .split = LS_TRAIN, .n = 10000, .size_bytes = 30730000},
                  {.name = "test_batch.bin", .split = LS_TEST, .n = 10000, .size_bytes = 30730000}},
        .archive = {.name = "cifar-10-binary.tar.gz",
                    .md5 = "c32a1d4ab5d03f1284b67883e8d87530",
                    .folder = "cifar-10-batches-bin",
                    .size_bytes = 170052171},
        .urls = {"https://www.cs.toronto.edu/~kriz/"},
        .subfolders = {"cifar-10-batches-bin", "cifar10", ""},
        .content = {"4a10274491e579223b8aeb9670f83ac4", "ae7a87b66696c31f773bff5f0357ec9b"},
    },
    {
        .name = "svhn",
        .title = "house numbers, cropped digits, 32x32 colour",
        .licence = "non-commercial use only",
        .c = 3,
        .h = 32,
        .w = 32,
        .n_classes = 10,
        .class_names = LS_DIGIT_NAMES,
        .mean = {0.4377f, 0.4438f, 0.4728f},
        .std = {0.1980f, 0.2010f, 0.1970f},
        .read = ls__mat5_open,
        .n_files = 3,
        .files = {{.name = "train_32x32.mat",
                   .split = LS_TRAIN,
                   .n = 73257,
                   .md5 = "e26dedcc434d2e4c54c9b2d4a06d8373",
                   .size_bytes = 182040794},
                  {.name = "extra_32x32.mat",
                   .split = LS_TRAIN,
                   .n = 531131,
                   .md5 = "a93ce644f1a588dc4d68dda5feec44a7",
                   .size_bytes = 1329278602,
                   .is_extra = true},
                  {.name = "test_32x32.mat",
                   .split = LS_TEST,
                   .n = 26032,
                   .md5 = "eb5a983be6a315427106f1b164d9cef3",
                   .size_bytes = 64275384}},
        .urls = {"https://ufldl.stanford.edu/housenumbers/", "http://ufldl.stanford.edu/housenumbers/"},
        .subfolders = {"", "svhn", "SVHN"},
    },
};
enum { N_SETS = sizeof sets / sizeof sets[0] };

const struct ls_set *ls__catalog_at(int i)
{
    return i >= 0 && i < N_SETS ? &sets[i] : NULL;
}

const struct ls_set *ls__catalog_find(const char *name)
{
    for (int i = 0; i < N_SETS; i++)
        if (strcmp(sets[i].name, name) == 0) return &sets[i];
    return NULL;
}

bool ls__catalog_has_extra(const struct ls_set *set)
{
    for (int i = 0; i < set->n_files; i++)
        if (set->files[i].is_extra) return true;
    return false;
}

const struct ls_set *ls__catalog_from_spec(const char *spec, bool *with_extra)
{
    static const char extra[] = "+extra";
    size_t len = strlen(spec), extra_len = sizeof extra - 1;
    *with_extra = len > extra_len && strcmp(spec + len - extra_len, extra) == 0;
    if (!*with_extra) return ls__catalog_find(spec);
    for (int i = 0; i < N_SETS; i++)
        if (strlen(sets[i].name) == len - extra_len && memcmp(sets[i].name, spec, len - extra_len) == 0)
            return ls__catalog_has_extra(&sets[i]) ? &sets[i] : NULL;
    return NULL;
}

int64_t ls__set_images(const struct ls_set *set, enum ls_split split, bool with_extra)
{
    int64_t n = 0;
    for (int i = 0; i < set->n_files; i++) {
        const struct ls_set_file *file = &set->files[i];
        if (file->split == split && !file->is_labels && (with_extra || !file->is_extra)) n += file->n;
    }
    return n;
}

struct ls_expect ls__set_expect(const struct ls_set *set)
{
    struct ls_expect e = {.c = set->c, .h = set->h, .w = set->w, .n_classes = set->n_classes};
    for (int i = 0; i < set->n_files; i++)
        if (set->files[i].n > e.max_n) e.max_n = set->files[i].n;
    e.max_n *= 4;
    return e;
}

enum ls_status ls__cache_dir(char *out, size_t size, const char *what)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool has_xdg = xdg && xdg[0] == '/';
    char below[64];
    if (!has_xdg && (!home || home[0] != '/'))
        return ls_fail(LS_IO, "no cache folder: neither XDG_CACHE_HOME nor HOME is set; give --data-dir");
    snprintf(below, sizeof below, "%slockstep/%s", has_xdg ? "" : ".cache/", what);
    return ls__path_join(out, size, has_xdg ? xdg : home, below);
}

enum ls_status ls__data_cache_dir(char *out, size_t size)
{
    return ls__cache_dir(out, size, "datasets");
}

static void add_root(struct ls_roots *roots, const char *path)
{
    if (!path || !path[0] || strlen(path) >= LS_PATH_BYTES) return;
    for (int i = 0; i < roots->n; i++)
        if (strcmp(roots->path[i], path) == 0) return;
    snprintf(roots->path[roots->n++], LS_PATH_BYTES, "%s", path);
}

void ls__data_roots(struct ls_roots *roots, const char *data_dir)
{
    char cache[LS_PATH_BYTES];
    roots->n = 0;
    add_root(roots, data_dir);
    add_root(roots, getenv("LOCKSTEP_DATA"));
    if (ls__data_cache_dir(cache, sizeof cache) == LS_OK) add_root(roots, cache);
    add_root(roots, "/usr/share/datasets");
    add_root(roots, "/usr/local/share/datasets");
}

/* Two sets use the same file names. When the files lie directly in a data folder, its name must tell them apart. */
static bool is_ambiguous(const struct ls_set *set, const char *root, const char *subfolder)
{
    if (subfolder[0] || set->read != ls__idx_open) return false;
    bool is_fashion_folder = strcasestr(root, "fashion") != NULL;
    return is_fashion_folder != (strcmp(set->name, "fashion-mnist") == 0);
}

/* Looks for the split's files in one folder. Plain files are preferred to gzipped ones: they open faster. */
static enum ls_status look_into(struct ls_found *found, const struct ls_set *set, enum ls_split split, bool with_extra,
                                const char *folder, int *missing)
{
    found->n = 0;
    *missing = -1;
    for (int i = 0; i < set->n_files; i++) {
        const struct ls_set_file *file = &set->files[i];
        char *path = found->path[found->n];
        if (file->split != split || (file->is_extra && !with_extra)) continue;
        TRY(ls__path_join(path, LS_PATH_BYTES, folder, file->name));
        bool is_there = ls__file_exists(path);
        if (!is_there && file->is_gzip) {
            char gz[128];
            snprintf(gz, sizeof gz, "%s.gz", file->name);
            TRY(ls__path_join(path, LS_PATH_BYTES, folder, gz));
            is_there = ls__file_exists(path);
        }
        if (is_there)
            found->file[found->n++] = i;
        else
            *missing = i;
    }
    return LS_OK;
}

static enum ls_status not_found(const struct ls_set *set, const struct ls_roots *roots, const char *partial,
                                int missing, bool with_extra)
{
    char folders[600] = "";
    const char *extra = with_extra ? "+extra" : "";
    if (missing >= 0)
        return ls_fail(LS_DATA, "data set '%s%s' is incomplete: %s has no %s%s; get it with: lockstep data fetch %s%s",
                       set->name, extra, partial, set->files[missing].name, set->files[missing].is_gzip ? "[.gz]" : "",
                       set->name, extra);
    for (int i = 0; i < roots->n; i++) {
        size_t at = strlen(folders);
        snprintf(folders + at, sizeof folders - at, "%s%.200s", i ? ", " : "", roots->path[i]);
    }
    return ls_fail(LS_DATA,
                   "data set '%s%s' not found in %s; get it with: lockstep data fetch %s%s (or name its folder with "
                   "--data-dir or LOCKSTEP_DATA)",
                   set->name, extra, folders, set->name, extra);
}

/* Looks below every root; *partial (LS_PATH_BYTES) and *missing tell of the first folder that has some of the files. */
static enum ls_status search(struct ls_found *found, const struct ls_set *set, enum ls_split split, bool with_extra,
                             const struct ls_roots *roots, char *partial, int *partial_missing)
{
    char folder[LS_PATH_BYTES];
    for (int r = 0; r < roots->n; r++)
        for (int s = 0; s < LS_SET_MAX_SUBFOLDERS && set->subfolders[s]; s++) {
            int missing;
            if (is_ambiguous(set, roots->path[r], set->subfolders[s])) continue;
            TRY(ls__path_join(folder, sizeof folder, roots->path[r], set->subfolders[s]));
            TRY(look_into(found, set, split, with_extra, folder, &missing));
            if (missing < 0) return LS_OK;
            if (found->n > 0 && *partial_missing < 0) {
                *partial_missing = missing;
                snprintf(partial, LS_PATH_BYTES, "%s", folder);
            }
        }
    found->n = 0;
    return LS_OK;
}

enum ls_status ls__catalog_locate(struct ls_found *found, const struct ls_set *set, enum ls_split split,
                                  bool with_extra, const char *data_dir)
{
    struct ls_roots roots;
    char partial[LS_PATH_BYTES] = "";
    int missing = -1;
    ls__data_roots(&roots, data_dir);
    TRY(search(found, set, split, with_extra, &roots, partial, &missing));
    return found->n > 0 ? LS_OK : not_found(set, &roots, partial, missing, with_extra);
}
