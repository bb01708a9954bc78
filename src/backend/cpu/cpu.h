/* cpu.h: the backend for CPUs: oneDNN where it is best, own kernels elsewhere. */
#ifndef LS_BACKEND_CPU_H
#define LS_BACKEND_CPU_H

#include "backend/backend.h"

extern const struct ls_backend ls_backend_cpu;

#endif
