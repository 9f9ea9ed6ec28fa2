/* The key of a call: everything it says, except what is known to change no answer. Always true here: the key is made by
 * exclusion, so a field that nobody here has heard of makes another key; each part goes in with its length, so no two
 * lists of parts look alike. */
#include "cache/cache_key.h"

#include <stdlib.h>

/* To be counted up whenever keys are made in another way. */
#define KEY_FORM "tollgate cache key 2"
#define PART_FORM "tollgate cache part 1"

/* Members of the outermost object that change no answer. `store` is one only when it is false. */
static const char *const neutral[] = {"stream",   "stream_options",    "user",
                                      "metadata", "safety_identifier", "service_tier"};
#define PROMPT_CACHE "prompt_cache_" /* and all that begin so */
#define SKIP_MAX 24                  /* a call with more prompt_cache_* members keeps the rest in its key */
#define SKIP_BYTES_MAX 4096          /* of their names */

struct skips {
    const char *names[SKIP_MAX];
    size_t n;
    struct arena arena; /* of names that are not constants */
};

static void add_prompt_cache_name(struct skips *s, struct span raw_name) {
    struct json quoted = {JSON_STRING, span_from(raw_name.at - 1, raw_name.n + 2)};
    struct span name = json_text(quoted, &s->arena);
    if (s->n == SKIP_MAX || !name.at || !span_starts(name, PROMPT_CACHE) || memchr(name.at, '\0', name.n))
        return;
    char *text = arena_strdup(&s->arena, name);
    if (text)
        s->names[s->n++] = text;
}

static void find_skips(struct json body, const char *list, struct skips *s) {
    struct json_walk w;
    struct span name;
    struct json value;
    for (size_t i = 0; i < ARRAY_LEN(neutral); i++)
        s->names[s->n++] = neutral[i];
    if (list)
        s->names[s->n++] = list;
    if (json_get(body, "store").kind == JSON_FALSE)
        s->names[s->n++] = "store";
    json_walk_init(&w, body);
    while (json_walk_next(&w, &name, &value))
        add_prompt_cache_name(s, name);
}

static void add_length(struct sha256 *s, size_t length) {
    uint8_t n[8];
    for (int i = 0; i < 8; i++)
        n[i] = (uint8_t)((uint64_t)length >> 8 * i);
    sha256_add(s, span_from(n, sizeof n));
}

static void add_field(struct sha256 *s, struct span text) {
    add_length(s, text.n);
    sha256_add(s, text);
}

/* `list`: a member that is left out; NULL: none. */
static const char *add_canonical(struct json body, const char *list, struct sha256 *key) {
    struct skips skips = {.n = 0};
    struct str text;
    arena_init(&skips.arena, SKIP_BYTES_MAX);
    str_init(&text, 4 * (size_t)KEY_BODY_MAX); /* escapes and numbers may grow in canonical form */
    find_skips(body, list, &skips);
    bool good = json_canonical(body, skips.names, skips.n, NULL, 0, &text);
    const char *why = good ? NULL : text.over ? "too_large" : "duplicate_key";
    if (good)
        add_field(key, str_span(&text));
    str_fini(&text);
    arena_fini(&skips.arena);
    return why;
}

static const char *add_body(struct json body, const char *list, struct sha256 *key) {
    if (!marker_suspected(body.raw))
        return add_canonical(body, list, key);
    struct str plain;
    str_init(&plain, body.raw.n + 1);
    const char *why = "duplicate_key";
    if (marker_strip(body, &plain))
        why = plain.over ? "too_large" : add_canonical((struct json){JSON_OBJECT, str_span(&plain)}, list, key);
    str_fini(&plain);
    return why;
}

struct header {
    struct span name, value;
};

static struct header header_of(struct span line) {
    struct header h;
    if (!span_cut(&line, ':', &h.name))
        h.name = SPAN_NONE;
    h.name = span_trim(h.name);
    h.value = span_trim(line);
    return h;
}

