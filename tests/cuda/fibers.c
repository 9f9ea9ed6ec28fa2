/* Threads of a block as fibers. Always true: one block runs at a time; a fiber runs until it waits for the others of its warp or
 * its block, or ends; who waits goes on when the last one has come. A round in which nobody could run is a barrier that
 * somebody missed. */
#include "tests/cuda/emulation.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS_MAX 1024
#define WARP 32
#define STACK_BYTES ((size_t)64 << 10)
#define SHARED_MAX 16
#define RUBBISH 0xab

enum state { RUNS, AT_WARP, AT_BLOCK, OVER };
struct fiber {
    void *stack; /* pointer, while it does not run */
    enum state state;
    unsigned rounds; /* exchanges of its warp so far: neighbours use one of two places in turn */
};
struct shared {
    const void *key;
    void *at; /* owned */
};
static struct {
    struct fiber fibers[THREADS_MAX];
    unsigned order[THREADS_MAX];
    uint64_t exchanged[THREADS_MAX][2];
    unsigned at_warp[THREADS_MAX / WARP], at_block, over, n, now;
    struct shared shared[SHARED_MAX];
    size_t n_shared, dynamic_bytes;
    char *stacks; /* for THREADS_MAX fibers, each with a page below it that may not be touched; kept for the process */
    void *main;   /* stack pointer of who runs the block */
    void (*kernel)(const void *args);
    const void *args;
} block;
struct emulated_thread emulated_thread;
uint32_t emulated_seed;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* --- switching stacks --- */

#ifdef __x86_64__
void emulated_switch(void **save, void *to);
__asm__(".text\n"
        ".type emulated_switch, @function\n"
        "emulated_switch:\n"
        " pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        " movq %rsp, (%rdi)\n"
        " movq %rsi, %rsp\n"
        " popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
        " ret\n");

static void *fresh_stack(char *top, void (*entry)(void)) {
    void **s = (void **)(void *)(top - 16);
    *--s = NULL; /* nobody to return to */
    *--s = (void *)(uintptr_t)entry;
    for (int saved = 0; saved < 6; saved++)
        *--s = NULL;
    return s;
}
#else
#include <ucontext.h>
static ucontext_t contexts[THREADS_MAX + 1];

static void emulated_switch(void **save, void *to) {
    ucontext_t *from = save == &block.main ? &contexts[THREADS_MAX] : &contexts[block.now];
    *save = from;
    swapcontext(from, to);
}

static void *fresh_stack(char *top, void (*entry)(void)) {
    ucontext_t *c = &contexts[(size_t)(top - block.stacks) / STACK_BYTES - 1];
    getcontext(c);
    c->uc_stack.ss_sp = top - STACK_BYTES / 2;
    c->uc_stack.ss_size = STACK_BYTES / 2;
    c->uc_link = NULL;
    makecontext(c, entry, 0);
    return c;
}
#endif

static void pause_fiber(enum state s) {
    struct fiber *f = &block.fibers[block.now];
    f->state = s;
    emulated_switch(&f->stack, block.main);
}

static void fiber_main(void) {
    block.kernel(block.args);
    block.over++;
    pause_fiber(OVER);
    abort(); /* nobody wakes what is over */
}

/* --- barriers --- */

void emulated_block_barrier(void) {
    if (++block.at_block == block.n) {
        block.at_block = 0;
        for (unsigned i = 0; i < block.n; i++)
            block.fibers[i].state = RUNS;
    } else
        pause_fiber(AT_BLOCK);
}

uint64_t emulated_exchange(uint64_t value, int from) {
    unsigned me = block.now, warp = me / WARP, turn = block.fibers[me].rounds++ % 2;
    block.exchanged[me][turn] = value;
    if (++block.at_warp[warp] == WARP) {
        block.at_warp[warp] = 0;
        for (unsigned i = warp * WARP; i < (warp + 1) * WARP; i++)
            block.fibers[i].state = RUNS;
    } else
        pause_fiber(AT_WARP);
    return block.exchanged[warp * WARP + (unsigned)from % WARP][turn];
}

/* --- blocks --- */

static uint32_t random_u32(void) {
    emulated_seed ^= emulated_seed << 13;
    emulated_seed ^= emulated_seed >> 17;
    return emulated_seed ^= emulated_seed << 5;
}

static void shuffle(unsigned *order, unsigned n) {
    for (unsigned i = n; emulated_seed && i > 1; i--) {
        unsigned k = random_u32() % i, was = order[i - 1];
        order[i - 1] = order[k];
        order[k] = was;
    }
}

