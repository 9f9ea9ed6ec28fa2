/* Threads that share out the chunks of one piece of work. The caller works too and never waits for a thread that has not
 * taken a chunk, so a busy machine costs speed, never progress. */
#ifndef TOLLGATE_DECODE_WORKERS_H
#define TOLLGATE_DECODE_WORKERS_H

#include "gateway/base/span.h"

#define WORKERS_THREADS_MAX 256
#define WORKERS_CHUNKS_MAX 0xffff

struct workers;
struct workers *workers_new(int threads); /* the caller's own included; 1 makes none */
void workers_free(struct workers *p);
int workers_threads(const struct workers *p);
/* Calls work(arg, chunk, thread) once for each chunk in 0..n-1, on any thread; `thread` is below workers_threads. */
void workers_run(struct workers *p, void (*work)(void *arg, int64_t chunk, int thread), void *arg, int64_t n);

#endif
