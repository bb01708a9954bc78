/* isa.h: which instructions this process uses: oneDNN's setting is the one truth, and the own kernels follow it.
 *
 * Levels, not every extension: a table, a plan and a run's identity tell avx512 from avx2, but not avx512_core from
 * avx512_core_bf16, for the extensions between them concern other number formats than float32. (Measured: the same
 * bits; and the name of a kernel that did use one would be part of the plan's hash.)
 */
#ifndef LS_BACKEND_CPU_ISA_H
#define LS_BACKEND_CPU_ISA_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* May the own kernels use it: the machine has it and nothing forbids it. AVX-512 with F, VL, BW and DQ; AVX2 with FMA.
 */
bool ls__cpu_isa_has_avx512(void);
bool ls__cpu_isa_has_avx2(void);

void ls__cpu_isa_level(char *text, size_t size); /* "avx512" */
void ls__cpu_isa_name(char *text, size_t size);  /* in full, as oneDNN calls it: "avx512_core_bf16" */

/* See limit_isa in backend/backend.h. */
enum ls_status ls__cpu_isa_limit(const char *level) LS_MUST_CHECK;

#endif
