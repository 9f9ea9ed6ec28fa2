/* The tables of the room: one row an endpoint, one row a dialect. A path that has no row here does not exist, and a
 * dialect that is not listed here is spoken nowhere. Everything that differs by endpoint or protocol and fits in a cell
 * stands in these tables. */
#include "backends/dialect.h"

#include <assert.h>

#define BIT(protocol) (1u << (protocol))

static const struct endpoint_row ROWS[ENDPOINT_N] = {
    [ENDPOINT_CHAT] = {"chat", DIALECT_OPENAI, "/chat/completions", "/chat/completions",
                       BIT(PROTOCOL_OPENAI) | BIT(PROTOCOL_DECODE), true},
    [ENDPOINT_COMPLETIONS] = {"completions", DIALECT_OPENAI, "/completions", "/completions",
                              BIT(PROTOCOL_OPENAI) | BIT(PROTOCOL_DECODE), true},
    [ENDPOINT_EMBEDDINGS] = {"embeddings", DIALECT_OPENAI, "/embeddings", "/embeddings", BIT(PROTOCOL_OPENAI), false},
    [ENDPOINT_RESPONSES] = {"responses", DIALECT_RESPONSES, "/responses", "/responses", BIT(PROTOCOL_OPENAI), true},
    [ENDPOINT_MESSAGES] = {"messages", DIALECT_ANTHROPIC, "/messages", "/v1/messages", BIT(PROTOCOL_ANTHROPIC), true},
    [ENDPOINT_COUNT_TOKENS] = {"count_tokens", DIALECT_ANTHROPIC, "/messages/count_tokens", "/v1/messages/count_tokens",
                               BIT(PROTOCOL_ANTHROPIC), false},
};

static const struct dialect_ops *const DIALECTS[DIALECT_N] = {
    [DIALECT_OPENAI] = &openai_ops,
    [DIALECT_RESPONSES] = &responses_ops,
    [DIALECT_ANTHROPIC] = &anthropic_ops,
};

const char *const finish_names[] = {"none", "stop", "length", "tools", "filter", "other"};

const struct endpoint_row *endpoint_row(enum endpoint e) {
    assert(e >= 0 && e < ENDPOINT_N);
    return &ROWS[e];
}

const struct dialect_ops *dialect_ops(enum dialect d) {
    assert(d >= 0 && d < DIALECT_N);
    return DIALECTS[d];
}

const char *dialect_heartbeat(enum dialect d) {
    return dialect_ops(d)->heartbeat;
}

const char *backend_sign(enum conf_protocol p, const struct conf_upstream_key *key, struct str *value) {
    if (p == PROTOCOL_ANTHROPIC) {
        str_puts(value, key->value);
        return "x-api-key";
    }
    if (p != PROTOCOL_OPENAI)
        return NULL;
    str_puts(value, "Bearer ");
    str_puts(value, key->value);
    return "authorization";
}
