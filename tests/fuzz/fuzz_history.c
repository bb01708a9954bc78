/* fuzz_history.c: any bytes as the files of a run directory, cut in parts at zero bytes: manifest, result, metrics,
 * resources. Read whole, and once more after the metrics grew and were cut.
 */
#include "history/history.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void put(const char *dir, const char *name, const uint8_t *data, size_t len, int flags)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0666);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len) abort();
    close(fd);
}

static void look(const struct ls_history *h)
{
    char text[64];
    for (int i = 0; ls_history_curve_at(h, i); i++) {
        const struct ls_curve *c = ls_history_curve_at(h, i);
        if (c->n > LS_CURVE_POINTS) __builtin_trap();
        for (int v = 0; v < c->n_values; v++)
            for (size_t k = 0; k < c->n; k++)
                if (c->values[v][k] == 1e999) __builtin_trap(); /* numbers are finite or missing */
    }
    ls_history_value(h, "options.batch_size", text, sizeof text);
    (void)ls_history_number(h, "seconds.compute");
    (void)ls_history_steps(h);
    (void)ls_history_n_ranks(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const names[] = {"manifest.json", "metrics.jsonl", "resources.csv", "result.json"};
    static char dir[256];
    struct ls_history *h;
    const uint8_t *end = data + len, *at = data;
    if (!dir[0]) {
        snprintf(dir, sizeof dir, "%s/history-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        if (!mkdtemp(dir)) abort();
    }
    for (int i = 0; i < 4; i++) {
        const uint8_t *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        size_t n = (size_t)((stop ? stop : end) - at);
        put(dir, names[i], at, n, O_TRUNC);
        at = stop ? stop + 1 : end;
    }
    if (ls_history_open(&h, dir) != LS_OK) return 0;
    look(h);
    put(dir, "metrics.jsonl", data, len, O_APPEND);
    if (ls_history_refresh(h, NULL) == LS_OK) look(h);
    put(dir, "metrics.jsonl", data, len / 2, O_TRUNC);
    if (ls_history_refresh(h, NULL) == LS_OK) look(h);
    ls_history_close(&h);
    return 0;
}
