/* POST /admin/audit/shred: a team's stored bodies of a day become unreadable for ever. Always true: the shred record
 * stands in the chain before the first key goes, and what could not be destroyed is said in another. */
#include "gateway/admin/admin.h"
#include "gateway/gateway.h"

#include <stdio.h>

#define TEXT_MAX 256

static bool take(struct json body, const char *name, char out[TEXT_MAX]) {
    struct arena a;
    arena_init(&a, ADMIN_BODY_MAX);
    struct json v = json_get(body, name);
    struct span text = v.kind == JSON_STRING ? json_text(v, &a) : SPAN_NONE;
    bool good = text.n && text.n < TEXT_MAX && !memchr(text.at, '\n', text.n) && !memchr(text.at, '\0', text.n);
    snprintf(out, TEXT_MAX, "%.*s", good ? (int)text.n : 0, good ? text.at : "");
    arena_fini(&a);
    return good;
}

static bool read_day(const char *text, int64_t *day) {
    int64_t us;
    bool good = strlen(text) == 10 && clock_parse(span_of(text), &us);
    *day = good ? us / US_PER_DAY : 0;
    return good;
}

static uint64_t record(struct admin_call *c, struct audit_record *r) {
    r->who = c->who;
    r->role = admin_role(c);
    r->client = exchange_client(c->x);
    uint64_t seq = audit_add(c->gateway->audit, r, clock_wall_us());
    gateway_turn_soon(c->gateway);
    return seq;
}

static void shred(struct admin_call *c, const char *team, const char *date, int64_t day, const char *reason) {
    struct audit_record r = {.kind = AUDIT_SHRED, .what = "content_key", .team = team, .scope = date, .reason = reason};
    struct str why;
    uint64_t seq = record(c, &r);
    if (!seq) {
        admin_say(c, ERR_AUDIT, "The act cannot be recorded.");
        return;
    }
    str_init(&why, 4096 + TEXT_MAX);
    int64_t n = audit_shred(c->gateway->audit, team, day, &why);
    if (n < 0) {
        struct audit_record failed = {
            .kind = AUDIT_NOTE, .what = "shred_failed", .team = team, .scope = date, .reason = why.at};
        record(c, &failed);
        admin_say(c, ERR_INTERNAL, why.at);
    } else {
        str_putc(&c->out, '{');
        json_put_str(&c->out, "team", team);
        json_put_str(&c->out, "day", date);
        json_put_i64(&c->out, "keys_destroyed", n);
        json_put_i64(&c->out, "seq", (int64_t)seq);
        str_puts(&c->out, "}\n");
    }
    str_fini(&why);
}

void admin_post_shred(struct admin_call *c) {
    char team[TEXT_MAX], date[TEXT_MAX], reason[TEXT_MAX];
    struct json body;
    int64_t day;
    if (!json_check(str_span(&c->body), JSON_DEPTH_MAX, &body, NULL) || body.kind != JSON_OBJECT)
        admin_say(c, ERR_INVALID, "The body is a JSON object.");
    else if (!take(body, "team", team))
        admin_say(c, ERR_INVALID, "team: whose bodies.");
    else if (!take(body, "day", date) || !read_day(date, &day))
        admin_say(c, ERR_INVALID, "day: a day (UTC) as YYYY-MM-DD.");
    else if (!take(body, "reason", reason))
        admin_say(c, ERR_INVALID, "reason: say why, on one line of at most 255 bytes.");
    else
        shred(c, team, date, day, reason);
}
