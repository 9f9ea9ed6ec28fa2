/* The loop and its post box. Always true here: jobs run on the loop's thread, in the order in which they were posted. */
#include "gateway/base/loop.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct loop {
    struct event_base *base; /* owned */
    struct event *wake;      /* owned; readable while jobs wait */
    int wake_fd;
    pthread_mutex_t lock;
    struct loop_job *first, **last; /* under lock */
};

static struct loop_job *take_all(struct loop *l) {
    pthread_mutex_lock(&l->lock);
    struct loop_job *jobs = l->first;
    l->first = NULL;
    l->last = &l->first;
    pthread_mutex_unlock(&l->lock);
    return jobs;
}

static void run_jobs(struct loop *l) {
    for (struct loop_job *job = take_all(l), *next; job; job = next) {
        next = job->next;
        job->run(job);
    }
}

static void on_wake(evutil_socket_t fd, short what, void *arg) {
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
        run_jobs(arg);
}

struct loop *loop_new(void) {
    struct loop *l = xcalloc(1, sizeof(*l));
    l->last = &l->first;
    pthread_mutex_init(&l->lock, NULL);
    l->base = event_base_new();
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(l->base && l->wake_fd >= 0);
    l->wake = event_new(l->base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l);
    assert(l->wake);
    event_add(l->wake, NULL);
    return l;
}

void loop_free(struct loop *l) {
    run_jobs(l);
    event_free(l->wake);
    event_base_free(l->base);
    close(l->wake_fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

struct event_base *loop_base(struct loop *l) {
    return l->base;
}

void loop_post(struct loop *l, struct loop_job *job) {
    uint64_t one = 1;
    job->next = NULL;
    pthread_mutex_lock(&l->lock);
    bool was_empty = l->first == NULL;
    *l->last = job;
    l->last = &job->next;
    pthread_mutex_unlock(&l->lock);
    if (was_empty) {
        ssize_t n = write(l->wake_fd, &one, sizeof(one));
        assert(n == (ssize_t)sizeof(one));
    }
}
