/* Wanted members out of a record in one pass, for reports over long logs. Nothing is checked, copied or allocated; always
 * true whatever the bytes are: every value given lies inside the text it was asked of, and a string given begins and ends
 * with its own quotes. */
#include "audit/audit.h"
#include "audit/line.h"

bool audit_frame(struct span text, struct audit_frame *out) {
    struct line_frame f;
    if (!line_read(text, &f))
        return false;
    *out = (struct audit_frame){.seq = f.seq, .kind = line_kind(f.kind), .time = f.time, .request = f.request};
    memcpy(out->hash, f.hash.at, f.hash.n);
    return true;
}

/* Past the closing quote of the string that begins at `at`; n when it has none. */
static size_t past_string(struct span s, size_t at) {
    for (size_t from = at + 1; from < s.n;) {
        const char *quote = memchr(s.at + from, '"', s.n - from);
        if (!quote)
            return s.n;
        size_t end = (size_t)(quote - s.at), back = end;
        while (back > at + 1 && s.at[back - 1] == '\\')
            back--;
        if ((end - back) % 2 == 0)
            return end + 1;
        from = end + 1;
    }
    return s.n;
}

/* Past the bracket that closes the one at `at`. */
static size_t past_nest(struct span s, size_t at) {
    size_t depth = 0;
    while (at < s.n) {
        char c = s.at[at];
        if (c == '"') {
            at = past_string(s, at);
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        at++;
        if (depth == 0)
            return at;
    }
    return s.n;
}

static size_t past_plain(struct span s, size_t at) {
    while (at < s.n && s.at[at] != ',' && s.at[at] != '}' && s.at[at] != ']')
        at++;
    return at;
}

static enum json_kind kind_of(char first) {
    static const struct {
        char first;
        enum json_kind kind;
    } kinds[] = {{'"', JSON_STRING}, {'{', JSON_OBJECT}, {'[', JSON_ARRAY},
                 {'t', JSON_TRUE},   {'f', JSON_FALSE},  {'n', JSON_NULL}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].first == first)
            return kinds[i].kind;
    return JSON_NUMBER;
}

/* The value that begins at *at; moves *at past it. */
static bool take_value(struct span s, size_t *at, struct json *out) {
    size_t from = *at;
    if (from >= s.n)
        return false;
    char c = s.at[from];
    *at = c == '"' ? past_string(s, from) : c == '{' || c == '[' ? past_nest(s, from) : past_plain(s, from);
    *out = (struct json){kind_of(c), span_from(s.at + from, *at - from)};
    bool closed = c != '"' || (*at - from >= 2 && s.at[*at - 1] == '"');
    return *at > from && closed;
}

bool audit_next(struct span *rest, struct span *name, struct json *value) {
    size_t at = rest->n && strchr("{[,", rest->at[0]) ? 1 : 0; /* what opens it, or stands before the next */
    *name = SPAN_NONE;
    if (at < rest->n && rest->at[at] == '"') {
        size_t end = past_string(*rest, at);
        if (end + 1 < rest->n && rest->at[end] == ':') {
            *name = span_from(rest->at + at + 1, end - at - 2);
            at = end + 1;
        }
    }
    bool found = take_value(*rest, &at, value);
    *rest = found ? span_from(rest->at + at, rest->n - at) : SPAN_NONE;
    return found;
}

void audit_pick(struct span object, const struct span *names, struct json *out, size_t n) {
    struct span name;
    struct json value;
    size_t expect = 0; /* members come in the order of the names, mostly */
    memset(out, 0, n * sizeof *out);
    while (audit_next(&object, &name, &value))
        for (size_t i = 0; i < n; i++) {
            size_t at = expect + i < n ? expect + i : expect + i - n;
            if (names[at].n != name.n || memcmp(names[at].at, name.at, name.n) != 0)
                continue;
            out[at] = value;
            expect = at + 1 < n ? at + 1 : 0;
            break;
        }
}
