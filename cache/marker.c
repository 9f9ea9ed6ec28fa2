/* Cache-control markers are hints to a provider's prompt cache and change no answer, so they are left out of keys, at any
 * depth. Always true here: a member is a marker by its name and its shape, and inside what belongs to the caller's own
 * tools (schemas, arguments) nothing is a marker: two calls that differ there must never share a key. */
#include "cache/cache_key.h"

static const struct {
    const char *name;
    const char *kind, *value; /* the member that makes it a marker */
    const char *others[2];    /* what else a marker may hold */
} markers[] = {
    {"cache_control", "type", "ephemeral", {"ttl", "scope"}},
    {"prompt_cache_breakpoint", "mode", "explicit", {"ttl", "ttl"}},
};

/* Members that hold data of the caller's tools. `input` counts only as an object: elsewhere it is a list of messages. */
static const char *const data_names[] = {"input_schema", "parameters", "schema", "json_schema", "arguments"};

static bool is_data(struct span name, struct json v) {
    for (size_t i = 0; i < ARRAY_LEN(data_names); i++)
        if (json_name_is(name, data_names[i]))
            return true;
    return v.kind == JSON_OBJECT && json_name_is(name, "input");
}

/* Index of the marker called so, or -1. */
static int marker_named(struct span name) {
    for (size_t i = 0; i < ARRAY_LEN(markers); i++)
        if (json_name_is(name, markers[i].name))
            return (int)i;
    return -1;
}

static bool is_marker(int m, struct json v) {
    if (v.kind == JSON_NULL)
        return true;
    const char *const names[] = {markers[m].kind, markers[m].others[0], markers[m].others[1]};
    struct json found[ARRAY_LEN(names)];
    if (v.kind != JSON_OBJECT || json_pick(v, names, found, ARRAY_LEN(names)))
        return false;
    struct json_walk w;
    struct span name;
    struct json value;
    json_walk_init(&w, v);
    while (json_walk_next(&w, &name, &value))
        if (!json_name_is(name, names[0]) && !json_name_is(name, names[1]) && !json_name_is(name, names[2]))
            return false;
    return json_is(found[0], markers[m].value);
}

static bool strip_array(struct json v, struct str *out) {
    struct json_walk w;
    struct span name;
    struct json value;
    bool first = true;
    json_walk_init(&w, v);
    str_putc(out, '[');
    while (json_walk_next(&w, &name, &value)) {
        str_puts(out, first ? "" : ",");
        first = false;
        if (!marker_strip(value, out))
            return false;
    }
    str_putc(out, ']');
    return true;
}

static bool strip_object(struct json v, struct str *out) {
    int seen[ARRAY_LEN(markers)] = {0};
    struct json_walk w;
    struct span name;
    struct json value;
    bool first = true;
    json_walk_init(&w, v);
    str_putc(out, '{');
    while (json_walk_next(&w, &name, &value)) {
        int m = marker_named(name);
        if (m >= 0 && seen[m]++)
            return false;
        if (m >= 0 && is_marker(m, value))
            continue;
        str_puts(out, first ? "\"" : ",\"");
        first = false;
        str_put(out, name);
        str_puts(out, "\":");
        if (is_data(name, value))
            str_put(out, value.raw);
        else if (!marker_strip(value, out))
            return false;
    }
    str_putc(out, '}');
    return true;
}

/* Recursion is bounded by the depth that json_check accepted. */
bool marker_strip(struct json v, struct str *out) {
    if (v.kind == JSON_OBJECT)
        return strip_object(v, out);
    if (v.kind == JSON_ARRAY)
        return strip_array(v, out);
    str_put(out, v.raw);
    return true;
}

/* A name may be spelt with escapes, so a body with any is looked at closely. */
bool marker_suspected(struct span raw) {
    for (size_t i = 0; i < ARRAY_LEN(markers); i++)
        if (memmem(raw.at, raw.n, markers[i].name, strlen(markers[i].name)))
            return true;
    return memmem(raw.at, raw.n, "\\u", 2) != NULL;
}
