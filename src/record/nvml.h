/* nvml.h: how busy an NVIDIA card is, by NVIDIA's management library. It is loaded when first asked and stays loaded.
 */
#ifndef LS_RECORD_NVML_H
#define LS_RECORD_NVML_H

#include <stdbool.h>
#include <stdint.h>

struct ls_gpu_use {
    double percent;                  /* of the time some kernel ran */
    int64_t used_bytes, total_bytes; /* memory of the card, by all processes */
    double watts, clock_mhz;         /* 0: the card does not tell */
};

enum { LS_GPU_BYTES = 32 };

/* place: the PCI address of a card (ls_backend.place); NULL: the first card that this process may use
 * ($CUDA_VISIBLE_DEVICES). False: no card, no library. */
bool ls__nvml_read(const char *place, struct ls_gpu_use *use);

#endif
