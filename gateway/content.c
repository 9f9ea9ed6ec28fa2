/* What records say of bodies: with audit.content.store: digest, an HMAC of the request's bytes as they came and of the
 * answer's as they were given, framing and comments of a stream included. Whoever has the key and the bytes can show that
 * they belong to a record; nobody else can try bodies until one fits. What a caller sends changes nothing of it. */
#include "gateway/gateway.h"
#include "gateway/routes.h"

static bool wanted(const struct request *r) {
    return r->conf && r->conf->audit.content_digest && r->route && r->route->kind == ROUTE_CALL;
}

void content_given(struct request *r, struct span bytes) {
    if (!wanted(r))
        return;
    if (!r->answer_sum)
        r->answer_sum = hmac_new(span_of(r->conf->audit.content_key));
    hmac_add(r->answer_sum, bytes);
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

void content_put(struct request *r, struct audit_record *record, bool ends) {
    uint8_t sum[SHA256_BYTES];
    if (!wanted(r))
        return;
    if (!r->request_digest[0] && r->body.n) {
        hmac_sha256(span_of(r->conf->audit.content_key), str_span(&r->body), sum);
        hex_put(sum, sizeof(sum), r->request_digest);
    }
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
}
