/* Reads the Anthropic Messages API. Blocks are numbered over all kinds there; the neutral tool number counts tools
 * alone. Usage comes twice (message_start, message_delta): later figures replace earlier ones field by field, and an
 * explicit zero stays a zero. */
#include "backends/dialect.h"

static enum err bad(const char **why, const char *what) {
    *why = what;
    return ERR_UPSTREAM;
}

static void tell(struct json u, const char *name, int64_t *to) {
    *to = usage_tok(u, name, *to);
}

static int64_t known(int64_t n) {
    return n < 0 ? 0 : n;
}

/* The top-level figures leave out what a compaction and an advisor used. An advisor is another model, whose price is not
 * known here: its tokens are priced as this model's and marked. */
struct aside {
    int64_t in, read, write, out;
    bool advised;
};

static struct aside asides(struct json u) {
    struct aside sum = {0};
    struct json_walk walk;
    struct json turn;
    json_walk_init(&walk, json_member(u, "iterations"));
    while (json_walk_next(&walk, NULL, &turn)) {
        bool advised = json_is(json_member(turn, "type"), "advisor_message");
        if (!advised && !json_is(json_member(turn, "type"), "compaction"))
            continue;
        sum.in += usage_tok(turn, "input_tokens", 0);
        sum.read += usage_tok(turn, "cache_read_input_tokens", 0);
        sum.write += usage_tok(turn, "cache_creation_input_tokens", 0);
        sum.out += usage_tok(turn, "output_tokens", 0);
        sum.advised |= advised;
    }
    return sum;
}

/* Priority at Anthropic is capacity paid in advance: its tokens have list prices. */
static void tell_service(struct json u, struct usage_parts *t) {
    struct json tier = json_member(u, "service_tier"), speed = json_member(u, "speed"),
                geo = json_member(u, "inference_geo");
    if (tier.kind == JSON_STRING)
        t->batch = json_is(tier, "batch");
    if (speed.kind == JSON_STRING)
        t->fast = json_is(speed, "fast");
    if (geo.kind == JSON_STRING)
        t->regional = !json_is(geo, "global") && !json_is(geo, "not_available");
}

static void read_usage(struct reader *r, struct json u, struct event *out) {
    struct usage_parts *t = &r->told;
    struct json written = json_member(u, "cache_creation");
    if (u.kind != JSON_OBJECT)
        return;
    tell(u, "input_tokens", &t->in);
    tell(u, "cache_read_input_tokens", &t->read);
    tell(u, "cache_creation_input_tokens", &t->write);
    tell(written, "ephemeral_5m_input_tokens", &t->write_5m);
    tell(written, "ephemeral_1h_input_tokens", &t->write_1h);
    tell(u, "output_tokens", &t->out);
    tell(json_member(u, "output_tokens_details"), "thinking_tokens", &t->thinking);
    tell(json_member(u, "server_tool_use"), "web_search_requests", &t->web_search);
    tell_service(u, t);
    if (t->in < 0 && t->out < 0)
        return;
    struct aside more = asides(u);
    int64_t hour = known(t->write_1h), all = known(t->write);
    int64_t minutes = all - hour > known(t->write_5m) ? all - hour : known(t->write_5m);
    r->usage = (struct usage){.in = known(t->in) + more.in,
                              .cache_read = known(t->read) + more.read,
                              .cache_write_5m = minutes + more.write,
                              .cache_write_1h = hour,
                              .out = known(t->out) + more.out,
                              .web_search = known(t->web_search),
                              .reasoning = known(t->thinking),
                              .tier = t->fast    ? TIER_FAST
                                      : t->batch ? TIER_BATCH
                                                 : TIER_STANDARD,
                              .regional = t->regional,
                              .reported = true,
                              .estimated = more.advised};
    out->bits |= EVENT_USAGE;
    out->usage = r->usage;
    out->usage_raw = u.raw;
}

