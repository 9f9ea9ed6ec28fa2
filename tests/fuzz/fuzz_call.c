/* Any JSON as a call of each endpoint. When it is taken, what the provider gets must be JSON that differs from the
 * client's document in nothing but the model and stream_options.include_usage. First byte: the endpoint. */
#include "backends/backends.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_spliced(struct span name) {
    return json_name_is(name, "model") || json_name_is(name, "stream_options");
}

/* Member by member: same names in the same order, same bytes; ours may have one more at the end. */
static void check_same(struct json theirs, struct json ours, struct span model) {
    struct json_walk a, b;
    struct span name_a, name_b;
    struct json v, w;
    json_walk_init(&a, theirs);
    json_walk_init(&b, ours);
    while (json_walk_next(&a, &name_a, &v)) {
        bool there = json_walk_next(&b, &name_b, &w);
        assert(there && span_equal(name_a, name_b));
        assert(is_spliced(name_a) || span_equal(v.raw, w.raw));
    }
    if (json_walk_next(&b, &name_b, &w))
        assert(span_is(name_b, "stream_options") && !json_walk_next(&b, &name_b, &w));
    struct json said = json_get(ours, "model");
    assert(said.kind == JSON_STRING && said.raw.n == model.n + 2);
}

static void check_written(const struct llm_call *c, struct arena *a, struct json body) {
    struct call_pieces pieces;
    struct span model = SPAN("up/model");
    struct str out;
    struct json v;
    struct json_fault fault;
    if (!call_write(c, model, a, &pieces))
        return;
    str_init(&out, 1 << 24);
    assert(pieces.n <= CALL_PIECES_MAX);
    for (size_t i = 0; i < pieces.n; i++)
        str_put(&out, pieces.at[i]);
    bool good = json_check(str_span(&out), JSON_DEPTH_MAX, &v, &fault);
    assert(good && out.n == pieces.bytes);
    check_same(body, v, model);
    if (c->stream && endpoint_row(c->endpoint)->dialect == DIALECT_OPENAI && c->endpoint != ENDPOINT_EMBEDDINGS)
        assert(json_get(json_get(v, "stream_options"), "include_usage").kind == JSON_TRUE);
    str_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json body;
    struct json_fault fault;
    struct llm_call call;
    struct call_fault why;
    struct arena arena;
    struct engine_ask ask;
    if (size < 1 || !json_check(span_from(data + 1, size - 1), JSON_DEPTH_MAX, &body, &fault))
        return 0;
    arena_init(&arena, 1 << 20);
    if (call_parse((enum endpoint)(data[0] % ENDPOINT_N), body, &arena, &call, &why)) {
        assert(call.size.text_bytes >= 0 && call.size.choices >= 0 && call.model.n > 0);
        check_written(&call, &arena, body);
        if (!engine_ask(&call, &arena, &ask, &why))
            assert(why.err != ERR_NONE && why.text[0]);
    } else
        assert((why.err == ERR_INVALID || why.err == ERR_UNSUPPORTED) && why.text[0]);
    arena_fini(&arena);
    return 0;
}
