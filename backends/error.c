/* Errors both ways: what a provider's error body says, whatever its shape, and the body that a caller of each dialect
 * expects. Always true: nothing a provider wrote is shown unmasked or unbounded, and no error body says success. */
#include "backends/dialect.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define ERROR_BODY_MAX (64 << 10) /* of a provider's error only this much is read */

/* A short word (code, type, param): copied only when it is one. */
static void copy_word(struct json v, char *out, size_t size) {
    struct span s = v.raw;
    if (v.kind == JSON_STRING) {
        s.at++;
        s.n -= 2;
    } else if (v.kind != JSON_NUMBER)
        return;
    if (s.n >= size)
        return;
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.at[i]) && !strchr("_-.[]:$ ", s.at[i]))
            return;
    error_mask(s, out, size);
}

static void copy_text(struct json v, char *out, size_t size) {
    struct arena a;
    arena_init(&a, ERROR_BODY_MAX);
    struct span text = v.kind == JSON_STRING ? json_text(v, &a) : v.raw;
    error_mask(text.at ? text : v.raw, out, size);
    arena_fini(&a);
}

static struct json detail_of(struct json v) {
    struct json detail = json_member(v, "detail"), first = json_at(detail, 0), msg = json_member(first, "msg");
    return detail.kind != JSON_ARRAY ? detail : msg.kind ? msg : first;
}

static struct json message_of(struct json v) {
    struct json error = json_member(v, "error"), found;
    if (error.kind == JSON_STRING)
        return error;
    found = json_member(error, "message");
    found = found.kind ? found : json_member(v, "message");
    found = found.kind ? found : json_member(v, "Message");
    return found.kind ? found : detail_of(v);
}

static bool says(const char *text, const char *const *phrases, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcasestr(text, phrases[i]))
            return true;
    return false;
}

static void recognise(struct provider_error *e) {
    static const char *const long_words[] = {"context_length_exceeded", "model_context_window_exceeded"};
    static const char *const long_texts[] = {"prompt is too long",
                                             "maximum context length",
                                             "context window",
                                             "context length",
                                             "input is too long",
                                             "token count exceeds",
                                             "exceeds the maximum number of tokens",
                                             "exceed_context_size"};
    static const char *const filter_words[] = {"content_filter", "content_policy_violation",
                                               "ResponsibleAIPolicyViolation"};
    bool refusal = e->status == 0 || e->status == 400 || e->status == 413 || e->status == 422;
    if (!refusal)
        return;
    e->context_window = says(e->code, long_words, ARRAY_LEN(long_words)) ||
                        says(e->type, long_texts, ARRAY_LEN(long_texts)) ||
                        says(e->message, long_texts, ARRAY_LEN(long_texts));
    e->content_filter =
        says(e->code, filter_words, ARRAY_LEN(filter_words)) || says(e->type, filter_words, ARRAY_LEN(filter_words));
}

/* In a stream there is no status: the words say which one is meant. */
static int status_of(const struct provider_error *e) {
    static const struct {
        const char *word;
        int status;
    } rows[] = {{"overloaded", 529},
                {"rate_limit", 429},
                {"RESOURCE_EXHAUSTED", 429},
                {"insufficient_quota", 429},
                {"throttl", 429},
                {"authentication", 401},
                {"invalid_api_key", 401},
                {"permission", 403},
                {"not_found", 404},
                {"billing", 402},
                {"timeout", 504},
                {"unavailable", 503},
                {"invalid_request", 400},
                {"content_filter", 400},
                {"context_length", 400},
                {"api_error", 500},
                {"server_error", 500},
                {"internal", 500}};
    int64_t number = 0;
    if (span_to_i64(span_of(e->code), &number) && number >= 400 && number <= 599)
        return (int)number;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcasestr(e->code, rows[i].word) || strcasestr(e->type, rows[i].word))
            return rows[i].status;
    return 0;
}

void error_extract(struct json v, struct provider_error *out) {
    if (v.kind == JSON_ARRAY)
        v = json_at(v, 0);
    struct json error = json_member(v, "error"), from = error.kind == JSON_OBJECT ? error : v;
    struct json type = json_member(from, "type"), inner = json_member(from, "innererror");
    copy_word(json_member(from, "code"), out->code, sizeof out->code);
    copy_word(type.kind ? type : json_member(from, "status"), out->type, sizeof out->type);
    copy_word(json_member(from, "param"), out->param, sizeof out->param);
    if (json_is(json_member(inner, "code"), "ResponsibleAIPolicyViolation"))
        out->content_filter = true;
    struct json message = message_of(v);
    if (message.kind == JSON_NONE)
        message = from;
    copy_text(message, out->message, sizeof out->message);
    bool filtered = out->content_filter;
    if (!out->status)
        out->status = status_of(out);
    recognise(out);
    out->content_filter |= filtered;
}

void provider_error_read(enum conf_protocol p, int status, struct span body, struct provider_error *out) {
    struct json v;
    struct json_fault fault;
    (void)p; /* every shape is tried: gateways in between mix them */
    memset(out, 0, sizeof *out);
    out->status = status >= 400 ? status : 0;
    if (body.n <= ERROR_BODY_MAX && json_check(body, JSON_DEPTH_MAX, &v, &fault)) {
        error_extract(v, out);
        return;
    }
    error_mask((struct span){body.at, body.n < 4096 ? body.n : 4096}, out->message, sizeof out->message);
    recognise(out);
}

int error_status(enum dialect d, enum err e) {
    const struct err_row *row = err_row(e);
    return d == DIALECT_ANTHROPIC ? row->anthropic_status : row->status;
}

void error_words(const struct error_body *b, const char **message, const char **code) {
    const struct err_row *row = err_row(b->err);
    *message = b->message && b->message[0] ? b->message : row->text;
    *code = b->code && b->code[0] ? b->code : row->code;
}

void openai_error_put(const struct error_body *b, struct str *out) {
    const char *message, *code;
    error_words(b, &message, &code);
    str_puts(out, "{\"error\":{");
    json_put_str(out, "message", message);
    json_put_str(out, "type", err_row(b->err)->type);
    json_put_str(out, "param", b->param);
    json_put_str(out, "code", code);
    if (b->details)
        str_puts(out, b->details);
    str_puts(out, "}");
    if (b->request_id)
        json_put_str(out, "request_id", b->request_id);
    str_puts(out, "}");
}

void anthropic_error_put(const struct error_body *b, struct str *out) {
    const char *message, *code, *begins = "prompt is too long";
    error_words(b, &message, &code);
    str_puts(out, "{\"type\":\"error\",\"error\":{");
    json_put_str(out, "type", err_row(b->err)->anthropic_type);
    json_put_name(out, "message");
    struct str text;
    str_init(&text, 8192);
    if (b->err == ERR_CONTEXT && strncmp(message, begins, strlen(begins)) != 0)
        str_printf(&text, "%s: ", begins);
    str_puts(&text, message);
    json_put_text(out, text.over ? span_of(err_row(b->err)->text) : str_span(&text));
    str_fini(&text);
    if (b->param)
        json_put_str(out, "param", b->param);
    json_put_str(out, "code", code);
    if (b->details)
        str_puts(out, b->details);
    str_puts(out, "}");
    if (b->request_id)
        json_put_str(out, "request_id", b->request_id);
    str_puts(out, "}");
}

void error_write(enum dialect d, const struct error_body *b, struct str *out) {
    assert(b->err != ERR_NONE);
    dialect_ops(d)->error_put(b, out);
}
