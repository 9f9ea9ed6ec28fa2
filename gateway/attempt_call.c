/* The HTTP call of a try: what of the caller's head reaches a provider, and the body in the provider's words. Always true
 * here: nothing of the caller's credential, cookies or query keys goes along, and two tries of one request write the same
 * call, each with its own model, maximum and key. */
#include "gateway/attempt.h"

#include "gateway/gateway.h"
#include "gateway/routes.h"

#include <inttypes.h>
#include <stdio.h>

#define CALL_FIELDS_MAX 12 /* header fields of a call */

static bool is_credential(struct span name) {
    static const char *const names[] = {"key", "api_key", "api-key", "access_token", "token"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (span_is_nocase(name, names[i]))
            return true;
    return false;
}

/* The caller's query without what could be a credential. */
static const char *forwarded_query(struct request *r) {
    struct span rest = r->client ? exchange_head(r->client)->query : SPAN_NONE, pair;
    struct str out;
    str_init(&out, HTTP_TARGET_MAX);
    while (rest.n && span_cut(&rest, '&', &pair)) {
        struct span name, value = pair;
        if (pair.n == 0 || !span_cut(&value, '=', &name) || is_credential(name))
            continue;
        str_putc(&out, out.n ? '&' : '?');
        str_put(&out, pair);
    }
    const char *kept = out.n && !out.over ? arena_strdup(&r->arena, str_span(&out)) : "";
    str_fini(&out);
    return kept ? kept : "";
}

static const struct {
    const char *name;
    enum dialect dialect;
    const char *absent; /* what is sent when the caller sends none; NULL: nothing */
} forwarded[] = {{"anthropic-version", DIALECT_ANTHROPIC, "2023-06-01"},
                 {"anthropic-beta", DIALECT_ANTHROPIC, NULL},
                 {"openai-beta", DIALECT_RESPONSES, NULL}};

/* What of the caller's head reaches a provider: read once, while the client is there. */
static void read_forwarded(struct request *r) {
    if (r->forwarded_read)
        return;
    r->forwarded_read = true;
    r->query = forwarded_query(r);
    for (size_t i = 0; i < ARRAY_LEN(forwarded); i++) {
        if (forwarded[i].dialect != r->dialect)
            continue;
        struct span value = request_field(r, forwarded[i].name);
        const char *text = value.at ? arena_strdup(&r->arena, value) : forwarded[i].absent;
        if (text)
            r->forwarded[r->n_forwarded++] = (struct http_field){span_of(forwarded[i].name), span_of(text)};
    }
}

/* Whole, however long: a value cut here would be one key for two calls. */
static bool put_forwarded(struct request *r, struct span name, struct span value, struct span *out) {
    char *line = arena_alloc(&r->arena, name.n + 2 + value.n);
    if (!line)
        return false;
    memcpy(line, name.at, name.n);
    memcpy(line + name.n, ": ", 2);
    memcpy(line + name.n + 2, value.at, value.n);
    *out = span_from(line, name.n + 2 + value.n);
    return true;
}

/* What a target must have for this key and call: no answer of one that has it not is given to them out of the cache. */
static struct span required_tags(struct request *r) {
    struct span said = request_field(r, "x-tollgate-require");
    struct str out;
    str_init(&out, REQUEST_ARENA_MAX);
    for (size_t i = 0; i < r->key->n_require; i++)
        str_printf(&out, "%s,", r->key->require[i]);
    str_put(&out, said);
    char *kept = out.over ? NULL : arena_strdup(&r->arena, str_span(&out));
    str_fini(&out);
    return kept ? span_of(kept) : SPAN_NONE;
}

bool attempt_forwarded(struct request *r, struct span out[FORWARDED_LINES_MAX], size_t *n) {
    read_forwarded(r);
    *n = 0;
    for (size_t i = 0; i < r->n_forwarded; i++)
        if (!put_forwarded(r, r->forwarded[i].name, r->forwarded[i].value, &out[(*n)++]))
            return false;
    struct span tags = required_tags(r);
    return tags.at && put_forwarded(r, SPAN("query"), span_of(r->query), &out[(*n)++]) &&
           put_forwarded(r, SPAN("tags"), tags, &out[(*n)++]);
}

static void on_call(struct http_call *c, void *user) {
    (void)c;
    request_wake(user);
}

struct clocks {
    int64_t connect_us, first_us, total_us;
};

/* A try that something may follow leaves it time: its patience is shorter than the backend's own where the deadline is. */
static struct clocks clocks_of(const struct attempt *a) {
    const struct request *r = a->of;
    const struct conf_backend *b = a->row->choice->backend;
    struct walked w = attempt_walked(r, OUTCOME_TIMEOUT);
    int64_t patience_us = routing_patience_us(&r->plan, &w);
    patience_us = patience_us > US_PER_MS ? patience_us : US_PER_MS;
    return (struct clocks){patience_us < b->connect_us ? patience_us : b->connect_us,
                           patience_us < b->first_token_us ? patience_us : b->first_token_us, b->total_us};
}

/* When we shall have gone, in the words of the vendors' own SDKs: a plain answer is wanted within its patience. */
static bool put_deadline(const struct attempt *a, const struct clocks *c, struct http_field *out) {
    struct request *r = a->of;
    int64_t us = r->call.stream || c->total_us < c->first_us ? c->total_us : c->first_us;
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, (us + US_PER_S - 1) / US_PER_S);
    char *kept = arena_strdup(&r->arena, span_of(text));
    *out = (struct http_field){SPAN("x-stainless-timeout"), span_of(kept)};
    return kept != NULL;
}

