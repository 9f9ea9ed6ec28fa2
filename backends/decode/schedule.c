/* The scheduler's step: sweep, admit, build, forward, sample. What a sequence gets is decided by its own tokens alone; the rest of
 * the batch, the chunks its prompt came in, what was found in the cache and how often it had to make way change only the time
 * it takes. */
#include "backends/decode/schedule.h"

#include "gateway/base/clock.h"
#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define STEP_US (200 * US_PER_MS) /* against a long prompt that stops every stream of a slow machine */
#define CHUNK_TOK_MIN 16
#define SHOWN_BYTES_MAX (1 << 20)
#define LOGPROBS_BYTES_MAX (64 << 20)

bool schedule_init(struct schedule *s, const struct compute_ops *ops, const struct model *m, const struct tokenizer *t,
                   struct adapters *a, const struct compute_limits *l, bool prefixes, struct str *why) {
    *s = (struct schedule){.ops = ops, .model = m, .tokenizer = t, .adapters = a};
    s->compute = ops->open(m, l, why);
    if (!s->compute)
        return false;
    s->opened_us = clock_mono_us();
    s->max_sequences = l->want_rows;
    s->batch_tok = l->batch_tok;
    s->chunk_tok = l->batch_tok < CHUNK_TOK_MIN ? l->batch_tok : CHUNK_TOK_MIN;
    kv_init(&s->pool, l->n_blocks, prefixes);
    shares_init(&s->shares);
    sampler_init(&s->sampler, m->config.vocabulary);
    vocabulary_init(&s->vocabulary, t);
    automata_init(&s->automata, &s->vocabulary);
    list_init(&s->waiting);
    list_init(&s->running);
    str_init(&s->shown, SHOWN_BYTES_MAX);
    str_init(&s->logprobs, LOGPROBS_BYTES_MAX);
    s->raw = xcalloc((size_t)m->config.vocabulary, sizeof *s->raw);
    batch_init(&s->batch, l->batch_tok, l->want_rows);
    s->logits = xcalloc((size_t)(l->want_rows * m->config.vocabulary), sizeof *s->logits);
    return true;
}

void schedule_fini(struct schedule *s) {
    if (!s->compute)
        return;
    assert(list_empty(&s->waiting) && list_empty(&s->running));
    batch_fini(&s->batch);
    free(s->logits);
    kv_fini(&s->pool);
    shares_fini(&s->shares);
    sampler_fini(&s->sampler);
    automata_fini(&s->automata);
    vocabulary_fini(&s->vocabulary);
    str_fini(&s->shown);
    str_fini(&s->logprobs);
    free(s->raw);
    s->ops->close(s->compute);
    s->compute = NULL;
}

static struct decode_run *run_of(struct link *k) {
    return container_of(k, struct decode_run, link);
}

void schedule_add(struct schedule *s, struct decode_run *r) {
    r->arrived = s->arrivals++;
    r->share = share_enter(&s->shares, span_of(r->team), r->version ? span_of(r->version->name) : SPAN("@base"));
    if (r->form)
        walker_init(&r->walker, &s->automata, r->form);
    list_append(&s->waiting, &r->link);
}

bool schedule_idle(const struct schedule *s) {
    return list_empty(&s->waiting) && list_empty(&s->running);
}

static void tell(struct schedule *s) {
    atomic_store(&s->n_running, (int64_t)s->running.n);
    atomic_store(&s->n_waiting, (int64_t)s->waiting.n);
    atomic_store(&s->hit_tok, s->pool.hit_tok);
    atomic_store(&s->asked_tok, s->pool.asked_tok);
}

/* What stands in s->shown, and what is to be told of it. */
static void show(struct schedule *s, struct decode_run *r, bool all) {
    str_clear(&s->logprobs);
    if (r->logprobs.on)
        run_logprobs_tell(&r->logprobs, r->text.shown, all, &s->logprobs);
    r->shown = r->shown || s->shown.n > 0;
    run_show(r, str_span(&s->shown), str_span(&s->logprobs));
}