static enum finish finish_of(struct json word) {
    static const struct {
        const char *word;
        enum finish finish;
    } rows[] = {{"end_turn", FINISH_STOP},
                {"stop_sequence", FINISH_STOP},
                {"max_tokens", FINISH_LENGTH},
                {"tool_use", FINISH_TOOLS},
                {"refusal", FINISH_FILTER},
                {"pause_turn", FINISH_OTHER},
                {"model_context_window_exceeded", FINISH_LENGTH}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (json_is(word, rows[i].word))
            return rows[i].finish;
    return FINISH_OTHER;
}

static void read_start(struct reader *r, struct json v, struct event *out) {
    struct json m = json_member(v, "message"), role = json_member(m, "role");
    event_splice(out, SPLICE_ID, json_get(m, "id"));
    event_splice(out, SPLICE_MODEL, json_get(m, "model"));
    event_splice(out, SPLICE_USAGE, json_get(m, "usage"));
    read_usage(r, json_member(m, "usage"), out);
    r->choice_open[0] = true;
    if (role.kind == JSON_STRING)
        reader_part(r, &(struct part){.kind = PART_ROLE, .text = reader_text(r, role)});
}

/* A block as it opens in a stream, or whole in a plain answer. */
static void read_block(struct reader *r, int64_t index, struct json b, bool whole, struct event *out) {
    struct json type = json_member(b, "type"), input = json_member(b, "input");
    if (json_is(type, "text"))
        reader_say(r, PART_TEXT, 0, 0, json_member(b, "text"));
    else if (json_is(type, "thinking")) {
        reader_say(r, PART_REASONING, 0, 0, json_member(b, "thinking"));
        if (json_text_bytes(json_member(b, "signature")))
            out->bits |= EVENT_NO_STORE;
    } else if (json_is(type, "tool_use")) {
        struct reader_tool *t = reader_tool_new(r, 0, (int)(index & 0xFFFFFF));
        r->cut |= !t;
        reader_part(r, &(struct part){.kind = PART_TOOL_OPEN,
                                      .tool = t ? t->tool : 0,
                                      .id = reader_text(r, json_member(b, "id")),
                                      .name = reader_text(r, json_member(b, "name"))});
        if (whole && input.kind == JSON_OBJECT && json_count(input))
            reader_say(r, PART_TOOL_ARGS, 0, t ? t->tool : 0, input);
    } else /* redacted thinking, server tools and their results: sealed or not ours to keep */
        out->bits |= EVENT_NO_STORE | EVENT_CONTENT;
}

static void read_block_start(struct reader *r, struct json v, struct event *out) {
    int64_t index = usage_tok(v, "index", 0);
    r->open_block = index + 1;
    read_block(r, index, json_member(v, "content_block"), false, out);
}

static void read_block_stop(struct reader *r, struct json v, struct event *out) {
    (void)v, (void)out;
    r->open_block = 0;
}

static void read_delta(struct reader *r, struct json v, struct event *out) {
    struct json d = json_member(v, "delta"), type = json_member(d, "type");
    struct reader_tool *t = reader_tool(r, 0, (int)(usage_tok(v, "index", 0) & 0xFFFFFF));
    if (json_is(type, "text_delta"))
        reader_say(r, PART_TEXT, 0, 0, json_member(d, "text"));
    else if (json_is(type, "thinking_delta"))
        reader_say(r, PART_REASONING, 0, 0, json_member(d, "thinking"));
    else if (json_is(type, "input_json_delta") && t)
        reader_say(r, PART_TOOL_ARGS, 0, t->tool, json_member(d, "partial_json"));
    else if (json_is(type, "signature_delta"))
        out->bits |= EVENT_NO_STORE;
}

static void read_message_delta(struct reader *r, struct json v, struct event *out) {
    struct json word = json_member(json_member(v, "delta"), "stop_reason");
    event_splice(out, SPLICE_USAGE, json_get(v, "usage"));
    read_usage(r, json_member(v, "usage"), out);
    if (word.kind == JSON_STRING)
        reader_finish(r, 0, word, finish_of(word), out);
}

static void read_stop(struct reader *r, struct json v, struct event *out) {
    (void)r;
    (void)v;
    out->bits |= EVENT_LAST;
}

static void read_ping(struct reader *r, struct json v, struct event *out) {
    (void)r;
    (void)v;
    out->bits |= EVENT_SILENT;
}

static const struct typed_event EVENTS[] = {
    {"content_block_delta", read_delta},
    {"content_block_start", read_block_start},
    {"content_block_stop", read_block_stop},
    {"message_start", read_start},
    {"message_delta", read_message_delta},
    {"message_stop", read_stop},
    {"ping", read_ping},
    {"error", reader_error},
};

enum err anthropic_frame(struct reader *r, struct json v, struct event *out, const char **why) {
    bool known; /* types that are not known pass */
    return reader_typed(r, v, EVENTS, ARRAY_LEN(EVENTS), out, &known, why);
}

static enum err read_count(struct json v, struct event *out, const char **why) {
    if (usage_tok(v, "input_tokens", -1) < 0)
        return bad(why, "The provider's answer has no input_tokens.");
    out->bits |= EVENT_CONTENT;
    return ERR_NONE;
}

enum err anthropic_plain(struct reader *r, struct json v, struct event *out, const char **why) {
    struct json content = json_member(v, "content"), word = json_member(v, "stop_reason"), block;
    struct json_walk walk;
    if (r->endpoint == ENDPOINT_COUNT_TOKENS)
        return read_count(v, out, why);
    if (content.kind != JSON_ARRAY)
        return bad(why, "The provider's answer has no content.");
    event_splice(out, SPLICE_ID, json_get(v, "id"));
    event_splice(out, SPLICE_MODEL, json_get(v, "model"));
    event_splice(out, SPLICE_USAGE, json_get(v, "usage"));
    read_usage(r, json_member(v, "usage"), out);
    json_walk_init(&walk, content);
    for (int64_t i = 0; json_walk_next(&walk, NULL, &block); i++)
        read_block(r, i, block, true, out);
    out->bits |= EVENT_CONTENT;
    if (word.kind == JSON_STRING)
        reader_finish(r, 0, word, finish_of(word), out);
    return ERR_NONE;
}
