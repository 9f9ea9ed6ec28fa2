/* What calls of one conversation, or of one application, have in common: tools, system prompt and the first turn. Always
 * true here: it does not depend on white space, on the order of members, or on marks of where a cache may begin, which
 * clients move from turn to turn. */
#include "backends/backends.h"

static const char *const marks[] = {"cache_control", "prompt_cache_breakpoint"};

static void add(struct sha256 *s, const char *name, struct json v) {
    struct str text;
    str_init(&text, 2 * v.raw.n + 64);
    sha256_add(s, span_from(name, strlen(name) + 1));
    bool said = json_canonical(v, NULL, 0, marks, ARRAY_LEN(marks), &text);
    sha256_add(s, said ? str_span(&text) : v.raw); /* a name that stands twice: the bytes as they came */
    str_fini(&text);
}

/* What stands before the first turn of the user, and that turn. */
static void add_turns(struct sha256 *s, const char *name, struct json list) {
    struct json_walk w;
    struct json turn;
    struct span unnamed;
    json_walk_init(&w, list);
    while (json_walk_next(&w, &unnamed, &turn)) {
        add(s, name, turn);
        if (json_is(json_get(turn, "role"), "user"))
            return;
    }
}

uint64_t call_affinity(const struct llm_call *c) {
    static const char *const heads[] = {"tools", "functions", "system", "instructions"};
    static const char *const turns[] = {"messages", "input", "prompt"};
    uint8_t digest[SHA256_BYTES];
    uint64_t out = 0;
    if (c->endpoint == ENDPOINT_EMBEDDINGS || c->body.kind != JSON_OBJECT)
        return 0;
    struct sha256 *s = sha256_new();
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        struct json v = json_get(c->body, heads[i]);
        if (v.kind != JSON_NONE)
            add(s, heads[i], v);
    }
    for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
        struct json v = json_get(c->body, turns[i]);
        if (v.kind == JSON_ARRAY)
            add_turns(s, turns[i], v);
        else if (v.kind == JSON_STRING)
            add(s, turns[i], v);
    }
    sha256_end(s, digest);
    memcpy(&out, digest, sizeof out);
    return out ? out : 1;
}
