/* http_answers_real.c: libmicrohttpd loaded, and answers sent by it; see http_impl.h. */
#include "serve/http_impl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct ls_mhd ls__mhd;

enum ls_status ls__http_load(void)
{
    static const char *const files[] = {"libmicrohttpd.so.12", "libmicrohttpd.so"};
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"MHD_start_daemon", &ls__mhd.start},
                   {"MHD_stop_daemon", &ls__mhd.stop},
                   {"MHD_queue_response", &ls__mhd.queue},
                   {"MHD_create_response_from_buffer", &ls__mhd.from_buffer},
                   {"MHD_create_response_from_callback", &ls__mhd.from_callback},
                   {"MHD_destroy_response", &ls__mhd.destroy},
                   {"MHD_add_response_header", &ls__mhd.header},
                   {"MHD_lookup_connection_value", &ls__mhd.lookup},
                   {"MHD_get_connection_values", &ls__mhd.each},
                   {"MHD_suspend_connection", &ls__mhd.suspend},
                   {"MHD_resume_connection", &ls__mhd.resume}};
    void *library = NULL;
    if (ls__mhd.start) return LS_OK;
    for (int i = 0; i < 2 && !library; i++) library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return ls_fail(LS_UNSUPPORTED,
                       "the live page needs libmicrohttpd, which is not installed; on Debian: apt install "
                       "libmicrohttpd12 (`lockstep watch` and `report` need nothing)");
    for (int i = (int)(sizeof symbols / sizeof symbols[0]) - 1; i >= 0; i--) { /* start last: all are there */
        void *found = dlsym(library, symbols[i].name);
        if (!found) return ls_fail(LS_UNSUPPORTED, "libmicrohttpd has no %s; it is too old", symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
    }
    return LS_OK;
}

struct MHD_Response *ls__http_dress(struct MHD_Response *r, const char *type)
{
    static const char *const headers[][2] = {
        {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                                    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cache-Control", "no-store"}};
    if (!r) return NULL;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) ls__mhd.header(r, headers[i][0], headers[i][1]);
    ls__mhd.header(r, "Content-Type", type);
    return r;
}

struct MHD_Response *ls__http_answer(struct ls_buf *b, const char *type)
{
    size_t len = b->len;
    char *text = ls__buf_take(b);
    struct MHD_Response *r = text ? ls__mhd.from_buffer(len, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!r) free(text);
    return ls__http_dress(r, type);
}

enum MHD_Result ls__http_send(struct MHD_Connection *c, unsigned code, struct MHD_Response *r)
{
    if (!r) return MHD_NO;
    enum MHD_Result result = ls__mhd.queue(c, code, r);
    ls__mhd.destroy(r);
    return result;
}

enum MHD_Result ls__http_send_message(struct MHD_Connection *c, unsigned code, const char *title, const char *text)
{
    struct ls_buf b = LS_BUF_INIT;
    ls__view_message(&b, title, text);
    struct MHD_Response *r = ls__http_answer(&b, "text/html; charset=utf-8");
    if (r && code == MHD_HTTP_METHOD_NOT_ALLOWED) ls__mhd.header(r, "Allow", "GET, HEAD");
    return ls__http_send(c, code, r);
}
