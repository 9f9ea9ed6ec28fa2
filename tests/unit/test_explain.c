/* Explained equals done: of random confs, states and calls, a house that was given a running one's state as JSON tells in
 * advance what the running one then decides. EXPLAIN_WALKS runs more of them. */
#include "gateway/explain.h"
#include "gateway/gateway.h"
#include "gateway/state/override.h"
#include "tests/support/conf_text.h"

#include <stdio.h>

#define WALKS 1000
#define CALLS_EACH 1 /* of one conf */

static uint64_t dice;

static unsigned throw(unsigned below) {
    return (unsigned)(random_next(&dice) >> 20) % below;
}

static bool chance(unsigned percent) {
    return throw(100) < percent;
}

/* ---- a conf ---- */

static void put_backend(struct str *y, unsigned i) {
    static const char *const tags[] = {"", ", tags: [eu]", ", tags: [us]", ", tags: [eu, us]"};
    str_printf(y, "  b%u: {protocol: %s, url: \"http://127.0.0.1:9/v1\", api_keys: [", i,
               chance(12) ? "anthropic" : "openai");
    for (unsigned k = 0, n = 1 + throw(3); k < n; k++)
        str_printf(y, "%s{name: k%u, value: s%u, weight: %u%s}", k ? ", " : "", k, k, 1 + throw(4),
                   chance(10) ? ", teams: [other]" : "");
    str_printf(y, "]%s%s, models: {", tags[throw(4)], chance(20) ? ", rate_limits: {in_flight: 2}" : "");
    for (unsigned m = 0; m < 3; m++) {
        str_printf(y, "%sm%u: {", m ? ", " : "", m);
        if (chance(90))
            str_printf(y, "price: {input: %u USD/1M, output: %u USD/1M}, ", chance(15) ? 0 : 1 + throw(9),
                       chance(15) ? 0 : 1 + throw(30));
        str_printf(y, "tools: %s, context: %u}", chance(75) ? "true" : "false", chance(85) ? 100000 : 200);
    }
    str_puts(y, "}}\n");
}

static void put_rung(struct str *y, unsigned i) {
    static const char *const policies[] = {"weighted", "latency", "in_flight", "cost", "sticky"};
    static const char *const reasons[] = {"unavailable",    "rate_limited", "timeout",
                                          "context_window", "capability",   "budget"};
    unsigned first = throw(4), n = 1 + throw(3);
    str_puts(y, "      - {targets: [");
    for (unsigned t = 0; t < n; t++)
        str_printf(y, "%s{target: b%u/m%u, weight: %u}", t ? ", " : "", (first + t) % 4, throw(3), 1 + throw(5));
    str_printf(y, "], policy: %s", policies[throw(5)]);
    if (i) {
        str_printf(y, ", degraded: %s, only_for: [%s", chance(40) ? "true" : "false", reasons[throw(6)]);
        for (unsigned r = 0; r < 6; r++)
            if (chance(60))
                str_printf(y, ", %s", reasons[r]);
        str_puts(y, "]");
    }
    str_puts(y, "}\n");
}

static void put_budgets(struct str *y, unsigned percent) {
    static const char *const words[] = {"refuse", "degrade", "clamp"};
    if (chance(percent))
        str_printf(y, "budgets: [{limit: 0.%04u USD, period: %s, at_limit: %s}], ", 1 + throw(2000),
                   chance(50) ? "month" : "total", words[throw(3)]);
}

static struct conf *make_conf(void) {
    struct str y;
    str_init(&y, 65536);
    str_puts(&y, NO_STATE "hold: {max_share_key: 100%, max_share_team: 100%}\nbackends:\n");
    for (unsigned i = 0; i < 4; i++)
        put_backend(&y, i);
    str_puts(&y, "aliases:\n  a:\n    ladder:\n");
    for (unsigned i = 0, n = 1 + throw(3); i < n; i++)
        put_rung(&y, i);
    str_printf(&y, "    attempts: %u\n", 1 + throw(6));
    if (chance(50))
        str_printf(&y, "    cache: {ttl: 5m, seeded: %s}\n", chance(50) ? "true" : "false");
    if (chance(50))
        str_printf(&y, "    canary: {target: b%u/m%u, percent: %u, by: %s}\n", throw(4), throw(3), throw(101),
                   chance(50) ? "team" : "key");
    str_puts(&y, "teams:\n  t: {allow: [\"*\"], ");
    if (chance(15))
        str_puts(&y, "require: [eu], ");
    put_budgets(&y, 60);
    str_puts(&y, "keys: [{id: kkkkkkkk, name: k, ");
    put_budgets(&y, 40);
    str_puts(&y, "sha256: 00000000000000000000000000000000000000000000000000000000000000aa}]}\n  other: {allow: []}\n");
    if (chance(50)) {
        str_puts(&y, "organization: {");
        put_budgets(&y, 100);
        y.n -= 2;
        str_puts(&y, "}\n");
    }
    str_putc(&y, '\0');
    struct conf *c = load_good(y.at);
    str_fini(&y);
    return c;
}

