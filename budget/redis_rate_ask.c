/* The rates' part of a question to Redis: what it says, and what its answer means. Always true here: a call has its slots
 * from the question on, and gives them back when it is refused; whatever was asked for in advance is told apart from
 * what the call itself needs, and is had only when Redis says so. */
#include "budget/redis_rates.h"

static const char *const limit_names[] = {"requests_per_minute", "tokens_per_minute", "in_flight"};

#define AT_USED 2    /* in an answer: what was used, of two kinds, with when it ends, at each level */
#define AT_LEASED 10 /* requests and tokens, and slots of each level */

static const struct conf_limits *limits_of(const struct rate_question *q, int level) {
    return level == 0 ? &q->ask.of_key : &q->ask.of_team;
}

/* --- the question --- */

static void want_slots(struct rate_question *q) {
    for (int i = 0; i < RATE_LEVELS; i++) {
        struct slots *one = q->slots[i];
        int64_t wish = slots_wish(one, limits_of(q, i)->in_flight, q->ask.slice);
        if (wish == 0 || one->kept - one->n >= wish / 2)
            continue;
        q->spare[i] = wish;
        one->leasing = true;
    }
}

void rate_question_begin(struct rate_question *q, struct rates_shared *s, const struct rate_ask *ask,
                         struct rate_op *op) {
    struct payers payers;
    struct rate_slice *slice = rate_slice_of(s, ask);
    payers_of(ask, &payers);
    *q = (struct rate_question){.of = s, .ask = *ask, .op = op};
    slots_check(s, ask->now_us);
    if (op)
        slots_add(s, &payers, 1);
    for (int i = 0; i < RATE_LEVELS; i++)
        q->slots[i] = slots_get(s, payers.of[i]);
    if (!slice)
        return;
    want_slots(q);
    if (!rate_slice_wish(s, slice, q->wish))
        return;
    q->slice = slice;
    slice->leasing = true;
}

static void put_limit(struct words *w, int64_t limit) {
    if (limit == CONF_UNLIMITED)
        words_puts(w, "");
    else
        words_i64(w, limit);
}

static void put_level(const struct rate_question *q, struct words *w, int level) {
    const struct conf_limits *c = limits_of(q, level);
    const struct slots *one = q->slots[level];
    words_puts(w, one->owner);
    put_limit(w, c->requests_per_minute);
    put_limit(w, c->tokens_per_minute);
    put_limit(w, c->in_flight);
    slots_put(one, q->spare[level] > 0, w);
    words_i64(w, q->spare[level]);
}

void rate_question_put(struct rate_question *q, struct words *w) {
    words_i64(w, q->op ? 1 : 0);
    words_i64(w, q->ask.tokens);
    words_i64(w, LEASE_LIVES_US);
    words_i64(w, SLICE_LIVES_US);
    words_i64(w, q->slice ? q->wish[0] : 0);
    words_i64(w, q->slice ? q->wish[1] : 0);
    words_i64(w, RATE_LEVELS);
    for (int i = 0; i < RATE_LEVELS; i++)
        put_level(q, w, i);
    q->sent = (struct instant){q->ask.now_us, clock_mono_us()};
}

/* --- the answer --- */

/* One limit as the caller is told of it: the tightest of key and team. */
static void view_one(int64_t limit, int64_t used, int64_t empty_us, int64_t *out_limit, int64_t *remaining,
                     int64_t *reset_us) {
    int64_t left = limit > used ? limit - used : 0;
    if (limit == CONF_UNLIMITED || (*remaining >= 0 && *remaining <= left))
        return;
    *out_limit = limit;
    *remaining = left;
    *reset_us = empty_us;
}

/* What the script says was used before this call; what passed has used its own too. */
static void view_tell(const struct rate_question *q, const struct redis_value *reply, bool passed,
                      struct rate_limit_view *v) {
    *v = (struct rate_limit_view){-1, -1, -1, -1, -1, -1};
    for (int i = 0; i < RATE_LEVELS; i++) {
        const struct conf_limits *c = limits_of(q, i);
        size_t at = AT_USED + 4 * (size_t)i;
        int64_t requests = reply_i64(reply, at) + passed, empty_us = reply_i64(reply, at + 1);
        view_one(c->requests_per_minute, requests, passed ? US_PER_MIN : empty_us, &v->limit_requests,
                 &v->remaining_requests, &v->reset_requests_us);
        int64_t tokens = reply_i64(reply, at + 2) + (passed ? q->ask.tokens : 0);
        empty_us = reply_i64(reply, at + 3);
        view_one(c->tokens_per_minute, tokens, passed ? US_PER_MIN : empty_us, &v->limit_tokens, &v->remaining_tokens,
                 &v->reset_tokens_us);
    }
}

