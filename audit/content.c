/* Frames and keys as bytes. Always true: a nonce is used once a key, since each process has keys of its own and counts;
 * nothing is read from disk here. */
#include "audit/content.h"

#include "gateway/base/clock.h"
#include "gateway/base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

#define MAGIC "TGC1"
#define PREFIX "content-"
#define MARK_BYTES 4 /* random, that names of two processes differ */
#define ZSTD_LEVEL 1
#define DOCUMENT_MAX ((size_t)32 << 20)
#define BOUND_MAX 1024
static const char suffixes[2][8] = {".sealed", ".key"};

/* ---- names ---- */

static bool is_part(const char *team) {
    return *team && strlen(team) < 128 &&
           strspn(team, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(team);
}

static struct span stem_of(const char *file) {
    struct span s = span_of(file);
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        size_t n = strlen(suffixes[i]);
        if (s.n > n && memcmp(s.at + s.n - n, suffixes[i], n) == 0)
            return span_from(s.at, s.n - n);
    }
    return SPAN_NONE;
}

static bool read_day(struct span digits, int64_t *day) {
    char text[CLOCK_TEXT_MAX];
    int64_t us;
    snprintf(text, sizeof text, "%.4s-%.2s-%.2s", digits.at, digits.at + 4, digits.at + 6);
    bool good = clock_parse(span_of(text), &us);
    *day = good ? us / US_PER_DAY : 0;
    return good;
}

bool content_name_read(const char *file, struct span *team, int64_t *day) {
    struct span s = stem_of(file);
    size_t head = strlen(PREFIX) + 9, tail = 1 + 2 * MARK_BYTES;
    if (s.n <= head + tail || !span_starts(s, PREFIX) || s.at[head - 1] != '-' || s.at[s.n - tail] != '-' ||
        memchr(s.at, '/', s.n))
        return false;
    *team = span_from(s.at + head, s.n - head - tail);
    return read_day(span_from(s.at + strlen(PREFIX), 8), day);
}

bool content_name(const char *file, const char *suffix, char out[CONTENT_NAME_MAX]) {
    struct span team, stem = stem_of(file);
    int64_t day;
    if (!content_name_read(file, &team, &day))
        return false;
    int n = snprintf(out, CONTENT_NAME_MAX, "%.*s%s", SPAN_ARG(stem), suffix);
    return n > 0 && n < CONTENT_NAME_MAX;
}

/* ---- keys ---- */

static void day_digits(int64_t day, char out[CONTENT_DAY_MAX]) {
    char text[CLOCK_TEXT_MAX];
    clock_text(day * US_PER_DAY, text);
    snprintf(out, CONTENT_DAY_MAX, "%.4s%.2s%.2s", text, text + 5, text + 8);
}

/* HMAC keys that are the operator's key as text make digests; this one is made of its bytes, and makes only this. */
static void wrap_key(const uint8_t wrap[SEAL_KEY_BYTES], uint8_t out[SEAL_KEY_BYTES]) {
    hmac_sha256(span_from(wrap, SEAL_KEY_BYTES), SPAN("tollgate: keys of stored content, 1"), out);
}

static void seal_key(const uint8_t wrap[SEAL_KEY_BYTES], const struct content_key *k, struct str *text) {
    uint8_t made[SEAL_KEY_BYTES], nonce[SEAL_NONCE_BYTES], sealed[SEAL_KEY_BYTES + SEAL_TAG_BYTES];
    char hex[2 * sizeof sealed + 1];
    wrap_key(wrap, made);
    random_bytes(nonce, sizeof nonce);
    seal_close(made, nonce, span_of(k->file), span_from(k->key, SEAL_KEY_BYTES), sealed);
    seal_forget(made, sizeof made);
    str_putc(text, '{');
    json_put_str(text, "file", k->file);
    json_put_str(text, "nonce", hex_put(nonce, sizeof nonce, hex));
    json_put_str(text, "sealed", hex_put(sealed, sizeof sealed, hex));
    str_puts(text, "}\n");
}

bool content_key_new(const uint8_t wrap[SEAL_KEY_BYTES], const char *team, int64_t day, struct content_key *out,
                     struct str *file_text) {
    uint8_t mark[MARK_BYTES];
    char hex[2 * MARK_BYTES + 1], digits[CONTENT_DAY_MAX];
    if (!is_part(team))
        return false;
    *out = (struct content_key){.day = day};
    random_bytes(mark, sizeof mark);
    random_bytes(out->key, sizeof out->key);
    day_digits(day, digits);
    snprintf(out->file, sizeof out->file, PREFIX "%s-%s-%s%s", digits, team, hex_put(mark, sizeof mark, hex),
             suffixes[0]);
    seal_key(wrap, out, file_text);
    return true;
}

static bool read_hex(struct json v, uint8_t *out, size_t n) {
    return v.kind == JSON_STRING && hex_read(span_from(v.raw.at + 1, v.raw.n - 2), out, n);
}