static int lower(char c) {
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static int by_name(const void *a, const void *b) {
    const struct header *x = a, *y = b;
    size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    for (size_t i = 0; i < n; i++)
        if (lower(x->name.at[i]) != lower(y->name.at[i]))
            return lower(x->name.at[i]) - lower(y->name.at[i]);
    if (x->name.n != y->name.n)
        return x->name.n < y->name.n ? -1 : 1;
    n = x->value.n < y->value.n ? x->value.n : y->value.n;
    int order = n ? memcmp(x->value.at, y->value.at, n) : 0;
    return order ? order : (x->value.n > y->value.n) - (x->value.n < y->value.n);
}

static void add_name(struct sha256 *key, struct span name) {
    add_length(key, name.n);
    for (size_t i = 0; i < name.n; i++) {
        char c = (char)lower(name.at[i]);
        sha256_add(key, span_from(&c, 1));
    }
}

static void add_headers(const struct cache_ask *ask, struct sha256 *key) {
    struct header sorted[KEY_HEADERS_MAX] = {{SPAN_NONE, SPAN_NONE}};
    for (size_t i = 0; i < ask->n_headers; i++)
        sorted[i] = header_of(ask->headers[i]);
    qsort(sorted, ask->n_headers, sizeof *sorted, by_name);
    uint8_t n = (uint8_t)ask->n_headers;
    add_field(key, span_from(&n, 1));
    for (size_t i = 0; i < ask->n_headers; i++) {
        add_name(key, sorted[i].name);
        add_field(key, sorted[i].value);
    }
}

static bool is_large(const struct cache_ask *ask) {
    struct span raw = ask->body.raw;
    size_t commas = 0;
    if (raw.n > KEY_BODY_MAX || ask->n_headers > KEY_HEADERS_MAX)
        return true;
    for (size_t i = 0; i < raw.n; i++)
        commas += raw.at[i] == ',';
    return commas > KEY_COMMAS_MAX;
}

/* Of all that the call says, save the member `list`. */
static const char *digest_call(const struct cache_ask *ask, const char *form, const char *list,
                               uint8_t out[SHA256_BYTES]) {
    if (ask->body.kind != JSON_OBJECT)
        return "no_object";
    if (is_large(ask))
        return "too_large";
    struct sha256 *key = sha256_new();
    add_field(key, span_of(form));
    add_field(key, span_of(ask->scope));
    add_field(key, span_of(ask->endpoint));
    add_field(key, span_of(ask->dialect));
    add_field(key, span_from(ask->ladder, SHA256_BYTES));
    add_headers(ask, key);
    const char *why = add_body(ask->body, list, key);
    sha256_end(key, out);
    return why;
}

const char *key_make(const struct cache_ask *ask, uint8_t out[SHA256_BYTES]) {
    return digest_call(ask, KEY_FORM, NULL, out);
}

/* Text: the digest of all that the parts share, which is 32 bytes, and the part itself. */
static const char *part_key(struct sha256 *s, const uint8_t shared[SHA256_BYTES], struct json element,
                            uint8_t out[SHA256_BYTES]) {
    struct str text;
    str_init(&text, SHA256_BYTES + 4 * (size_t)KEY_BODY_MAX);
    str_put(&text, span_from(shared, SHA256_BYTES));
    bool good = json_canonical(element, NULL, 0, NULL, 0, &text);
    if (good)
        sha256_one(s, str_span(&text), out);
    str_fini(&text);
    return good ? NULL : "too_large";
}

bool cache_part_keys(const struct cache_ask *ask, const char *list, const struct json *elements, size_t n,
                     uint8_t (*keys)[SHA256_BYTES], const char **why) {
    uint8_t shared[SHA256_BYTES];
    *why = digest_call(ask, PART_FORM, list, shared);
    struct sha256 *s = sha256_new();
    for (size_t i = 0; i < n && !*why; i++)
        *why = part_key(s, shared, elements[i], keys[i]);
    sha256_free(s);
    return !*why;
}
