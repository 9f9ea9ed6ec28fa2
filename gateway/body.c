/* The step BODY: bytes in, within all limits; then a call, a model that may be asked for, and the caller's own headers. */
#include "gateway/gateway.h"
#include "gateway/routes.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define IDEMPOTENCY_KEY_MAX 255 /* bytes, as the vendors have it */
#define BODY_CHUNK_MAX (64 * 1024)

static bool is_json(struct span type) {
    struct span part;
    if (!span_cut(&type, ';', &part))
        return true; /* not said: it will be looked at as JSON */
    part = span_trim(part);
    return part.n == 0 || span_is_nocase(part, "application/json") || span_is_nocase(part, "text/json") ||
           (part.n > 5 && span_is_nocase(span_from(part.at + part.n - 5, 5), "+json"));
}

static enum err head_problem(const struct request *r) {
    const struct http_head *head = exchange_head(r->client);
    struct span coding = http_field_get(head, "content-encoding", NULL);
    struct span expect = http_field_get(head, "expect", NULL);
    if (head->content_length > r->conf->http.max_body)
        return ERR_TOO_LARGE;
    if (!is_json(http_field_get(head, "content-type", NULL)))
        return ERR_MEDIA_TYPE;
    if (coding.n && !span_is_nocase(coding, "identity"))
        return ERR_ENCODING;
    return expect.n && !span_is_nocase(expect, "100-continue") ? ERR_EXPECT : ERR_NONE;
}

static bool count_body(struct request *r, size_t more) {
    if (r->gateway->buffered_bytes + (int64_t)more > r->conf->http.max_buffered)
        return false;
    r->gateway->buffered_bytes += (int64_t)more;
    r->body_counted += more;
    return true;
}

/* Takes what has come. ERR_NONE, also when more is to come. */
static enum err take_body(struct request *r) {
    struct evbuffer *in = exchange_body(r->client);
    char chunk[BODY_CHUNK_MAX];
    int n;
    while ((n = evbuffer_remove(in, chunk, sizeof(chunk))) > 0) {
        if (r->body.n + (size_t)n > r->body.max)
            return ERR_TOO_LARGE;
        if (!count_body(r, (size_t)n))
            return ERR_BUSY;
        str_put(&r->body, span_from(chunk, (size_t)n));
        if (r->body.over)
            return ERR_BUSY;
    }
    exchange_took_body(r->client);
    return ERR_NONE;
}

static enum walk refuse_body(struct request *r, enum err e) {
    if (e == ERR_TOO_LARGE)
        return refuse_saying(r, e, "The body is larger than %" PRId64 " bytes.", r->conf->http.max_body);
    if (e == ERR_BUSY)
        r->retry_after_us = US_PER_S;
    return refuse(r, e);
}

static enum walk parse_body(struct request *r) {
    struct json body;
    struct json_fault fault;
    struct call_fault bad;
    if (!json_check(str_span(&r->body), JSON_DEPTH_MAX, &body, &fault))
        return refuse_saying(r, ERR_INVALID, "The body is not valid JSON: %s at byte %zu.", fault.what, fault.at);
    if (call_parse(r->route->endpoint, body, &r->arena, &r->call, &bad))
        return WALK_DONE;
    snprintf(r->param, sizeof(r->param), "%s", bad.field);
    return refuse_saying(r, bad.err, "%s", bad.text);
}

/* The nearest name that this key may ask for: nothing of other teams' lists shows. */
static const char *guess_model(const struct request *r) {
    const char *best = NULL;
    int least = INT32_MAX;
    for (size_t i = 0; i < r->conf->n_aliases; i++) {
        const char *name = r->conf->aliases[i].name;
        if (r->conf->aliases[i].pattern || !conf_may_call(r->key, span_of(name)) ||
            !span_guess(r->call.model, &name, 1))
            continue;
        int distance = span_distance(r->call.model, span_of(name));
        if (distance < least)
            least = distance, best = name;
    }
    return best;
}