static void refuse(const struct rate_question *q, const struct redis_value *reply) {
    int64_t level = reply_i64(reply, AT_LEASED) - 1, kind = reply_i64(reply, AT_LEASED + 1) - 1,
            wait_us = reply_i64(reply, AT_LEASED + 2);
    struct rate_op *op = q->op;
    op->err = ERR_RATE;
    if (level < 0 || level >= RATE_LEVELS || kind < 0 || kind >= (int64_t)ARRAY_LEN(limit_names))
        return;
    const struct conf_limits *c = limits_of(q, (int)level);
    const int64_t limits[] = {c->requests_per_minute, c->tokens_per_minute, c->in_flight};
    op->limit = limit_names[kind];
    op->level = budget_level_names[level == 0 ? LEVEL_KEY : LEVEL_TEAM];
    op->limit_value = limits[kind];
    op->retry_after_us = wait_us < 0 ? INT64_MAX : wait_us;
}

static void pass(const struct rate_question *q, const struct redis_value *reply) {
    struct rate_slip *slip = &q->op->slip;
    *slip = (struct rate_slip){.open = true,
                               .shared = true,
                               .tokens = q->ask.tokens,
                               .at_us = reply_i64(reply, 1),
                               .team = xstrdup(q->ask.team)};
    memcpy(slip->key_id, q->ask.key_id, sizeof slip->key_id);
}

/* The call has its slots from the question on; who is refused gives them back. */
static void give_back(const struct rate_question *q) {
    struct payers payers;
    payers_of(&q->ask, &payers);
    slots_add(q->of, &payers, -1);
}

static void slots_end(struct rate_question *q, int level, const struct redis_value *reply) {
    struct slots *one = q->slots[level];
    int64_t kept = reply_i64(reply, AT_LEASED + 2 + (size_t)level);
    if (q->spare[level] == 0)
        return;
    q->spare[level] = 0;
    one->leasing = false;
    if (!reply)
        slots_untold(q->of, one);
    else if (kept > one->kept)
        one->kept = kept;
}

/* What was asked for in advance; `reply` NULL: it is not had. */
static void leases_end(struct rate_question *q, const struct redis_value *reply) {
    if (reply)
        slots_heard(q->of, &q->sent);
    for (int i = 0; i < RATE_LEVELS; i++)
        slots_end(q, i, reply);
    if (q->slice)
        rate_slice_leased(q->of, q->slice, reply_i64(reply, AT_LEASED), reply_i64(reply, AT_LEASED + 1),
                          reply_i64(reply, 1), &q->sent);
    q->slice = NULL;
}

bool rate_question_again(struct rate_question *q, const struct redis_value *reply) {
    if (q->again || !q->op || !reply_is(reply, "NO"))
        return false;
    leases_end(q, NULL);
    q->again = true;
    if (!rates_give_back(q->of, &q->ask))
        return false;
    rates_shared_send_now(q->of);
    return true;
}

/* It was not sent, and somebody else asks for the call. */
void rate_question_undone(struct rate_question *q) {
    leases_end(q, NULL);
    give_back(q);
}

void rate_question_answered(struct rate_question *q, const struct redis_value *reply) {
    struct rate_op *op = q->op;
    bool passed = reply && reply_is(reply, "OK"), refused = reply && reply_is(reply, "NO");
    leases_end(q, passed ? reply : NULL);
    if (!op)
        return;
    if (passed || refused)
        view_tell(q, reply, passed, &op->view);
    if (passed) {
        pass(q, reply);
        rate_slice_saw(q->of, &q->ask, &op->view);
        return;
    }
    give_back(q);
    if (refused)
        refuse(q, reply);
    else
        (void)ledger_memory_ops.rate(q->of->l->memory, &q->ask, op);
}
