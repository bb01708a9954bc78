/* tensor.h: what a tensor is, apart from where it lies: element type, shape, layout.
 *
 * A shape is logical and always in PyTorch's order: activations [mb,c,h,w] or [mb,c], convolution weights
 * [oc,ic/groups,kh,kw], linear weights [oc,ic], vectors [c]. A layout says how those elements lie in memory. "plain"
 * is row-major and known to everybody; any other layout belongs to the backend that invented it, which interns it and
 * gives it a number: two layouts are equal exactly when their ids are.
 */
#ifndef LS_TENSOR_H
#define LS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ls_dtype { LS_F32, LS_I64, LS_I32, LS_U8, LS_F16, LS_BF16 }; /* the last two in files of others only */

size_t ls_dtype_bytes(enum ls_dtype dtype);
const char *ls_dtype_name(enum ls_dtype dtype); /* "f32" */

enum { LS_MAX_DIMS = 4 };

struct ls_shape {
    int n_dims;
    int64_t dims[LS_MAX_DIMS];
};

#define LS_SHAPE1(a) ((struct ls_shape){1, {(a)}})
#define LS_SHAPE2(a, b) ((struct ls_shape){2, {(a), (b)}})
#define LS_SHAPE4(a, b, c, d) ((struct ls_shape){4, {(a), (b), (c), (d)}})

int64_t ls_shape_count(const struct ls_shape *s); /* number of elements; 1 for zero dims */
bool ls_shape_is_equal(const struct ls_shape *a, const struct ls_shape *b);
/* "16x6x28x28" into out; returns out. */
enum { LS_SHAPE_TEXT = 96 };
const char *ls_shape_text(const struct ls_shape *s, char out[LS_SHAPE_TEXT]);

enum { LS_LAYOUT_PLAIN = 0, LS_LAYOUT_ANY = -1 };

struct ls_layout {
    int id;       /* LS_LAYOUT_PLAIN, LS_LAYOUT_ANY (not decided yet) or a backend's number > 0 */
    size_t bytes; /* storage, padding included */
    char tag[24]; /* for people: "plain", "aBcd16b", "opaque" */
    /* Fewer bits than the value has: what is stored (parameters) stays in layout `wide_id`, element for element in the
     * same order, and gets a copy. */
    bool is_narrow;
    int wide_id;
};

struct ls_layout ls_layout_plain(const struct ls_shape *s, enum ls_dtype dtype);
struct ls_layout ls_layout_any(void);

#ifdef __cplusplus
}
#endif

#endif
