/* The door: opens a directory into a running engine, turns asks into runs, and owns the one thread that steps. The loop
 * holds the lock only to append to a queue; the step thread holds it only to empty that queue. */
#include "backends/decode/decode.h"

#include "backends/decode/decode_plan.h"
#include "backends/decode/schedule.h"
#include "backends/decode/template.h"
#include "gateway/base/clock.h"
#include "gateway/base/hash.h"
#include "gateway/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define QUEUE_MAX 1024            /* runs that wait; against a queue that answers nobody */
#define TEXT_BYTES_MAX (64 << 20) /* of one run not yet taken, whatever its max_out says */
#define ENGINE_NICE 5             /* the event loop goes first where both want a core */
#define WHY_BYTES_MAX 4096
#define LOOK_NS 20000000 /* how soon a cancelled run is seen when nobody can step */

struct decode {
    char *directory;
    struct loop *loop; /* the house's */
    struct model *model;
    struct tokenizer *tokenizer;
    struct template template;
    struct decode_plan_numbers plan, fallback; /* fallback: of the CPU, for when a device fails */
    const struct compute_ops *cpu;             /* that goes on then; NULL: nobody does */
    _Atomic bool moved, lost;                  /* the CPU has gone on; nobody has */
    const struct compute_ops *ops;             /* at the start */
    struct schedule schedule;                  /* the step thread's; its counters anyone's */
    struct adapters adapters;
    bool stepped;          /* the step thread's: somebody could */
    int64_t longest_piece; /* bytes */
    pthread_t thread;
    bool threaded;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list incoming; /* under lock */
    bool stop, poked;     /* under lock; poked: an adapter has been loaded, or could not be */
};

/* --- the step thread --- */

/* Sleeps a while: nobody can step until something is loaded, or somebody's time is up. Under the lock. */
static void doze(struct decode *d) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&d->wake, &d->lock, &until);
}

/* Moves what came in to the schedule; sleeps while there is nothing to do. False when it is time to stop. */
static bool fetch(struct decode *d) {
    pthread_mutex_lock(&d->lock);
    while (!d->stop && !d->poked && list_empty(&d->incoming) && schedule_idle(&d->schedule))
        pthread_cond_wait(&d->wake, &d->lock);
    if (!d->stop && !d->poked && list_empty(&d->incoming) && !d->stepped)
        doze(d);
    d->poked = false;
    for (struct link *k; (k = list_shift(&d->incoming));)
        schedule_add(&d->schedule, container_of(k, struct decode_run, link));
    bool go_on = !d->stop;
    pthread_mutex_unlock(&d->lock);
    return go_on;
}

static void poke(void *user) {
    struct decode *d = user;
    pthread_mutex_lock(&d->lock);
    d->poked = true;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
}

/* The device has failed. Either the CPU goes on with everybody, or everybody is told. */
static void lose_device(struct decode *d) {
    struct str why;
    str_init(&why, WHY_BYTES_MAX);
    if (d->cpu && schedule_move(&d->schedule, d->cpu, &d->fallback.limits, &why)) {
        log_error("engine %s: the device failed; the CPU goes on", d->directory);
        atomic_store(&d->moved, true);
    } else {
        log_error("engine %s: the device failed, and nothing is computed any more%s%s", d->directory, why.n ? ": " : "",
                  why.n ? why.at : "");
        atomic_store(&d->lost, true);
    }
    str_fini(&why);
}

static void *step_main(void *arg) {
    struct decode *d = arg;
    setpriority(PRIO_PROCESS, (id_t)gettid(), ENGINE_NICE);
    while (fetch(d)) {
        if (atomic_load(&d->lost))
            schedule_end_all(&d->schedule, ERR_NO_TARGET);
        else
            d->stepped = schedule_step(&d->schedule);
        if (d->schedule.lost && !atomic_load(&d->lost))
            lose_device(d);
    }
    schedule_end_all(&d->schedule, ERR_NO_TARGET);
    return NULL;
}

/* --- opening and closing --- */