static enum walk find_alias(struct request *r) {
    r->alias = conf_find_alias(r->conf, r->call.model, &r->captured);
    if (r->alias && conf_may_call(r->key, r->call.model))
        return WALK_DONE;
    const char *guess = guess_model(r);
    r->alias = NULL;
    snprintf(r->param, sizeof(r->param), "model");
    return refuse_saying(r, ERR_MODEL, "The model '%.*s' does not exist or this key may not use it.%s%s%s",
                         (int)(r->call.model.n < 128 ? r->call.model.n : 128), r->call.model.at,
                         guess ? " Did you mean '" : "", guess ? guess : "", guess ? "'?" : "");
}

static bool may_label(const struct conf_team *team, struct span name) {
    for (size_t i = 0; i < team->n_caller_labels; i++)
        if (span_is(name, team->caller_labels[i]))
            return true;
    return false;
}

static bool add_label(struct request *r, const char *name, const char *value) {
    if (!name || !value || r->n_labels == REQUEST_LABELS_MAX)
        return false;
    r->labels[r->n_labels++] = (struct conf_label){name, value};
    return true;
}

/* "feature=search, env=prod": only names that conf lets a caller set. */
static enum walk read_labels(struct request *r) {
    const struct conf_team *team = r->key->team;
    struct span rest = http_field_get(exchange_head(r->client), "x-tollgate-labels", NULL), pair, name;
    for (size_t i = 0; i < team->n_labels; i++)
        add_label(r, team->labels[i].name, team->labels[i].value);
    while (span_cut(&rest, ',', &pair)) {
        pair = span_trim(pair);
        if (!span_cut(&pair, '=', &name) || !may_label(team, span_trim(name)))
            return refuse_saying(r, ERR_INVALID,
                                 "x-tollgate-labels: '%.*s' is not a label that this team's callers may set.",
                                 (int)(name.n < 64 ? name.n : 64), name.at ? name.at : "");
        if (!add_label(r, arena_strdup(&r->arena, span_trim(name)), arena_strdup(&r->arena, span_trim(pair))))
            return refuse_saying(r, ERR_INVALID, "x-tollgate-labels: more than %d labels.", REQUEST_LABELS_MAX);
    }
    return WALK_DONE;
}

/* A second call of the same key while the first runs is a conflict; nothing is replayed. */
static enum walk claim_idempotency(struct request *r) {
    struct span key = http_field_get(exchange_head(r->client), "idempotency-key", NULL);
    char name[IDEMPOTENCY_KEY_MAX + 16];
    if (key.n == 0)
        return WALK_DONE;
    if (key.n > IDEMPOTENCY_KEY_MAX)
        return refuse_saying(r, ERR_INVALID, "idempotency-key is longer than %d bytes.", IDEMPOTENCY_KEY_MAX);
    snprintf(name, sizeof(name), "%s/%.*s", r->key->id, SPAN_ARG(key));
    if (map_find(&r->gateway->idempotent, span_of(name)))
        return refuse(r, ERR_CONFLICT);
    r->idempotency = xstrdup(name);
    map_put(&r->gateway->idempotent, span_of(name), r);
    return WALK_DONE;
}

static enum walk begin_body(struct request *r) {
    enum err e = head_problem(r);
    if (e == ERR_TOO_LARGE && !http_field_get(exchange_head(r->client), "expect", NULL).at)
        exchange_want_body(r->client); /* it is on its way already: read past it, so that the answer can be read */
    if (e)
        return refuse_body(r, e);
    str_init(&r->body, (size_t)r->conf->http.max_body);
    r->doing = "reading its body";
    r->asked = true;
    exchange_want_body(r->client);
    return WALK_DONE;
}

static enum walk answer_own(struct request *r) {
    r->route->answer(r);
    return go(r, r->err ? STATE_REFUSE : STATE_SETTLE);
}

enum walk step_body(struct request *r) {
    static enum walk (*const parts[])(struct request * r) = {parse_body, find_alias, read_labels, claim_idempotency};
    if (!r->asked && begin_body(r) != WALK_DONE)
        return WALK_MORE;
    enum err e = take_body(r);
    if (!e)
        e = exchange_failed(r->client);
    if (e)
        return refuse_body(r, e);
    if (!exchange_body_ended(r->client))
        return WALK_WAIT;
    if (r->route->kind == ROUTE_OWN)
        return answer_own(r);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i](r) != WALK_DONE)
            return WALK_MORE;
    return go(r, STATE_EXPAND);
}
