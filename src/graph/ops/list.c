/* list.c: every op's rules, made from LS_OP_MAP, so that an op without rules does not link. */
#include "graph/op.h"

#define LS_OP_EXTERN(NAME, name) extern const struct ls_op_def ls__op_##name;
LS_OP_MAP(LS_OP_EXTERN)
#undef LS_OP_EXTERN

static const struct ls_op_def *const defs[LS_N_OPS] = {
#define LS_OP_DEF(NAME, name) [LS_OP_##NAME] = &ls__op_##name,
    LS_OP_MAP(LS_OP_DEF)
#undef LS_OP_DEF
};

const struct ls_op_def *ls__op_def(enum ls_op op)
{
    return defs[op];
}
