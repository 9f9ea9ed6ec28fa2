/* The step CACHE, and answers that are given again: a hit, an answer that another request is fetching, an expired one when
 * every rung failed. Always true here: a lead ends once, in kept_let_go or in RELEASE; only what the first rung answered
 * whole, well and for itself is kept; what is stale says so. */
#include "gateway/attempt.h"
#include "gateway/engines.h"
#include "gateway/gateway.h"

#include <stdio.h>

#define SCOPE_MAX 160
#define TAGS_MAX 4096 /* of a team's require, for the key */

static bool word_is(const struct request *r, const char *word) {
    return r->cache_word && strcmp(r->cache_word, word) == 0;
}

bool kept_is_stale(const struct request *r) {
    return word_is(r, "stale");
}

bool kept_gives(const struct request *r) {
    return word_is(r, "hit") || word_is(r, "shared") || word_is(r, "stale");
}

/* At today's price of the target that gave it. A stale one saved nothing: it stands in for a failure. */
int64_t kept_saved_nanousd(const struct request *r) {
    struct span model, backend = SPAN_NONE;
    if (!kept_gives(r) || kept_is_stale(r) || !r->answer)
        return 0;
    model = span_of(r->answer->target);
    span_cut(&model, '/', &backend);
    const struct conf_backend *b = conf_find_backend(r->conf, backend);
    if (!b)
        return 0;
    struct price price = conf_price(r->conf, b, model, clock_wall_us());
    return price_cost(&price, &r->relayed);
}

/* ---- the rule and the key ---- */

/* Where a team may be served decides what it may be shown, too. */
static bool put_team_tags(struct request *r, struct span *out) {
    const struct conf_team *team = r->key->team;
    struct str s;
    str_init(&s, TAGS_MAX);
    str_puts(&s, "team-tags: ");
    for (size_t i = 0; i < team->n_require; i++)
        str_printf(&s, "%s,", team->require[i]);
    const char *kept = s.over ? NULL : arena_strdup(&r->arena, str_span(&s));
    *out = span_of(kept);
    str_fini(&s);
    return kept;
}

static void decide(struct request *r) {
    struct span headers[FORWARDED_LINES_MAX + 1];
    size_t n_headers;
    uint8_t ladder[SHA256_BYTES];
    char scope[SCOPE_MAX];
    bool by_key = r->alias->cache.scope_key;
    const struct endpoint_row *row = endpoint_row(r->call.endpoint);
    snprintf(scope, sizeof(scope), "%s:%s", by_key ? "key" : "team", by_key ? r->key->id : r->key->team->name);
    routing_ladder_digest(r->alias, r->captured, &r->plan.arm, ladder);
    engines_identify(r->gateway, r->alias, r->captured, &r->plan.arm, ladder);
    if (!attempt_forwarded(r, headers, &n_headers) || !put_team_tags(r, &headers[n_headers++])) {
        r->cache_rule = (struct cache_rule){.why = "too_large"};
        return;
    }
    struct cache_ask ask = {.alias = r->alias,
                            .traits = &r->call.traits,
                            .scope = scope,
                            .endpoint = row->name,
                            .dialect = row->dialect == DIALECT_ANTHROPIC ? "anthropic" : "openai",
                            .body = r->call.body,
                            .headers = headers,
                            .n_headers = n_headers,
                            .ladder = ladder,
                            .cache_control = request_field(r, "cache-control")};
    cache_decide(r->conf, &ask, &r->cache_rule);
}

/* ---- what a look-up gives ---- */

static void give_back(struct request *r) {
    cache_entry_drop(r->gateway->cache, r->cache.entry);
    r->cache.entry = NULL;
}

static enum walk fetch_it(struct request *r, const char *word) {
    if (r->unrouted)
        return refuse_or_stale(r, ERR_NO_TARGET);
    r->cache_word = word;
    r->answer = answer_new(false);
    return go(r, STATE_HOLD);
}

static void give_entry(struct request *r, const char *word) {
    const struct cache_entry *entry = r->cache.entry;
    r->cache_word = word;
    r->cache_age_us = clock_wall_us() - entry->kept_us;
    r->answer = answer_from(entry->bytes);
    give_back(r);
}

static enum walk take_hit(struct request *r) {
    give_entry(r, r->cache.followed ? "shared" : "hit");
    return go(r, STATE_STREAM);
}

static enum walk take_lead(struct request *r) {
    return r->answer ? go(r, STATE_HOLD) : fetch_it(r, "miss");
}

static void stop_following(struct request *r) {
    answer_leave(&r->reader);
    answer_drop(r->answer);
    r->answer = NULL;
}

/* A follower takes its leader's way, also down the ladder, unless it said that it wants no such way. */
static enum walk read_along(struct request *r) {
    if (r->answer->down != REASON_N && r->fallback != FALLBACK_ANY) {
        stop_following(r);
        return fetch_it(r, "miss");
    }
    r->down = r->answer->down;
    return go(r, STATE_STREAM);
}

/* A follower reads along; when its leader fails before content it looks again, and may become the leader. */
static enum walk follow(struct request *r) {
    if (!r->answer)
        return fetch_it(r, "miss");
    r->doing = "waiting for the same call of another request";
    if (r->answer->content)
        return read_along(r);
    if (!r->answer->ended)
        return WALK_WAIT;
    stop_following(r);
    r->asked = false;
    return WALK_MORE;
}

