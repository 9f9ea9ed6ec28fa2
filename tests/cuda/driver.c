/* libcuda.so.1, played: memory is the heap's, one allocation each, so that the sanitizers see every byte too far; kernels are the
 * ones in this library, run by tests/cuda/fibers.c; graphs are lists of launches. Each call is counted and may be told to
 * fail. Like the real one it refuses whoever has not made the context current on his thread, and work that may not be done
 * while a graph is recorded.
 *
 * FAKE_CUDA_INIT, _DEVICES, _MAJOR, _MEMORY and _FAIL_AT in the environment set the same fields, for tests of the built binary. */
#include "tests/cuda/driver.h"

#include "backends/decode/cuda_args.h"
#include "backends/decode/cuda_driver.h"
#include "tests/cuda/emulation.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define INVALID 1
#define OUT_OF_MEMORY 2
#define NOT_INITIALIZED 3
#define INVALID_CONTEXT 201
#define NOT_FOUND 500
#define CAPTURE_UNSUPPORTED 900
#define ARGS_MAX 512
#define MEMORY ((size_t)1 << 30)

struct launch {
    void (*kernel)(const void *args);
    struct emulated_dim grid, block;
    size_t shared_bytes;
    unsigned char args[ARGS_MAX];
};
struct graph {
    struct launch *launches; /* owned */
    size_t n;
};
struct stream {
    struct graph *recording; /* owned while it records; NULL: it does not */
};

struct fake_cuda fake_cuda = {.devices = 1, .major = 9, .memory = MEMORY};
static bool initialized;
static long contexts;
static _Thread_local void *current;
static void *library;
static struct {
    void *at;
    size_t bytes;
} * allocations; /* [n] */
static size_t n_allocations;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void read_environment(void) {
    fake_cuda.init_status = (int)number("FAKE_CUDA_INIT", 0);
    fake_cuda.devices = (int)number("FAKE_CUDA_DEVICES", 1);
    fake_cuda.major = (int)number("FAKE_CUDA_MAJOR", 9);
    fake_cuda.memory = (size_t)number("FAKE_CUDA_MEMORY", MEMORY);
    fake_cuda.fail_at = number("FAKE_CUDA_FAIL_AT", 0);
    fake_cuda.fail_status = 999;
}

/* Counts a call; not zero when it is to fail. */
static int enter(void) {
    fake_cuda.calls++;
    return fake_cuda.fail_at && fake_cuda.calls >= fake_cuda.fail_at ? fake_cuda.fail_status : CUDA_OK;
}

static int enter_context(void) {
    int status = enter();
    return status ? status : current ? CUDA_OK : INVALID_CONTEXT;
}

#define ENTER(how)                                                                                                     \
    int status = how();                                                                                                \
    if (status)                                                                                                        \
    return status

#define DECLARE(field, symbol, args) int symbol args;
CUDA_DRIVER(DECLARE)
#undef DECLARE

int cuInit(unsigned flags) {
    ENTER(enter);
    (void)flags;
    initialized = fake_cuda.init_status == CUDA_OK;
    return fake_cuda.init_status;
}

int cuGetErrorName(int error, const char **name) {
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 999 ? "CUDA_ERROR_UNKNOWN" : NULL;
    return *name ? CUDA_OK : INVALID;
}

int cuDeviceGetCount(int *n) {
    ENTER(enter);
    *n = fake_cuda.devices;
    return initialized ? CUDA_OK : NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int i) {
    ENTER(enter);
    *device = i;
    return i < fake_cuda.devices ? CUDA_OK : INVALID;
}

int cuDeviceGetName(char *name, int size, int device) {
    ENTER(enter);
    snprintf(name, (size_t)size, "Emulated %d", device);
    return CUDA_OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER(enter);
    (void)device;
    *value = attribute == CUDA_MAJOR ? fake_cuda.major : attribute == CUDA_MULTIPROCESSORS ? 2 : 0;
    return CUDA_OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    ENTER(enter);
    (void)device;
    contexts++;
    fake_cuda.held++;
    *context = &contexts;
    return CUDA_OK;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    fake_cuda.held--;
    contexts--;
    return enter();
}

int cuCtxSetCurrent(void *context) {
    ENTER(enter);
    current = context;
    return CUDA_OK;
}

int cuMemGetInfo_v2(size_t *unused, size_t *all) {
    ENTER(enter_context);
    *all = fake_cuda.memory;
    *unused = fake_cuda.memory - fake_cuda.used;
    return CUDA_OK;
}

int cuMemAlloc_v2(cuda_address *at, size_t bytes) {
    ENTER(enter_context);
    if (!bytes)
        return INVALID;
    if (bytes > fake_cuda.memory - fake_cuda.used)
        return OUT_OF_MEMORY;
    void *memory = malloc(bytes);
    allocations = realloc(allocations, (n_allocations + 1) * sizeof *allocations);
    if (!memory || !allocations)
        abort();
    allocations[n_allocations].at = memory;
    allocations[n_allocations++].bytes = bytes;
    fake_cuda.used += bytes;
    fake_cuda.held++;
    *at = (uintptr_t)memset(memory, 0xff, bytes);
    return CUDA_OK;
}

int cuMemFree_v2(cuda_address at) {
    int status = enter_context();
    for (size_t i = 0; i < n_allocations; i++)
        if ((uintptr_t)allocations[i].at == at) {
            fake_cuda.used -= allocations[i].bytes;
            fake_cuda.held--;
            free(allocations[i].at);
            allocations[i] = allocations[--n_allocations];
            if (!n_allocations) {
                free(allocations);
                allocations = NULL;
            }
            return status;
        }
    return INVALID;
}

