/* engines.c: see engines.h. */
#include "backend/cuda/engines.h"

static const struct ls_cuda_engine engines[] = {
#include "backend/cuda/engines.inc"
    {.mb = 0},
};

static bool is_for(const struct ls_cuda_engine *e, enum ls_cuda_conv_op op, const struct ls_cuda_conv *c,
                   const struct ls_cuda_conv_form *form)
{
    return e->op == (int)op && e->has_ending == (int)(form->has_bias || form->has_relu) && e->mb == c->mb &&
           e->ic == c->ic && e->ih == c->ih && e->oc == c->oc && e->k == c->kh && e->s == c->sh && e->pad == c->ph;
}

const struct ls_cuda_engine *ls__cuda_engine_of(enum ls_cuda_conv_op op, const struct ls_cuda_conv *c,
                                                const struct ls_cuda_conv_form *form)
{
    const bool is_square = c->ih == c->iw && c->kh == c->kw && c->sh == c->sw && c->ph == c->pw;
    if (form->type != LS_CUDA_BF16 || !form->is_last || !is_square || c->groups != 1 || c->dh != 1 || c->dw != 1)
        return NULL;
    for (const struct ls_cuda_engine *e = engines; e->mb > 0; e++)
        if (is_for(e, op, c, form)) return e;
    return NULL;
}
