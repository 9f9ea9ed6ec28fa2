/* The device's side of everything, one call deep: each function here is one or two calls of the driver and keeps the first
 * failure. What was allocated is given back when the device is closed, whatever state it is in. */
#include "backends/decode/cuda_device.h"

#include "backends/decode/model_file.h"
#include "gateway/base/mem.h"

#include <stdlib.h>

#define MAJOR_MIN 8 /* bf16 in the instructions: Ampere and newer */

#define ROW(name, threads, args) {#name, threads},
static const struct {
    const char *name;
    unsigned threads;
} kernels[KERNELS] = {CUDA_KERNELS(ROW)};
#undef ROW

void cuda_device_check(struct cuda_device *d, int status, const char *what) {
    if (status == CUDA_OK || d->status != CUDA_OK)
        return;
    d->status = status;
    d->failed = what;
}

static bool good(const struct cuda_device *d) {
    return d->status == CUDA_OK;
}

/* --- looking --- */

static bool check_kernels(const struct cuda_driver *d, struct str *why) {
    int major = 0, minor = 0, device = 0;
    if (cuda_source.image == cuda_source.image_end)
        return complain(
            why, "device",
            "an NVIDIA device is here, but this build has no CUDA kernels: nvcc was not found when it was made; "
            "build again where nvcc is, or say device: cpu");
    if (d->device_get(&device, 0) != CUDA_OK || d->device_attribute(&major, CUDA_MAJOR, device) != CUDA_OK ||
        d->device_attribute(&minor, CUDA_MINOR, device) != CUDA_OK)
        return complain(why, "device", "the NVIDIA device does not answer");
    return major >= MAJOR_MIN ||
           complain(why, "device",
                    "the NVIDIA device has compute capability %d.%d, and %d.0 is needed; say device: cpu", major, minor,
                    MAJOR_MIN);
}

enum cuda_found cuda_device_look(struct str *why) {
    struct cuda_driver d;
    enum cuda_found found = cuda_driver_open(&d, why);
    if (found != CUDA_FOUND)
        return found;
    found = check_kernels(&d, why) ? CUDA_FOUND : CUDA_UNUSABLE;
    cuda_driver_close(&d);
    return found;
}

/* --- opening --- */

static void load_kernels(struct cuda_device *d) {
    cuda_device_check(d, d->driver.module_load(&d->module, cuda_source.image), "loading the kernels");
    for (int i = 0; i < KERNELS && good(d); i++)
        cuda_device_check(d, d->driver.function_get(&d->functions[i], d->module, kernels[i].name), kernels[i].name);
}

static void open_context(struct cuda_device *d) {
    cuda_device_check(d, d->driver.device_get(&d->number, 0), "naming the device");
    if (good(d))
        cuda_device_check(d, d->driver.device_name(d->name, sizeof d->name, d->number), "naming the device");
    if (good(d))
        cuda_device_check(d, d->driver.context_retain(&d->context, d->number), "making a context");
    if (good(d))
        cuda_device_check(d, d->driver.context_set(d->context), "making a context");
    if (good(d))
        cuda_device_check(d, d->driver.stream_create(&d->stream, CUDA_STREAM_NON_BLOCKING), "making a stream");
}

static bool tell(struct cuda_device *d, struct str *why) {
    complain(why, "device", "%s: %s: %s", d->name[0] ? d->name : "NVIDIA", d->failed,
             cuda_status_text(&d->driver, d->status));
    cuda_device_close(d);
    return false;
}

bool cuda_device_open(struct cuda_device *d, struct str *why) {
    *d = (struct cuda_device){0};
    if (cuda_driver_open(&d->driver, why) != CUDA_FOUND)
        return false;
    if (!check_kernels(&d->driver, why)) {
        cuda_driver_close(&d->driver);
        return false;
    }
    open_context(d);
    if (good(d))
        load_kernels(d);
    return good(d) || tell(d, why);
}

