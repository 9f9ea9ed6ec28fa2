/* One step: let go of who left, let in who fits, gather the batch, compute, choose tokens, show text. Always true: a sequence
 * in `running` holds the promise of every cache block that it may need, so a step never waits for memory; a chunk of a
 * prompt never makes the others wait longer than about STEP_US. */
#include "backends/decode/schedule.h"

#include "gateway/base/clock.h"

#include <assert.h>
#include <stdlib.h>

#define STEP_US (200 * US_PER_MS) /* against a long prompt that stops every stream of a slow machine */
#define CHUNK_TOK_MIN 16
#define SHOWN_BYTES_MAX (1 << 20)

static void open_batch(struct schedule *s) {
    struct batch *b = &s->batch;
    size_t rows = (size_t)s->batch_tok, sequences = (size_t)s->max_sequences;
    b->ids = xcalloc(rows, sizeof *b->ids);
    b->pos = xcalloc(rows, sizeof *b->pos);
    b->seq = xcalloc(rows, sizeof *b->seq);
    b->q_start = xcalloc(sequences + 1, sizeof *b->q_start);
    b->ctx_len = xcalloc(sequences, sizeof *b->ctx_len);
    b->block_tab = xcalloc(sequences, sizeof *b->block_tab);
    b->want = xcalloc(sequences, sizeof *b->want);
    s->rows = xcalloc(sequences, sizeof *s->rows);
    s->logits = xcalloc(sequences * (size_t)s->model->config.vocabulary, sizeof *s->logits);
}

bool schedule_init(struct schedule *s, const struct compute_ops *ops, const struct model *m, const struct tokenizer *t,
                   const struct compute_limits *l, struct str *why) {
    *s = (struct schedule){.ops = ops, .model = m, .tokenizer = t};
    s->compute = ops->open(m, l, why);
    if (!s->compute)
        return false;
    s->max_sequences = l->want_rows;
    s->batch_tok = l->batch_tok;
    s->chunk_tok = l->batch_tok < CHUNK_TOK_MIN ? l->batch_tok : CHUNK_TOK_MIN;
    kv_init(&s->pool, l->n_blocks);
    sampler_init(&s->sampler, m->config.vocabulary);
    list_init(&s->waiting);
    list_init(&s->running);
    str_init(&s->shown, SHOWN_BYTES_MAX);
    open_batch(s);
    return true;
}

void schedule_fini(struct schedule *s) {
    struct batch *b = &s->batch;
    if (!s->compute)
        return;
    assert(list_empty(&s->waiting) && list_empty(&s->running));
    void *all[] = {b->ids,  b->pos,          b->seq,   b->q_start, b->ctx_len, (void *)b->block_tab,
                   b->want, (void *)s->rows, s->logits};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
    kv_fini(&s->pool);
    sampler_fini(&s->sampler);
    str_fini(&s->shown);
    s->ops->close(s->compute);
    s->compute = NULL;
}

static struct decode_run *run_of(struct link *k) {
    return container_of(k, struct decode_run, link);
}

void schedule_add(struct schedule *s, struct decode_run *r) {
    list_append(&s->waiting, &r->link);
}

bool schedule_idle(const struct schedule *s) {
    return list_empty(&s->waiting) && list_empty(&s->running);
}

static void tell(struct schedule *s) {
    atomic_store(&s->n_running, (int64_t)s->running.n);
    atomic_store(&s->n_waiting, (int64_t)s->waiting.n);
}

/* Counted as gone before anyone can hear that it is over. */
static void let_go(struct schedule *s, struct list *from, struct decode_run *r) {
    list_remove(from, &r->link);
    kv_drop(&s->pool, &r->kv);
    tell(s);
}

static void finish(struct schedule *s, struct decode_run *r, const char *how, enum err err) {
    str_clear(&s->shown);
    run_text_end(&r->text, &s->shown);
    run_show(r, str_span(&s->shown));
    let_go(s, &s->running, r);
    run_finish(r, how, err);
    run_drop(r);
}

static void sweep(struct schedule *s, struct list *l) {
    for (struct link *k = list_first(l), *next; k; k = next) {
        next = list_next(l, k);
        if (!atomic_load(&run_of(k)->cancelled))
            continue;
        let_go(s, l, run_of(k));
        run_drop(run_of(k));
    }
}

static void admit(struct schedule *s) {
    while (!list_empty(&s->waiting) && (int64_t)s->running.n < s->max_sequences) {
        struct decode_run *r = run_of(list_first(&s->waiting));
        if (!kv_admit(&s->pool, &r->kv, run_tokens_needed(r)))
            return;
        list_remove(&s->waiting, &r->link);
        list_append(&s->running, &r->link);
    }
}

