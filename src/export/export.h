/* export.h: a trained network for other programs: ONNX, or its tensors for PyTorch. `lockstep export`. */
#ifndef LS_EXPORT_EXPORT_H
#define LS_EXPORT_EXPORT_H

#include "base/file.h"

/* What an ONNX network's input is. */
enum export_pixels {
    EXPORT_NORMALIZED, /* as training fed it: (x / 255 - mean) / std */
    EXPORT_UNIT,       /* x / 255; the rest is in the graph */
    EXPORT_BYTES,      /* x, uint8 */
};

struct export_options {
    const char *what;               /* RUN or CHECKPOINT */
    const char *onnx, *safetensors; /* files; NULL: not wanted */
    bool fold;                      /* ONNX: batch norm becomes part of the layer before it */
    bool force;                     /* replace files that are there */
    enum export_pixels pixels;
};

struct export_result {
    char model[128], checkpoint[LS_PATH_BYTES];
    int64_t step;
    int c, h, w, n_classes;
    int n_nodes;        /* ONNX's operators */
    int n_tensors;      /* of the safetensors file */
    int64_t parameters; /* trained numbers */
    int64_t onnx_bytes, safetensors_bytes;
};

/* Writes the files, each whole or not at all. LS_USAGE for one that is there, unless `force`; LS_UNSUPPORTED for a
 * layer that ONNX cannot say, or a build without it. */
enum ls_status ls__export(const struct export_options *o, struct export_result *r) LS_MUST_CHECK;

#endif
