/* The door to Redis over a real server, in turn: a command is done when it is sent, and answered when the test says so. So a
 * test decides what arrives, what is answered, and in which order, without a loop or a clock. */
#ifndef TOLLGATE_TESTS_SYNC_REDIS_H
#define TOLLGATE_TESTS_SYNC_REDIS_H

#include "gateway/base/redis.h"

struct redisContext;

enum sync_mode {
    SYNC_GOOD,
    SYNC_DOWN,     /* nothing is sent */
    SYNC_UNHEARD,  /* done, and the answer is late */
    SYNC_UNDONE,   /* not done, and late */
    SYNC_OVERTAKEN /* late, and done at sync_catch_up only */
};

struct sync_redis {
    struct redis redis; /* first member */
    struct redisContext *c;
    const char *path;
    enum sync_mode mode;
    struct list answers; /* to be given */
    struct list held;    /* commands that were overtaken */
    struct list watchers;
    int sent;
};

/* A fault in the scripts that are run from now on, in every process of the test: a piece of their text, where it stands
 * first, and what stands in its place. NULL: none. The caller's. */
struct plant {
    const char *from, *to;
};
void sync_redis_plant(const struct plant *p);

void sync_redis_open(struct sync_redis *s, const char *path, const char *prefix);
void sync_redis_close(struct sync_redis *s);
/* Gives answers, and answers of what is sent meanwhile, until there are none. */
void sync_redis_pump(struct sync_redis *s);
void sync_redis_catch_up(struct sync_redis *s);
/* The connection breaks: what was not answered is lost. Or it is there (again). */
void sync_redis_break(struct sync_redis *s);
void sync_redis_mend(struct sync_redis *s);
/* One command of the test's own, its answer as text: a number, a word, or an array's items with spaces. */
const char *sync_redis_ask(struct sync_redis *s, const char *format, ...) printf_like(2, 3);

#endif
