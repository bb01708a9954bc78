/* mirror.h: the buffers of a launch where the kernel can reach them.
 *
 * Tests fill and look at buffers of the host. Where a backend has memory of its own, every buffer gets a twin there,
 * guard zones included: send copies all of them over before a launch, fetch waits, hands on what failed and copies all
 * of them back. Where memory is the host's, the twin is the buffer itself.
 */
#ifndef OPS_MIRROR_H
#define OPS_MIRROR_H

#include "backend/backend.h"

/* Memory with guard zones. Zeroed = none. */
struct buffer {
    unsigned char *block;
    void *data;
    size_t bytes;
};
enum ls_status buffer_create(struct buffer *b, size_t bytes, int fill) LS_MUST_CHECK;
enum ls_status buffer_check(const struct buffer *b, const char *what) LS_MUST_CHECK;
enum ls_status buffer_copy(struct buffer *to, const struct buffer *from) LS_MUST_CHECK;
void buffer_release(struct buffer *b);

enum { MAX_TWINS = LS_MAX_IN + LS_MAX_OUT + 2 };

struct mirror {
    const struct ls_backend *backend;
    struct ls_device *device;
    struct {
        const struct buffer *of;
        unsigned char *block;
    } twins[MAX_TWINS];
    int n;
};

/* *address is where a kernel finds the data of b, until release. b stays where it is. */
enum ls_status mirror_add(struct mirror *m, const struct buffer *b, void **address) LS_MUST_CHECK;
enum ls_status mirror_send(const struct mirror *m) LS_MUST_CHECK;
enum ls_status mirror_fetch(const struct mirror *m) LS_MUST_CHECK;
void mirror_release(struct mirror *m);

#endif
