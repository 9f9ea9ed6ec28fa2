/* NVIDIA's driver, opened when it is wanted: one file of ours runs on machines with and without one. Nothing of its headers is
 * needed to build: what is used of it is declared here. */
#ifndef TOLLGATE_DECODE_CUDA_DRIVER_H
#define TOLLGATE_DECODE_CUDA_DRIVER_H

#include "gateway/base/span.h"

typedef uint64_t cuda_address; /* in device memory; the driver's own word */

enum cuda_status { CUDA_OK = 0, CUDA_STUB_LIBRARY = 34, CUDA_NO_DEVICE = 100 };
enum cuda_attribute { CUDA_MAJOR = 75, CUDA_MINOR = 76, CUDA_MULTIPROCESSORS = 16 };
#define CUDA_STREAM_NON_BLOCKING 1
#define CUDA_CAPTURE_THREAD_LOCAL 1

/* Field, symbol, arguments; all give an enum cuda_status. */
#define CUDA_DRIVER(X)                                                                                                 \
    X(init, cuInit, (unsigned flags))                                                                                  \
    X(error_name, cuGetErrorName, (int status, const char **name))                                                     \
    X(device_count, cuDeviceGetCount, (int *n))                                                                        \
    X(device_get, cuDeviceGet, (int *device, int i))                                                                   \
    X(device_name, cuDeviceGetName, (char *name, int size, int device))                                                \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                                 \
    X(context_retain, cuDevicePrimaryCtxRetain, (void **context, int device))                                          \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                                                     \
    X(context_set, cuCtxSetCurrent, (void *context))                                                                   \
    X(memory_info, cuMemGetInfo_v2, (size_t * unused, size_t * all))                                                   \
    X(alloc, cuMemAlloc_v2, (cuda_address * at, size_t bytes))                                                         \
    X(free, cuMemFree_v2, (cuda_address at))                                                                           \
    X(host_alloc, cuMemAllocHost_v2, (void **at, size_t bytes))                                                        \
    X(host_free, cuMemFreeHost, (void *at))                                                                            \
    X(to_device, cuMemcpyHtoDAsync_v2, (cuda_address to, const void *from, size_t bytes, void *stream))                \
    X(to_host, cuMemcpyDtoHAsync_v2, (void *to, cuda_address from, size_t bytes, void *stream))                        \
    X(set_zero, cuMemsetD8Async, (cuda_address at, unsigned char value, size_t bytes, void *stream))                   \
    X(stream_create, cuStreamCreate, (void **stream, unsigned flags))                                                  \
    X(stream_destroy, cuStreamDestroy_v2, (void *stream))                                                              \
    X(stream_wait, cuStreamSynchronize, (void *stream))                                                                \
    X(module_load, cuModuleLoadData, (void **module, const void *image))                                               \
    X(module_unload, cuModuleUnload, (void *module))                                                                   \
    X(function_get, cuModuleGetFunction, (void **function, void *module, const char *name))                            \
    X(launch, cuLaunchKernel,                                                                                          \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,          \
       unsigned block_z, unsigned shared_bytes, void *stream, void **args, void **extra))                              \
    X(capture_begin, cuStreamBeginCapture_v2, (void *stream, int mode))                                                \
    X(capture_end, cuStreamEndCapture, (void *stream, void **graph))                                                   \
    X(graph_make, cuGraphInstantiateWithFlags, (void **executable, void *graph, unsigned long long flags))             \
    X(graph_destroy, cuGraphDestroy, (void *graph))                                                                    \
    X(graph_launch, cuGraphLaunch, (void *executable, void *stream))                                                   \
    X(graph_free, cuGraphExecDestroy, (void *executable))

#define CUDA_DRIVER_FIELD(field, symbol, args) int(*field) args;
struct cuda_driver {
    void *library; /* owned */
    CUDA_DRIVER(CUDA_DRIVER_FIELD)
};
#undef CUDA_DRIVER_FIELD

/* Where the driver, cuBLAS and the kernels come from; tests point it at their own. */
struct cuda_source {
    const char *driver;                     /* a library's name */
    const char *const *blas;                /* names to try; NULL at the end */
    const char *nodes;                      /* a pattern of files that are there when the machine has a device */
    const unsigned char *image, *image_end; /* the fatbin; empty where the house was built without nvcc */
};
extern struct cuda_source cuda_source;

enum cuda_found { CUDA_ABSENT, CUDA_UNUSABLE, CUDA_FOUND };
/* Opens the driver and looks for a device. CUDA_FOUND: d is open, to be closed. Else d is closed and `why` says what is
 * missing (ABSENT) or wrong (UNUSABLE). */
enum cuda_found cuda_driver_open(struct cuda_driver *d, struct str *why);
void cuda_driver_close(struct cuda_driver *d);
/* "CUDA_ERROR_OUT_OF_MEMORY (2)", or the number alone; until the next call on this thread. */
const char *cuda_status_text(const struct cuda_driver *d, int status);

#endif
