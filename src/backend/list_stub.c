/* list_stub.c: the backends of a build without oneDNN. */
#include "backend/backend.h"

const struct ls_backend *const ls_backends[] = {&ls_backend_ref, NULL};
