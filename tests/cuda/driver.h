/* What a test may say to the driver that is not one (tests/cuda/driver.c): the library's symbol `fake_cuda`. */
#ifndef TOLLGATE_TESTS_CUDA_DRIVER_H
#define TOLLGATE_TESTS_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_cuda {
    int init_status, devices, major;
    size_t memory; /* bytes of the device */
    long fail_at; /* this call of the driver, counted from 1, fails with fail_status, and so do all after it; 0: none */
    int fail_status;
    bool idle;     /* kernels are counted, not run */
    uint32_t seed; /* of the order of blocks and threads; 0: in order */
    /* what happened */
    long calls, launches, graph_launches, captures;
    size_t used; /* bytes of the device in use */
    long held;   /* allocations, contexts, streams, modules and graphs not given back */
};

#endif
