/* list_real.c: the backends of a build with oneDNN, best first. */
#include "backend/backend.h"
#include "backend/cpu/cpu.h"

const struct ls_backend *const ls_backends[] = {&ls_backend_cpu, &ls_backend_ref, NULL};
