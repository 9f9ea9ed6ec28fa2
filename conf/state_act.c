/* One act on state as a line of JSON, both ways: what is written here is what is read here. Money is nano-dollars as
 * integers, times are microseconds since 1970, -1 is "none". */
#include "conf/state.h"

#include "gateway/base/clock.h"
#include "gateway/base/json.h"

#include <inttypes.h>

static const char *const act_names[ACT_KINDS] = {"add", "revoke", "expire"};
static const char *const role_names[] = {"member", "owner"};
static const char *const at_limit_names[] = {"refuse", "degrade", "clamp"};
static const char *const fallback_names[] = {"any", "same-model", "none"};

/* --- writing --- */

static void write_texts(struct str *out, const char *name, const char *const *texts, size_t n) {
    json_put_name(out, name);
    str_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            str_putc(out, ',');
        json_put_text(out, span_of(texts[i]));
    }
    str_putc(out, ']');
}

static void write_shares(struct str *out, const struct conf_budget *b) {
    json_put_name(out, "warn");
    str_putc(out, '[');
    for (size_t i = 0; i < b->n_warn; i++)
        str_printf(out, "%s%" PRId64, i ? "," : "", b->warn[i]);
    str_putc(out, ']');
}

static void write_budgets(struct str *out, const struct conf_key *key) {
    json_put_name(out, "budgets");
    str_putc(out, '[');
    for (size_t i = 0; i < key->n_budgets; i++) {
        str_puts(out, i ? ",{" : "{");
        json_put_i64(out, "limit_nanousd", key->budgets[i].limit_nanousd);
        json_put_str(out, "period", period_names[key->budgets[i].period]);
        json_put_str(out, "timezone", key->budgets[i].zone ? zone_name(key->budgets[i].zone) : "UTC");
        json_put_str(out, "at_limit", at_limit_names[key->budgets[i].at_limit]);
        write_shares(out, &key->budgets[i]);
        str_putc(out, '}');
    }
    str_putc(out, ']');
}

static void write_head(struct str *out, enum act_kind act, const char *id, const char *who, int64_t now_us) {
    char time[CLOCK_TEXT_MAX];
    str_putc(out, '{');
    json_put_str(out, "act", act_names[act]);
    json_put_str(out, "id", id);
    json_put_str(out, "who", who);
    json_put_str(out, "time", clock_text(now_us, time));
}

void act_write_add(const struct conf_key *key, const char *who, int64_t now_us, struct str *out) {
    char hex[SHA256_HEX_MAX];
    write_head(out, ACT_ADD, key->id, who, now_us);
    json_put_str(out, "team", key->team->name);
    json_put_str(out, "name", key->name);
    json_put_str(out, "owner", key->owner);
    json_put_str(out, "sha256", hex_put(key->sha256, SHA256_BYTES, hex));
    json_put_i64(out, "expires_us", key->expires_us ? key->expires_us : INT64_MAX);
    json_put_bool(out, "demo", key->demo);
    if (key->allow)
        write_texts(out, "allow", key->allow, key->n_allow);
    if (key->n_require)
        write_texts(out, "require", key->require, key->n_require);
    write_budgets(out, key);
    json_put_i64(out, "requests_per_minute", key->limits.requests_per_minute);
    json_put_i64(out, "tokens_per_minute", key->limits.tokens_per_minute);
    json_put_i64(out, "in_flight", key->limits.in_flight);
    json_put_i64(out, "max_cost_per_call", key->max_cost_per_call);
    json_put_str(out, "role", role_names[key->role]);
    json_put_str(out, "fallback", fallback_names[key->fallback]);
    if (key->account)
        json_put_str(out, "account", key->account);
    if (key->made_by)
        json_put_str(out, "made_by", key->made_by);
    str_putc(out, '}');
}

