/* onnx_stub.c: in the place of onnx_real.c where protobuf-c is missing. */
#include "export/network.h"

enum ls_status ls__onnx_can_write(void)
{
    return ls_fail(LS_UNSUPPORTED, "this build writes no ONNX; install libprotobuf-c-dev and protobuf-c-compiler and "
                                   "build again, or take --safetensors");
}

enum ls_status ls__onnx_write(const struct onnx_network *net, const char *path, int64_t *bytes)
{
    return ls__onnx_can_write();
}