static void end_unled(struct request *r) {
    cache_drop(r->gateway->cache, r->cache.lead);
    r->cache.lead = NULL;
}

void request_looked_up(struct request *r) {
    struct answer *leaders = r->cache.published;
    if (r->cache.result == CACHE_LEAD && r->cache.lead && r->unrouted) {
        end_unled(r); /* it has nobody to ask */
    } else if (r->cache.result == CACHE_LEAD && r->cache.lead) {
        r->cache_word = "miss";
        r->answer = answer_new(true);
        cache_publish(r->cache.lead, r->answer);
    }
    if (r->cache.result == CACHE_JOIN && answer_join(leaders, &r->reader)) {
        r->cache_word = "shared";
        r->answer = answer_take(leaders);
    }
}

static void look_up(struct request *r) {
    r->cache.waited_us = r->rate.waited_us; /* one patience with Redis for the whole request */
    enum progress p = cache_find(r->gateway->cache, &r->cache_rule, clock_wall_us(), &r->cache);
    if (p == PROGRESS_DONE)
        request_looked_up(r);
    request_answer(r, p);
}

void kept_leave(struct request *r) {
    bool goes = r->state == STATE_CACHE && r->asking && (r->client_left || r->cancelled);
    if (goes && cache_leave(r->gateway->cache, &r->cache))
        r->asking = false;
}

enum walk step_cache(struct request *r) {
    if (r->shadow) /* it asks how another target answers, not what is known */
        return fetch_it(r, "bypass");
    if (!r->asked && !r->cache_word) {
        decide(r);
        if (r->explain)
            return r->unrouted ? refuse_unrouted(r) : go(r, STATE_HOLD);
        if (!r->cache_rule.may)
            return fetch_it(r, "bypass");
    }
    r->doing = "looking whether it is answered already";
    if (request_asks(r))
        look_up(r);
    if (r->asking)
        return WALK_WAIT;
    r->rate.waited_us = r->cache.waited_us;
    if (r->cache.result == CACHE_HIT)
        return take_hit(r);
    return r->cache.result == CACHE_LEAD ? take_lead(r) : follow(r);
}

/* ---- when it fails ---- */

void kept_let_go(struct request *r, enum err e) {
    if (r->cache.lead) {
        cache_withdraw(r->cache.lead);
        end_unled(r);
    }
    if (r->answer && !r->answer->ended && !word_is(r, "shared"))
        answer_end(r->answer, e, r->message[0] ? r->message : NULL);
}

/* Failures of providers, not of the call. */
static bool may_stand_in(enum err e) {
    static const enum err failures[] = {ERR_UPSTREAM, ERR_UPSTREAM_AUTH, ERR_NO_TARGET, ERR_DEADLINE, ERR_RATE};
    for (size_t i = 0; i < ARRAY_LEN(failures); i++)
        if (failures[i] == e)
            return true;
    return false;
}

/* Nothing of the failure is told but its tries. */
static void forget_failure(struct request *r) {
    r->message[0] = r->param[0] = r->code[0] = '\0';
    r->status = 0;
    r->retry_after_us = 0;
    r->no_retry = false;
    r->down = REASON_N;
}

enum walk refuse_or_stale(struct request *r, enum err e) {
    if (r->cache.entry && r->client && may_stand_in(e)) {
        kept_let_go(r, e);
        stop_following(r);
        forget_failure(r);
        give_entry(r, "stale");
        return go(r, STATE_STREAM);
    }
    return r->unrouted ? refuse_unrouted(r) : refuse(r, e);
}

/* ---- at the end ---- */

static bool may_keep(const struct request *r) {
    const struct answer *a = r->answer;
    if (!a || !word_is(r, "miss"))
        return false;
    bool no_finish = a->finish == FINISH_NONE && r->call.traits.always; /* embeddings and counts have none to say */
    bool good_finish = no_finish || a->finish == FINISH_STOP || a->finish == FINISH_TOOLS;
    bool first_rung = r->at >= 0 && plan_is_first_rung(&r->plan, &r->plan.choices[r->at]);
    return a->ended && !a->err && a->keeping && !a->no_store && !a->cut && good_finish && first_rung &&
           r->down == REASON_N && !r->cache_rule.no_keep;
}

static void keep_answer(struct request *r, struct cache_lead *lead) {
    struct str packed;
    str_init(&packed, ANSWER_MAX);
    answer_pack(r->answer, &packed);
    if (packed.over)
        cache_drop(r->gateway->cache, lead);
    else
        cache_keep(r->gateway->cache, lead, &r->cache_rule, &(struct span){packed.at, packed.n}, clock_wall_us());
    str_fini(&packed);
}

static void end_lead(struct request *r) {
    struct cache_lead *lead = r->cache.lead;
    if (!lead)
        return;
    r->cache.lead = NULL;
    cache_withdraw(lead);
    if (may_keep(r))
        keep_answer(r, lead);
    else
        cache_drop(r->gateway->cache, lead);
}

/* A client that left during the look-up did not take what it gave. */
void kept_end(struct request *r) {
    give_back(r);
    end_lead(r);
}
