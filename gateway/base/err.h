/* Every way a request can fail, in one table: name, status for OpenAI paths, `code`, OpenAI `type`, status for Anthropic
 * paths, Anthropic `type`, what the client is told when nothing more exact is known. README's error table is printed
 * from here (tollgate schema --errors). */
#ifndef TOLLGATE_BASE_ERR_H
#define TOLLGATE_BASE_ERR_H

#include <stdbool.h>

#define ERR_TABLE(X)                                                                                                   \
    X(BAD_REQUEST, 400, "bad_request", "invalid_request_error", 400, "invalid_request_error",                          \
      "The request is not well-formed HTTP/1.1.")                                                                      \
    X(INVALID, 400, "invalid_request", "invalid_request_error", 400, "invalid_request_error",                          \
      "The request is invalid.")                                                                                       \
    X(UNSUPPORTED, 400, "unsupported_parameter", "invalid_request_error", 400, "invalid_request_error",                \
      "The request uses a parameter that is not supported.")                                                           \
    X(CONTEXT, 400, "context_length_exceeded", "invalid_request_error", 400, "invalid_request_error",                  \
      "prompt is too long: it does not fit the context of any target.")                                                \
    X(FILTERED, 400, "content_filter", "invalid_request_error", 400, "invalid_request_error",                          \
      "The provider's content filter refused the request.")                                                            \
    X(KEY, 401, "invalid_api_key", "authentication_error", 401, "authentication_error", "The API key is not valid.")   \
    X(BUDGET, 402, "budget_exceeded", "insufficient_quota", 402, "billing_error", "The budget is used up.")            \
    X(TARGET_FORBIDDEN, 403, "no_permitted_target", "permission_error", 403, "permission_error",                       \
      "No target has the tags that are required.")                                                                     \
    X(PRICE, 403, "price_unknown", "permission_error", 403, "permission_error",                                        \
      "The model has no price and a budget applies.")                                                                  \
    X(NOT_FOUND, 404, "not_found", "invalid_request_error", 404, "not_found_error", "There is nothing at this path.")  \
    X(MODEL, 404, "model_not_found", "invalid_request_error", 404, "not_found_error", "The model does not exist.")     \
    X(METHOD, 405, "method_not_allowed", "invalid_request_error", 405, "invalid_request_error",                        \
      "This path does not take that method.")                                                                          \
    X(REQUEST_TIMEOUT, 408, "request_timeout", "invalid_request_error", 408, "invalid_request_error",                  \
      "The request did not arrive in time.")                                                                           \
    X(CONFLICT, 409, "idempotency_conflict", "invalid_request_error", 409, "conflict_error",                           \
      "A request with this idempotency key is still running.")                                                         \
    X(TOO_LARGE, 413, "request_too_large", "invalid_request_error", 413, "request_too_large",                          \
      "The body is too large.")                                                                                        \
    X(URI_TOO_LONG, 414, "uri_too_long", "invalid_request_error", 414, "invalid_request_error",                        \
      "The request target is too long.")                                                                               \
    X(MEDIA_TYPE, 415, "unsupported_media_type", "invalid_request_error", 415, "invalid_request_error",                \
      "The body must be application/json.")                                                                            \
    X(ENCODING, 415, "unsupported_encoding", "invalid_request_error", 415, "invalid_request_error",                    \
      "Content-Encoding of a request body is not supported.")                                                          \
    X(EXPECT, 417, "expectation_failed", "invalid_request_error", 417, "invalid_request_error",                        \
      "Only 100-continue can be expected.")                                                                            \
    X(RATE, 429, "rate_limit_exceeded", "rate_limit_error", 429, "rate_limit_error", "The rate limit is reached.")     \
    X(HOLD_SHARE, 429, "hold_limit", "rate_limit_error", 429, "rate_limit_error",                                      \
      "Calls in flight already hold their share of the budget.")                                                       \
    X(HEADERS, 431, "headers_too_large", "invalid_request_error", 431, "invalid_request_error",                        \
      "The header section is too large.")                                                                              \
    X(CLIENT_GONE, 499, "client_closed_request", "api_error", 499, "api_error", "The client left.")                    \
    X(INTERNAL, 500, "internal_error", "server_error", 500, "api_error", "The gateway failed.")                        \
    X(UPSTREAM, 502, "upstream_failed", "server_error", 502, "api_error", "Every choice failed.")                      \
    X(UPSTREAM_AUTH, 502, "upstream_auth_failed", "server_error", 502, "api_error",                                    \
      "The provider refused the gateway's own credential.")                                                            \
    X(NO_TARGET, 503, "no_healthy_target", "server_error", 529, "overloaded_error", "No target is healthy.")           \
    X(CANCELLED, 503, "cancelled", "server_error", 503, "api_error", "An operator cancelled the request.")             \
    X(BUSY, 503, "overloaded", "server_error", 529, "overloaded_error", "The gateway is too busy.")                    \
    X(LEDGER, 503, "ledger_unavailable", "server_error", 529, "overloaded_error", "The ledger cannot promise a hold.") \
    X(AUDIT, 503, "audit_unavailable", "server_error", 529, "overloaded_error", "The audit log cannot be written.")    \
    X(VERSION, 505, "version_not_supported", "invalid_request_error", 505, "invalid_request_error",                    \
      "Only HTTP/1.1 and HTTP/1.0 are spoken here.")                                                                   \
    X(DEADLINE, 504, "deadline_exceeded", "server_error", 504, "api_error", "The deadline passed without an answer.")

enum err {
    ERR_NONE = 0,
#define X(name, status, code, type, a_status, a_type, text) ERR_##name,
    ERR_TABLE(X)
#undef X
        ERR_N
};

struct err_row {
    const char *name; /* "BUDGET" */
    int status;
    const char *code, *type;
    int anthropic_status;
    const char *anthropic_type;
    const char *text;
};

const struct err_row *err_row(enum err e); /* e must not be ERR_NONE */
const char *err_code(enum err e);          /* "" for ERR_NONE */

/* What a door that may wait answers. */
enum progress {
    PROGRESS_DONE, /* the result is in the op */
    PROGRESS_WAIT, /* op.wake will be called later, on the loop */
};

/* Embedded in every op of a door that may wait; the caller fills it before the call. */
struct waiter {
    void (*wake)(struct waiter *w); /* called at most once per PROGRESS_WAIT, from the loop, never inside the call */
};

#endif