static bool open_parts(struct decode *d, const struct decode_options *o, struct str *why) {
    const struct compute_ops *ops = compute_pick(o->device, why);
    if (!ops)
        return false;
    d->model = model_open(o->directory, o->dtype, why);
    if (!d->model || !decode_plan_make(o, d->model, ops, &d->plan, why))
        return false;
    d->ops = ops;
    d->cpu = o->falls_back && ops->room ? compute_pick("cpu", why) : NULL;
    if (d->cpu && !decode_plan_make(o, d->model, d->cpu, &d->fallback, why))
        return false;
    d->tokenizer = tokenizer_open(o->directory, &d->model->config, why);
    if (!d->tokenizer || !template_open(&d->template, o->directory, d->tokenizer, why))
        return false;
    if (d->template.end >= 0)
        model_config_add_end(&d->model->config, d->template.end);
    for (int64_t id = 0; id < d->tokenizer->size; id++)
        if ((int64_t)d->tokenizer->bytes[id].n > d->longest_piece)
            d->longest_piece = (int64_t)d->tokenizer->bytes[id].n;
    if (!schedule_init(&d->schedule, ops, d->model, d->tokenizer, &d->adapters, &d->plan.limits, !o->no_prefixes, why))
        return false;
    adapters_init(&d->adapters, &d->plan.adapters, d->model, d->plan.limits.slots, d->loop, poke, d);
    return true;
}

struct decode *decode_open(const struct decode_options *o, struct loop *loop, struct str *why) {
    struct decode *d = xcalloc(1, sizeof *d);
    d->directory = xstrdup(o->directory);
    d->loop = loop;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->wake, NULL);
    list_init(&d->incoming);
    if (open_parts(d, o, why)) {
        d->threaded = pthread_create(&d->thread, NULL, step_main, d) == 0;
        if (d->threaded)
            return d;
        complain(why, "engine", "no thread can be started");
    }
    decode_close(d);
    return NULL;
}

void decode_close(struct decode *d) {
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
    if (d->threaded)
        pthread_join(d->thread, NULL);
    adapters_fini(&d->adapters);
    schedule_fini(&d->schedule);
    template_close(&d->template);
    tokenizer_close(d->tokenizer);
    model_close(d->model);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->wake);
    free(d->directory);
    free(d);
}

/* --- asks --- */

/* The prompt's tokens; false when it cannot be rendered. */
static bool render(const struct decode *d, const struct decode_ask *ask, struct tokens *out) {
    const struct tokenizer *t = d->tokenizer;
    if (ask->n_messages)
        return template_render(&d->template, t, ask->messages, ask->n_messages, ask->tools, out, NULL);
    for (size_t i = 0; i < t->n_before; i++)
        tokens_put(out, t->before[i]);
    tokenizer_encode(t, ask->prompt, true, out);
    for (size_t i = 0; i < t->n_after; i++)
        tokens_put(out, t->after[i]);
    return out->n > 0;
}

enum decode_calls decode_calls(const struct decode *d) {
    return d->template.calls;
}

int64_t decode_count(const struct decode *d, const struct decode_ask *ask) {
    struct tokens t = {0};
    int64_t n = render(d, ask, &t) ? (int64_t)t.n : -1;
    tokens_fini(&t);
    return n;
}

static enum err fit(const struct decode *d, const struct decode_ask *ask, struct decode_run *r) {
    int64_t room = d->plan.limits.max_context - (int64_t)r->ids.n;
    r->n_prompt = (int64_t)r->ids.n;
    r->max_out = ask->max_output_tok < 0 ? room : ask->max_output_tok;
    bool fits = room >= 0 && r->max_out <= room;
    if (ask->cap_tok > 0 && r->max_out > ask->cap_tok)
        r->max_out = ask->cap_tok;
    return !fits || (ask->max_output_tok < 0 && room == 0) ? ERR_CONTEXT : ERR_NONE;
}

