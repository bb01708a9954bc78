/* nvml.c: NVIDIA's management library by dlopen: a few functions with their own small declarations, so that nothing of
 * CUDA is needed to build this. */
#include "record/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

typedef void *card_handle;
struct rates {
    unsigned gpu, memory;
};
struct memory {
    unsigned long long total, free, used;
};

static struct {
    pthread_once_t once;
    void *library; /* NULL: it is not here, or has no card */
    int (*utilization)(card_handle, struct rates *);
    int (*memory)(card_handle, struct memory *);
    int (*power)(card_handle, unsigned *milliwatts);
    int (*clock)(card_handle, int type, unsigned *mhz);
} nvml = {.once = PTHREAD_ONCE_INIT};

/* By number, or by its long name, as $CUDA_VISIBLE_DEVICES may have it. */
static card_handle first_card(void *library)
{
    int (*by_index)(unsigned, card_handle *) = NULL;
    int (*by_uuid)(const char *, card_handle *) = NULL;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    card_handle card = NULL;
    *(void **)&by_index = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&by_uuid = dlsym(library, "nvmlDeviceGetHandleByUUID");
    if (visible && *visible && !isdigit((unsigned char)*visible))
        return by_uuid && by_uuid(visible, &card) == 0 ? card : NULL;
    unsigned index = visible && *visible ? (unsigned)strtoul(visible, NULL, 10) : 0;
    return by_index && by_index(index, &card) == 0 ? card : NULL;
}

static card_handle card_at(void *library, const char *place)
{
    int (*by_place)(const char *, card_handle *) = NULL;
    card_handle card = NULL;
    *(void **)&by_place = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    return by_place && by_place(place, &card) == 0 ? card : NULL;
}

static void load(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    int (*init)(void) = NULL;
    if (!library) return;
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&nvml.utilization = dlsym(library, "nvmlDeviceGetUtilizationRates");
    *(void **)&nvml.memory = dlsym(library, "nvmlDeviceGetMemoryInfo");
    *(void **)&nvml.power = dlsym(library, "nvmlDeviceGetPowerUsage");
    *(void **)&nvml.clock = dlsym(library, "nvmlDeviceGetClockInfo");
    if (!init || !nvml.utilization || !nvml.memory || init() != 0) return;
    nvml.library = library;
}

bool ls__nvml_read(const char *place, struct ls_gpu_use *use)
{
    enum { CLOCK_SM = 1 };
    struct rates rates;
    struct memory memory;
    unsigned milliwatts = 0, mhz = 0;
    pthread_once(&nvml.once, load);
    if (!nvml.library) return false;
    const card_handle card = place ? card_at(nvml.library, place) : first_card(nvml.library);
    if (!card || nvml.utilization(card, &rates) != 0 || nvml.memory(card, &memory) != 0) return false;
    if (!nvml.power || nvml.power(card, &milliwatts) != 0) milliwatts = 0;
    if (!nvml.clock || nvml.clock(card, CLOCK_SM, &mhz) != 0) mhz = 0;
    *use = (struct ls_gpu_use){.percent = rates.gpu,
                               .used_bytes = (int64_t)memory.used,
                               .total_bytes = (int64_t)memory.total,
                               .watts = milliwatts * 1e-3,
                               .clock_mhz = mhz};
    return true;
}
