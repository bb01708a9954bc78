/* csv.c: comma-separated values as spreadsheets and pandas read them (RFC 4180, but lines end in '\n'); see cmd.h. */
#include "base/dir.h"
#include "cli/cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ls__csv_add(struct ls_buf *b, const char *text)
{
    if (b->len > 0 && b->text[b->len - 1] != '\n') ls__buf_adds(b, ",");
    if (!*text && (b->len == 0 || b->text[b->len - 1] == '\n'))
        ls__buf_adds(b, "\"\""); /* or a comma would be missing */
    if (!strpbrk(text, ",\"\n\r")) {
        ls__buf_adds(b, text);
        return;
    }
    ls__buf_adds(b, "\"");
    for (; *text; text++) ls__buf_add(b, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    ls__buf_adds(b, "\"");
}

void ls__csv_addf(struct ls_buf *b, const char *fmt, ...)
{
    char text[64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ls__csv_add(b, text);
}

enum ls_status ls__print_try(const char *path)
{
    char folder[LS_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    const struct ls_piece nothing = {"", 0};
    struct ls_dir dir;
    if (strcmp(path, "-") == 0) return LS_OK;
    if (ls__dir_exists(path)) return ls_fail(LS_IO, "write %s: it is a folder; name a file", path);
    int n = slash == path ? 1 : slash ? (int)(slash - path) : 1;
    snprintf(folder, sizeof folder, "%.*s", n, slash ? path : ".");
    if (ls__dir_open(&dir, folder, LS_IO) != LS_OK) return ls_fail_in(LS_IO, "write %s", path);
    enum ls_status status = ls__dir_try_write(&dir, slash ? slash + 1 : path, &nothing, 0, LS_IO);
    ls__dir_close(&dir);
    return status;
}

enum ls_status ls__print_file(struct ls_buf *b, const char *path)
{
    if (strcmp(path, "-") == 0) return ls__print_buf(b);
    const struct ls_piece piece = {b->text, b->len};
    enum ls_status status = ls__buf_check(b);
    if (status == LS_OK) status = ls__file_write_atomic(path, &piece, 1, LS_IO);
    ls__buf_release(b);
    return status;
}
