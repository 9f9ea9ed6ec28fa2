/* What the audit log is told of a request. Every request that was received leaves exactly one settle or refuse. */
#include "gateway/gateway.h"
#include "gateway/recent.h"
#include "gateway/routes.h"

#include <stdio.h>

/* Families of clients, by the start of their user-agent: a closed set, so that records can be counted by it. */
static const char *family_of(struct span agent) {
    static const struct {
        const char *starts, *family;
    } rows[] = {{"OpenAI/", "openai"},
                {"Anthropic/", "anthropic"},
                {"claude-cli/", "claude-code"},
                {"codex", "codex"},
                {"langchainjs", "langchain"},
                {"ai/", "ai-sdk"},
                {"ai-sdk", "ai-sdk"},
                {"python-httpx", "httpx"},
                {"curl/", "curl"},
                {"OpenAI", "openai"},
                {"node", "node"},
                {"Go-http-client", "go"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (span_starts(agent, rows[i].starts))
            return rows[i].family;
    return agent.n ? "other" : NULL;
}

static const char *text_of(struct request *r, struct span s) {
    return s.n ? arena_strdup(&r->arena, s) : NULL;
}

/* The client's address and family are kept while there is a client: the records that follow need them later. */
static void remember_client(struct request *r) {
    if (r->client_text || !r->client)
        return;
    r->client_text = arena_strdup(&r->arena, span_of(exchange_client(r->client)));
    r->client_family = family_of(http_field_get(exchange_head(r->client), "user-agent", NULL));
}

/* What the caller calls its own user: as each dialect says it. */
static struct json user_of(const struct request *r) {
    struct json user = json_get(r->call.body, "user");
    if (user.kind != JSON_STRING)
        user = json_get(r->call.body, "safety_identifier");
    return user.kind == JSON_STRING ? user : json_get(json_get(r->call.body, "metadata"), "user_id");
}

static const char *end_user(struct request *r) {
    uint8_t digest[SHA256_BYTES];
    if (!r->end_user_sought && r->call.body.kind == JSON_OBJECT) {
        struct span user = json_text(user_of(r), &r->arena);
        r->end_user_sought = true;
        if (user.n) {
            hmac_sha256(span_of(r->gateway->end_user_key), user, digest);
            hex_put(digest, (END_USER_MAX - 1) / 2, r->end_user);
        }
    }
    return r->end_user[0] ? r->end_user : NULL;
}

void record_of(struct request *r, struct audit_record *record) {
    remember_client(r);
    record->end_user = end_user(r);
    record->request = r->id;
    record->client = r->client_text;
    record->client_family = r->client_family;
    record->endpoint = r->route ? r->route->name : NULL;
    record->conf_digest = r->conf ? r->conf->digest : NULL;
    record->stream = r->call.stream;
    record->labels = r->labels;
    record->n_labels = r->n_labels;
    record->model = text_of(r, r->call.model);
    record->alias = r->alias ? r->alias->name : NULL;
    record->arm = arm_names[r->plan.arm.kind];
    record->idempotency_key = r->idempotency ? strchr(r->idempotency, '/') + 1 : NULL;
    if (!r->key)
        return;
    record->team = r->key->team->name;
    record->key_id = r->key->id;
    record->owner = r->key->owner;
}

static struct price at_list(const struct price *p) {
    struct price list = *p;
    list.factor = FACTOR_ONE;
    return list;
}

/* Without price_factor; 0 where that is the same amount. */
static int64_t list_cost(const struct request *r) {
    struct price list[PLAN_MAX];
    struct price_use uses[PLAN_MAX];
    for (int i = 0; i < r->n_tries; i++) {
        list[i] = at_list(&r->tries[i].price);
        uses[i] = (struct price_use){&list[i], &r->tries[i].usage};
    }
    int64_t cost = price_cost_sum(uses, (size_t)r->n_tries);
    return cost != r->cost_nanousd ? cost : 0;
}

uint64_t record_hold(struct request *r) {
    const char *plan[PLAN_MAX];
    int64_t now_us = clock_wall_us();
    bool raised = r->admitted_us != 0;
    for (int i = 0; i < r->plan.n; i++)
        plan[i] = r->plan.choices[i].target;
    if (r->price.known)
        audit_add(
            r->gateway->audit,
            &(struct audit_record){.kind = AUDIT_PRICE, .price = &r->price, .target = r->plan.choices[r->at].target},
            now_us);
    struct audit_record record = {.kind = raised ? AUDIT_HOLD : AUDIT_ADMIT,
                                  .hold_nanousd = r->hold.lease.nanousd,
                                  .admitted_us = raised ? 0 : r->held_us,
                                  .plan = plan,
                                  .n_plan = (size_t)r->plan.n};
    char members[SHADOW_MEMBERS_MAX];
    if (r->shadow)
        record.members = shadow_members(r, false, members);
    record_of(r, &record);
    content_put(r, &record, false);
    uint64_t seq = audit_add(r->gateway->audit, &record, now_us);
    if (seq && !raised)
        r->admitted_us = r->held_us; /* in whose period it was held: bill and ledger never differ at its edge */
    return seq;
}

static void put_tries(const struct request *r, struct audit_attempt rows[PLAN_MAX]) {
    for (int i = 0; i < r->n_tries; i++) {
        const struct try_row *t = &r->tries[i];
        rows[i] = (struct audit_attempt){.target = t->choice->target,
                                         .upstream_key = t->choice->key ? t->choice->key->name : NULL,
                                         .outcome = outcome_names[t->outcome],
                                         .why = t->why,
                                         .status = t->status,
                                         .began_us = t->began_us,
                                         .first_us = t->first_us,
                                         .ended_us = t->ended_us,
                                         .usage = t->usage,
                                         .hedged = t->hedged,
                                         .won = t->won};
        price_pico_text(&t->price, &t->usage, rows[i].pico);
        if (t->price.factor != FACTOR_ONE) {
            struct price list = at_list(&t->price);
            price_pico_text(&list, &t->usage, rows[i].list_pico);
        }
    }
}

uint64_t record_settle(struct request *r) {
    struct audit_attempt rows[PLAN_MAX];
    bool refused = r->admitted_us == 0 && r->err;
    if (!r->key) {
        gateway_count_stranger(r->gateway, r->id, r->client ? exchange_client(r->client) : NULL,
                               r->route ? r->route->name : "none", r->err);
        return UINT64_MAX;
    }
    if (r->shadow && !r->admitted_us)
        return UINT64_MAX; /* nobody asked for it, and nothing was promised */
    put_tries(r, rows);
    struct audit_record record = {.kind = refused ? AUDIT_REFUSE : AUDIT_SETTLE,
                                  .admitted_us = r->admitted_us,
                                  .status = r->client_left && r->err == ERR_CLIENT_GONE ? 499 : r->status,
                                  .code = r->err ? err_code(r->err) : NULL,
                                  .attempts = rows,
                                  .n_attempts = (size_t)r->n_tries,
                                  .usage = r->usage,
                                  .price_digest = r->price.known ? r->price.digest : NULL,
                                  .cost_nanousd = r->cost_nanousd,
                                  .list_nanousd = list_cost(r),
                                  .saved_nanousd = r->saved_nanousd,
                                  .hold_nanousd = r->hold.lease.nanousd,
                                  .estimated = r->estimated,
                                  .overrun = r->overrun,
                                  .clamped_tok = r->answer ? r->answer->clamped_tok : 0,
                                  .cut = r->answer && r->answer->cut ? "budget" : NULL,
                                  .aborted = r->client_left,
                                  .explained = r->explain,
                                  .finish = r->finish != FINISH_NONE ? finish_names[r->finish] : NULL,
                                  .cache = r->cache_word,
                                  .degraded = r->down != REASON_N ? reason_names[r->down] : NULL,
                                  .target = r->answer && r->answer->target[0] ? r->answer->target : NULL,
                                  .upstream_id = r->upstream_id.n ? r->upstream_id.at : NULL,
                                  .duration_us = request_age_us(r),
                                  .first_content_us = r->first_content_us};
    record_of(r, &record);
    char members[SHADOW_MEMBERS_MAX];
    if (r->shadow)
        record.members = shadow_members(r, true, members);
    else if (r->route && r->route->kind == ROUTE_CALL)
        recent_keep(r->gateway->recent, r, &record);
    content_put(r, &record, true);
    return audit_add(r->gateway->audit, &record, clock_wall_us());
}
