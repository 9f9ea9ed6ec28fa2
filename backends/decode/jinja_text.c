/* Work on text that filters and methods share: stripping, replacing, cases, characters. Everything goes by bytes where it
 * can and by whole characters where it must; letters other than ASCII keep their case. */
#include "backends/decode/jinja_run.h"
#include "backends/decode/unicode.h"

static bool in_set(struct span set, const char *at, size_t n) {
    uint32_t c;
    if (!set.at) {
        utf8_next(at, n, &c);
        return unicode_is_space(c) || (c >= 0x1c && c <= 0x1f);
    }
    return memmem(set.at, set.n, at, n) != NULL;
}

/* Bytes of the last character. */
static size_t last_character(struct jinja_text t) {
    size_t n = 1;
    while (n < t.n && n < UTF8_BYTES_MAX && ((uint8_t)t.at[t.n - n] & 0xc0) == 0x80)
        n++;
    return n;
}

struct jinja_text jinja_strip(struct jinja_text t, struct span set, int sides) {
    uint32_t c;
    while ((sides & STRIP_LEFT) && t.n) {
        size_t n = utf8_next(t.at, t.n, &c);
        if (!in_set(set, t.at, n))
            break;
        t = jinja_slice(t, n, t.n - n);
    }
    while ((sides & STRIP_RIGHT) && t.n) {
        size_t n = last_character(t);
        if (!in_set(set, t.at + t.n - n, n))
            break;
        t = jinja_slice(t, 0, t.n - n);
    }
    return t;
}

struct jinja_value jinja_replace(struct jinja_run *r, struct jinja_text t, struct span from, struct jinja_text to,
                                 int64_t most) {
    struct marked out;
    size_t at = 0;
    if (from.n == 0) {
        jinja_fail(r, "replace of an empty text is not supported");
        return JINJA_VOID;
    }
    marked_init(&out, JINJA_OUTPUT_BYTES_MAX);
    while (most != 0 && jinja_step(r, to.n) && !out.text.over) {
        const char *found = memmem(t.at + at, t.n - at, from.at, from.n);
        if (!found)
            break;
        size_t place = (size_t)(found - t.at);
        jinja_emit(&out, jinja_slice(t, at, place - at));
        jinja_emit(&out, to);
        at = place + from.n;
        most--;
    }
    jinja_step(r, t.n);
    jinja_emit(&out, jinja_slice(t, at, t.n - at));
    return jinja_built(r, &out);
}

static char recased(char c, bool start, bool word_start, enum jinja_case how) {
    bool up = how == CASE_UPPER || (how == CASE_TITLE && word_start) || (how == CASE_CAPITAL && start);
    if (up && c >= 'a' && c <= 'z')
        return (char)(c - 32);
    return !up && c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_letter(char c) {
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c & 0x80);
}

struct jinja_value jinja_recase(struct jinja_run *r, struct jinja_text t, enum jinja_case how) {
    char *at = jinja_alloc(r, t.n + 1);
    for (size_t i = 0; at && i < t.n; i++)
        at[i] = recased(t.at[i], i == 0, i == 0 || !is_letter(t.at[i - 1]), how);
    return at ? jinja_text((struct jinja_text){at, t.n, t.marks, t.user}) : JINJA_VOID;
}

struct jinja_value jinja_characters(struct jinja_run *r, struct jinja_text t) {
    struct jinja_value out = jinja_list_new(r);
    uint32_t c;
    for (size_t i = 0, n; i < t.n && jinja_step(r, 0); i += n) {
        n = utf8_next(t.at + i, t.n - i, &c);
        jinja_list_put(r, out, jinja_text(jinja_slice(t, i, n)));
    }
    return out;
}

struct jinja_value jinja_items(struct jinja_run *r, struct jinja_value map, bool keys, bool values) {
    struct jinja_value out = jinja_list_new(r);
    if (map.kind != JINJA_MAP) {
        jinja_fail(r, "%s has no items", jinja_kind_name(map.kind));
        return JINJA_VOID;
    }
    for (size_t i = 0; i < map.map->n && !r->failed; i++) {
        struct jinja_value key = jinja_text(map.map->at[i].key), both = keys && values ? jinja_list_new(r) : key;
        if (keys && values) {
            jinja_list_put(r, both, key);
            jinja_list_put(r, both, map.map->at[i].value);
        }
        jinja_list_put(r, out, keys ? both : map.map->at[i].value);
    }
    return out;
}

struct jinja_value jinja_iterated(struct jinja_run *r, struct jinja_value v) {
    if (v.kind == JINJA_LIST || r->failed)
        return v;
    if (v.kind == JINJA_MAP)
        return jinja_items(r, v, true, false);
    if (v.kind == JINJA_STRING)
        return jinja_characters(r, v.s);
    if (v.kind == JINJA_UNDEFINED)
        return jinja_list_new(r);
    jinja_fail(r, "%s cannot be gone over", jinja_kind_name(v.kind));
    return JINJA_VOID;
}
