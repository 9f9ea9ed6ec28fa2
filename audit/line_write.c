/* Writes a record from one table of fields: which member, under what name, for which kinds. Strangers' text is clipped
 * and masked here, so that no record can grow past LINE_MAX_BYTES and none holds what looks like a credential. */
#include "audit/line.h"

#include "gateway/base/clock.h"
#include "gateway/base/json.h"
#include "gateway/base/log.h"
#include <assert.h>
#include <stdio.h>

const char *const audit_kind_names[AUDIT_KINDS] = {
    [AUDIT_START] = "start", [AUDIT_STOP] = "stop",     [AUDIT_CONF] = "conf",     [AUDIT_PRICE] = "price",
    [AUDIT_ADMIT] = "admit", [AUDIT_HOLD] = "hold",     [AUDIT_REFUSE] = "refuse", [AUDIT_SETTLE] = "settle",
    [AUDIT_ADMIN] = "admin", [AUDIT_HEAD] = "head",     [AUDIT_NOTE] = "note",     [AUDIT_ADJUST] = "adjust",
    [AUDIT_CLOSE] = "close", [AUDIT_ROLLUP] = "rollup", [AUDIT_SHRED] = "shred",
};

/* How a member becomes JSON: `at` is the member, `r` its record. What is not there is left out. */
#define PUT_ARGS struct str *out, const char *name, const void *at, const struct audit_record *r
/* At most LINE_TEXT_MAX bytes, never ending inside a UTF-8 character. */
static struct span clip(const char *text) {
    size_t n = strnlen(text, LINE_TEXT_MAX + 1);
    if (n <= LINE_TEXT_MAX)
        return span_from(text, n);
    n = LINE_TEXT_MAX;
    while (n > LINE_TEXT_MAX - 4 && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--;
    return span_from(text, n);
}

static void text_member(struct str *out, const char *name, const char *text) {
    char copy[LINE_TEXT_MAX + 1];
    if (!text)
        return;
    struct span s = clip(text);
    memcpy(copy, s.at, s.n);
    copy[s.n] = 0;
    json_put_span(out, name, span_from(copy, log_mask(copy, s.n)));
}

static void id_member(struct str *out, const char *name, const char *text) {
    if (text)
        json_put_span(out, name, clip(text));
}

static void put_plan(PUT_ARGS) {
    (void)at;
    if (r->n_plan == 0)
        return;
    json_put_raw(out, name, SPAN("["));
    for (size_t i = 0; i < r->n_plan && i < LINE_PLAN_MAX; i++) {
        if (i)
            str_putc(out, ',');
        json_put_text(out, clip(r->plan[i]));
    }
    str_putc(out, ']');
}

static void put_labels(PUT_ARGS) {
    (void)at;
    if (r->n_labels == 0)
        return;
    json_put_raw(out, name, SPAN("{"));
    for (size_t i = 0; i < r->n_labels && i < LINE_LABELS_MAX; i++) {
        if (i)
            str_putc(out, ',');
        json_put_text(out, clip(r->labels[i].name));
        str_putc(out, ':');
        json_put_text(out, clip(r->labels[i].value));
    }
    str_putc(out, '}');
}

static void usage_member(struct str *out, const struct usage *u) {
    json_put_raw(out, "usage", SPAN("{"));
#define X(name) json_put_i64(out, #name, u->name);
    USAGE_LINES(X)
#undef X
    json_put_i64(out, "reasoning", u->reasoning);
    if (u->tier != TIER_STANDARD)
        json_put_str(out, "tier", usage_tier_names[u->tier]);
    if (u->regional)
        json_put_bool(out, "regional", true);
    json_put_bool(out, "reported", u->reported);
    json_put_bool(out, "estimated", u->estimated);
    str_putc(out, '}');
}

static void put_attempt(struct str *out, const struct audit_attempt *t) {
    str_putc(out, '{');
    text_member(out, "target", t->target);
    text_member(out, "upstream_key", t->upstream_key);
    id_member(out, "outcome", t->outcome);
    text_member(out, "why", t->why);
    if (t->status)
        json_put_i64(out, "status", t->status);
    if (t->hedged)
        json_put_bool(out, "hedged", true);
    if (t->won)
        json_put_bool(out, "won", true);
    json_put_i64(out, "began_us", t->began_us);
    if (t->first_us >= 0)
        json_put_i64(out, "first_us", t->first_us);
    json_put_i64(out, "ended_us", t->ended_us);
    if (t->pico[0])
        json_put_span(out, "pico", span_from(t->pico, strnlen(t->pico, sizeof t->pico)));
    if (t->list_pico[0])
        json_put_span(out, "list_pico", span_from(t->list_pico, strnlen(t->list_pico, sizeof t->list_pico)));
    usage_member(out, &t->usage);
    str_putc(out, '}');
}

static void put_attempts(PUT_ARGS) {
    (void)at;
    if (r->n_attempts == 0)
        return;
    json_put_raw(out, name, SPAN("["));
    for (size_t i = 0; i < r->n_attempts && i < LINE_ATTEMPTS_MAX; i++) {
        if (i)
            str_putc(out, ',');
        put_attempt(out, &r->attempts[i]);
    }
    str_putc(out, ']');
}

static void put_lines(struct str *out, const int64_t each[LINE_N]) {
    for (size_t i = 0; i < LINE_N; i++)
        json_put_i64(out, price_line_names[i], each[i]);
}

static void put_bands(struct str *out, const struct price *p) {
    json_put_raw(out, "bands", SPAN("["));
    for (size_t i = 0; i < p->n_bands; i++) {
        str_puts(out, i ? ",{" : "{");
        json_put_str(out, "tier", usage_tier_names[p->bands[i].tier]);
        json_put_i64(out, "above_tok", p->bands[i].above_tok);
        put_lines(out, p->bands[i].each);
        str_putc(out, '}');
    }
    str_putc(out, ']');
}

static void put_factors(struct str *out, const struct price *p) {
    json_put_i64(out, "factor", p->factor);
    if (p->region_factor)
        json_put_i64(out, "region_factor", p->region_factor);
    for (enum usage_tier t = 0; t < TIER_N; t++) {
        char name[32];
        snprintf(name, sizeof name, "%s_factor", usage_tier_names[t]);
        if (p->tier_factor[t])
            json_put_i64(out, name, p->tier_factor[t]);
    }
}

static void put_price(PUT_ARGS) {
    const struct price *p = r->price;
    (void)at;
    if (!p)
        return;
    json_put_raw(out, name, SPAN("{"));
    put_lines(out, p->each);
    json_put_i64(out, "call", p->call);
    put_factors(out, p);
    if (p->n_bands)
        put_bands(out, p);
    json_put_bool(out, "known", p->known);
    json_put_bool(out, "free", p->free);
    text_member(out, "source", p->source);
    text_member(out, "from", p->from);
    str_putc(out, '}');
}

static void put_text(PUT_ARGS) {
    (void)r;
    text_member(out, name, *(const char *const *)at);
}

/* Text of our own making, never masked. */
static void put_id(PUT_ARGS) {
    (void)r;
    id_member(out, name, *(const char *const *)at);
}

static void put_amount(PUT_ARGS) {
    (void)r;
    json_put_i64(out, name, *(const int64_t *)at);
}

static void put_count(PUT_ARGS) {
    (void)r;
    if (*(const int64_t *)at)
        json_put_i64(out, name, *(const int64_t *)at);
}

static void put_span_us(PUT_ARGS) {
    (void)r;
    if (*(const int64_t *)at >= 0)
        json_put_i64(out, name, *(const int64_t *)at);
}

static void put_status(PUT_ARGS) {
    (void)r;
    if (*(const int *)at)
        json_put_i64(out, name, *(const int *)at);
}

static void put_fact(PUT_ARGS) {
    (void)r;
    if (*(const bool *)at)
        json_put_bool(out, name, true);
}

static void put_instant(PUT_ARGS) {
    char text[CLOCK_TEXT_MAX];
    (void)r;
    if (*(const int64_t *)at)
        json_put_str(out, name, clock_text(*(const int64_t *)at, text));
}

/* [offset, bytes] in the file of content. */
static void put_place(PUT_ARGS) {
    (void)at;
    if (!r->content_file)
        return;
    json_put_raw(out, name, SPAN("["));
    str_printf(out, "%lld,%lld]", (long long)r->content_offset, (long long)r->content_bytes);
}

static void put_members(PUT_ARGS) {
    (void)name, (void)at;
    if (r->members.n == 0)
        return;
    str_putc(out, ',');
    str_put(out, r->members);
}

static void put_usage(PUT_ARGS) {
    (void)name, (void)r;
    usage_member(out, at);
}

#define K(kind) (1u << AUDIT_##kind)
#define WHO (K(ADMIT) | K(HOLD) | K(REFUSE) | K(SETTLE))
#define CALL (K(ADMIT) | K(REFUSE) | K(SETTLE))
#define END (K(REFUSE) | K(SETTLE))
#define ACT (K(ADMIN) | K(NOTE) | K(SHRED))
#define BOOKS (K(ADJUST) | K(CLOSE) | K(ROLLUP))

struct field {
    const char *name;
    void (*put)(PUT_ARGS);
    size_t at;
    unsigned kinds;
};
#define FIELD(member, form, kinds)                                                                                     \
    { #member, put_##form, offsetof(struct audit_record, member), kinds }

static const struct field fields[] = {
    FIELD(request, id, WHO | ACT | K(ADJUST)),
    FIELD(team, text, WHO | ACT | K(ADJUST)),
    FIELD(key_id, id, WHO | ACT | K(ADJUST)),
    FIELD(owner, text, CALL),
    FIELD(end_user, id, CALL),
    FIELD(client, text, CALL),
    FIELD(client_family, text, CALL),
    FIELD(endpoint, text, CALL),
    FIELD(alias, text, CALL),
    FIELD(model, text, CALL | K(PRICE)),
    FIELD(target, text, END | K(PRICE)),
    FIELD(plan, plan, CALL),
    FIELD(hold_nanousd, amount, K(ADMIT) | K(HOLD)),
    FIELD(conf_digest, id, CALL | K(START) | K(CONF)),
    FIELD(labels, labels, CALL),
    FIELD(idempotency_key, text, CALL),
    {"admitted", put_instant, offsetof(struct audit_record, admitted_us), END | K(ADMIT) | K(ADJUST)},
    FIELD(status, status, END),
    FIELD(code, id, END),
    FIELD(attempts, attempts, END),
    FIELD(usage, usage, K(SETTLE)),
    FIELD(price_digest, id, K(SETTLE) | K(PRICE)),
    FIELD(cost_nanousd, amount, K(SETTLE) | K(ADJUST)),
    FIELD(list_nanousd, count, K(SETTLE)),
    FIELD(saved_nanousd, count, K(SETTLE)),
    FIELD(estimated, fact, END),
    FIELD(overrun, fact, END),
    FIELD(aborted, fact, END),
    FIELD(recovered, fact, END),
    FIELD(explained, fact, END),
    FIELD(stream, fact, CALL),
    FIELD(arm, id, CALL),
    FIELD(finish, id, K(SETTLE)),
    FIELD(cache, id, END),
    FIELD(degraded, id, END),
    FIELD(upstream_id, text, END),
    FIELD(request_digest, id, CALL),
    FIELD(answer_digest, id, END),
    FIELD(content_file, id, END),
    {"content_place", put_place, 0, END},
    FIELD(content_digest, id, END),
    FIELD(content_lost, fact, END),
    FIELD(duration_us, span_us, END),
    FIELD(first_content_us, span_us, END),
    FIELD(price, price, K(PRICE)),
    FIELD(who, text, ACT | BOOKS),
    FIELD(role, text, ACT | BOOKS),
    FIELD(scope, text, ACT),
    FIELD(clamped_tok, count, K(SETTLE)),
    FIELD(cut, id, K(SETTLE)),
    FIELD(what, text, ACT | K(CONF) | K(STOP)),
    FIELD(reason, text, ACT | BOOKS | K(CONF) | K(STOP)),
    FIELD(before, text, ACT | K(CONF)),
    FIELD(after, text, ACT | K(CONF)),
    FIELD(count, count, K(REFUSE) | K(NOTE)),
    FIELD(members, members, BOOKS | K(ADMIT) | K(SETTLE)),
};

static void put_frame(struct str *out, const struct audit_record *r, const struct line_place *at) {
    char time[CLOCK_TEXT_MAX];
    str_putc(out, '{');
    json_put_i64(out, "seq", (int64_t)at->seq);
    json_put_str(out, "time", clock_text(at->time_us, time));
    json_put_i64(out, "uptime_us", at->uptime_us);
    json_put_str(out, "kind", audit_kind_names[r->kind]);
    json_put_str(out, "prev", at->prev);
}

void line_write(struct str *out, const struct audit_record *r, const struct line_place *at, struct span extra,
                char hash[SHA256_HEX_MAX]) {
    uint8_t digest[SHA256_BYTES];
    size_t began = out->n;
    put_frame(out, r, at);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (fields[i].kinds & (1u << r->kind))
            fields[i].put(out, fields[i].name, (const char *)r + fields[i].at, r);
    if (extra.n) {
        str_putc(out, ',');
        str_put(out, extra);
    }
    assert(!out->over);
    sha256(span_from(out->at + began, out->n - began), digest);
    json_put_str(out, "hash", hex_put(digest, sizeof digest, hash));
    str_puts(out, "}\n");
    assert(!out->over && out->n - began <= LINE_MAX_BYTES);
}
