/* What records say of bodies: with audit.content.store: digest, an HMAC of the request's bytes as they came and of the
 * answer's as they were given, framing and comments of a stream included; with full, also where the bodies themselves
 * are stored, redacted and sealed. Whoever has the key and the bytes can show that they belong to a record; nobody else
 * can try bodies until one fits. What a caller sends changes nothing of it, and no record waits for any of it. */
#include "gateway/content.h"

#include "gateway/base/redact.h"
#include "gateway/gateway.h"
#include "gateway/routes.h"

#include <stdlib.h>

static bool wanted(const struct request *r) {
    return r->conf && !r->shadow && r->conf->audit.content_digest && r->route && r->route->kind == ROUTE_CALL;
}

static bool stored(const struct request *r) {
    return wanted(r) && r->conf->audit.content_full;
}

void content_given(struct request *r, struct span bytes) {
    if (!wanted(r))
        return;
    if (!r->answer_sum)
        r->answer_sum = hmac_new(span_of(r->conf->audit.content_key));
    hmac_add(r->answer_sum, bytes);
}

void content_saw(struct request *r, const struct event *e) {
    if (!stored(r) || !r->call.stream)
        return;
    if (!r->spoken)
        r->spoken = spoken_new(&r->gateway->spoken_bytes);
    spoken_add(r->spoken, e);
}

static void end_answer(struct request *r) {
    uint8_t sum[SHA256_BYTES];
    content_given(r, str_span(&r->out)); /* the last bytes wait for the record */
    if (!r->answer_sum)
        return;
    hmac_end(r->answer_sum, sum);
    r->answer_sum = NULL;
    hex_put(sum, sizeof(sum), r->answer_digest);
}

/* ---- bodies ---- */

/* What may be stored of a body; NULL, or why nothing may. */
static const char *redact(const struct conf *c, struct span body, struct str *out) {
    static const char *const words[] = {
        [REDACT_DONE] = NULL, [REDACT_NOT_JSON] = "not JSON", [REDACT_TOO_LARGE] = "too large to be redacted"};
    struct json root;
    struct json_fault fault;
    if (body.n > CONTENT_BODY_MAX)
        return "too large";
    if (body.n == 0)
        return NULL;
    if (c->audit.redact)
        return words[redact_json(c->audit.redact, body, out)];
    if (!json_check(body, JSON_DEPTH_MAX, &root, &fault))
        return "not JSON";
    str_put(out, body);
    return out->over ? "too large" : NULL;
}

/* The answer as a document: a stream in the one neutral form, what was given whole in its bytes. */
static const char *take_answer(struct request *r, struct str *out) {
    struct str text;
    str_init(&text, CONTENT_BODY_MAX + 1);
    const char *left_out = NULL;
    if (!r->head_sent)
        left_out = redact(r->conf, str_span(&r->out), out);
    else if (!r->call.stream)
        left_out = "too large";
    else if (!r->spoken)
        left_out = NULL;
    else if (!spoken_put(r->spoken, &text))
        left_out = "too large";
    else
        left_out = redact(r->conf, str_span(&text), out);
    str_fini(&text);
    return left_out;
}

/* Nothing of a body that was left out is stored. */
static struct span kept(const struct str *s, const char *left_out) {
    return left_out ? SPAN_NONE : str_span(s);
}

static bool store(struct request *r, enum audit_kind kind) {
    struct str asked, answered;
    str_init(&asked, 2 * CONTENT_BODY_MAX);
    str_init(&answered, 2 * CONTENT_BODY_MAX);
    struct audit_content c = {.kind = kind, .request = r->id, .team = r->key->team->name};
    c.asked_left_out = redact(r->conf, str_span(&r->body), &asked);
    c.answered_left_out = take_answer(r, &answered);
    c.asked = kept(&asked, c.asked_left_out);
    c.answered = kept(&answered, c.answered_left_out);
    bool good = audit_store(r->gateway->audit, &c, r->stored_at, clock_wall_us());
    str_fini(&asked);
    str_fini(&answered);
    return good;
}

static void put_place(struct request *r, struct audit_record *record) {
    if (!r->stored_at) {
        r->stored_at = xcalloc(1, sizeof(*r->stored_at));
        if (!store(r, record->kind)) {
            metrics_add(&r->gateway->metrics, METRIC_CONTENT_LOST, 1, "reason=\"not taken\"");
            r->stored_at->bytes = 0;
        }
    }
    record->content_lost = r->stored_at->bytes == 0;
    if (record->content_lost)
        return;
    record->content_file = r->stored_at->file;
    record->content_digest = r->stored_at->digest;
    record->content_offset = r->stored_at->offset;
    record->content_bytes = r->stored_at->bytes;
}

/* ---- records ---- */

void content_put(struct request *r, struct audit_record *record, bool ends) {
    uint8_t sum[SHA256_BYTES];
    if (!wanted(r))
        return;
    if (!r->request_digest[0] && r->body.n) {
        hmac_sha256(span_of(r->conf->audit.content_key), str_span(&r->body), sum);
        hex_put(sum, sizeof(sum), r->request_digest);
    }
    if (ends && stored(r) && r->key)
        put_place(r, record);
    if (ends && !r->answer_digest[0])
        end_answer(r);
    record->request_digest = r->request_digest[0] ? r->request_digest : NULL;
    record->answer_digest = r->answer_digest[0] ? r->answer_digest : NULL;
}

void content_free(struct request *r) {
    uint8_t sum[SHA256_BYTES];
    if (r->answer_sum)
        hmac_end(r->answer_sum, sum);
    r->answer_sum = NULL;
    spoken_free(r->spoken);
    r->spoken = NULL;
    free(r->stored_at);
    r->stored_at = NULL;
}

/* The record said where they would be; a note says that they are not. */
void content_tick(struct gateway *g) {
    char request[AUDIT_REQUEST_MAX], why[160];
    for (int i = 0; i < CONTENT_NOTES_A_TICK && audit_store_failed(g->audit, request, why); i++) {
        metrics_add(&g->metrics, METRIC_CONTENT_LOST, 1, "reason=\"not written\"");
        if (request[0])
            audit_add(
                g->audit,
                &(struct audit_record){.kind = AUDIT_NOTE, .what = "content_lost", .request = request, .reason = why},
                clock_wall_us());
    }
}
