/* An entry as it lies in Redis:
 *
 *     version u8 | form u8 | kept_us, until_us, drop_us, bytes: u64 each | SHA-256 of key, what stands before, payload | payload
 *
 * All little-endian. Always true here: what is read is what was kept under that very key, whole, or it is nothing; the
 * size that a value claims is checked before any memory is taken for it. The digest finds accidents, not forgers: whoever
 * may write to that Redis is trusted. */
#include "cache/store.h"

#include <stdlib.h>
#include <zstd.h>

#define PACKED_VERSION 1
#define HEAD_BYTES (2 + 4 * 8)
#define PAYLOAD_AT (HEAD_BYTES + SHA256_BYTES)
#define ZIP_FROM_BYTES 1024 /* less gains nothing */
#define ZIP_LEVEL 1

enum form { FORM_PLAIN, FORM_ZSTD, FORM_N };

struct head {
    uint64_t kept_us, until_us, drop_us, bytes;
};

static void put_u64(struct str *out, uint64_t v) {
    char little[8];
    for (int i = 0; i < 8; i++)
        little[i] = (char)(v >> 8 * i & 0xFF);
    str_put(out, span_from(little, sizeof little));
}

static uint64_t get_u64(struct span value, size_t at) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)(unsigned char)value.at[at + (size_t)i] << 8 * i;
    return v;
}

static void digest(const uint8_t key[SHA256_BYTES], struct span head, struct span payload, uint8_t out[SHA256_BYTES]) {
    struct sha256 *s = sha256_new();
    sha256_add(s, span_from(key, SHA256_BYTES));
    sha256_add(s, head);
    sha256_add(s, payload);
    sha256_end(s, out);
}

/* Compressed bytes to be freed; SPAN_NONE where that would gain nothing. */
static struct span zip(struct span bytes) {
    size_t room = ZSTD_compressBound(bytes.n);
    char *packed = bytes.n >= ZIP_FROM_BYTES ? mem_grow(NULL, room) : NULL;
    size_t n = packed ? ZSTD_compress(packed, room, bytes.at, bytes.n, ZIP_LEVEL) : 0;
    if (packed && !ZSTD_isError(n) && n < bytes.n)
        return span_from(packed, n);
    free(packed);
    return SPAN_NONE;
}

bool packed_write(const uint8_t key[SHA256_BYTES], const struct cache_entry *e, struct str *out) {
    if (e->bytes.n > PACKED_RAW_MAX)
        return false;
    struct span packed = zip(e->bytes), payload = packed.at ? packed : e->bytes;
    const uint64_t numbers[] = {(uint64_t)e->kept_us, (uint64_t)e->until_us, (uint64_t)e->drop_us, e->bytes.n};
    uint8_t sum[SHA256_BYTES];
    str_putc(out, PACKED_VERSION);
    str_putc(out, packed.at ? FORM_ZSTD : FORM_PLAIN);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        put_u64(out, numbers[i]);
    digest(key, str_span(out), payload, sum);
    str_put(out, span_from(sum, sizeof sum));
    str_put(out, payload);
    free((void *)(uintptr_t)packed.at);
    return !out->over && out->n <= PACKED_BYTES_MAX;
}

static bool read_head(struct span value, struct head *h) {
    *h = (struct head){get_u64(value, 2), get_u64(value, 10), get_u64(value, 18), get_u64(value, 26)};
    return h->bytes <= PACKED_RAW_MAX && h->until_us <= INT64_MAX && h->drop_us <= INT64_MAX && h->kept_us <= INT64_MAX;
}

static const struct cache_entry *entry_of(const struct head *h, struct span bytes) {
    return entry_new(bytes, (int64_t)h->kept_us, (int64_t)h->until_us, (int64_t)h->drop_us);
}

static const struct cache_entry *unzip(const struct head *h, struct span payload) {
    const struct cache_entry *e = NULL;
    char *bytes = h->bytes ? mem_grow(NULL, h->bytes) : NULL;
    size_t n = bytes ? ZSTD_decompress(bytes, h->bytes, payload.at, payload.n) : 0;
    if (bytes && !ZSTD_isError(n) && n == h->bytes)
        e = entry_of(h, span_from(bytes, n));
    free(bytes);
    return e;
}

const struct cache_entry *packed_read(const uint8_t key[SHA256_BYTES], struct span value) {
    struct head h;
    uint8_t sum[SHA256_BYTES];
    if (value.n < PAYLOAD_AT || value.n > PACKED_BYTES_MAX || value.at[0] != PACKED_VERSION || !read_head(value, &h))
        return NULL;
    struct span payload = span_from(value.at + PAYLOAD_AT, value.n - PAYLOAD_AT);
    digest(key, span_from(value.at, HEAD_BYTES), payload, sum);
    if (memcmp(sum, value.at + HEAD_BYTES, sizeof sum) != 0)
        return NULL;
    if (value.at[1] == FORM_ZSTD)
        return unzip(&h, payload);
    return value.at[1] == FORM_PLAIN && payload.n == h.bytes ? entry_of(&h, payload) : NULL;
}
