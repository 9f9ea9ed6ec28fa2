/* Sharing out chunks: each once, whoever takes it, round after round. */
#include "backends/decode/workers.h"

#include <criterion/criterion.h>
#include <stdatomic.h>

#define CHUNKS_MAX 300

struct count {
    _Atomic int taken[CHUNKS_MAX];
    _Atomic int bad_thread;
    int threads;
};

static void take(void *arg, int64_t chunk, int thread) {
    struct count *c = arg;
    atomic_fetch_add(&c->taken[chunk], 1);
    if (thread < 0 || thread >= c->threads)
        atomic_fetch_add(&c->bad_thread, 1);
}

Test(workers, every_chunk_is_done_once_when_run_returns) {
    for (int threads = 1; threads <= 4; threads++) {
        struct workers *w = workers_new(threads);
        for (int round = 0; round < 500; round++) {
            struct count c = {.threads = workers_threads(w)};
            int n = round * 7 % CHUNKS_MAX;
            workers_run(w, take, &c, n);
            for (int i = 0; i < CHUNKS_MAX; i++)
                cr_assert_eq(c.taken[i], i < n, "%d threads, round %d, chunk %d", threads, round, i);
            cr_assert_eq(c.bad_thread, 0);
        }
        workers_free(w);
    }
}
