/* Chooses a twin, once, at start: the device where there is one, else the first usable one in the order of the table. */
#include "backends/decode/compute.h"

#include "backends/decode/cuda_device.h"

static const struct compute_ops *const twins[] = {
#ifdef __x86_64__
    &compute_avx2,
#endif
    &compute_plain,
};

static const struct compute_ops *pick_cpu(void) {
    for (size_t i = 0; i < ARRAY_LEN(twins); i++)
        if (twins[i]->usable())
            return twins[i];
    return NULL;
}

/* A machine without a device is no fault where none was asked for. */
static const struct compute_ops *pick_device(bool asked, struct str *why) {
    struct str found;
    str_init(&found, why->max);
    enum cuda_found is = cuda_device_look(&found);
    bool refuses = is == CUDA_UNUSABLE || (is == CUDA_ABSENT && asked);
    if (refuses && !why->n)
        str_put(why, str_span(&found));
    str_fini(&found);
    return is == CUDA_FOUND ? &compute_cuda : refuses ? NULL : pick_cpu();
}

const struct compute_ops *compute_pick(const char *device, struct str *why) {
    if (!device || strcmp(device, "auto") == 0)
        return pick_device(false, why);
    if (strcmp(device, "cuda") == 0)
        return pick_device(true, why);
    if (strcmp(device, "cpu") == 0)
        return pick_cpu();
    complain(why, "device", "must be auto, cpu or cuda, not %s", device);
    return NULL;
}
