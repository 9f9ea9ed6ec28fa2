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
    char config[80];         /* of a sentinel: a file in the folder; "": none */
    const char *const *more; /* further arguments, NULL-ended; NULL: none */
};

void real_redis_begin(struct real_redis *r,
                      const char *const *more); /* makes the folder, starts, waits until it answers */
/* A sentinel that watches one master, called "main", and needs nobody's agreement. */
void real_sentinel_begin(struct real_redis *r, int master_port, const char *const *more);
void real_redis_start(struct real_redis *r);              /* once more, with nothing left of before */
void real_redis_signal(struct real_redis *r, int signal); /* SIGSTOP, SIGCONT */
void real_redis_kill(struct real_redis *r);               /* SIGKILL */
/* One command in plain words; the first `size` bytes of its answer. Returns out. */
char *real_redis_ask(const struct real_redis *r, const char *command, char *out, size_t size);
void real_redis_end(struct real_redis *r); /* also removes the folder */
int free_port(void);                       /* of 127.0.0.1, free a moment ago, and so is the one 10000 above */

#endif
