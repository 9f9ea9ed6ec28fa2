/* A real Redis of a test's own: in a folder of its own, on a unix socket (and a TCP port where the test asks for one),
 * ended by its pid, and by the kernel when the test dies first. The program comes with the package redis-tools, so that
 * no service of the system's is installed. */
#ifndef TOLLGATE_TESTS_REAL_REDIS_H
#define TOLLGATE_TESTS_REAL_REDIS_H

#include <stdbool.h>
#include <sys/types.h>

struct real_redis {
    pid_t pid; /* 0: not running */
    char folder[40];
    char socket[64];
    const char *const *more; /* further arguments, NULL-ended; NULL: none */
};

void real_redis_begin(struct real_redis *r,
                      const char *const *more);           /* makes the folder, starts, waits until it answers */
void real_redis_start(struct real_redis *r);              /* once more, with nothing left of before */
void real_redis_signal(struct real_redis *r, int signal); /* SIGSTOP, SIGCONT */
void real_redis_kill(struct real_redis *r);               /* SIGKILL */
void real_redis_end(struct real_redis *r);                /* also removes the folder */
int free_port(void);                                      /* of 127.0.0.1, free a moment ago */

#endif
