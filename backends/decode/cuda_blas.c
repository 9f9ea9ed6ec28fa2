/* One function of cuBLAS: inputs of the weights' type, sums and results in f32. The workspace is ours and is handed over once, so
 * that recording a graph never allocates. */
#include "backends/decode/cuda_blas.h"

#include "gateway/base/log.h"

#include <dlfcn.h>

#define WORKSPACE_BYTES (INT64_C(32) << 20)
#define OP_NONE 0
#define OP_TRANSPOSE 1
#define COMPUTE_F32 68
#define ALGORITHM_DEFAULT (-1)

static int type_code(enum dtype d) { /* of cuBLAS */
    return d == DTYPE_F32 ? 0 : d == DTYPE_F16 ? 2 : 14;
}

static bool find_functions(struct cuda_blas *b, int (**create)(void **), int (**set_stream)(void *, void *),
                           int (**set_workspace)(void *, void *, size_t)) {
    const struct {
        const char *name;
        void *to;
    } rows[] = {{"cublasCreate_v2", create},
                {"cublasSetStream_v2", set_stream},
                {"cublasSetWorkspace_v2", set_workspace},
                {"cublasDestroy_v2", &b->destroy},
                {"cublasGemmEx", &b->gemm}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        void *at = dlsym(b->library, rows[i].name);
        if (!at)
            return false;
        memcpy(rows[i].to, &at, sizeof at);
    }
    return true;
}

static bool start(struct cuda_blas *b, struct cuda_device *d) {
    int (*create)(void **), (*set_stream)(void *, void *), (*set_workspace)(void *, void *, size_t);
    if (!find_functions(b, &create, &set_stream, &set_workspace) || create(&b->handle) != 0)
        return false;
    b->workspace = cuda_device_try(d, WORKSPACE_BYTES);
    return b->workspace && set_stream(b->handle, d->stream) == 0 &&
           set_workspace(b->handle, b->workspace, (size_t)WORKSPACE_BYTES) == 0;
}

void cuda_blas_open(struct cuda_blas *b, struct cuda_device *d) {
    *b = (struct cuda_blas){0};
    for (const char *const *name = cuda_source.blas; *name && !b->library; name++)
        b->library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (b->library && start(b, d))
        return;
    log_warn("device: cuBLAS %s; prompts are computed by slower kernels",
             b->library ? "does not start" : "is not here");
    void *workspace = b->workspace;
    cuda_blas_close(b);
    cuda_device_free(d, workspace);
}

void cuda_blas_close(struct cuda_blas *b) {
    if (b->handle)
        b->destroy(b->handle);
    if (b->library)
        dlclose(b->library);
    *b = (struct cuda_blas){0};
}

/* cuBLAS counts columns first: to it, w is stored transposed and y is [row][t]. */
void cuda_blas_multiply(const struct cuda_blas *b, struct cuda_device *d, enum dtype type, const struct cuda_matrix *w,
                        const void *x, int64_t n_tok, float *y) {
    static const float one = 1, none = 0;
    if (d->status != CUDA_OK)
        return;
    int status =
        b->gemm(b->handle, OP_TRANSPOSE, OP_NONE, w->rows, (int)n_tok, w->cols, &one, w->w, type_code(type), w->cols, x,
                type_code(type), w->cols, &none, y, type_code(DTYPE_F32), w->rows, COMPUTE_F32, ALGORITHM_DEFAULT);
    cuda_device_check(d, status, "cublasGemmEx");
}
