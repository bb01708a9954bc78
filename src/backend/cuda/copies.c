/* copies.c: copies of parameters in bf16 that updates write on the way, so that no step begins with making them.
 *
 * An op that narrows a parameter (REORDER) announces itself when it is bound, with addresses that never change; an
 * update finds the copy by its parameter's address. A second copy of the same parameter is not brought along, and its
 * op is told so.
 */
#include "backend/cuda/cuda.h"
#include "base/mem.h"

static struct ls_cuda_copy *find(const struct ls_device *d, const void *param)
{
    for (int i = 0; i < d->n_copies; i++)
        if (d->copies[i].param == param) return &d->copies[i];
    return NULL;
}

enum ls_status ls__cuda_copy_bind(struct ls_device *d, const void *param, void *copy, int64_t n, bool *is_followed)
{
    struct ls_cuda_copy *c = find(d, param);
    *is_followed = !c || (c->copy == copy && c->n == n);
    if (c) {
        if (*is_followed) c->n_bound++;
        return LS_OK;
    }
    TRY(ls__grow(&d->copies, (size_t)d->n_copies, (size_t)d->n_copies + 1, sizeof *d->copies));
    d->copies[d->n_copies++] = (struct ls_cuda_copy){param, copy, n, 1};
    return LS_OK;
}

void ls__cuda_copy_unbind(struct ls_device *d, const void *param, const void *copy)
{
    struct ls_cuda_copy *c = find(d, param);
    if (!c || c->copy != copy || --c->n_bound > 0) return;
    *c = d->copies[--d->n_copies];
}

void *ls__cuda_copy_of(const struct ls_device *d, const void *param, int64_t n)
{
    const struct ls_cuda_copy *c = find(d, param);
    return c && c->n == n ? c->copy : NULL;
}
