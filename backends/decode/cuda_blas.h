/* cuBLAS, opened after a device was found: products of many tokens. Without it the house's own kernels do them. */
#ifndef TOLLGATE_DECODE_CUDA_BLAS_H
#define TOLLGATE_DECODE_CUDA_BLAS_H

#include "backends/decode/cuda_model.h"

struct cuda_blas {
    void *library; /* owned; NULL: there is none */
    void *handle, *workspace;
    int (*destroy)(void *handle);
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int a_type,
                int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                int compute, int algorithm);
};

/* What is missing is logged once and is no failure. */
void cuda_blas_open(struct cuda_blas *b, struct cuda_device *d);
void cuda_blas_close(struct cuda_blas *b);
/* y[t][row] = w[row] . x[t] for n tokens; not for int8. */
void cuda_blas_multiply(const struct cuda_blas *b, struct cuda_device *d, enum dtype type, const struct cuda_matrix *w,
                        const void *x, int64_t n_tok, float *y);

#endif
