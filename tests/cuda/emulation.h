/* A graphics processor, as far as the kernels need one: what g++ reads before a .cu file in nvcc's place.
 *
 * Each thread of a block is a fiber (tests/cuda/fibers.c); blocks run one after the other, in an order that a seed shuffles, as
 * it shuffles which thread goes first between two barriers. Shared memory is of exactly the size asked for, from the heap, and
 * holds rubbish at first, so the sanitizers see what a device would not. A barrier that not everybody comes to ends the
 * program with the block's place. */
#ifndef TOLLGATE_TESTS_CUDA_EMULATION_H
#define TOLLGATE_TESTS_CUDA_EMULATION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#include <cmath>
extern "C" {
#endif

struct emulated_dim {
    unsigned x, y, z;
};
struct emulated_thread { /* what a kernel sees of its place */
    struct emulated_dim thread, block, block_dim, grid;
};
extern struct emulated_thread emulated_thread;
extern uint32_t emulated_seed; /* 0: everything in order */

void emulated_run(void (*kernel)(const void *args), const void *args, struct emulated_dim grid,
                  struct emulated_dim block, size_t dynamic_bytes);
void emulated_block_barrier(void);
/* Every lane of a warp gives a value and gets the one of lane `from`. */
uint64_t emulated_exchange(uint64_t value, int from);
/* The block's memory behind one declaration; key NULL: the dynamic part. */
void *emulated_shared(const void *key, size_t bytes);

float emulated_f16_widen(uint16_t h);
uint16_t emulated_f16_narrow(float f);

#ifdef __cplusplus
}

#define DEVICE static inline
#define SHARED(type, name, n)                                                                                          \
    static const char name##_key = 0;                                                                                  \
    type *name = static_cast<type *>(emulated_shared(&name##_key, sizeof(type) * (n)))
#define SHARED_DYNAMIC(type, name) type *name = static_cast<type *>(emulated_shared(nullptr, 0))
#define KERNEL(name, threads, args)                                                                                    \
    static void name##_body(const args &a);                                                                            \
    extern "C" void name(const void *at);                                                                              \
    extern "C" void name(const void *at) {                                                                             \
        name##_body(*static_cast<const args *>(at));                                                                   \
    }                                                                                                                  \
    static void name##_body(const args &a)

#define threadIdx emulated_thread.thread
#define blockIdx emulated_thread.block
#define blockDim emulated_thread.block_dim

static inline void __syncthreads() {
    emulated_block_barrier();
}

static inline float __shfl_xor_sync(unsigned, float v, int distance) {
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = emulated_exchange(bits, static_cast<int>(threadIdx.x % 32) ^ distance);
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline void __syncwarp() {
    emulated_exchange(0, 0);
}

static inline void atomicAdd(unsigned long long *at, unsigned long long v) {
    *at += v;
}

static inline float f16_widen(uint16_t h) {
    return emulated_f16_widen(h);
}

static inline uint16_t f16_narrow(float f) {
    return emulated_f16_narrow(f);
}
#endif
#endif