void act_write_revoke(const struct conf_key *key, const char *who, const char *reason, int64_t now_us,
                      struct str *out) {
    char hex[SHA256_HEX_MAX];
    write_head(out, ACT_REVOKE, key->id, who, now_us);
    json_put_str(out, "sha256", hex_put(key->sha256, SHA256_BYTES, hex));
    json_put_str(out, "reason", reason);
    str_putc(out, '}');
}

void act_write_expire(const struct conf_key *key, int64_t expires_us, const char *who, const char *reason,
                      int64_t now_us, struct str *out) {
    char hex[SHA256_HEX_MAX];
    write_head(out, ACT_EXPIRE, key->id, who, now_us);
    json_put_str(out, "sha256", hex_put(key->sha256, SHA256_BYTES, hex));
    json_put_i64(out, "expires_us", expires_us);
    json_put_str(out, "reason", reason);
    str_putc(out, '}');
}

/* --- reading --- */

static const char *text_of(struct reader *r, struct json act, const char *name) {
    struct span text = json_text(json_get(act, name), &r->conf->arena);
    return text.at && text.n && !memchr(text.at, 0, text.n) ? tree_strdup(&r->conf->arena, text) : NULL;
}

static int64_t number_of(struct json act, const char *name, int64_t otherwise) {
    int64_t v;
    return json_i64(json_get(act, name), &v) ? v : otherwise;
}

static int64_t limit_of(struct json act, const char *name) {
    int64_t v = number_of(act, name, CONF_UNLIMITED);
    return v > 0 ? v : CONF_UNLIMITED;
}

/* The index among the words; the first where none of them stands. */
static size_t word_of(struct json act, const char *name, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (json_is(json_get(act, name), words[i]))
            return i;
    return 0;
}

/* NULL where there is no list. */
static const char **read_texts(struct reader *r, struct json list, size_t *n) {
    if (list.kind != JSON_ARRAY)
        return NULL;
    *n = json_count(list);
    const char **texts = tree_alloc(&r->conf->arena, (*n + 1) * sizeof *texts);
    for (size_t i = 0; i < *n; i++)
        texts[i] = tree_strdup(&r->conf->arena, json_text(json_at(list, i), &r->conf->arena));
    return texts;
}

/* False: a share is none. */
static bool read_shares(struct reader *r, struct json list, struct conf_budget *b) {
    b->n_warn = json_count(list);
    b->warn = tree_alloc(&r->conf->arena, (b->n_warn + 1) * sizeof *b->warn);
    for (size_t i = 0; i < b->n_warn; i++)
        if (!json_i64(json_at(list, i), &b->warn[i]) || b->warn[i] < 1 || b->warn[i] > FACTOR_ONE)
            return false;
    return b->n_warn <= CONF_WARN_MAX;
}

static bool read_budget(struct reader *r, struct json from, struct conf_budget *b) {
    const char *zone = text_of(r, from, "timezone");
    b->limit_nanousd = number_of(from, "limit_nanousd", -1);
    b->zone = zone ? zone_get(zone) : NULL;
    b->at_limit = (enum conf_at_limit)word_of(from, "at_limit", at_limit_names, ARRAY_LEN(at_limit_names));
    if (!read_shares(r, json_get(from, "warn"), b))
        return false;
    for (int p = PERIOD_HOUR; p <= PERIOD_TOTAL; p++)
        if (json_is(json_get(from, "period"), period_names[p])) {
            b->period = (enum period)p;
            return b->zone && b->limit_nanousd >= 0;
        }
    return false;
}

static bool read_budgets(struct reader *r, struct json list, struct conf_key *k) {
    k->n_budgets = json_count(list);
    k->budgets = tree_alloc(&r->conf->arena, (k->n_budgets + 1) * sizeof *k->budgets);
    for (size_t i = 0; i < k->n_budgets; i++)
        if (!read_budget(r, json_at(list, i), &k->budgets[i]))
            return false;
    return true;
}

