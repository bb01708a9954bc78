/* machine.h: what the machine is and what this process may use of it, for doctor and --version. */
#ifndef LS_CLI_MACHINE_H
#define LS_CLI_MACHINE_H

#include "backend/backend.h"

#include <stdbool.h>
#include <stddef.h>

/* All return out; unknown things read "unknown". */
const char *ls__machine_cpu(char *out, size_t size);
const char *ls__machine_isa(char *out, size_t size); /* "x86-64: avx2 fma avx512f ..." */

double ls__machine_memory_available(void); /* bytes; 0: unknown */
double ls__machine_memory_limit(void);     /* of the control group; 0: none */
double ls__machine_cpu_limit(void);        /* CPUs by the control group's quota; 0: none */

/* The first line of a small file, without '\n'; "" if it cannot be read. */
const char *ls__first_line(const char *path, char *out, size_t size);

/* "oneDNN 2.6.3, avx512_core", or why the backend cannot be opened. false in that case. */
bool ls__backend_text(const struct ls_backend *backend, char *out, size_t size);

#endif
