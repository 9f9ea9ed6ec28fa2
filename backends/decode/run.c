/* A run's two halves and its count. Always true: on_ready is called on the loop's thread only, at most one call is in the post
 * box, and none comes after decode_end; whoever drops the last reference frees. */
#include "backends/decode/run.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>

static void on_job(struct loop_job *job) {
    struct decode_run *r = container_of(job, struct decode_run, job);
    pthread_mutex_lock(&r->lock);
    r->posted = false;
    pthread_mutex_unlock(&r->lock);
    if (!atomic_load(&r->cancelled))
        r->on_ready(r->user);
    run_drop(r);
}

struct decode_run *run_new(struct loop *loop, void (*on_ready)(void *user), void *user) {
    struct decode_run *r = xcalloc(1, sizeof *r);
    r->refs = 1;
    r->loop = loop;
    r->job.run = on_job;
    r->on_ready = on_ready;
    r->slot = -1;
    r->user = user;
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void run_drop(struct decode_run *r) {
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    assert(r->kv.blocks == NULL && r->version == NULL && r->share == NULL);
    pthread_mutex_destroy(&r->lock);
    str_fini(&r->pending);
    str_fini(&r->taken);
    str_fini(&r->pending_logprobs);
    str_fini(&r->taken_logprobs);
    run_logprobs_fini(&r->logprobs);
    free(r->form);
    tokens_fini(&r->ids);
    free(r->biases);
    run_text_fini(&r->text);
    free(r);
}

/* Under the lock. */
static void notify(struct decode_run *r) {
    if (r->posted || atomic_load(&r->cancelled))
        return;
    r->posted = true;
    atomic_fetch_add(&r->refs, 1);
    loop_post(r->loop, &r->job);
}

void run_show(struct decode_run *r, struct span text, struct span logprobs) {
    pthread_mutex_lock(&r->lock);
    r->usage.out = r->n_out;
    str_put(&r->pending, text);
    if (logprobs.n && r->pending_logprobs.n)
        str_putc(&r->pending_logprobs, ',');
    str_put(&r->pending_logprobs, logprobs);
    if (text.n || logprobs.n)
        notify(r);
    pthread_mutex_unlock(&r->lock);
}

void run_finish(struct decode_run *r, const char *finish, enum err err) {
    pthread_mutex_lock(&r->lock);
    if (!r->over) {
        r->over = true;
        r->finish = finish;
        r->err = err;
        r->usage.out = r->n_out;
        notify(r);
    }
    pthread_mutex_unlock(&r->lock);
}

/* What is pending is taken, and what was taken is forgotten. */
static void swap(struct str *taken, struct str *pending) {
    struct str old = *taken;
    *taken = *pending;
    *pending = old;
    str_clear(pending);
}

bool decode_take(struct decode_run *r, struct decode_piece *out) {
    pthread_mutex_lock(&r->lock);
    bool last = r->over && !r->last_taken, any = last || r->pending.n > 0 || r->pending_logprobs.n > 0;
    if (any) {
        swap(&r->taken, &r->pending);
        swap(&r->taken_logprobs, &r->pending_logprobs);
        r->last_taken = r->last_taken || last;
        *out = (struct decode_piece){.text = str_span(&r->taken),
                                     .logprobs = str_span(&r->taken_logprobs),
                                     .last = last,
                                     .finish = last ? r->finish : NULL,
                                     .err = last ? r->err : ERR_NONE,
                                     .usage = r->usage};
    }
    pthread_mutex_unlock(&r->lock);
    return any;
}

const char *decode_run_adapter(const struct decode_run *r) {
    return r->adapter;
}

void decode_end(struct decode_run *r) {
    atomic_store(&r->cancelled, true);
    run_drop(r);
}