/* Each part is given back on its own: the device may be gone by now. */
void cuda_device_close(struct cuda_device *d) {
    if (!d->driver.library)
        return;
    if (d->context)
        d->driver.context_set(d->context);
    while (d->n_held)
        d->driver.free((uintptr_t)d->held[--d->n_held]);
    free(d->held);
    if (d->module)
        d->driver.module_unload(d->module);
    if (d->stream)
        d->driver.stream_destroy(d->stream);
    if (d->context) {
        d->driver.context_set(NULL);
        d->driver.context_release(d->number);
    }
    cuda_driver_close(&d->driver);
    *d = (struct cuda_device){0};
}

bool cuda_device_room(int64_t *bytes, struct str *why) {
    struct cuda_device d = {0};
    size_t unused = 0, all = 0;
    if (cuda_driver_open(&d.driver, why) != CUDA_FOUND)
        return false;
    open_context(&d);
    if (good(&d))
        cuda_device_check(&d, d.driver.memory_info(&unused, &all), "asking for its memory");
    if (!good(&d))
        return tell(&d, why);
    *bytes = (int64_t)unused;
    cuda_device_close(&d);
    return true;
}

/* --- work --- */

bool cuda_device_enter(struct cuda_device *d) {
    if (good(d))
        cuda_device_check(d, d->driver.context_set(d->context), "taking the context");
    return good(d);
}

void *cuda_device_try(struct cuda_device *d, int64_t bytes) {
    cuda_address at = 0;
    if (!good(d) || d->driver.alloc(&at, (size_t)(bytes ? bytes : 1)) != CUDA_OK)
        return NULL;
    d->held = xrealloc(d->held, (d->n_held + 1) * sizeof *d->held);
    return d->held[d->n_held++] = (void *)(uintptr_t)at;
}

void *cuda_device_alloc(struct cuda_device *d, int64_t bytes) {
    void *at = cuda_device_try(d, bytes);
    if (!at)
        cuda_device_check(d, 2, "allocating memory");
    return at;
}

void cuda_device_free(struct cuda_device *d, void *at) {
    for (size_t i = 0; at && i < d->n_held; i++)
        if (d->held[i] == at) {
            cuda_device_check(d, d->driver.free((uintptr_t)at), "freeing memory");
            d->held[i] = d->held[--d->n_held];
            return;
        }
}

void cuda_device_put(struct cuda_device *d, void *to, const void *from, int64_t bytes) {
    if (!good(d) || !bytes)
        return;
    cuda_device_check(d, d->driver.to_device((uintptr_t)to, from, (size_t)bytes, d->stream), "copying to the device");
    cuda_device_wait(d);
}

void cuda_device_get(struct cuda_device *d, void *to, const void *from, int64_t bytes) {
    if (!good(d) || !bytes)
        return;
    cuda_device_check(d, d->driver.to_host(to, (uintptr_t)from, (size_t)bytes, d->stream), "copying from the device");
    cuda_device_wait(d);
}

void cuda_device_zero(struct cuda_device *d, void *at, int64_t bytes) {
    if (good(d) && bytes)
        cuda_device_check(d, d->driver.set_zero((uintptr_t)at, 0, (size_t)bytes, d->stream), "clearing memory");
}

void cuda_device_wait(struct cuda_device *d) {
    if (good(d))
        cuda_device_check(d, d->driver.stream_wait(d->stream), "computing");
}

void cuda_device_launch(struct cuda_device *d, enum cuda_kernel k, struct cuda_grid grid, int64_t shared_bytes,
                        const void *args) {
    void *only[] = {(void *)(uintptr_t)args};
    if (!good(d) || !grid.x || !grid.y || !grid.z)
        return;
    cuda_device_check(d,
                      d->driver.launch(d->functions[k], (unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z,
                                       kernels[k].threads, 1, 1, (unsigned)shared_bytes, d->stream, only, NULL),
                      kernels[k].name);
}
