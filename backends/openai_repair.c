/* What some OpenAI-like providers leave out of a chunk and the official client relies on. Only chunks with a gap are
 * touched, and only the gap: a complete chunk passes with the provider's own bytes. Tool calls without an index are
 * told apart by their ids; several calls under one index are numbered anew. */
#include "backends/dialect.h"

#include "gateway/base/hash.h"

#include <stdio.h>

static void repair(struct reader *r, struct edits *out, size_t at, size_t n, const char *text) {
    char *copy = arena_strdup(&r->arena, span_of(text));
    if (copy && out->n < EDITS_MAX)
        out->at[out->n++] = (struct edit){at, n, span_of(copy)};
}

static void repair_inside(struct reader *r, struct edits *out, struct span data, struct json object,
                          const char *member) {
    char text[96];
    snprintf(text, sizeof text, "%s%s", member, json_count(object) ? "," : "");
    repair(r, out, (size_t)(object.raw.at - data.at) + 1, 0, text);
}

static struct reader_tool *tool_by_id(struct reader *r, int choice, uint32_t id) {
    for (int i = 0; id && i < r->n_tools; i++)
        if (r->tools[i].choice == choice && r->tools[i].id == id)
            return &r->tools[i];
    return NULL;
}

static struct reader_tool *tool_last(struct reader *r, int choice) {
    for (int i = r->n_tools - 1; i >= 0; i--)
        if (r->tools[i].choice == choice)
            return &r->tools[i];
    return NULL;
}

static struct reader_tool *tool_next(struct reader *r, int choice, uint32_t id) {
    struct reader_tool *last = tool_last(r, choice);
    struct reader_tool *t = reader_tool_new(r, choice, last ? last->key + 1 : 0);
    if (t)
        t->id = id;
    return t;
}

/* The call that a fragment belongs to; index -1: not said. NULL: too many calls. */
static struct reader_tool *tool_resolve(struct reader *r, int choice, int index, uint32_t id, bool named) {
    struct reader_tool *t = tool_by_id(r, choice, id);
    if (t)
        return t;
    t = index >= 0 ? reader_tool(r, choice, index) : NULL;
    if (!t && index >= 0) {
        t = reader_tool_new(r, choice, index);
        if (t)
            t->id = id;
        return t;
    }
    if (t && id && t->id && t->id != id) {
        r->misnumbered = true;
        return tool_next(r, choice, id);
    }
    if (t && !(r->misnumbered && !id))
        return t;
    if (!id && !named && tool_last(r, choice))
        return tool_last(r, choice);
    return tool_next(r, choice, id);
}

static void repair_tool(struct reader *r, struct edits *out, struct span data, int choice, struct json call) {
    struct json id = json_member(call, "id"), index = json_get(call, "index");
    struct json name = json_member(json_member(call, "function"), "name");
    struct span id_text = reader_text(r, id);
    int64_t said = -1;
    char text[64];
    if (call.kind != JSON_OBJECT ||
        (index.kind == JSON_NUMBER && (!json_i64(index, &said) || said < 0 || said > 1 << 20)))
        return;
    struct reader_tool *t = tool_resolve(r, choice, (int)said, id_text.n ? crc32_of(id_text) | 1 : 0, name.raw.n > 2);
    if (!t || t->key == said)
        return;
    if (index.kind != JSON_NONE) {
        snprintf(text, sizeof text, "%d", t->key);
        repair(r, out, (size_t)(index.raw.at - data.at), index.raw.n, text);
        return;
    }
    bool typed = json_member(call, "type").kind != JSON_NONE || t->told;
    snprintf(text, sizeof text, "\"index\":%d%s", t->key, typed ? "" : ",\"type\":\"function\"");
    repair_inside(r, out, data, call, text);
}

static void repair_choice(struct reader *r, struct edits *out, struct span data, struct json choice) {
    struct json delta = json_member(choice, "delta");
    int64_t index = 0;
    struct json said = json_member(choice, "index");
    if (said.kind == JSON_NONE && choice.kind == JSON_OBJECT)
        repair_inside(r, out, data, choice, "\"index\":0");
    if ((said.kind == JSON_NUMBER && !json_i64(said, &index)) || index < 0 || index >= READER_CHOICES_MAX)
        return;
    if (delta.kind != JSON_OBJECT || r->endpoint != ENDPOINT_CHAT)
        return;
    if (!r->choice_open[index] && json_get(delta, "role").kind == JSON_NONE)
        repair_inside(r, out, data, delta, "\"role\":\"assistant\"");
    struct json_walk walk;
    struct json call;
    json_walk_init(&walk, json_member(delta, "tool_calls"));
    while (json_walk_next(&walk, NULL, &call))
        repair_tool(r, out, data, (int)index, call);
}

void openai_repairs(struct reader *r, struct json v, struct edits *out) {
    struct json_walk walk;
    struct json choice;
    out->n = 0;
    json_walk_init(&walk, json_member(v, "choices"));
    while (json_walk_next(&walk, NULL, &choice))
        repair_choice(r, out, v.raw, choice);
    for (int i = 1; i < out->n; i++) /* edits come in ascending order to put_edited */
        for (int j = i; j > 0 && out->at[j].at < out->at[j - 1].at; j--) {
            struct edit swap = out->at[j];
            out->at[j] = out->at[j - 1];
            out->at[j - 1] = swap;
        }
}
