/* Is there a device, and can we talk to its driver. A machine without NVIDIA's driver, or with one that knows no device, has
 * none; everything else that goes wrong is told, since a device that stands idle unnoticed costs more than a start. */
#include "backends/decode/cuda_driver.h"

#include "backends/decode/model_file.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>

static const char *const blas_names[] = {"libcublas.so.13",
                                         "libcublas.so.12",
                                         "libcublas.so.11",
                                         "/usr/local/cuda/lib64/libcublas.so.13",
                                         "/usr/local/cuda/lib64/libcublas.so.12",
                                         NULL};
extern const unsigned char cuda_image[], cuda_image_end[]; /* cuda_image.c */
struct cuda_source cuda_source = {"libcuda.so.1", blas_names, "/dev/nvidia[0-9]*", cuda_image, cuda_image_end};

#define ROW(field, symbol, args) {#symbol, offsetof(struct cuda_driver, field)},
static const struct {
    const char *name;
    size_t at;
} symbols[] = {CUDA_DRIVER(ROW)};
#undef ROW

static bool find_symbols(struct cuda_driver *d, struct str *why) {
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *at = dlsym(d->library, symbols[i].name);
        if (!at)
            return complain(why, "device", "%s has no %s: the driver is too old", cuda_source.driver, symbols[i].name);
        memcpy((char *)d + symbols[i].at, &at, sizeof at);
    }
    return true;
}

static bool nodes_are_there(char *first, size_t size) {
    glob_t g = {0};
    bool found = glob(cuda_source.nodes, 0, NULL, &g) == 0 && g.gl_pathc > 0;
    if (found)
        snprintf(first, size, "%s", g.gl_pathv[0]);
    globfree(&g);
    return found;
}

static enum cuda_found no_driver(struct str *why) {
    char node[256];
    if (!nodes_are_there(node, sizeof node)) {
        complain(why, "device", "there is no NVIDIA driver here: %s cannot be opened", cuda_source.driver);
        return CUDA_ABSENT;
    }
    complain(why, "device", "%s is here, but %s cannot be opened: %s", node, cuda_source.driver, dlerror());
    return CUDA_UNUSABLE;
}

const char *cuda_status_text(const struct cuda_driver *d, int status) {
    static _Thread_local char text[80];
    const char *name = NULL;
    if (d->error_name(status, &name) == CUDA_OK && name)
        snprintf(text, sizeof text, "%s (%d)", name, status);
    else
        snprintf(text, sizeof text, "error %d", status);
    return text;
}

static enum cuda_found look_for_device(struct cuda_driver *d, struct str *why) {
    int status = d->init(0), n = 0;
    if (status == CUDA_OK)
        status = d->device_count(&n);
    if (status == CUDA_NO_DEVICE || status == CUDA_STUB_LIBRARY || (status == CUDA_OK && n < 1)) {
        complain(why, "device", "the NVIDIA driver knows no device");
        return CUDA_ABSENT;
    }
    if (status == CUDA_OK)
        return CUDA_FOUND;
    complain(why, "device", "the NVIDIA driver does not start: %s", cuda_status_text(d, status));
    return CUDA_UNUSABLE;
}

enum cuda_found cuda_driver_open(struct cuda_driver *d, struct str *why) {
    *d = (struct cuda_driver){.library = dlopen(cuda_source.driver, RTLD_NOW | RTLD_LOCAL)};
    if (!d->library)
        return no_driver(why);
    enum cuda_found found = find_symbols(d, why) ? look_for_device(d, why) : CUDA_UNUSABLE;
    if (found != CUDA_FOUND)
        cuda_driver_close(d);
    return found;
}

void cuda_driver_close(struct cuda_driver *d) {
    if (d->library)
        dlclose(d->library);
    *d = (struct cuda_driver){0};
}
