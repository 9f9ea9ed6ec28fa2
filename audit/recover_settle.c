/* The settle of a request that was open when its process died: everything its admit record says of it, at the largest
 * hold recorded. The arena is the caller's; a member that does not fit is left out, the amount never is. */
#include "audit/recover.h"
#include "gateway/base/clock.h"
#include "gateway/base/json.h"

static const struct {
    const char *name;
    size_t at;
} texts[] = {
#define TEXT(name)                                                                                                     \
    { #name, offsetof(struct audit_record, name) }
    TEXT(request),        TEXT(team),        TEXT(key_id),   TEXT(owner), TEXT(client),
    TEXT(client_family),  TEXT(endpoint),    TEXT(alias),    TEXT(model), TEXT(idempotency_key),
    TEXT(request_digest), TEXT(conf_digest), TEXT(end_user),
#undef TEXT
};

static const char *text_of(struct json v, struct arena *arena) {
    return v.kind == JSON_STRING ? arena_strdup(arena, json_text(v, arena)) : NULL;
}

static void read_labels(struct json labels, struct arena *arena, struct audit_record *out) {
    struct json_walk walk;
    struct json value;
    struct span name;
    size_t n = json_count(labels);
    struct conf_label *to = labels.kind == JSON_OBJECT && n ? arena_alloc(arena, n * sizeof *to) : NULL;
    if (!to)
        return;
    out->labels = to;
    for (json_walk_init(&walk, labels); json_walk_next(&walk, &name, &value) && out->n_labels < n;) {
        struct json quoted = {JSON_STRING, span_from(name.at - 1, name.n + 2)};
        struct conf_label one = {text_of(quoted, arena), text_of(value, arena)};
        if (one.name && one.value)
            to[out->n_labels++] = one;
    }
}

void recover_settle(const struct open_admit *open, struct arena *arena, struct audit_record *out) {
    struct json root;
    struct json_fault fault;
    *out = (struct audit_record){.kind = AUDIT_SETTLE,
                                 .cost_nanousd = open->hold_nanousd,
                                 .estimated = true,
                                 .recovered = true,
                                 .duration_us = -1,
                                 .first_content_us = -1};
    out->usage.estimated = true;
    if (!json_check(span_from(open->line, open->n), JSON_DEPTH_MAX, &root, &fault))
        return;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *text = text_of(json_get(root, texts[i].name), arena);
        memcpy((char *)out + texts[i].at, &text, sizeof text);
    }
    struct json admitted = json_get(root, "admitted"), time = json_get(root, "time"), stream = json_get(root, "stream");
    if (!clock_parse(json_text(admitted, arena), &out->admitted_us) &&
        !clock_parse(json_text(time, arena), &out->admitted_us))
        out->admitted_us = 0;
    out->stream = stream.kind == JSON_TRUE;
    read_labels(json_get(root, "labels"), arena, out);
}