static void prepare_sampling(const struct decode_ask *ask, struct decode_run *r) {
    if (ask->n_biases) {
        r->biases = xcalloc(ask->n_biases, sizeof *r->biases);
        memcpy(r->biases, ask->biases, ask->n_biases * sizeof *r->biases);
    }
    r->ignore_ends = ask->ignore_ends;
    r->sampling = (struct sample_options){.temperature = ask->temperature,
                                          .top_p = ask->top_p,
                                          .seed = ask->seeded ? ask->seed : random_u64(),
                                          .top_k = ask->top_k,
                                          .min_p = ask->min_p,
                                          .repetition = ask->repetition_penalty,
                                          .presence = ask->presence_penalty,
                                          .frequency = ask->frequency_penalty,
                                          .biases = r->biases,
                                          .n_biases = ask->n_biases};
}

static void prepare(const struct decode *d, const struct decode_ask *ask, struct decode_run *r) {
    int64_t most = (r->max_out + 1) * (d->longest_piece * 3 + 4); /* a bad byte is shown as three */
    size_t max = (size_t)(most < TEXT_BYTES_MAX ? most : TEXT_BYTES_MAX);
    /* In running text a first space belongs to it; at the beginning of an answer it is the tokenizer's own. */
    bool strip = d->tokenizer->strips && (ask->n_messages || ask->prompt.n == 0);
    str_init(&r->pending, max);
    str_init(&r->taken, max);
    str_init(&r->pending_logprobs, TEXT_BYTES_MAX);
    str_init(&r->taken_logprobs, TEXT_BYTES_MAX);
    run_logprobs_init(&r->logprobs, ask, TEXT_BYTES_MAX);
    r->form = ask->form ? form_copy(ask->form) : NULL;
    run_text_init(&r->text, ask->stops, ask->n_stops, strip);
    prepare_sampling(ask, r);
    r->usage = (struct usage){.in = r->n_prompt, .reported = true};
    r->priority = ask->priority;
    r->deadline_us = ask->deadline_us;
    snprintf(r->team, sizeof r->team, "%.*s", SPAN_ARG(ask->team));
    kv_root(ask->shared_prefix ? SPAN_NONE : ask->team, r->version ? r->version->digest : NULL, r->root);
}

/* The version that the ask means is the run's from here on, whatever its name points at later. */
static enum err take_adapter(struct decode *d, const struct decode_ask *ask, struct decode_run *r) {
    if (!ask->adapter.n)
        return ERR_NONE;
    r->version = adapters_take(&d->adapters, ask->adapter);
    if (!r->version)
        return ERR_MODEL;
    snprintf(r->adapter, sizeof r->adapter, "%s@%s", r->version->name, r->version->version);
    return ERR_NONE;
}

static void give_back_adapter(struct decode *d, struct decode_run *r) {
    if (r->version)
        adapters_drop(&d->adapters, r->version);
    r->version = NULL;
}

static enum err submit(struct decode *d, struct decode_run *r) {
    pthread_mutex_lock(&d->lock);
    int64_t waiting = (int64_t)d->incoming.n + atomic_load(&d->schedule.n_waiting);
    enum err e = waiting >= QUEUE_MAX ? ERR_BUSY : ERR_NONE;
    if (e == ERR_NONE) {
        atomic_fetch_add(&r->refs, 1);
        list_append(&d->incoming, &r->link);
        pthread_cond_signal(&d->wake);
    }
    pthread_mutex_unlock(&d->lock);
    return e;
}

enum err decode_start(struct decode *d, const struct decode_ask *ask, void (*on_ready)(void *user), void *user,
                      struct decode_run **out) {
    struct decode_run *r = run_new(d->loop, on_ready, user);
    enum err e = render(d, ask, &r->ids) ? fit(d, ask, r) : ERR_UNSUPPORTED;
    *out = NULL;
    if (atomic_load(&d->lost))
        e = ERR_NO_TARGET;
    if (e == ERR_NONE)
        e = take_adapter(d, ask, r);
    bool at_once = e == ERR_NONE && r->max_out == 0;
    if (e == ERR_NONE) {
        prepare(d, ask, r);
        e = at_once ? ERR_NONE : submit(d, r);
    }
    if (e || at_once)
        give_back_adapter(d, r);
    if (at_once)
        run_finish(r, "length", ERR_NONE);
    if (e == ERR_NONE)
        *out = r;
    else
        run_drop(r);
    return e;
}

