/* machine.h: what the machine is and what this process may use of it, for doctor and --version. */
#ifndef LS_CLI_MACHINE_H
#define LS_CLI_MACHINE_H

#include "backend/backend.h"
#include "base/file.h"

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

/* The first file of that name on PATH that may be run. */
bool ls__find_program(const char *name, char out[LS_PATH_BYTES]);

/* Cores that other processes use now, seen over a tenth of a second; 0 where it cannot be seen. */
double ls__machine_busy_cores(void);
/* A quarter of a core or more: what is measured beside it is off. */
bool ls__machine_is_busy(double cores);
/* Says so on stderr, if it was so when the measuring began. */
void ls__machine_warn_busy(double cores);

/* "oneDNN 2.6.3, avx512_core", or why the backend cannot be opened. false in that case. */
bool ls__backend_text(const struct ls_backend *backend, char *out, size_t size);

#endif
