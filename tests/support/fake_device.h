/* The device that is played (tests/cuda/): tests that include this compute on it. */
#ifndef TOLLGATE_TESTS_FAKE_DEVICE_H
#define TOLLGATE_TESTS_FAKE_DEVICE_H

#include "backends/decode/cuda_driver.h"
#include "tests/cuda/driver.h"

#include <criterion/criterion.h>
#include <dlfcn.h>

/* The library's switches. It stays open, so that they are the ones the house will see. */
static inline struct fake_cuda *fake_device(void) {
    static const unsigned char image[16] = "kernels";
    static const char *const no_blas[] = {NULL};
    static void *library;
    cuda_source = (struct cuda_source){FAKE_CUDA, no_blas, "/nonexistent*", image, image + sizeof image};
    if (!library)
        library = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    cr_assert(library, "%s", dlerror());
    return dlsym(library, "fake_cuda");
}

#endif