static void *rubbish(size_t bytes) {
    void *at = malloc(bytes ? bytes : 1);
    if (!at)
        abort();
    return memset(at, RUBBISH, bytes);
}

void *emulated_shared(const void *key, size_t bytes) {
    for (size_t i = 0; i < block.n_shared; i++)
        if (block.shared[i].key == key)
            return block.shared[i].at;
    if (block.n_shared == SHARED_MAX)
        abort();
    struct shared *s = &block.shared[block.n_shared++];
    *s = (struct shared){key, rubbish(key ? bytes : block.dynamic_bytes)};
    return s->at;
}

static void open_stacks(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    block.stacks = mmap(NULL, THREADS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block.stacks == MAP_FAILED)
        abort();
    for (size_t i = 0; i < THREADS_MAX; i++)
        mprotect(block.stacks + i * STACK_BYTES, page, PROT_NONE);
}

static void missed(void) {
    const struct emulated_dim *b = &emulated_thread.block;
    fprintf(stderr,
            "emulation: block (%u, %u, %u): %u threads wait for the block, %u are over, the others wait in a warp\n",
            b->x, b->y, b->z, block.at_block, block.over);
    abort();
}

static void run_fiber(unsigned i) {
    block.now = i;
    emulated_thread.thread = (struct emulated_dim){i, 0, 0};
    emulated_switch(&block.main, block.fibers[i].stack);
}

static void run_block(void) {
    block.at_block = block.over = 0;
    for (unsigned i = 0; i < block.n; i++) {
        block.fibers[i] = (struct fiber){fresh_stack(block.stacks + (i + 1) * STACK_BYTES, fiber_main), RUNS, 0};
        block.at_warp[i / WARP] = 0;
        block.order[i] = i;
    }
    for (bool ran = true; block.over < block.n; ran = false) {
        shuffle(block.order, block.n);
        for (unsigned i = 0; i < block.n; i++)
            if (block.fibers[block.order[i]].state == RUNS) {
                run_fiber(block.order[i]);
                ran = true;
            }
        if (!ran)
            missed();
    }
    while (block.n_shared)
        free(block.shared[--block.n_shared].at);
}

void emulated_run(void (*kernel)(const void *args), const void *args, struct emulated_dim grid, struct emulated_dim dim,
                  size_t dynamic_bytes) {
    unsigned n = grid.x * grid.y * grid.z, *order = malloc((n ? n : 1) * sizeof *order);
    pthread_mutex_lock(&one_at_a_time);
    if (dim.x % WARP || dim.x > THREADS_MAX || dim.y != 1 || dim.z != 1 || !order)
        abort();
    if (!block.stacks)
        open_stacks();
    block.n = dim.x;
    block.kernel = kernel;
    block.args = args;
    block.dynamic_bytes = dynamic_bytes;
    emulated_thread.block_dim = dim;
    emulated_thread.grid = grid;
    for (unsigned i = 0; i < n; i++)
        order[i] = i;
    shuffle(order, n);
    for (unsigned i = 0; i < n; i++) {
        unsigned b = order[i];
        emulated_thread.block = (struct emulated_dim){b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
        run_block();
    }
    pthread_mutex_unlock(&one_at_a_time);
    free(order);
}

/* --- half precision --- */

float emulated_f16_widen(uint16_t h) {
    uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ff;
    float v = exponent ? (float)(fraction + 0x400) : (float)fraction;
    v *= exponent ? __builtin_powif(2, (int)exponent - 25) : 0x1p-24f;
    if (exponent == 31)
        v = fraction ? __builtin_nanf("") : __builtin_inff();
    return h & 0x8000 ? -v : v;
}

/* The nearest, ties to even: scaled so that what is kept stands in front of the point. */
uint16_t emulated_f16_narrow(float f) {
    uint16_t sign = (uint16_t)(__builtin_signbit(f) ? 0x8000 : 0);
    float v = __builtin_fabsf(f);
    int exponent = 0;
    if (v != v)
        return 0x7e00;
    if (v >= 65520.0f)
        return (uint16_t)(sign | 0x7c00);
    (void)__builtin_frexpf(v, &exponent);
    int scale = exponent < -13 ? -24 : exponent - 11; /* of the last bit */
    uint32_t units = (uint32_t)__builtin_rintf(v * __builtin_powif(2, -scale));
    uint32_t biased = scale == -24 ? 0 : (uint32_t)(scale + 24) << 10; /* the hidden bit adds the last one */
    return (uint16_t)(sign | (biased + units));
}
