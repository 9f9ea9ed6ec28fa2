/* One job at a time. Its round, its size and its next chunk are one 64-bit word, so a thread that wakes late can never take
 * a chunk of a job that is over. Threads spin for a moment between jobs, since the next one comes within microseconds
 * while a step runs, and then sleep, since the event loop needs the same cores. */
#include "backends/decode/workers.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SPINS 400 /* some ten microseconds */
#define ROUND_SHIFT 32
#define N_SHIFT 16
#define MASK UINT64_C(0xffff)

struct workers {
    int threads;
    _Atomic uint64_t ticket; /* round << 32 | chunks << 16 | next chunk */
    _Atomic int64_t done;    /* chunks finished in this round */
    void (*_Atomic work)(void *arg, int64_t chunk, int thread);
    void *_Atomic arg;
    _Atomic int asleep;
    _Atomic bool stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t ids[WORKERS_THREADS_MAX];
};
struct worker {
    struct workers *pool;
    int thread;
};

static void relax(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Takes chunks of `round` until none is left. What a job is made of is read before the ticket is moved on: if the ticket
 * could still be moved, the job was still this round's. */
static void take_chunks(struct workers *p, uint64_t round, int thread) {
    for (;;) {
        uint64_t at = atomic_load(&p->ticket);
        if (at >> ROUND_SHIFT != round)
            return;
        uint64_t chunk = at & MASK;
        if (chunk >= (at >> N_SHIFT & MASK))
            return;
        void (*work)(void *, int64_t, int) = atomic_load(&p->work);
        void *arg = atomic_load(&p->arg);
        if (!atomic_compare_exchange_weak(&p->ticket, &at, at + 1))
            continue;
        work(arg, (int64_t)chunk, thread);
        atomic_fetch_add(&p->done, 1);
    }
}

static uint64_t round_now(struct workers *p) {
    return atomic_load(&p->ticket) >> ROUND_SHIFT;
}

/* Returns when there is another round than `seen`, or it is time to stop. */
static void await_round(struct workers *p, uint64_t seen) {
    for (int i = 0; i < SPINS; i++) {
        if (round_now(p) != seen || atomic_load(&p->stop))
            return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    while (round_now(p) == seen && !atomic_load(&p->stop))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg) {
    struct worker w = *(struct worker *)arg;
    free(arg);
    uint64_t seen = 0;
    while (!atomic_load(&w.pool->stop)) {
        await_round(w.pool, seen);
        seen = round_now(w.pool);
        take_chunks(w.pool, seen, w.thread);
    }
    return NULL;
}

struct workers *workers_new(int threads) {
    struct workers *p = xcalloc(1, sizeof *p);
    p->threads = threads < 1 ? 1 : threads > WORKERS_THREADS_MAX ? WORKERS_THREADS_MAX : threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    for (int i = 1; i < p->threads; i++) {
        struct worker *w = xcalloc(1, sizeof *w);
        *w = (struct worker){p, i};
        if (pthread_create(&p->ids[i], NULL, worker_main, w) == 0)
            continue;
        free(w);
        p->threads = i;
    }
    return p;
}

static void wake_all(struct workers *p) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void workers_free(struct workers *p) {
    if (!p)
        return;
    atomic_store(&p->stop, true);
    wake_all(p);
    for (int i = 1; i < p->threads; i++)
        pthread_join(p->ids[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p);
}

int workers_threads(const struct workers *p) {
    return p->threads;
}

void workers_run(struct workers *p, void (*work)(void *, int64_t, int), void *arg, int64_t n) {
    assert(n <= WORKERS_CHUNKS_MAX);
    if (p->threads == 1 || n <= 1) {
        for (int64_t i = 0; i < n; i++)
            work(arg, i, 0);
        return;
    }
    uint64_t round = (round_now(p) + 1) & UINT32_MAX;
    atomic_store(&p->done, 0);
    atomic_store(&p->work, work);
    atomic_store(&p->arg, arg);
    atomic_store(&p->ticket, round << ROUND_SHIFT | (uint64_t)n << N_SHIFT);
    if (atomic_load(&p->asleep))
        wake_all(p);
    take_chunks(p, round, 0);
    for (int spins = 0; atomic_load(&p->done) != n; spins++)
        if (spins < SPINS)
            relax();
        else
            sched_yield();
}
