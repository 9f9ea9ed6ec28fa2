/* The base's products where few tokens share a step: reading the weights is all that counts, and a warp reads a row of them
 * once for eight tokens. Larger steps go to cuBLAS where there is one; without it these kernels do them all. */
#include "backends/decode/cuda_dot.h"

template <int W, int X> DEVICE void matmul(const struct cuda_matmul &a) {
    const int32_t row_bytes[] = {4, 2, 2, 1};
    int32_t row = static_cast<int32_t>(blockIdx.x) * (CUDA_ROW_THREADS / CUDA_WARP) + warp_of();
    int32_t first = static_cast<int32_t>(blockIdx.y) * CUDA_TOKENS_A_WARP, n = rows_of(a.step, a.wanted) - first;
    if (row >= a.rows || n <= 0)
        return;
    int64_t groups = (a.cols + CUDA_INT8_GROUP - 1) / CUDA_INT8_GROUP;
    int64_t stride = W == CUDA_INT8 ? groups * CUDA_INT8_GROUP : static_cast<int64_t>(a.cols) * row_bytes[W];
    struct dots d;
    d.w = static_cast<const char *>(a.w) + row * stride;
    d.x = static_cast<const char *>(a.x) + static_cast<int64_t>(first) * a.cols * row_bytes[X];
    d.scales = W == CUDA_INT8 ? a.scales + row * groups : nullptr;
    d.cols = a.cols;
    d.n = n < CUDA_TOKENS_A_WARP ? n : CUDA_TOKENS_A_WARP;
    float sum = dots_of<W, X>(d);
    int which = sum8_which(CUDA_WARP);
    if (which < d.n && lane_of() % (CUDA_WARP / 8) == 0)
        a.y[static_cast<int64_t>(first + which) * a.rows + row] = sum;
}

KERNEL(matmul_f32, CUDA_ROW_THREADS, struct cuda_matmul) {
    matmul<CUDA_F32, CUDA_F32>(a);
}

KERNEL(matmul_f16, CUDA_ROW_THREADS, struct cuda_matmul) {
    matmul<CUDA_F16, CUDA_F16>(a);
}

KERNEL(matmul_bf16, CUDA_ROW_THREADS, struct cuda_matmul) {
    matmul<CUDA_BF16, CUDA_BF16>(a);
}

KERNEL(matmul_int8, CUDA_ROW_THREADS, struct cuda_matmul) {
    matmul<CUDA_INT8, CUDA_F32>(a);
}