/* ---- what a running gateway went through ---- */

static void fail_some(struct gateway *g, const struct conf_key *key, struct arena *a) {
    static const enum outcome outcomes[] = {OUTCOME_OK,          OUTCOME_OK,           OUTCOME_CONNECT,
                                            OUTCOME_TIMEOUT,     OUTCOME_RATE_LIMITED, OUTCOME_AUTH,
                                            OUTCOME_UNAVAILABLE, OUTCOME_MODEL_MISSING};
    struct needs needs = {.conf = g->conf,
                          .key = key,
                          .alias = &g->conf->aliases[0],
                          .protocols = 1u << PROTOCOL_OPENAI,
                          .max_output_tok = -1};
    static struct plan plan; /* outlives the tries that are still in flight */
    for (unsigned i = 0, n = throw(12); i < n; i++) {
        if (routing_plan(g->routing, &needs, clock_mono_us(), a, &plan))
            continue;
        const struct choice *c = &plan.choices[throw((unsigned)plan.n)];
        struct lesson l = {.outcome = outcomes[throw(ARRAY_LEN(outcomes))],
                           .retry_after_us = chance(30) ? 60 * US_PER_S : 0,
                           .waited_us = throw(900000)};
        if (!routing_begin(g->routing, c, clock_mono_us()))
            continue;
        routing_learn(g->routing, g->conf, c, &l, clock_mono_us());
        if (chance(80))
            routing_end(g->routing, c);
    }
}

static void turn(struct gateway *g, const char *name, int64_t number, int64_t base, const char *text) {
    char line[1024];
    int64_t now_us = clock_wall_us();
    snprintf(line, sizeof line,
             "{\"name\":\"%s\",\"number\":%lld,\"base\":%lld,\"text\":\"%s\",\"who\":\"w\",\"reason\":\"r\","
             "\"since_us\":%lld,\"until_us\":%lld,\"seq\":1}",
             name, (long long)number, (long long)base, text, (long long)now_us, (long long)now_us + US_PER_HOUR);
    cr_assert(overrides_read(g->overrides, span_of(line), now_us), "%s", line);
}

static void turn_some(struct gateway *g) {
    const struct conf_alias *a = &g->conf->aliases[0];
    const struct conf_rung *rung = &a->rungs[throw((unsigned)a->n_rungs)];
    char name[64];
    snprintf(name, sizeof name, OVERRIDE_DRAIN "b%u%s%s", throw(4), chance(50) ? "/m1" : "", chance(40) ? " k0" : "");
    if (chance(30))
        turn(g, name, 0, 0, "");
    if (chance(15))
        turn(g, OVERRIDE_PIN "a", 0, override_base_of_pin(a), rung->targets[0].name);
    if (chance(25))
        turn(g, OVERRIDE_SHIFT "a", throw(10001), override_base_of_shift(a) + chance(20), "");
    overrides_look(g);
}

static void spend_some(struct gateway *g, const struct conf_key *key) {
    static const struct price price = {.known = true};
    static struct hold_op op;
    int64_t now_us = clock_wall_us();
    if (chance(60))
        budget_replay(g->budget, g->conf, SPAN("kkkkkkkk"), SPAN("t"), now_us, throw(100000000));
    if (chance(40))
        (void)budget_hold(g->budget, g->conf, key, "open", &price, throw(30000000), now_us, &op);
}

/* ---- a call ---- */

