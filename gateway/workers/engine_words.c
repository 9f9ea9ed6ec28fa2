/* What one worker tells another about a call besides its body: one line of JSON, written and read here alone. Always true: what is
 * read is what was written, or it is refused whole. */
#include "gateway/workers/engine_door.h"

#include "gateway/base/json.h"

#define LINE_MAX_BYTES 4096

bool engine_words_put(const struct engine_words *w, struct arena *a, struct span *line) {
    struct str s;
    str_init(&s, LINE_MAX_BYTES);
    str_putc(&s, '{');
    json_put_str(&s, "backend", w->backend);
    json_put_i64(&s, "endpoint", w->endpoint);
    json_put_span(&s, "adapter", w->ask.adapter.n ? w->ask.adapter : SPAN(""));
    json_put_span(&s, "team", w->ask.team);
    json_put_bool(&s, "shared_prefix", w->ask.shared_prefix);
    json_put_i64(&s, "cap_tok", w->ask.cap_tok);
    json_put_i64(&s, "deadline_us", w->ask.deadline_us);
    str_puts(&s, "}\n");
    const char *kept = s.over ? NULL : arena_strdup(a, str_span(&s));
    *line = kept ? span_from(kept, s.n) : SPAN_NONE;
    str_fini(&s);
    return kept != NULL;
}

static bool text(struct json v, struct arena *a, struct span *out) {
    *out = v.kind == JSON_STRING ? json_text(v, a) : SPAN_NONE;
    return out->at != NULL;
}

bool engine_words_read(struct span line, struct arena *a, struct engine_words *out) {
    struct json v;
    struct span backend;
    int64_t endpoint;
    *out = (struct engine_words){0};
    if (!json_check(line, JSON_DEPTH_MAX, &v, NULL) || v.kind != JSON_OBJECT)
        return false;
    bool whole = text(json_get(v, "backend"), a, &backend) && text(json_get(v, "adapter"), a, &out->ask.adapter) &&
                 text(json_get(v, "team"), a, &out->ask.team) && json_i64(json_get(v, "endpoint"), &endpoint) &&
                 json_i64(json_get(v, "cap_tok"), &out->ask.cap_tok) &&
                 json_i64(json_get(v, "deadline_us"), &out->ask.deadline_us);
    if (!whole || endpoint < 0 || endpoint >= ENDPOINT_N)
        return false;
    out->backend = arena_strdup(a, backend);
    out->endpoint = (enum endpoint)endpoint;
    out->ask.shared_prefix = json_get(v, "shared_prefix").kind == JSON_TRUE;
    return out->backend != NULL;
}
