/* Chooses a twin, once, at start: the first usable one in the order of the table. */
#include "backends/decode/compute.h"

static const struct compute_ops *const twins[] = {
#ifdef __x86_64__
    &compute_avx2,
#endif
    &compute_plain,
};

const struct compute_ops *compute_pick(const char *device, struct str *why) {
    if (device && strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0) {
        complain(why, "device", "must be auto or cpu, not %s", device);
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(twins); i++)
        if (twins[i]->usable())
            return twins[i];
    return NULL;
}