static bool read_add(struct reader *r, struct json doc, struct act *out, const char **why) {
    struct conf_key *k = tree_alloc(&r->conf->arena, sizeof *k);
    *k = (struct conf_key){.id = out->id, .runtime = true};
    k->name = text_of(r, doc, "name");
    k->owner = text_of(r, doc, "owner");
    const char *hex = text_of(r, doc, "sha256");
    out->team = text_of(r, doc, "team");
    *why = "a member is missing or wrong";
    if (!k->name || !out->team || !hex || !hex_read(span_of(hex), k->sha256, SHA256_BYTES))
        return false;
    k->expires_us = number_of(doc, "expires_us", INT64_MAX);
    k->demo = json_get(doc, "demo").kind == JSON_TRUE;
    k->limits.requests_per_minute = limit_of(doc, "requests_per_minute");
    k->limits.tokens_per_minute = limit_of(doc, "tokens_per_minute");
    k->limits.in_flight = limit_of(doc, "in_flight");
    k->max_cost_per_call = limit_of(doc, "max_cost_per_call");
    k->role = (enum key_role)word_of(doc, "role", role_names, ARRAY_LEN(role_names));
    k->fallback = (enum fallback)word_of(doc, "fallback", fallback_names, ARRAY_LEN(fallback_names));
    k->account = text_of(r, doc, "account");
    k->made_by = text_of(r, doc, "made_by");
    k->allow = read_texts(r, json_get(doc, "allow"), &k->n_allow);
    k->require = read_texts(r, json_get(doc, "require"), &k->n_require);
    k->team = conf_find_team(r->conf, span_of(out->team));
    out->key = k->team ? k : NULL;
    return read_budgets(r, json_get(doc, "budgets"), k);
}

static bool read_kind(struct json doc, enum act_kind *out) {
    for (enum act_kind k = 0; k < ACT_KINDS; k++)
        if (json_is(json_get(doc, "act"), act_names[k])) {
            *out = k;
            return true;
        }
    return false;
}

bool act_read(struct reader *r, struct span line, struct act *out, const char **why) {
    struct json doc;
    struct json_fault fault = {0};
    if (!json_check(line, JSON_DEPTH_MAX, &doc, &fault) || doc.kind != JSON_OBJECT) {
        *why = fault.what ? fault.what : "no object";
        return false;
    }
    out->id = text_of(r, doc, "id");
    out->who = text_of(r, doc, "who");
    *why = "it names no key";
    if (!out->id)
        return false;
    *why = "its act is none of add, revoke and expire";
    if (!read_kind(doc, &out->kind))
        return false;
    if (out->kind == ACT_ADD)
        return read_add(r, doc, out, why);
    const char *hex = text_of(r, doc, "sha256");
    *why = "its sha256 is none";
    out->digested = hex && hex_read(span_of(hex), out->sha256, SHA256_BYTES);
    if (hex && !out->digested)
        return false;
    *why = "it says no time";
    return out->kind == ACT_REVOKE || json_i64(json_get(doc, "expires_us"), &out->expires_us);
}

bool conf_act_revokes(struct span line, char id[16], uint8_t sha256[SHA256_BYTES], bool *digested) {
    struct json doc;
    enum act_kind kind;
    struct arena a;
    if (!json_check(line, JSON_DEPTH_MAX, &doc, NULL) || !read_kind(doc, &kind) || kind != ACT_REVOKE)
        return false;
    arena_init(&a, line.n + 1);
    struct span name = json_text(json_get(doc, "id"), &a), hex = json_text(json_get(doc, "sha256"), &a);
    bool good = name.n > 0 && name.n < 16;
    memset(id, 0, 16);
    if (good)
        memcpy(id, name.at, name.n);
    *digested = hex.n == SHA256_HEX_MAX - 1 && hex_read(hex, sha256, SHA256_BYTES);
    arena_fini(&a);
    return good;
}
