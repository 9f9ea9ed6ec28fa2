/* One row of weights against up to eight rows of inputs, by a warp: a weight is read once for all of them. */
#ifndef TOLLGATE_DECODE_CUDA_DOT_H
#define TOLLGATE_DECODE_CUDA_DOT_H

#include "backends/decode/cuda_kernel.h"

struct dots {
    const void *w, *x;
    const float *scales; /* int8: of this row */
    int32_t cols, n;     /* n: rows of x, at most CUDA_TOKENS_A_WARP */
};

/* Lane l takes elements 8l .. 8l+7 of every 256. */
template <int W, int X> DEVICE void dots_wide(const struct dots &d, float sum[CUDA_TOKENS_A_WARP]) {
    for (int32_t i = lane_of() * 8; i < d.cols; i += CUDA_WARP * 8) {
        float w[8];
        load8<W>(d.w, i, w);
        float scale = W == CUDA_INT8 ? d.scales[i / CUDA_INT8_GROUP] : 1.0f;
#pragma unroll
        for (int t = 0; t < CUDA_TOKENS_A_WARP; t++) {
            if (t >= d.n)
                break;
            float x[8], part = W == CUDA_INT8 ? 0.0f : sum[t];
            load8<X>(d.x, static_cast<int64_t>(t) * d.cols + i, x);
            for (int k = 0; k < 8; k++)
                part = fmaf(w[k], x[k], part);
            sum[t] = W == CUDA_INT8 ? fmaf(scale, part, sum[t]) : part;
        }
    }
}

/* Rows that vectors cannot be read from. */
template <int W, int X> DEVICE void dots_narrow(const struct dots &d, float sum[CUDA_TOKENS_A_WARP]) {
    for (int32_t i = lane_of(); i < d.cols; i += CUDA_WARP) {
        float w = load<W>(d.w, i);
        if (W == CUDA_INT8)
            w *= d.scales[i / CUDA_INT8_GROUP];
#pragma unroll
        for (int t = 0; t < CUDA_TOKENS_A_WARP; t++)
            if (t < d.n)
                sum[t] = fmaf(w, load<X>(d.x, static_cast<int64_t>(t) * d.cols + i), sum[t]);
    }
}

/* Lane l has the product with row sum8_which(32) of x. */
template <int W, int X> DEVICE float dots_of(const struct dots &d) {
    float sum[CUDA_TOKENS_A_WARP] = {0};
    if (d.cols % 8 == 0)
        dots_wide<W, X>(d, sum);
    else
        dots_narrow<W, X>(d, sum);
    return sum8(sum, CUDA_WARP);
}

#endif
