/* What every kernel stands on. The same text is compiled by nvcc for the device and by g++ for the tests' emulation, so whatever
 * only a device has stands here behind a name, with its twin in tests/cuda/emulation.h. Nothing is contracted by the
 * compilers (a fused multiply-add is written as one), and each sum has one order that depends on its own length alone. */
#ifndef TOLLGATE_DECODE_CUDA_KERNEL_H
#define TOLLGATE_DECODE_CUDA_KERNEL_H

#include "backends/decode/cuda_args.h"

#ifdef __CUDACC__
#define KERNEL(name, threads, args) extern "C" __global__ void __launch_bounds__(threads, 4) name(const args a)
#define SHARED(type, name, n) __shared__ type name[n]
#define SHARED_DYNAMIC(type, name)                                                                                     \
    extern __shared__ __align__(16) unsigned char name##_bytes[];                                                      \
    type *name = reinterpret_cast<type *>(name##_bytes)
#define DEVICE static __device__ __forceinline__

DEVICE float f16_widen(uint16_t h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

DEVICE uint16_t f16_narrow(float f) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
#endif

#define INFINITE __builtin_huge_valf()
#define F16_MOST 65504.0f /* what is larger is kept as this: an infinity would spoil the whole row */

union cuda_bits {
    float f;
    uint32_t u;
};

DEVICE float bf16_widen(uint16_t h) {
    union cuda_bits b;
    b.u = static_cast<uint32_t>(h) << 16;
    return b.f;
}

DEVICE uint16_t bf16_narrow(float f) {
    union cuda_bits b;
    b.f = f;
    if ((b.u & 0x7fffffff) > 0x7f800000)
        return static_cast<uint16_t>(b.u >> 16 | 0x40);
    return static_cast<uint16_t>((b.u + 0x7fff + (b.u >> 16 & 1)) >> 16);
}

template <int T> DEVICE float load(const void *p, int64_t i) {
    if (T == CUDA_F32)
        return static_cast<const float *>(p)[i];
    if (T == CUDA_INT8)
        return static_cast<float>(static_cast<const int8_t *>(p)[i]);
    uint16_t h = static_cast<const uint16_t *>(p)[i];
    return T == CUDA_F16 ? f16_widen(h) : bf16_widen(h);
}

DEVICE void store(void *p, int type, int64_t i, float v) {
    if (type == CUDA_F32)
        static_cast<float *>(p)[i] = v;
    else if (type == CUDA_BF16)
        static_cast<uint16_t *>(p)[i] = bf16_narrow(v);
    else
        static_cast<uint16_t *>(p)[i] = f16_narrow(v > F16_MOST ? F16_MOST : v < -F16_MOST ? -F16_MOST : v);
}

/* Eight neighbours at once, from an address that is a multiple of their size together (of 16 bytes, if they are more). */
struct alignas(16) words4 {
    uint32_t at[4];
};
struct alignas(8) words2 {
    uint32_t at[2];
};

DEVICE void load8_f32(const void *p, float out[8]) {
    for (int half = 0; half < 2; half++) {
        struct words4 v = static_cast<const struct words4 *>(p)[half];
        for (int i = 0; i < 4; i++) {
            union cuda_bits b;
            b.u = v.at[i];
            out[4 * half + i] = b.f;
        }
    }
}

template <int T> DEVICE void load8(const void *p, int64_t i, float out[8]) {
    if (T == CUDA_F32) {
        load8_f32(static_cast<const float *>(p) + i, out);
    } else if (T == CUDA_INT8) {
        struct words2 v = *reinterpret_cast<const struct words2 *>(static_cast<const int8_t *>(p) + i);
        for (int k = 0; k < 8; k++)
            out[k] = static_cast<float>(static_cast<int8_t>(v.at[k / 4] >> k % 4 * 8 & 0xff));
    } else {
        struct words4 v = *reinterpret_cast<const struct words4 *>(static_cast<const uint16_t *>(p) + i);
        for (int k = 0; k < 8; k++) {
            uint16_t h = static_cast<uint16_t>(v.at[k / 2] >> k % 2 * 16 & 0xffff);
            out[k] = T == CUDA_F16 ? f16_widen(h) : bf16_widen(h);
        }
    }
}

DEVICE float swap(float v, int distance) {
    return __shfl_xor_sync(~0u, v, distance);
}

DEVICE int lane_of() {
    return static_cast<int>(threadIdx.x % CUDA_WARP);
}

DEVICE int warp_of() {
    return static_cast<int>(threadIdx.x / CUDA_WARP);
}

/* The same tree in every lane, so that all have the same bits. */
DEVICE float warp_sum(float v) {
    for (int distance = CUDA_WARP / 2; distance; distance /= 2)
        v += swap(v, distance);
    return v;
}

DEVICE float warp_most(float v) {
    for (int distance = CUDA_WARP / 2; distance; distance /= 2) {
        float other = swap(v, distance);
        v = other > v ? other : v;
    }
    return v;
}

/* Eight sums over `lanes` neighbouring lanes (8 or 32) with seven exchanges and two more, not forty: each exchange halves what
 * a lane still carries. Afterwards a lane has the sum of v[sum8_which(lanes)]. The tree is the same for each of the eight. */
DEVICE float sum8(float v[8], int lanes) {
    int distance = lanes / 2;
    for (int left = 8; left > 1; left /= 2, distance /= 2) {
        bool upper = (lane_of() & distance) != 0;
        for (int i = 0; i < left / 2; i++) {
            float keep = upper ? v[i + left / 2] : v[i], give = upper ? v[i] : v[i + left / 2];
            v[i] = keep + swap(give, distance);
        }
    }
    for (; distance; distance /= 2)
        v[0] += swap(v[0], distance);
    return v[0];
}

DEVICE int sum8_which(int lanes) {
    return lane_of() % lanes * 8 / lanes;
}

/* Over a block of whole warps; `room` has a float for each warp. Every thread gets the result. */
DEVICE float block_sum(float v, float *room) {
    v = warp_sum(v);
    if (lane_of() == 0)
        room[warp_of()] = v;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / CUDA_WARP; i++)
        sum += room[i];
    __syncthreads();
    return sum;
}

DEVICE const int32_t *ints(const struct cuda_step *step, int32_t at) {
    return reinterpret_cast<const int32_t *>(step) + at;
}

DEVICE int32_t rows_of(const struct cuda_step *step, int32_t wanted) {
    return wanted ? step->n_want : step->n_tok;
}

#endif
