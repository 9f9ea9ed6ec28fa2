/* The cache key of any JSON: asked twice it is the same; with the members of every object in another order, or spread out
 * with white space, it is the same; with one member more that is not neutral it is another. */
#include "tests/support/ask.h"

#include <assert.h>
#include <stdlib.h>

#define INPUT_MAX (64 << 10) /* the harness writes a document some times over */
#define MEMBERS_MAX 256      /* of one object that is turned round; a larger one keeps its order */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_turned(struct json v, struct str *out);

static void put_member(struct span name, struct json value, struct str *out) {
    str_puts(out, " \"");
    str_put(out, name);
    str_puts(out, "\"\t: ");
    put_turned(value, out);
}

static void put_object(struct json v, struct str *out) {
    struct span names[MEMBERS_MAX];
    struct json values[MEMBERS_MAX];
    struct json_walk w;
    size_t n = 0;
    if (json_count(v) > MEMBERS_MAX) {
        str_put(out, v.raw);
        return;
    }
    json_walk_init(&w, v);
    while (json_walk_next(&w, &names[n], &values[n]))
        if (++n == MEMBERS_MAX)
            break;
    str_putc(out, '{');
    for (size_t i = n; i-- > 0;) {
        put_member(names[i], values[i], out);
        str_puts(out, i ? "," : "");
    }
    str_putc(out, '}');
}

/* The same value, each object backwards. */
static void put_turned(struct json v, struct str *out) {
    struct json_walk w;
    struct span name;
    struct json value;
    bool first = true;
    if (v.kind == JSON_OBJECT) {
        put_object(v, out);
        return;
    }
    if (v.kind != JSON_ARRAY) {
        str_put(out, v.raw);
        return;
    }
    json_walk_init(&w, v);
    str_puts(out, "[\n");
    while (json_walk_next(&w, &name, &value)) {
        str_puts(out, first ? "" : "\r, ");
        first = false;
        put_turned(value, out);
    }
    str_putc(out, ']');
}

static void check_turned(struct ask *a, struct json body) {
    uint8_t key[SHA256_BYTES];
    bool may = ask_decide(a)->may;
    memcpy(key, a->rule.key, SHA256_BYTES);
    struct str turned;
    str_init(&turned, 16 * (size_t)INPUT_MAX);
    put_turned(body, &turned);
    assert(!turned.over);
    ask_body(a, str_span(&turned));
    assert(ask_decide(a)->may == may);
    assert(!may || memcmp(key, a->rule.key, SHA256_BYTES) == 0);
    str_fini(&turned);
}

static void check_one_more(struct ask *a, struct json body) {
    static const char more[] = "{\"one member more, of a name that no corpus holds\":0";
    uint8_t key[SHA256_BYTES];
    ask_body(a, body.raw);
    if (!ask_decide(a)->may)
        return;
    memcpy(key, a->rule.key, SHA256_BYTES);
    struct str longer;
    str_init(&longer, INPUT_MAX + sizeof more + 1);
    str_puts(&longer, more);
    str_puts(&longer, json_count(body) ? "," : "");
    str_put(&longer, span_from(body.raw.at + 1, body.raw.n - 1));
    ask_body(a, str_span(&longer));
    assert(!ask_decide(a)->may || memcmp(key, a->rule.key, SHA256_BYTES) != 0);
    str_fini(&longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json body;
    struct json_fault fault;
    struct ask a;
    uint8_t key[SHA256_BYTES];
    if (size > INPUT_MAX || !json_check(span_from(data, size), JSON_DEPTH_MAX, &body, &fault))
        return 0;
    ask_init(&a, body.raw);
    memcpy(key, ask_decide(&a)->key, SHA256_BYTES);
    bool may = a.rule.may;
    assert(ask_decide(&a)->may == may && memcmp(key, a.rule.key, SHA256_BYTES) == 0);
    assert(may == (a.rule.why == NULL) && (!may || body.kind == JSON_OBJECT));
    check_turned(&a, body);
    if (body.kind == JSON_OBJECT)
        check_one_more(&a, body);
    return 0;
}
