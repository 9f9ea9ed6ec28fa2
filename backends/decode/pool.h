/* Threads that share out the chunks of one piece of work. The caller works too and never waits for a thread that has not
 * taken a chunk, so a busy machine costs speed, never progress. */
#ifndef TOLLGATE_DECODE_POOL_H
#define TOLLGATE_DECODE_POOL_H

#include "gateway/base/span.h"

#define POOL_THREADS_MAX 256
#define POOL_CHUNKS_MAX 0xffff

struct pool;
struct pool *pool_new(int threads); /* the caller's own included; 1 makes none */
void pool_free(struct pool *p);
int pool_threads(const struct pool *p);
/* Calls work(arg, chunk, thread) once for each chunk in 0..n-1, on any thread; `thread` is below pool_threads. */
void pool_run(struct pool *p, void (*work)(void *arg, int64_t chunk, int thread), void *arg, int64_t n);

#endif
