/* Names to addresses. Always true: threads see copies (struct ask) and come back by loop_post; entries and waiters belong
 * to the loop's thread; a name is asked for once at a time, however many wait. A name that can no longer be resolved
 * keeps its last addresses for a while: a name server that is down need not take the providers with it. */
#include "gateway/net/resolve.h"

#include "gateway/base/clock.h"
#include "gateway/base/map.h"
#include "gateway/base/mem.h"

#include <assert.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>

#define THREADS_MAX 4
#define FRESH_US (30 * US_PER_S) /* getaddrinfo tells no TTL: short enough for a provider's fail-over by DNS */
#define FAILED_US (1 * US_PER_S) /* a failure is remembered: a dead name server gets one question a second */
#define STALE_US (600 * US_PER_S)
#define ENTRIES_MAX 1024 /* names come from the configuration; reloads must not add up for ever */
#define FREE_WAIT_MS 200 /* how long resolver_free waits for threads that are idle */

struct ask {
    struct loop_job job;
    struct ask *next;
    struct shared *shared;
    char *host; /* owned */
    struct addresses found;
    int error; /* EAI_*, 0 */
};

/* Outlives the resolver while a thread hangs in getaddrinfo. */
struct shared {
    pthread_mutex_t lock;
    pthread_cond_t work, left;
    struct ask *first, **last;
    struct loop *loop;
    struct resolver *resolver; /* NULL: freed; read on the loop's thread only */
    int n_threads, n_idle, n_refs;
    bool stopped;
};

struct entry {
    struct addresses found;
    const char *why;
    bool local, asking;
    int64_t fresh_until_us, stale_until_us;
    struct list waiting;
};

struct resolver {
    struct shared *shared;
    struct map entries;
};

static void unref(struct shared *s) {
    pthread_mutex_lock(&s->lock);
    bool last = --s->n_refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->left);
    free(s);
}

static void ask_free(struct ask *a) {
    unref(a->shared);
    free(a->host);
    free(a);
}

static void take_addresses(struct addresses *to, const struct addrinfo *list) {
    for (; list && to->n < ADDRESSES_MAX; list = list->ai_next) {
        if (list->ai_family != AF_INET && list->ai_family != AF_INET6)
            continue;
        memcpy(&to->at[to->n++], list->ai_addr, list->ai_addrlen);
    }
}

static int look_up(const char *host, int flags, struct addresses *to) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags}, *list = NULL;
    to->n = 0;
    int error = getaddrinfo(host, NULL, &hints, &list);
    if (error)
        return error;
    take_addresses(to, list);
    freeaddrinfo(list);
    return 0;
}

/* ---- threads ---- */

static struct ask *next_ask(struct shared *s) {
    s->n_idle++;
    while (!s->first && !s->stopped)
        pthread_cond_wait(&s->work, &s->lock);
    s->n_idle--;
    struct ask *a = s->stopped ? NULL : s->first;
    if (a && !(s->first = a->next))
        s->last = &s->first;
    return a;
}

static void *work(void *arg) {
    struct shared *s = arg;
    struct ask *a;
    pthread_mutex_lock(&s->lock);
    while ((a = next_ask(s))) {
        pthread_mutex_unlock(&s->lock);
        a->error = look_up(a->host, AI_ADDRCONFIG, &a->found);
        pthread_mutex_lock(&s->lock);
        if (!s->stopped) {
            loop_post(s->loop, &a->job);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        ask_free(a);
        pthread_mutex_lock(&s->lock);
    }
    s->n_threads--;
    pthread_cond_signal(&s->left);
    pthread_mutex_unlock(&s->lock);
    unref(s);
    return NULL;
}

static void start_thread(struct shared *s) {
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, work, s) == 0) {
        s->n_threads++;
        s->n_refs++;
    }
    pthread_attr_destroy(&attr);
}

/* ---- the loop's side ---- */

static const char *reason(int error) {
    return error ? gai_strerror(error) : "the name has no address";
}

static void answer(struct entry *e) {
    struct link *k;
    while ((k = list_shift(&e->waiting))) {
        struct lookup *l = container_of(k, struct lookup, waiting);
        l->found = e->found;
        l->why = e->why;
        l->local = e->local;
        l->list = NULL;
        l->done(l);
    }
}