/* Counted as gone before anyone can hear that it is over. */
static void finish(struct schedule *s, struct list *from, struct decode_run *r, const char *how, enum err err) {
    str_clear(&s->shown);
    run_text_end(&r->text, &s->shown);
    show(s, r, !r->text.stopped);
    schedule_let_go(s, from, r);
    run_finish(r, how, err);
    run_drop(r);
}

static void sweep(struct schedule *s, struct list *l, int64_t now_us) {
    for (struct link *k = list_first(l), *next; k; k = next) {
        struct decode_run *r = run_of(k);
        next = list_next(l, k);
        if (atomic_load(&r->cancelled)) {
            schedule_let_go(s, l, r);
            run_drop(r);
        } else if (r->deadline_us && !r->shown && now_us >= r->deadline_us)
            finish(s, l, r, NULL, ERR_DEADLINE);
    }
}

static int64_t unknown_tok(const struct decode_run *r) {
    return (int64_t)r->ids.n - r->n_cached;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* In order of arrival, so that whoever makes way has not been added yet. */
static struct decode_run *next_in_age(struct schedule *s, int64_t after) {
    struct decode_run *next = NULL;
    for (struct link *k = list_first(&s->running); k; k = list_next(&s->running, k)) {
        struct decode_run *r = run_of(k);
        if (r->arrived > after && (!next || r->arrived < next->arrived))
            next = r;
    }
    return next;
}

/* Every sequence's chunk is set: one token for those that decode, and prompts share what the budget leaves. Returns tokens of
 * prompts. A sequence that makes way for the older ones is the youngest, so nobody comes after it. */
static int64_t build(struct schedule *s) {
    int64_t room = s->batch_tok - (int64_t)s->running.n, prompts = 0;
    room = least(room > 0 ? room : 0, s->chunk_tok);
    struct decode_run *r;
    for (int64_t after = -1; (r = next_in_age(s, after)); after = r->arrived) {
        r->chunk = least(unknown_tok(r), 1 + room);
        if (!schedule_find_blocks(s, r, r->n_cached + r->chunk))
            break;
        if (unknown_tok(r) > 1) {
            room -= r->chunk - 1;
            prompts += r->chunk;
        }
    }
    return prompts;
}

static void join_all(struct schedule *s) {
    batch_clear(&s->batch);
    for (struct link *k = list_first(&s->running); k; k = list_next(&s->running, k))
        batch_add(&s->batch, run_of(k));
    for (int64_t i = 0; i < s->batch.n_runs; i++) {
        struct decode_run *r = s->batch.runs[i];
        bool prompt = r->n_cached < r->n_prompt;
        share_charge(r->share, prompt ? r->chunk : 0, prompt ? 0 : 1);
    }
    batch_fill(&s->batch);
}

/* -1: the form allows none. */
static int32_t choose(struct schedule *s, struct decode_run *r, float *logits) {
    const struct model_config *c = &s->model->config;
    bool ends, more;
    if (r->logprobs.on)
        memcpy(s->raw, logits, (size_t)c->vocabulary * sizeof *logits);
    sampler_adjust(&s->sampler, logits, &r->sampling, &(struct sample_past){r->ids.at, (int64_t)r->ids.n, r->n_prompt});
    if (r->form) {
        const uint64_t *mask = walker_mask(&r->walker, &ends, &more);
        if (!sampler_allow(&s->sampler, logits, mask, c->ends, ends ? c->n_ends : 0))
            return -1;
    }
    return sampler_pick(&s->sampler, logits, &r->sampling, r->n_out);
}

static void show_token(struct schedule *s, struct decode_run *r, int32_t id) {
    struct span bytes = tokenizer_bytes(s->tokenizer, id);
    if (r->form)
        walker_step(&r->walker, bytes);
    if (r->logprobs.on)
        run_logprobs_see(&r->logprobs, s->tokenizer, s->raw, id);
    str_clear(&s->shown);
    run_text_put(&r->text, bytes, &s->shown);
    show(s, r, false);
}

static void take_token(struct schedule *s, struct decode_run *r, float *logits) {
    int32_t id = choose(s, r, logits);
    if (id < 0) { /* too deep, say: it is cut, and said to be */
        finish(s, &s->running, r, "length", ERR_NONE);
        return;
    }
    r->n_out++;
    tokens_put(&r->ids, id);
    if (model_config_is_end(&s->model->config, id) && (!r->ignore_ends || r->form)) {
        finish(s, &s->running, r, "stop", ERR_NONE);
        return;
    }
    show_token(s, r, id);
    bool over = r->text.stopped || (r->form && walker_is_whole(&r->walker));
    if (over || r->n_out >= r->max_out)
        finish(s, &s->running, r, over ? "stop" : "length", ERR_NONE);
}

/* The prompt share of a step grows while steps are short and shrinks when they are long. */
static void learn(struct schedule *s, int64_t prompt_tok, int64_t took_us) {
    if (took_us > STEP_US)
        s->chunk_tok = s->chunk_tok / 2;
    else if (took_us < STEP_US / 2 && prompt_tok >= s->chunk_tok)
        s->chunk_tok = s->chunk_tok * 2;
    s->chunk_tok = least(s->chunk_tok > CHUNK_TOK_MIN ? s->chunk_tok : CHUNK_TOK_MIN, s->batch_tok);
}

/* A step's time is shared by the tokens in it. */
static void account(struct schedule *s, int64_t took_us) {
    int64_t all = s->batch.batch.n_tok;
    atomic_fetch_add(&s->busy_us, took_us);
    for (int64_t i = 0; i < s->batch.n_runs; i++) {
        const struct decode_run *r = s->batch.runs[i];
        int64_t us = all ? took_us * r->chunk / all : 0;
        atomic_fetch_add(r->version ? &r->version->device_us : &s->base_us, us);
        atomic_fetch_add(r->version ? &r->version->tokens : &s->base_tok, r->chunk);
    }
}

static void forward(struct schedule *s, int64_t prompt_tok, int64_t began_us) {
    const struct batch *b = &s->batch.batch;
    join_all(s);
    s->lost = !s->ops->forward(s->compute, b, s->logits);
    if (s->lost)
        return;
    int64_t took_us = clock_mono_us() - began_us;
    account(s, took_us);
    if (prompt_tok)
        learn(s, prompt_tok, took_us);
    for (int64_t i = 0; i < s->batch.n_runs; i++)
        kv_keep(&s->pool, &s->batch.runs[i]->kv, s->batch.runs[i]->ids.at, s->batch.runs[i]->n_cached);
    atomic_fetch_add(&s->steps, 1);
    atomic_fetch_add(&s->tokens, b->n_tok);
    for (int32_t i = 0; i < b->n_want; i++)
        take_token(s, s->batch.runs[b->seq[b->want[i]]], s->logits + i * s->model->config.vocabulary);
}

/* In order of age at the front of those who wait, as if they had just come. */
static void preempt_all(struct schedule *s) {
    while (!list_empty(&s->running))
        schedule_preempt(s, run_of(list_first(&s->running)));
}

bool schedule_move(struct schedule *s, const struct compute_ops *ops, const struct compute_limits *l, struct str *why) {
    struct compute *c = ops->open(s->model, l, why);
    if (!c)
        return false;
    bool prefixes = s->pool.prefixes;
    preempt_all(s);
    adapters_leave(s->adapters, s->ops, s->compute);
    s->ops->close(s->compute);
    s->ops = ops;
    s->compute = c;
    s->lost = false;
    kv_fini(&s->pool);
    kv_init(&s->pool, l->n_blocks, prefixes);
    return true;
}

bool schedule_step(struct schedule *s) {
    int64_t now_us = clock_mono_us();
    sweep(s, &s->running, now_us);
    sweep(s, &s->waiting, now_us);
    adapters_sweep(s->adapters, s->ops, s->compute);
    schedule_admit(s);
    tell(s);
    if (list_empty(&s->running))
        return false;
    forward(s, build(s), now_us);
    tell(s);
    return true;
}

void schedule_end_all(struct schedule *s, enum err err) {
    struct list *lists[] = {&s->running, &s->waiting};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        while (!list_empty(lists[i])) {
            struct decode_run *r = run_of(list_first(lists[i]));
            schedule_let_go(s, lists[i], r);
            run_finish(r, NULL, err);
            run_drop(r);
        }
}
