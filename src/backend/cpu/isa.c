/* isa.c: which instruction set the kernels may use: what the processor has, lowered by --isa. */
#include "backend/cpu/isa.h"

#include <dnnl.h>
#include <stdio.h>
#include <string.h>

/* The sets both APIs know have names; of others the number identifies the run as well. */
void ls__cpu_isa_name(char *text, size_t size)
{
    static const struct {
        int isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_sse41, "sse41"},
        {dnnl_cpu_isa_avx, "avx"},
        {dnnl_cpu_isa_avx2, "avx2"},
        {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512_core"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
    };
    const int isa = (int)dnnl_get_effective_cpu_isa();
    snprintf(text, size, "isa 0x%x", (unsigned)isa);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].isa == isa) snprintf(text, size, "%s", names[i].name);
}

/* Best first; a set holds the bits of those below it. */
static const struct {
    dnnl_cpu_isa_t isa;
    const char *name;
} levels[] = {
    {dnnl_cpu_isa_avx512_core, "avx512"},
    {dnnl_cpu_isa_avx2, "avx2"},
    {dnnl_cpu_isa_avx, "avx"},
    {dnnl_cpu_isa_sse41, "sse41"},
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

static bool is_effective(dnnl_cpu_isa_t isa)
{
    return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

void ls__cpu_isa_level(char *text, size_t size)
{
    snprintf(text, size, "other");
    for (int i = N_LEVELS - 1; i >= 0; i--)
        if (is_effective(levels[i].isa)) snprintf(text, size, "%s", levels[i].name);
}

enum ls_status ls__cpu_isa_limit(const char *level)
{
    char have[24];
    int i = 0;
    while (i < N_LEVELS && strcmp(levels[i].name, level) != 0) i++;
    if (i == N_LEVELS) return ls_fail(LS_USAGE, "--isa %s: expected native, avx512 or avx2", level);
    /* Refused once oneDNN has been asked for its set; then the level must be the one wanted already. */
    dnnl_status_t status = dnnl_set_max_cpu_isa(levels[i].isa);
    ls__cpu_isa_level(have, sizeof have);
    if (strcmp(have, level) == 0) return LS_OK;
    if (status != dnnl_success && is_effective(levels[i].isa))
        return ls_fail(LS_UNSUPPORTED,
                       "--isa %s: this process computes with %s already, or this oneDNN was built "
                       "without the setting",
                       level, have);
    return ls_fail(LS_UNSUPPORTED, "--isa %s: this machine has %s only; use --isa %s on all machines of the run", level,
                   have, have);
}

#if defined(__x86_64__)

bool ls__cpu_isa_has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           is_effective(dnnl_cpu_isa_avx512_core);
}

bool ls__cpu_isa_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && is_effective(dnnl_cpu_isa_avx2);
}

#else

bool ls__cpu_isa_has_avx512(void)
{
    return false;
}

bool ls__cpu_isa_has_avx2(void)
{
    return false;
}

#endif