static void learn(struct entry *e, const struct ask *a) {
    int64_t now_us = clock_mono_us();
    e->asking = false;
    e->local = a->error == EAI_MEMORY || a->error == EAI_SYSTEM;
    if (a->found.n) {
        e->found = a->found;
        e->fresh_until_us = now_us + FRESH_US;
        e->stale_until_us = now_us + STALE_US;
        return;
    }
    e->fresh_until_us = now_us + FAILED_US;
    e->why = reason(a->error);
    if (now_us >= e->stale_until_us)
        e->found.n = 0;
}

static void on_answer(struct loop_job *job) {
    struct ask *a = container_of(job, struct ask, job);
    struct resolver *r = a->shared->resolver;
    struct entry *e = r ? map_find(&r->entries, span_of(a->host)) : NULL;
    if (e) {
        learn(e, a);
        answer(e);
    }
    ask_free(a);
}

static void ask(struct shared *s, const char *host) {
    struct ask *a = xcalloc(1, sizeof *a);
    a->job.run = on_answer;
    a->shared = s;
    a->host = xstrdup(host);
    pthread_mutex_lock(&s->lock);
    s->n_refs++;
    *s->last = a;
    s->last = &a->next;
    if (!s->n_idle && s->n_threads < THREADS_MAX)
        start_thread(s);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

/* One old entry makes room; when all are in use the table may grow past its mark for as long as they are. */
static void make_room(struct resolver *r) {
    int64_t now_us = clock_mono_us();
    if (r->entries.n < ENTRIES_MAX)
        return;
    for (struct map_entry *m = map_next(&r->entries, NULL); m; m = map_next(&r->entries, m)) {
        struct entry *e = m->value;
        if (e->asking || now_us < e->fresh_until_us)
            continue;
        map_remove(&r->entries, span_from(m->key, m->n));
        free(e);
        return;
    }
}

static struct entry *get_entry(struct resolver *r, const char *host) {
    struct entry *e = map_find(&r->entries, span_of(host));
    if (e)
        return e;
    make_room(r);
    e = xcalloc(1, sizeof *e);
    list_init(&e->waiting);
    map_put(&r->entries, span_of(host), e);
    return e;
}

struct resolver *resolver_new(struct loop *loop) {
    struct resolver *r = xcalloc(1, sizeof *r);
    struct shared *s = xcalloc(1, sizeof *s);
    map_init(&r->entries);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->left, NULL);
    s->last = &s->first;
    s->loop = loop;
    s->resolver = r;
    s->n_refs = 1;
    r->shared = s;
    return r;
}

bool resolver_find(struct resolver *r, const char *host, struct lookup *l) {
    l->list = NULL;
    if (look_up(host, AI_NUMERICHOST, &l->found) == 0)
        return true;
    struct entry *e = get_entry(r, host);
    if (!e->asking && clock_mono_us() < e->fresh_until_us) {
        l->found = e->found;
        l->why = e->why;
        l->local = e->local;
        return true;
    }
    if (!e->asking)
        ask(r->shared, host);
    e->asking = true;
    l->list = &e->waiting;
    list_append(&e->waiting, &l->waiting);
    return false;
}

void resolver_cancel(struct lookup *l) {
    if (l->list)
        list_remove(l->list, &l->waiting);
    l->list = NULL;
}

static void stop_threads(struct shared *s) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += FREE_WAIT_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_broadcast(&s->work);
    while (s->n_threads && pthread_cond_timedwait(&s->left, &s->lock, &until) == 0) {
    }
}

void resolver_free(struct resolver *r) {
    struct shared *s = r->shared;
    pthread_mutex_lock(&s->lock);
    s->stopped = true;
    s->resolver = NULL;
    struct ask *queued = s->first;
    s->first = NULL;
    s->last = &s->first;
    stop_threads(s);
    pthread_mutex_unlock(&s->lock);
    for (struct ask *a = queued, *next; a; a = next) {
        next = a->next;
        ask_free(a);
    }
    for (struct map_entry *m = map_next(&r->entries, NULL); m; m = map_next(&r->entries, m))
        free(m->value);
    map_fini(&r->entries);
    unref(s);
    free(r);
}
