/* Acts that turn something for a while. Always true here: the admin record stands in the chain before the act is in force,
 * and an act that cannot be kept in state is not in force. */
#include "gateway/admin/act.h"

#include "gateway/gateway.h"

#include <stdio.h>

bool act_decline(struct act *a, enum err e, const char *text) {
    admin_say(a->call, e, text);
    return false;
}

bool act_text(struct act *a, const char *name, char *out, size_t n) {
    struct json v = json_get(a->body, name);
    struct span text = v.kind == JSON_STRING ? json_text(v, &a->arena) : SPAN_NONE;
    if (!text.at || !text.n || text.n >= n || memchr(text.at, '\n', text.n) || memchr(text.at, '\0', text.n))
        return false;
    snprintf(out, n, "%.*s", SPAN_ARG(text));
    return true;
}

static bool read_length(struct act *a, enum act_length length) {
    char wait[CLOCK_TEXT_MAX];
    int64_t for_us = OVERRIDE_FOR_US;
    bool said = json_get(a->body, "for").kind != JSON_NONE, text = said && act_text(a, "for", wait, sizeof(wait));
    bool ever = length != ACT_FOR_A_WHILE && text && strcmp(wait, "ever") == 0;
    a->to.since_us = clock_wall_us();
    a->to.until_us = OVERRIDE_EVER_US;
    if (ever || (!said && length == ACT_STAYS))
        return true;
    if (said && (!text || !clock_parse_duration(span_of(wait), &for_us) || for_us <= 0 || for_us > OVERRIDE_FOR_MAX_US))
        return act_decline(a, ERR_INVALID,
                           length == ACT_FOR_A_WHILE ? "for: a time like 30m, 1h or 2d, at most 366d."
                                                     : "for: a time like 30m, 1h or 2d, at most 366d, or ever.");
    a->to.until_us = a->to.since_us + for_us;
    return true;
}

bool act_begin(struct admin_call *c, struct act *a, enum act_length length) {
    *a = (struct act){.call = c};
    arena_init(&a->arena, ADMIN_BODY_MAX);
    if (!json_check(str_span(&c->body), JSON_DEPTH_MAX, &a->body, NULL) || a->body.kind != JSON_OBJECT)
        return act_decline(a, ERR_INVALID, "The body is a JSON object.");
    if (!act_text(a, "reason", a->to.reason, sizeof(a->to.reason)))
        return act_decline(a, ERR_INVALID, "reason: say why, on one line of at most 255 bytes.");
    snprintf(a->to.who, sizeof(a->to.who), "%s", c->who);
    return read_length(a, length);
}

void act_fini(struct act *a) {
    arena_fini(&a->arena);
}

static bool record(struct act *a, const char *what, const char *before, const char *after) {
    struct admin_call *c = a->call;
    uint64_t seq = audit_add(c->gateway->audit,
                             &(struct audit_record){.kind = AUDIT_ADMIN,
                                                    .who = c->who,
                                                    .role = admin_role(c),
                                                    .what = what,
                                                    .team = a->team,
                                                    .scope = a->scope,
                                                    .reason = a->to.reason,
                                                    .before = before,
                                                    .after = after,
                                                    .client = exchange_client(c->x)},
                             clock_wall_us());
    gateway_turn_soon(c->gateway);
    a->to.seq = (int64_t)seq;
    return seq || act_decline(a, ERR_AUDIT, "The act cannot be recorded.");
}

static bool kept(struct act *a, bool good) {
    return good || act_decline(a, ERR_INTERNAL, "The state directory cannot be written, or holds too many overrides.");
}

bool act_do(struct act *a, const char *what, const char *before, const char *after) {
    struct gateway *g = a->call->gateway;
    if (!record(a, what, before, after) || !kept(a, overrides_set(g->overrides, g->conf, &a->to)))
        return false;
    overrides_review(g);
    return true;
}

bool act_undo(struct act *a, const char *what, const char *before, const char *after) {
    struct gateway *g = a->call->gateway;
    a->to.until_us = a->to.since_us;
    if (!record(a, what, before, after) || !kept(a, overrides_end(g->overrides, g->conf, a->to.name)))
        return false;
    overrides_turn_off(g, a->to.name);
    return true;
}

void act_say_until(struct act *a) {
    char when[CLOCK_TEXT_MAX];
    bool none = a->to.since_us >= a->to.until_us || a->to.until_us == OVERRIDE_EVER_US;
    json_put_str(&a->call->out, "until", none ? NULL : clock_text(a->to.until_us, when));
    json_put_i64(&a->call->out, "admin_seq", a->to.seq);
    str_puts(&a->call->out, "}\n");
}