/* The next n tokens of a sequence join the batch. Logits are wanted of the last known token only. */
static void gather(struct schedule *s, struct decode_run *r, int64_t n) {
    struct batch *b = &s->batch;
    kv_grow(&s->pool, &r->kv, r->n_cached + n);
    for (int64_t i = 0; i < n; i++) {
        b->ids[b->n_tok] = r->ids.at[r->n_cached + i];
        b->pos[b->n_tok] = (int32_t)(r->n_cached + i);
        b->seq[b->n_tok++] = b->n_seq;
    }
    r->n_cached += n;
    if (r->n_cached == (int64_t)r->ids.n)
        b->want[b->n_want++] = b->n_tok - 1;
    b->ctx_len[b->n_seq] = (int32_t)r->n_cached;
    b->block_tab[b->n_seq] = r->kv.blocks;
    s->rows[b->n_seq++] = r;
    b->q_start[b->n_seq] = b->n_tok;
}

/* Its prompt is in the cache and its newest token is not. */
static bool decodes(const struct decode_run *r) {
    return r->n_out > 0;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Decoding sequences first: they always fit, since there are at most max_sequences <= batch_tok of them. */
static int64_t build(struct schedule *s) {
    struct batch *b = &s->batch;
    b->n_tok = b->n_seq = b->n_want = 0;
    b->q_start[0] = 0;
    for (struct link *k = list_first(&s->running); k; k = list_next(&s->running, k))
        if (decodes(run_of(k)))
            gather(s, run_of(k), 1);
    int64_t room = least(s->batch_tok - b->n_tok, s->chunk_tok), before = b->n_tok;
    for (struct link *k = list_first(&s->running); k && room > 0; k = list_next(&s->running, k)) {
        struct decode_run *r = run_of(k);
        int64_t n = least((int64_t)r->ids.n - r->n_cached, room);
        if (decodes(r))
            continue;
        gather(s, r, n);
        room -= n;
    }
    return b->n_tok - before;
}

static void take_token(struct schedule *s, struct decode_run *r, const float *logits) {
    int32_t id = sampler_pick(&s->sampler, logits, &r->sampling, r->n_out);
    r->n_out++;
    tokens_put(&r->ids, id);
    if (model_config_is_end(&s->model->config, id)) {
        finish(s, r, "stop", ERR_NONE);
        return;
    }
    str_clear(&s->shown);
    run_text_put(&r->text, tokenizer_bytes(s->tokenizer, id), &s->shown);
    run_show(r, str_span(&s->shown));
    if (r->text.stopped || r->n_out >= r->max_out)
        finish(s, r, r->text.stopped ? "stop" : "length", ERR_NONE);
}

/* The prompt share of a step grows while steps are short and shrinks when they are long. */
static void learn(struct schedule *s, int64_t prompt_tok, int64_t took_us) {
    if (took_us > STEP_US)
        s->chunk_tok = s->chunk_tok / 2;
    else if (took_us < STEP_US / 2 && prompt_tok >= s->chunk_tok)
        s->chunk_tok = s->chunk_tok * 2;
    s->chunk_tok = least(s->chunk_tok > CHUNK_TOK_MIN ? s->chunk_tok : CHUNK_TOK_MIN, s->batch_tok);
}

void schedule_step(struct schedule *s) {
    struct batch *b = &s->batch;
    sweep(s, &s->running);
    sweep(s, &s->waiting);
    admit(s);
    tell(s);
    if (list_empty(&s->running))
        return;
    int64_t began_us = clock_mono_us(), prompt_tok = build(s);
    s->ops->forward(s->compute, b, s->logits);
    if (prompt_tok)
        learn(s, prompt_tok, clock_mono_us() - began_us);
    atomic_fetch_add(&s->steps, 1);
    atomic_fetch_add(&s->tokens, b->n_tok);
    for (int32_t i = 0; i < b->n_want; i++)
        take_token(s, s->rows[b->seq[b->want[i]]], s->logits + i * s->model->config.vocabulary);
}

void schedule_end_all(struct schedule *s, enum err err) {
    struct list *lists[] = {&s->running, &s->waiting};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        while (!list_empty(lists[i])) {
            struct decode_run *r = run_of(list_first(lists[i]));
            let_go(s, lists[i], r);
            run_finish(r, NULL, err);
            run_drop(r);
        }
}