static void make_call(struct arena *a, struct str *text, struct llm_call *call) {
    struct json body;
    struct json_fault fault;
    struct call_fault bad;
    str_clear(text);
    str_puts(text, "{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (unsigned i = 0, n = throw(chance(20) ? 3000 : 60); i < n; i++)
        str_putc(text, (char)('a' + throw(26)));
    str_printf(text, "\"}],\"stream\":%s", chance(40) ? "true" : "false");
    if (chance(70))
        str_printf(text, ",\"max_tokens\":%u", 1 + throw(4000));
    if (chance(60))
        str_printf(text, ",\"temperature\":%u", throw(2));
    if (chance(30))
        str_puts(text, ",\"seed\":7");
    if (chance(25))
        str_puts(text, ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]");
    str_putc(text, '}');
    cr_assert(json_check(str_span(text), JSON_DEPTH_MAX, &body, &fault), "%s", fault.what);
    cr_assert(call_parse(ENDPOINT_CHAT, body, a, call, &bad), "%s", bad.text);
}

/* ---- and both ---- */

struct seen {
    int served, refused, budget, canary, degraded, clamped, cached, later;
};

static void expect_same(const struct request *done, struct json said, uint64_t seed, struct seen *seen) {
    const struct choice *c = &done->plan.choices[done->at < 0 ? 0 : done->at];
    struct json plan = json_get(said, "plan");
    int64_t n;
    cr_assert_eq(json_count(json_get(plan, "choices")), (size_t)done->plan.n, "seed %llu", (unsigned long long)seed);
    for (int i = 0; i < done->plan.n; i++)
        cr_assert(
            json_is(json_get(json_at(json_get(plan, "choices"), (size_t)i), "target"), done->plan.choices[i].target),
            "seed %llu choice %d", (unsigned long long)seed, i);
    cr_assert_eq(json_count(json_get(plan, "excluded")), (size_t)done->plan.n_excluded);
    seen->refused += done->err != ERR_NONE;
    seen->budget += done->err == ERR_BUDGET;
    seen->canary += done->plan.arm.first != NULL;
    if (done->err) {
        cr_assert(json_is(json_get(said, "decision"), "refused") &&
                      json_is(json_get(said, "code"), err_code(done->err)),
                  "seed %llu: %s", (unsigned long long)seed, err_code(done->err));
        cr_assert(!done->message[0] || json_get(said, "message").raw.n, "the sentence too");
        return;
    }
    cr_assert(json_is(json_get(said, "decision"), "served"), "seed %llu", (unsigned long long)seed);
    cr_assert(json_is(json_get(said, "target"), c->target), "seed %llu: %s", (unsigned long long)seed, c->target);
    cr_assert(json_is(json_get(said, "upstream_key"), c->key->name), "seed %llu", (unsigned long long)seed);
    cr_assert(json_i64(json_get(json_get(said, "hold"), "nanousd"), &n) && n == done->hold.lease.nanousd,
              "seed %llu: %lld held", (unsigned long long)seed, (long long)done->hold.lease.nanousd);
    cr_assert(json_i64(json_get(said, "clamped"), &n) && n == done->call.clamped_tok);
    cr_assert_eq(json_get(json_get(said, "cache"), "may").kind == JSON_TRUE, done->cache_rule.may);
    cr_assert(done->down == REASON_N || json_is(json_get(said, "degraded"), reason_names[done->down]));
    seen->served++;
    seen->degraded += done->down != REASON_N;
    seen->clamped += done->call.clamped_tok > 0;
    seen->cached += done->cache_rule.may;
    seen->later += done->at > 0;
}

static void explain_then_do(struct conf *conf, uint64_t seed, struct seen *seen) {
    const struct conf_key *key = map_find(&conf->keys_by_id, SPAN("kkkkkkkk"));
    struct gateway *running = explain_house(conf, 1), *told = explain_house(conf, seed);
    struct arena a;
    struct str state, text;
    struct json v;
    struct llm_call call;
    arena_init(&a, 8 << 20);
    str_init(&state, 1 << 20);
    str_init(&text, 65536);
    fail_some(running, key, &a);
    turn_some(running);
    spend_some(running, key);
    make_call(&a, &text, &call);
    explain_put_state(running, &state);
    cr_assert(json_check(str_span(&state), JSON_DEPTH_MAX, &v, NULL), "%s", state.at);
    cr_assert(explain_take_state(told, key, v));
    routing_seed(running->routing, seed);
    struct request *first = explain_request(told, key, &call, &conf->aliases[0], SPAN_NONE);
    first->explain = true;
    explain_walk(first);
    cr_assert(json_check(str_span(&first->out), JSON_DEPTH_MAX, &v, NULL));
    struct request *then = explain_request(running, key, &call, &conf->aliases[0], SPAN_NONE);
    explain_walk(then);
    expect_same(then, v, seed, seen);
    explain_request_free(first);
    explain_request_free(then);
    explain_house_free(running);
    explain_house_free(told);
    str_fini(&text);
    str_fini(&state);
    arena_fini(&a);
}

Test(explain, equals_what_then_happens_for_random_confs_states_and_calls) {
    const char *asked = getenv("EXPLAIN_WALKS");
    int walks = asked ? atoi(asked) : WALKS;
    struct seen seen = {0};
    struct conf *conf = NULL;
    for (int i = 0; i < walks; i++) {
        dice = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
        conf = make_conf();
        for (int k = 0; k < CALLS_EACH; k++)
            explain_then_do(conf, random_next(&dice) | 1, &seen);
        conf_drop(conf);
    }
    printf("explained and done: %d served (%d degraded, %d clamped, %d cacheable, %d past their first choice), %d "
           "refused (%d for a budget), %d on an arm\n",
           seen.served, seen.degraded, seen.clamped, seen.cached, seen.later, seen.refused, seen.budget, seen.canary);
    int all = walks * CALLS_EACH;
    cr_expect(seen.served > all / 3 && seen.refused > all / 20 && seen.budget > all / 50 && seen.canary > all / 20,
              "the draws reach all of it");
    cr_expect(seen.degraded > 0 && seen.clamped > 0 && seen.cached > 0 && seen.later > 0);
}