/* The caller's own, or one of ours: whatever becomes of a try, a provider can tell that the next one is the same call. */
static struct span idempotency_of(const struct request *r) {
    return span_of(r->idempotency ? strchr(r->idempotency, '/') + 1 : r->id);
}

static size_t call_fields(struct attempt *a, const struct clocks *clocks, struct http_field fields[CALL_FIELDS_MAX]) {
    const struct request *r = a->of;
    const struct choice *c = a->row->choice;
    size_t n = 0;
    const char *sign = c->key ? backend_sign(c->backend->protocol, c->key, &a->sign) : NULL;
    fields[n++] = (struct http_field){SPAN("content-type"), SPAN("application/json")};
    fields[n++] = (struct http_field){SPAN("accept"), SPAN("application/json, text/event-stream")};
    fields[n++] = (struct http_field){SPAN("user-agent"), SPAN("tollgate/" TOLLGATE_VERSION)};
    if (sign)
        fields[n++] = (struct http_field){span_of(sign), str_span(&a->sign)};
    fields[n++] = (struct http_field){SPAN("idempotency-key"), idempotency_of(r)};
    n += put_deadline(a, clocks, &fields[n]);
    for (size_t i = 0; i < r->n_forwarded; i++)
        fields[n++] = r->forwarded[i];
    return n;
}

/* The call is the request's; what of it is this try's own is set before it is written. */
static bool write_call(struct attempt *a, struct call_pieces *pieces) {
    struct request *r = a->of;
    const struct choice *c = a->row->choice;
    a->unasked = a->again || map_find(&r->gateway->unasked, span_of(c->backend->name));
    r->call.usage_unasked = a->unasked;
    r->call.clamped_tok = a->clamped_tok;
    return call_write(&r->call, c->model, &r->arena, pieces);
}

bool attempt_open_call(struct attempt *a) {
    struct request *r = a->of;
    const struct conf_backend *b = a->row->choice->backend;
    const struct endpoint_row *row = endpoint_row(r->call.endpoint);
    struct http_field fields[CALL_FIELDS_MAX];
    struct call_pieces *pieces = arena_alloc(&r->arena, sizeof(*pieces));
    struct str path;
    if (!pieces || !write_call(a, pieces))
        return false;
    read_forwarded(r);
    str_init(&path, 2 * HTTP_TARGET_MAX);
    str_printf(&path, "%s%s%s", b->path, row->provider_path, r->query);
    const char *kept = arena_strdup(&r->arena, str_span(&path));
    str_fini(&path);
    if (!kept)
        return false;
    struct clocks clocks = clocks_of(a);
    size_t n_fields = call_fields(a, &clocks, fields);
    a->call = http_call_open(r->shadow ? r->gateway->shadows.pool : r->gateway->pool,
                             &(struct http_call_options){.target = {b->tls, b->host, b->port, b->ca_file, b->proxy},
                                                         .method = SPAN("POST"),
                                                         .path = span_of(kept),
                                                         .fields = fields,
                                                         .n_fields = n_fields,
                                                         .body = pieces->at,
                                                         .n_body = pieces->n,
                                                         .connect_us = clocks.connect_us,
                                                         .first_us = clocks.first_us,
                                                         .idle_us = b->idle_us,
                                                         .total_us = clocks.total_us,
                                                         .on_change = on_call,
                                                         .user = r});
    return true;
}

/* Usage was asked for where the caller did not ask, and the provider's refusal names it. */
static bool asking_was_refused(const struct attempt *a) {
    const struct request *r = a->of;
    bool speaks = r->call.endpoint == ENDPOINT_CHAT || r->call.endpoint == ENDPOINT_COMPLETIONS;
    bool ours = speaks && r->call.stream && !r->call.include_usage && !a->unasked;
    return ours && (a->row->status == 400 || a->row->status == 422) && a->plain.n &&
           memmem(a->plain.at, a->plain.n, "stream_options", 14);
}

bool attempt_again_unasked(struct attempt *a) {
    if (!asking_was_refused(a))
        return false;
    http_call_close(a->call);
    a->call = NULL;
    a->again = true;
    a->form = FORM_UNKNOWN;
    str_clear(&a->plain);
    str_clear(&a->sign);
    return attempt_open_call(a);
}