int cuMemAllocHost_v2(void **at, size_t bytes) {
    ENTER(enter_context);
    fake_cuda.held++;
    *at = malloc(bytes);
    return *at ? CUDA_OK : OUT_OF_MEMORY;
}

int cuMemFreeHost(void *at) {
    fake_cuda.held--;
    free(at);
    return enter_context();
}

/* Copies are not recorded in graphs here, and nothing asks for it. */
static int enter_copy(void *stream) {
    int status = enter_context();
    return status ? status : ((struct stream *)stream)->recording ? CAPTURE_UNSUPPORTED : CUDA_OK;
}

int cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t bytes, void *stream) {
    int status = enter_copy(stream);
    if (!status)
        memcpy((void *)(uintptr_t)to, from, bytes);
    return status;
}

int cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t bytes, void *stream) {
    int status = enter_copy(stream);
    if (!status)
        memcpy(to, (const void *)(uintptr_t)from, bytes);
    return status;
}

int cuMemsetD8Async(cuda_address at, unsigned char value, size_t bytes, void *stream) {
    int status = enter_copy(stream);
    if (!status)
        memset((void *)(uintptr_t)at, value, bytes);
    return status;
}

int cuStreamCreate(void **stream, unsigned flags) {
    ENTER(enter_context);
    (void)flags;
    fake_cuda.held++;
    *stream = calloc(1, sizeof(struct stream));
    return *stream ? CUDA_OK : OUT_OF_MEMORY;
}

int cuStreamDestroy_v2(void *stream) {
    fake_cuda.held--;
    free(stream);
    return enter_context();
}

int cuStreamSynchronize(void *stream) {
    int status = enter_copy(stream);
    return status;
}

int cuModuleLoadData(void **module, const void *image) {
    Dl_info self;
    ENTER(enter_context);
    if (!image || !dladdr(&fake_cuda, &self))
        return INVALID;
    library = *module = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    fake_cuda.held++;
    return library ? CUDA_OK : NOT_FOUND;
}

int cuModuleUnload(void *module) {
    fake_cuda.held--;
    dlclose(module);
    return enter_context();
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    ENTER(enter_context);
    *function = dlsym(module, name);
    return *function ? CUDA_OK : NOT_FOUND;
}

static void perform(const struct launch *l) {
    fake_cuda.launches++;
    if (!fake_cuda.idle)
        emulated_run(l->kernel, l->args, l->grid, l->block, l->shared_bytes);
    fake_cuda.seed = emulated_seed;
}

/* How long a kernel's argument is: the real driver reads it from the image. */
#define SIZE(name, threads, args) {#name, sizeof(args), threads},
static const struct {
    const char *name;
    size_t bytes;
    unsigned threads;
} kernels[] = {CUDA_KERNELS(SIZE)};

static bool take_args(struct launch *l, const char *kernel, void **args) {
    for (size_t i = 0; i < KERNELS; i++)
        if (strcmp(kernels[i].name, kernel) == 0 && kernels[i].threads == l->block.x) {
            memcpy(l->args, args[0], kernels[i].bytes);
            return true;
        }
    return false;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **args, void **extra) {
    struct launch l = {
        .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .shared_bytes = shared_bytes};
    struct graph *g = ((struct stream *)stream)->recording;
    Dl_info info;
    ENTER(enter_context);
    if (extra || !grid_x || !grid_y || !grid_z || grid_y > 65535 || grid_z > 65535 || shared_bytes > 48 << 10 ||
        !dladdr(function, &info) || !info.dli_sname || !take_args(&l, info.dli_sname, args))
        return INVALID;
    memcpy(&l.kernel, &function, sizeof function);
    emulated_seed = fake_cuda.seed;
    if (!g) {
        perform(&l);
        return CUDA_OK;
    }
    g->launches = realloc(g->launches, (g->n + 1) * sizeof *g->launches);
    if (!g->launches)
        abort();
    g->launches[g->n++] = l;
    return CUDA_OK;
}

int cuStreamBeginCapture_v2(void *stream, int mode) {
    struct stream *s = stream;
    ENTER(enter_context);
    (void)mode;
    if (s->recording)
        return INVALID;
    s->recording = calloc(1, sizeof *s->recording);
    fake_cuda.captures++;
    return s->recording ? CUDA_OK : OUT_OF_MEMORY;
}

static void graph_drop(struct graph *g) {
    free(g->launches);
    free(g);
}

/* A capture that fails is over all the same. */
int cuStreamEndCapture(void *stream, void **graph) {
    struct stream *s = stream;
    int status = enter_context();
    if (!s->recording)
        return INVALID;
    *graph = status ? NULL : s->recording;
    if (status)
        graph_drop(s->recording);
    else
        fake_cuda.held++;
    s->recording = NULL;
    return status;
}

int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
    const struct graph *from = graph;
    ENTER(enter_context);
    (void)flags;
    struct graph *g = calloc(1, sizeof *g);
    if (!g || !(g->launches = malloc((from->n + 1) * sizeof *g->launches)))
        abort();
    g->n = from->n;
    memcpy(g->launches, from->launches, from->n * sizeof *g->launches);
    fake_cuda.held++;
    *executable = g;
    return CUDA_OK;
}

int cuGraphDestroy(void *graph) {
    fake_cuda.held--;
    graph_drop(graph);
    return enter_context();
}

int cuGraphLaunch(void *executable, void *stream) {
    const struct graph *g = executable;
    ENTER(enter_context);
    (void)stream;
    fake_cuda.graph_launches++;
    emulated_seed = fake_cuda.seed;
    for (size_t i = 0; i < g->n; i++)
        perform(&g->launches[i]);
    return CUDA_OK;
}

int cuGraphExecDestroy(void *executable) {
    fake_cuda.held--;
    graph_drop(executable);
    return enter_context();
}