bool content_key_open(const uint8_t wrap[SEAL_KEY_BYTES], const char *name, struct span file_text,
                      uint8_t key[SEAL_KEY_BYTES]) {
    uint8_t made[SEAL_KEY_BYTES], nonce[SEAL_NONCE_BYTES], sealed[SEAL_KEY_BYTES + SEAL_TAG_BYTES];
    struct json v;
    struct json_fault fault;
    if (!json_check(file_text, JSON_DEPTH_MAX, &v, &fault) || !read_hex(json_get(v, "nonce"), nonce, sizeof nonce) ||
        !read_hex(json_get(v, "sealed"), sealed, sizeof sealed))
        return false;
    wrap_key(wrap, made);
    bool good = seal_open(made, nonce, span_of(name), span_from(sealed, sizeof sealed), key);
    seal_forget(made, sizeof made);
    return good;
}

/* ---- frames ---- */

static void put_body(struct str *out, const char *name, struct span body, const char *left_out) {
    char why[32];
    if (left_out) {
        snprintf(why, sizeof why, "%s_left_out", name);
        json_put_str(out, why, left_out);
    } else if (body.n) {
        json_put_raw(out, name, body);
    }
}

static void put_document(struct str *out, const struct audit_content *c) {
    str_putc(out, '{');
    json_put_str(out, "request_id", c->request);
    json_put_str(out, "team", c->team);
    put_body(out, "request", c->asked, c->asked_left_out);
    put_body(out, "answer", c->answered, c->answered_left_out);
    str_putc(out, '}');
}

/* What a frame is bound to: moved to another record it does not open. */
static struct span bound_to(const char *request, const char *kind, const char *file, char out[BOUND_MAX]) {
    int n = snprintf(out, BOUND_MAX, "%s\n%s\n%s", request, kind, file); /* team and day are in the file's name */
    return span_from(out, n > 0 && n < BOUND_MAX ? (size_t)n : 0);
}

static bool seal_frame(struct content_key *k, struct span with, struct span plain, struct str *out) {
    uint8_t nonce[SEAL_NONCE_BYTES] = {0};
    if (!str_reserve(out, plain.n + CONTENT_FRAME_EXTRA))
        return false;
    uint64_t number = k->frames++;
    memcpy(nonce, &number, sizeof number);
    str_puts(out, MAGIC);
    str_put(out, span_from(nonce, sizeof nonce));
    seal_close(k->key, nonce, with, plain, (uint8_t *)out->at + out->n);
    out->n += plain.n + SEAL_TAG_BYTES;
    out->at[out->n] = '\0';
    return true;
}

bool content_pack(struct content_key *k, const struct audit_content *c, struct str *out) {
    char with[BOUND_MAX];
    struct str text;
    str_init(&text, DOCUMENT_MAX);
    put_document(&text, c);
    struct span bound = bound_to(c->request, audit_kind_names[c->kind], k->file, with);
    size_t room = ZSTD_compressBound(text.n);
    void *packed = text.over || !bound.n ? NULL : mem_grow(NULL, room);
    size_t n = packed ? ZSTD_compress(packed, room, text.at, text.n, ZSTD_LEVEL) : 0;
    bool good = packed && !ZSTD_isError(n) && seal_frame(k, bound, span_from(packed, n), out);
    free(packed);
    str_fini(&text);
    return good;
}

static bool unzip(struct span packed, struct str *out, struct str *why) {
    unsigned long long n = ZSTD_getFrameContentSize(packed.at, packed.n);
    if (n > DOCUMENT_MAX || !str_reserve(out, n)) { /* errors are the two largest numbers */
        str_puts(why, "what was sealed is no zstd frame of a document");
        return false;
    }
    size_t got = ZSTD_decompress(out->at + out->n, n, packed.at, packed.n);
    if (ZSTD_isError(got) || got != n) {
        str_printf(why, "zstd: %s", ZSTD_isError(got) ? ZSTD_getErrorName(got) : "the frame is short");
        return false;
    }
    out->n += got;
    out->at[out->n] = '\0';
    return true;
}

bool content_unpack(const uint8_t key[SEAL_KEY_BYTES], const struct audit_place *p, struct span frame, struct str *out,
                    struct str *why) {
    char with[BOUND_MAX];
    size_t head = CONTENT_FRAME_EXTRA - SEAL_TAG_BYTES;
    if (frame.n < CONTENT_FRAME_EXTRA || memcmp(frame.at, MAGIC, 4) != 0) {
        str_puts(why, "these bytes are no frame of content");
        return false;
    }
    struct span bound = bound_to(p->request, p->kind, p->file, with),
                sealed = span_from(frame.at + head, frame.n - head);
    uint8_t *plain = mem_grow(NULL, sealed.n);
    bool opened = plain && seal_open(key, (const uint8_t *)frame.at + 4, bound, sealed, plain);
    if (!opened)
        str_puts(why, plain ? "the tag does not hold: it was changed, or belongs to another record" : "memory is out");
    bool good = opened && unzip(span_from(plain, sealed.n - SEAL_TAG_BYTES), out, why);
    if (opened)
        seal_forget(plain, sealed.n - SEAL_TAG_BYTES);
    free(plain);
    return good;
}
