/* Any bytes as a provider's stream or body, through reader, packing and writers. First byte: endpoint and form. What a
 * stream writer gives must be frames whose data are JSON or [DONE]; what a plain writer gives must be one JSON text. */
#include "tests/support/relay.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Turning forms may nest a few levels deeper than what came in at the limit. */
static bool is_json(struct span text) {
    struct json v;
    struct json_fault fault;
    return json_check(text, JSON_DEPTH_MAX, &v, &fault) || strcmp(fault.what, "nested too deeply") == 0;
}

static void on_written(struct span name, struct span data, void *user) {
    (void)name;
    (void)user;
    assert(span_is(data, "[DONE]") || is_json(data));
}

static void check_frames(struct span bytes) {
    struct sse s;
    sse_init(&s);
    sse_feed(&s, bytes, on_written, NULL);
    assert(!s.line.n && !s.has_data); /* every event is whole */
    sse_fini(&s);
}

static void check_error(struct span bytes) {
    struct provider_error e;
    provider_error_read(PROTOCOL_OPENAI, 400, bytes, &e);
    assert(strlen(e.message) < sizeof e.message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct str out;
    if (size < 1)
        return 0;
    enum endpoint e = (enum endpoint)((data[0] & 15) % ENDPOINT_N);
    struct span bytes = span_from(data + 1, size - 1);
    str_init(&out, 1 << 26);
    check_error(bytes);
    if (data[0] & 16) {
        if (relay_body(e, bytes, endpoint_row(e)->streams, true, &out) && endpoint_row(e)->streams)
            check_frames(str_span(&out));
        str_clear(&out);
        if (relay_body(e, bytes, false, false, &out))
            assert(is_json(str_span(&out)));
    } else {
        relay_stream(e, bytes, 0, 0, &out);
        str_clear(&out);
        relay_plain(e, bytes, &out);
        if (out.n)
            assert(is_json(str_span(&out)));
    }
    str_fini(&out);
    return 0;
}
