/* JSON from outside: checked once, then read in place. RFC 8259.
 *
 * json_check accepts exactly RFC 8259 text in valid UTF-8, within a depth, and says where it is wrong; escaped lone
 * surrogates are legal. Every other reader here takes bytes that json_check has accepted and cannot fail on them; a
 * value is a span of the very bytes, so numbers, escapes and order stay as the sender wrote them. */
#ifndef TOLLGATE_BASE_JSON_H
#define TOLLGATE_BASE_JSON_H

#include "gateway/base/mem.h"

#define JSON_DEPTH_MAX 64 /* against nests of brackets that use up the stack */

enum json_kind { JSON_NONE, JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_kind kind; /* JSON_NONE: absent */
    struct span raw;     /* the value's bytes: strings with quotes, objects with braces */
};

struct json_fault {
    size_t at;        /* byte offset */
    const char *what; /* static: "expected ',' or '}'" */
};

/* Checks one whole document (white space around it allowed) and gives its value. */
must_check bool json_check(struct span text, int depth_max, struct json *out, struct json_fault *fault);

struct json_walk {
    struct span rest;
    bool object;
};
void json_walk_init(struct json_walk *w, struct json of); /* of anything but array or object: empty walk */
/* The next member or element; `name` is the raw name without quotes (may hold escapes), empty in arrays. */
bool json_walk_next(struct json_walk *w, struct span *name, struct json *value);

/* The member called `name` (escapes in names are honoured); the last one when it is there twice, as most readers do. */
struct json json_get(struct json object, const char *name);
/* Several members in one pass: out[i] for names[i]. Returns the first name that is there twice, or NULL. */
const char *json_pick(struct json object, const char *const *names, struct json *out, size_t n);
struct json json_at(struct json array, size_t i);
size_t json_count(struct json v); /* elements or members */

bool json_name_is(struct span raw_name, const char *text);
/* Decoded text of a string in the arena (NUL-terminated; may hold NULs inside); lone surrogates become U+FFFD.
 * at == NULL when the arena is full or v is not a string. Strings without escapes are borrowed, not copied. */
struct span json_text(struct json v, struct arena *a);
size_t json_text_bytes(struct json v);                 /* UTF-8 length of the decoded string; 0 if not a string */
bool json_is(struct json v, const char *text);         /* a string equal to text */
must_check bool json_i64(struct json v, int64_t *out); /* a number that is a whole int64, also as 1e3 or 2.0 */
must_check bool json_f64(struct json v, double *out);
bool json_is_zero(struct json v); /* a number whose value is exactly 0 */

/* How many bytes at the start stand for themselves inside quotes: ASCII without quote, backslash and control characters. */
size_t json_plain_bytes(const char *at, size_t n);

/* Writers. */
void json_put_text(struct str *out, struct span text); /* quoted and escaped; invalid UTF-8 becomes U+FFFD */
/* `,"name":` or `"name":` depending on what stands before it; objects and arrays are opened and closed by hand. */
void json_put_name(struct str *out, const char *name);
void json_put_i64(struct str *out, const char *name, int64_t v);
void json_put_bool(struct str *out, const char *name, bool v);
void json_put_str(struct str *out, const char *name, const char *text);  /* NULL gives null */
void json_put_span(struct str *out, const char *name, struct span text); /* at == NULL gives null */
void json_put_raw(struct str *out, const char *name, struct span raw);

/* Canonical form for keys: members sorted by name bytes, strings unescaped and re-escaped minimally, numbers as
 * normalised decimal text (1.0, 1e0 and 1 are equal), no white space. `skip` (may be NULL) leaves members of the
 * outermost object out by name; `skip_deep` members at any depth. False on a duplicate name or when out is full. */
must_check bool json_canonical(struct json v, const char *const *skip, size_t n_skip, const char *const *skip_deep,
                               size_t n_skip_deep, struct str *out);

#endif
