/* Takes a line apart by the frame every record has, without a JSON parser: a line that does not have the frame was not
 * written by this room. Nothing is copied and nothing before the hash is trusted by those who ask for more. */
#include "audit/line.h"

#define HASH_DIGITS (SHA256_HEX_MAX - 1)
#define SEQ_DIGITS_MAX 19

static bool expect(struct span *s, const char *text) {
    size_t n = strlen(text);
    if (s->n < n || memcmp(s->at, text, n) != 0)
        return false;
    *s = span_from(s->at + n, s->n - n);
    return true;
}

static bool digits(struct span *s, int64_t *out) {
    size_t n = 0;
    while (n < s->n && n <= SEQ_DIGITS_MAX && s->at[n] >= '0' && s->at[n] <= '9')
        n++;
    struct span number = span_from(s->at, n);
    *s = span_from(s->at + n, s->n - n);
    return (n == 1 || (n > 1 && number.at[0] != '0')) && span_to_i64(number, out);
}

static bool word(struct span *s, struct span *out) {
    const char *end = s->n ? memchr(s->at, '"', s->n) : NULL;
    if (!end)
        return false;
    *out = span_from(s->at, (size_t)(end - s->at));
    *s = span_from(end + 1, s->n - out->n - 1);
    return true;
}

/* Without an early end, so that the compiler makes a few wide steps of it: this runs twice a line of a long log. */
static bool is_hash(struct span s) {
    unsigned bad = 0;
    if (s.n != HASH_DIGITS)
        return false;
    for (size_t i = 0; i < HASH_DIGITS; i++) {
        unsigned char c = (unsigned char)s.at[i];
        bad |= (unsigned)((unsigned char)(c - '0') > 9) & (unsigned)((unsigned char)(c - 'a') > 5);
    }
    return bad == 0;
}

static bool read_tail(struct span text, struct line_frame *out) {
    static const char before[] = ",\"hash\":\"", after[] = "\"}";
    size_t tail = sizeof before - 1 + HASH_DIGITS + sizeof after - 1;
    if (text.n < tail)
        return false;
    struct span s = span_from(text.at + text.n - tail, tail);
    out->body = span_from(text.at, text.n - tail);
    return expect(&s, before) && word(&s, &out->hash) && is_hash(out->hash) && expect(&s, "}") && s.n == 0;
}

/* The request's id is the first field of every record that has one. */
static void read_request(struct span s, struct line_frame *out) {
    out->request = SPAN_NONE;
    if (expect(&s, ",\"request\":\"") && !word(&s, &out->request))
        out->request = SPAN_NONE;
}

bool line_read(struct span text, struct line_frame *out) {
    struct span s = text;
    int64_t seq, uptime;
    if (!read_tail(text, out))
        return false;
    s.n = out->body.n;
    if (!expect(&s, "{\"seq\":") || !digits(&s, &seq) || seq < 1)
        return false;
    out->seq = (uint64_t)seq;
    if (!expect(&s, ",\"time\":\"") || !word(&s, &out->time) || !expect(&s, ",\"uptime_us\":") ||
        !digits(&s, &uptime) || !expect(&s, ",\"kind\":\"") || !word(&s, &out->kind) || !expect(&s, ",\"prev\":\"") ||
        !word(&s, &out->prev) || !is_hash(out->prev))
        return false;
    read_request(s, out);
    return true;
}

static bool is_digest(const struct line_frame *f, const uint8_t digest[SHA256_BYTES]) {
    char text[SHA256_HEX_MAX];
    return span_is(f->hash, hex_put(digest, SHA256_BYTES, text));
}

bool line_hash_is_true(const struct line_frame *f) {
    uint8_t digest[SHA256_BYTES];
    sha256(f->body, digest);
    return is_digest(f, digest);
}

bool line_hash_is_true_with(const struct line_frame *f, struct sha256 *kept) {
    uint8_t digest[SHA256_BYTES];
    sha256_one(kept, f->body, digest);
    return is_digest(f, digest);
}

int line_kind(struct span kind) {
    for (int k = 0; k < AUDIT_KINDS; k++)
        if (span_is(kind, audit_kind_names[k]))
            return k;
    return -1;
}
