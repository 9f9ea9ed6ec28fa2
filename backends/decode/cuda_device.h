/* One device that is open: its context, one stream in which everything happens in turn, the kernels, and what is allocated. The
 * first thing that goes wrong is kept, and nothing is asked of the device after it: whoever issues a step looks once, at the
 * end. */
#ifndef TOLLGATE_DECODE_CUDA_DEVICE_H
#define TOLLGATE_DECODE_CUDA_DEVICE_H

#include "backends/decode/cuda_args.h"
#include "backends/decode/cuda_driver.h"

struct cuda_device {
    struct cuda_driver driver;
    int number, status; /* status: of the first call that failed; CUDA_OK: none has */
    const char *failed; /* what that was; static */
    char name[100];
    void *context, *stream, *module;
    void *functions[KERNELS];
    void **held; /* owned; [n_held] memory of the device */
    size_t n_held;
};
struct cuda_grid {
    int64_t x, y, z;
};

/* False with a sentence; then there is nothing to close. */
must_check bool cuda_device_open(struct cuda_device *d, struct str *why);
void cuda_device_close(struct cuda_device *d);
/* Is there a device that these kernels run on; and its free bytes. */
enum cuda_found cuda_device_look(struct str *why);
must_check bool cuda_device_room(int64_t *bytes, struct str *why);

/* This thread speaks to the device from now on. False when something is wrong with it. */
bool cuda_device_enter(struct cuda_device *d);
void *cuda_device_alloc(struct cuda_device *d, int64_t bytes); /* NULL: see status */
/* The same, but that there is no room is an answer and not a failure. */
void *cuda_device_try(struct cuda_device *d, int64_t bytes);
void cuda_device_free(struct cuda_device *d, void *at); /* NULL is harmless */
/* Copies; the host's bytes may change once put has come back, and are there when get has. */
void cuda_device_put(struct cuda_device *d, void *to, const void *from, int64_t bytes);
void cuda_device_get(struct cuda_device *d, void *to, const void *from, int64_t bytes);
void cuda_device_zero(struct cuda_device *d, void *at, int64_t bytes);
void cuda_device_wait(struct cuda_device *d);
/* Keeps the first failure, with what it was. */
void cuda_device_check(struct cuda_device *d, int status, const char *what);
void cuda_device_launch(struct cuda_device *d, enum cuda_kernel k, struct cuda_grid grid, int64_t shared_bytes,
                        const void *args);

#endif