bool decode_adapter_digest(const struct decode *d, struct span name, uint8_t digest[SHA256_BYTES]) {
    struct decode *unlocked = (struct decode *)(uintptr_t)d; /* the registry has a lock of its own */
    return adapters_digest(&unlocked->adapters, name, digest);
}

void decode_adapters_each(const struct decode *d, void (*see)(const struct decode_adapter *a, void *user), void *user) {
    struct decode *unlocked = (struct decode *)(uintptr_t)d;
    adapters_each(&unlocked->adapters, see, user);
}

bool decode_has_adapters(const struct decode *d) {
    return d->plan.adapters.directory != NULL;
}

bool decode_adapter_promote(struct decode *d, const char *name, const char *version, const char *by, const char *reason,
                            struct str *why) {
    return adapters_promote(&d->adapters, name, version, by, reason, why);
}

bool decode_adapter_rollback(struct decode *d, const char *name, const char *by, const char *reason, struct str *why) {
    return adapters_rollback(&d->adapters, name, by, reason, why);
}

bool decode_adapter_remove(struct decode *d, struct span name, const char *by, const char *reason, struct str *why) {
    return adapters_remove(&d->adapters, name, by, reason, why);
}

void decode_adapter_add(struct decode *d, const char *name, const char *version, const char *by,
                        void (*done)(void *user, const char *why), void *user) {
    struct adapter_look *look = xcalloc(1, sizeof *look);
    look->done = done;
    look->user = user;
    snprintf(look->name, sizeof look->name, "%s", name);
    snprintf(look->version, sizeof look->version, "%s", version ? version : "");
    adapters_add(&d->adapters, look, by);
}

struct decode_push *decode_push_open(struct decode *d, const char *name, const char *version,
                                     const struct decode_push_ops *ops, void *user, struct str *why) {
    return adapters_push(&d->adapters, name, version, ops, user, why);
}

void decode_view(const struct decode *d, struct decode_view *out) {
    const struct model_config *c = &d->model->config;
    struct decode *unlocked = (struct decode *)(uintptr_t)d; /* the queue's length is under a lock */
    pthread_mutex_lock(&unlocked->lock);
    int64_t incoming = (int64_t)d->incoming.n;
    pthread_mutex_unlock(&unlocked->lock);
    bool moved = atomic_load(&d->moved);
    *out = (struct decode_view){
        .directory = d->directory,
        .compute = moved ? d->cpu->name : d->ops->name,
        .lost = atomic_load(&d->lost),
        .parameters = d->model->parameters,
        .weight_bytes = d->model->weight_bytes,
        .kv_bytes = moved ? d->fallback.kv_bytes : d->plan.kv_bytes,
        .max_context = d->plan.limits.max_context,
        .vocabulary = c->vocabulary,
        .layers = c->layers,
        .hidden = c->hidden,
        .running = atomic_load(&d->schedule.n_running),
        .queued = incoming + atomic_load(&d->schedule.n_waiting),
        .steps = atomic_load(&d->schedule.steps),
        .tokens = atomic_load(&d->schedule.tokens),
        .preemptions = atomic_load(&d->schedule.preemptions),
        .age_us = clock_mono_us() - d->schedule.opened_us,
        .busy_us = atomic_load(&d->schedule.busy_us),
        .base_us = atomic_load(&d->schedule.base_us),
        .base_tok = atomic_load(&d->schedule.base_tok),
        .prefix_hit_tok = atomic_load(&d->schedule.hit_tok),
        .prefix_asked_tok = atomic_load(&d->schedule.asked_tok),
    };
    adapters_count(&unlocked->adapters, out);
}
