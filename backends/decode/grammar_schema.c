/* From a JSON schema to the rules of what it allows. Always true: every keyword of a schema is obeyed, is an annotation, or is refused
 * with its path; what a form allows, the schema allows, while of an object only members that it names are made (members in the order
 * in which they stand there), unless it names none. */
#include "backends/decode/grammar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SCHEMA_DEPTH_MAX 48
#define PATH_BYTES 160
#define SCHEMAS_MAX 2048
#define COUNT_MAX 4096 /* of minLength and the like */
#define LITERAL_BYTES_MAX (1 << 16)

enum word {
    WORD_TYPE,
    WORD_PROPERTIES,
    WORD_REQUIRED,
    WORD_ADDITIONAL,
    WORD_ITEMS,
    WORD_MIN_ITEMS,
    WORD_MAX_ITEMS,
    WORD_MIN_LENGTH,
    WORD_MAX_LENGTH,
    WORD_ENUM,
    WORD_CONST,
    WORD_ANY_OF,
    WORD_ALL_OF,
    WORD_REF,
    WORD_N
};
static const char *const words[WORD_N] = {"type",      "properties", "required", "additionalProperties",
                                          "items",     "minItems",   "maxItems", "minLength",
                                          "maxLength", "enum",       "const",    "anyOf",
                                          "allOf",     "$ref"};
/* They say nothing about what is valid. */
static const char *const annotations[] = {"$schema",   "$id",         "$comment", "$defs",      "definitions",
                                          "title",     "description", "default",  "deprecated", "readOnly",
                                          "writeOnly", "examples",    "example",  "strict"};

struct schemas {
    struct grammar *g;
    struct json root;
    struct decode_fault *fault;
    int depth;
    struct {
        const char *at; /* of the schema that is meant, in the root's bytes */
        int32_t rule;
    } seen[SCHEMAS_MAX];
    size_t n_seen;
};

static int32_t compile(struct schemas *s, struct json schema, const char *path);

static int32_t fail(struct schemas *s, const char *path, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->fault->text, sizeof s->fault->text, format, args);
    va_end(args);
    snprintf(s->fault->field, sizeof s->fault->field, "%s", path);
    return -1;
}

/* "path.word", cut at its end where it is too long. */
static const char *under(char out[PATH_BYTES], const char *path, const char *word) {
    struct str s;
    str_init(&s, PATH_BYTES - 1);
    str_puts(&s, path);
    str_putc(&s, '.');
    str_puts(&s, word);
    size_t n = s.n < PATH_BYTES - 1 ? s.n : PATH_BYTES - 1;
    memcpy(out, s.at ? s.at : "", n);
    out[n] = 0;
    str_fini(&s);
    return out;
}

static bool is_annotation(struct span name) {
    for (size_t i = 0; i < ARRAY_LEN(annotations); i++)
        if (json_name_is(name, annotations[i]))
            return true;
    return false;
}

static bool read_words(struct schemas *s, struct json schema, const char *path, struct json said[WORD_N]) {
    struct json_walk w;
    struct span name;
    struct json v;
    memset(said, 0, WORD_N * sizeof *said);
    for (json_walk_init(&w, schema); json_walk_next(&w, &name, &v);) {
        size_t i = 0;
        while (i < WORD_N && !json_name_is(name, words[i]))
            i++;
        if (i < WORD_N)
            said[i] = v;
        else if (!is_annotation(name)) {
            char at[PATH_BYTES], word[64];
            snprintf(word, sizeof word, "%.*s", (int)(name.n < 60 ? name.n : 60), name.at);
            fail(s, under(at, path, word), "is a keyword that is not supported yet by the embedded engine.");
            return false;
        }
    }
    return true;
}

/* A count from 0 to COUNT_MAX, or `otherwise`; -2 with the fault. */
static int64_t count_of(struct schemas *s, struct json v, const char *path, enum word word, int64_t otherwise) {
    char at[PATH_BYTES];
    int64_t n;
    if (v.kind == JSON_NONE)
        return otherwise;
    if (json_i64(v, &n) && n >= 0 && n <= COUNT_MAX)
        return n;
    fail(s, under(at, path, words[word]), "must be a whole number from 0 to %d.", COUNT_MAX);
    return -2;
}

/* --- values that stand in the schema --- */

/* Its bytes without white space between tokens. */
static int32_t put_constant(struct schemas *s, struct json v, int32_t next, const char *path) {
    struct str text;
    bool quoted = false;
    str_init(&text, LITERAL_BYTES_MAX);
    for (size_t i = 0; i < v.raw.n; i++) {
        char c = v.raw.at[i];
        if (!quoted && strchr(" \t\r\n", c))
            continue;
        str_putc(&text, c);
        if (quoted && c == '\\' && ++i < v.raw.n)
            str_putc(&text, v.raw.at[i]);
        else if (c == '"')
            quoted = !quoted;
    }
    int32_t begin = text.over ? fail(s, path, "is too large.") : put_literal(s->g, str_span(&text), next);
    str_fini(&text);
    return begin;
}

static int32_t put_enum(struct schemas *s, struct json list, const char *path) {
    struct json_walk w;
    struct json v;
    char at[PATH_BYTES];
    int32_t any = -1;
    under(at, path, "enum");
    if (list.kind != JSON_ARRAY || !json_count(list))
        return fail(s, at, "must be a list of values.");
    for (json_walk_init(&w, list); json_walk_next(&w, NULL, &v);) {
        int32_t one = put_constant(s, v, s->g->end, at);
        if (one < 0)
            return -1;
        any = any < 0 ? one : put_split(s->g, any, one);
    }
    return any;
}

/* --- objects --- */

static bool is_required(struct json list, struct json name) {
    struct json_walk w;
    struct json v;
    for (json_walk_init(&w, list); json_walk_next(&w, NULL, &v);)
        if (v.kind == JSON_STRING && span_equal(v.raw, name.raw))
            return true;
    return false;
}

static bool is_property(struct json properties, struct span raw) {
    struct json_walk w;
    struct span name;
    struct json v;
    for (json_walk_init(&w, properties); json_walk_next(&w, &name, &v);)
        if (name.n + 2 == raw.n && memcmp(name.at, raw.at + 1, name.n) == 0)
            return true;
    return false;
}

/* `"name": value` with what comes before it, then `next`. */
static int32_t put_member(struct schemas *s, struct span quoted, int32_t rule, bool comma, int32_t next) {
    struct grammar *g = s->g;
    int32_t at = put_bytes(g, ':', ':', put_blank(g, put_call(g, rule, next)));
    at = put_literal(g, quoted, at);
    return comma ? put_bytes(g, ',', ',', put_blank(g, at)) : at;
}

struct member {
    struct span quoted;
    int32_t rule;
    bool required;
};
#define MEMBERS_MAX 512

/* From the last to the first: what may follow when nothing was written yet, and when something was. */
static int32_t put_members(struct schemas *s, const struct member *m, size_t n) {
    struct grammar *g = s->g;
    int32_t close = put_blank(g, put_bytes(g, '}', '}', g->end)), first = close, later = close;
    while (n-- > 0) {
        int32_t begins = put_member(s, m[n].quoted, m[n].rule, false, later);
        int32_t goes_on = put_member(s, m[n].quoted, m[n].rule, true, later);
        first = m[n].required ? begins : put_split(g, begins, first);
        later = m[n].required ? goes_on : put_split(g, goes_on, later);
    }
    return put_bytes(g, '{', '{', put_blank(g, first));
}

static bool read_members(struct schemas *s, struct json said[WORD_N], const char *path, struct member *m, size_t *n) {
    struct json_walk w;
    struct span name;
    struct json v;
    char properties[PATH_BYTES], at[PATH_BYTES], word[64];
    under(properties, path, "properties");
    for (json_walk_init(&w, said[WORD_PROPERTIES]); json_walk_next(&w, &name, &v); (*n)++) {
        snprintf(word, sizeof word, "%.*s", (int)(name.n < 60 ? name.n : 60), name.at);
        struct span quoted = {name.at - 1, name.n + 2};
        if (*n == MEMBERS_MAX)
            return fail(s, properties, "has more than %d members.", MEMBERS_MAX) >= 0;
        m[*n] = (struct member){quoted, compile(s, v, under(at, properties, word)),
                                is_required(said[WORD_REQUIRED], (struct json){JSON_STRING, quoted})};
        if (m[*n].rule < 0)
            return false;
    }
    /* What is required without being described may be anything. */
    for (json_walk_init(&w, said[WORD_REQUIRED]); json_walk_next(&w, NULL, &v);) {
        if (v.kind != JSON_STRING)
            return fail(s, under(at, path, "required"), "must be a list of names.") >= 0;
        if (is_property(said[WORD_PROPERTIES], v.raw))
            continue;
        if (*n == MEMBERS_MAX)
            return fail(s, under(at, path, "required"), "has more than %d names.", MEMBERS_MAX) >= 0;
        m[(*n)++] = (struct member){v.raw, json_rule(s->g, RULE_VALUE), true};
    }
    return true;
}

static int32_t put_what_is_named(struct schemas *s, struct json said[WORD_N], const char *path,
                                 struct member *members) {
    size_t n = 0;
    char at[PATH_BYTES];
    struct json more = said[WORD_ADDITIONAL];
    if (said[WORD_PROPERTIES].kind != JSON_NONE && said[WORD_PROPERTIES].kind != JSON_OBJECT)
        return fail(s, under(at, path, "properties"), "must be an object.");
    if (said[WORD_REQUIRED].kind != JSON_NONE && said[WORD_REQUIRED].kind != JSON_ARRAY)
        return fail(s, under(at, path, "required"), "must be a list of names.");
    if (!read_members(s, said, path, members, &n))
        return -1;
    if (n || more.kind == JSON_FALSE)
        return put_members(s, members, n);
    int32_t rule = more.kind == JSON_OBJECT ? compile(s, more, under(at, path, words[WORD_ADDITIONAL]))
                                            : json_rule(s->g, RULE_VALUE);
    return rule < 0 ? -1 : put_map(s->g, rule, s->g->end);
}

static int32_t put_object(struct schemas *s, struct json said[WORD_N], const char *path) {
    struct member *members = xcalloc(MEMBERS_MAX, sizeof *members);
    int32_t begin = put_what_is_named(s, said, path, members);
    free(members);
    return begin;
}

/* --- the other types --- */

static int32_t put_array(struct schemas *s, struct json said[WORD_N], const char *path) {
    char at[PATH_BYTES];
    int64_t least = count_of(s, said[WORD_MIN_ITEMS], path, WORD_MIN_ITEMS, 0);
    int64_t most = count_of(s, said[WORD_MAX_ITEMS], path, WORD_MAX_ITEMS, -1);
    int32_t rule = said[WORD_ITEMS].kind == JSON_NONE ? json_rule(s->g, RULE_VALUE)
                                                      : compile(s, said[WORD_ITEMS], under(at, path, "items"));
    if (least == -2 || most == -2 || rule < 0)
        return -1;
    if (most >= 0 && most < least)
        return fail(s, under(at, path, "maxItems"), "is less than minItems.");
    return put_list(s->g, rule, least, most, s->g->end);
}

static int32_t put_string(struct schemas *s, struct json said[WORD_N], const char *path) {
    struct grammar *g = s->g;
    char at[PATH_BYTES];
    int64_t least = count_of(s, said[WORD_MIN_LENGTH], path, WORD_MIN_LENGTH, 0);
    int64_t most = count_of(s, said[WORD_MAX_LENGTH], path, WORD_MAX_LENGTH, -1);
    if (least == -2 || most == -2)
        return -1;
    if (most >= 0 && most < least)
        return fail(s, under(at, path, "maxLength"), "is less than minLength.");
    if (!least && most < 0)
        return put_call(g, json_rule(g, RULE_STRING), g->end);
    int32_t close = put_bytes(g, '"', '"', g->end);
    return put_bytes(g, '"', '"', put_repeat(g, json_rule(g, RULE_CHARACTER), least, most, -1, close));
}

static int32_t put_boolean(struct schemas *s, struct json said[WORD_N], const char *path) {
    (void)said, (void)path;
    return put_split(s->g, put_literal(s->g, SPAN("true"), s->g->end), put_literal(s->g, SPAN("false"), s->g->end));
}

static int32_t put_null(struct schemas *s, struct json said[WORD_N], const char *path) {
    (void)said, (void)path;
    return put_literal(s->g, SPAN("null"), s->g->end);
}

static int32_t put_integer(struct schemas *s, struct json said[WORD_N], const char *path) {
    (void)said, (void)path;
    return put_call(s->g, json_rule(s->g, RULE_INTEGER), s->g->end);
}

static int32_t put_number(struct schemas *s, struct json said[WORD_N], const char *path) {
    (void)said, (void)path;
    return put_call(s->g, json_rule(s->g, RULE_NUMBER), s->g->end);
}

static const struct {
    const char *name;
    int32_t (*put)(struct schemas *s, struct json said[WORD_N], const char *path);
} types[] = {{"object", put_object}, {"array", put_array},     {"string", put_string}, {"integer", put_integer},
             {"number", put_number}, {"boolean", put_boolean}, {"null", put_null}};

static int32_t put_type(struct schemas *s, struct json name, struct json said[WORD_N], const char *path) {
    char at[PATH_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (json_is(name, types[i].name))
            return types[i].put(s, said, path);
    return fail(s, under(at, path, "type"), "must be the name of a JSON type, or a list of them.");
}

static int32_t put_types(struct schemas *s, struct json said[WORD_N], const char *path) {
    struct json_walk w;
    struct json name;
    int32_t any = -1;
    if (said[WORD_TYPE].kind != JSON_ARRAY)
        return put_type(s, said[WORD_TYPE], said, path);
    for (json_walk_init(&w, said[WORD_TYPE]); json_walk_next(&w, NULL, &name);) {
        int32_t one = put_type(s, name, said, path);
        if (one < 0)
            return -1;
        any = any < 0 ? one : put_split(s->g, any, one);
    }
    return any < 0 ? put_type(s, (struct json){0}, said, path) : any;
}

/* Without a type: that of what else is said, which is one of the types it allows. */
static int32_t put_untyped(struct schemas *s, struct json said[WORD_N], const char *path) {
    static const struct {
        enum word word;
        size_t type; /* in types */
    } hints[] = {{WORD_PROPERTIES, 0}, {WORD_REQUIRED, 0},  {WORD_ADDITIONAL, 0}, {WORD_ITEMS, 1},
                 {WORD_MIN_ITEMS, 1},  {WORD_MAX_ITEMS, 1}, {WORD_MIN_LENGTH, 2}, {WORD_MAX_LENGTH, 2}};
    for (size_t i = 0; i < ARRAY_LEN(hints); i++)
        if (said[hints[i].word].kind != JSON_NONE)
            return types[hints[i].type].put(s, said, path);
    return put_call(s->g, json_rule(s->g, RULE_VALUE), s->g->end);
}

/* --- schemas of schemas --- */

static int32_t put_any_of(struct schemas *s, struct json list, const char *path) {
    struct json_walk w;
    struct json one;
    char at[PATH_BYTES], word[24];
    int32_t any = -1;
    size_t i = 0;
    if (list.kind != JSON_ARRAY || !json_count(list))
        return fail(s, under(at, path, "anyOf"), "must be a list of schemas.");
    for (json_walk_init(&w, list); json_walk_next(&w, NULL, &one); i++) {
        snprintf(word, sizeof word, "anyOf[%zu]", i);
        int32_t rule = compile(s, one, under(at, path, word));
        if (rule < 0)
            return -1;
        int32_t call = put_call(s->g, rule, s->g->end);
        any = any < 0 ? call : put_split(s->g, any, call);
    }
    return any;
}

/* "#" and "#/a/b"; a name with ~ or % in it is none. */
static struct json find(struct schemas *s, struct span reference) {
    struct json at = s->root;
    struct span rest = reference, part;
    char name[128];
    if (!rest.n || rest.at[0] != '#')
        return (struct json){0};
    rest = span_from(rest.at + 1, rest.n - 1);
    if (rest.n && rest.at[0] != '/')
        return (struct json){0};
    rest = rest.n ? span_from(rest.at + 1, rest.n - 1) : rest;
    while (rest.n && span_cut(&rest, '/', &part)) {
        if (part.n >= sizeof name)
            return (struct json){0};
        snprintf(name, sizeof name, "%.*s", SPAN_ARG(part));
        at = json_get(at, name);
    }
    return at;
}

static int32_t put_reference(struct schemas *s, struct json v, const char *path) {
    char at[PATH_BYTES];
    struct span text = v.kind == JSON_STRING ? span_from(v.raw.at + 1, v.raw.n - 2) : SPAN_NONE;
    struct json meant = find(s, text);
    under(at, path, "$ref");
    if (meant.kind != JSON_OBJECT)
        return fail(s, at, "must name a schema of this document, like '#/$defs/name'.");
    for (size_t i = 0; i < s->n_seen; i++)
        if (s->seen[i].at == meant.raw.at)
            return put_call(s->g, s->seen[i].rule, s->g->end);
    int32_t rule = compile(s, meant, at);
    return rule < 0 ? -1 : put_call(s->g, rule, s->g->end);
}

static int32_t put_schema(struct schemas *s, struct json schema, const char *path) {
    struct json said[WORD_N];
    char at[PATH_BYTES];
    if (schema.kind == JSON_TRUE)
        return put_call(s->g, json_rule(s->g, RULE_VALUE), s->g->end);
    if (schema.kind != JSON_OBJECT)
        return fail(s, path, "must be a schema.");
    if (!read_words(s, schema, path, said))
        return -1;
    if (said[WORD_REF].kind)
        return put_reference(s, said[WORD_REF], path);
    if (said[WORD_CONST].kind)
        return put_constant(s, said[WORD_CONST], s->g->end, under(at, path, "const"));
    if (said[WORD_ENUM].kind)
        return put_enum(s, said[WORD_ENUM], path);
    if (said[WORD_ANY_OF].kind)
        return put_any_of(s, said[WORD_ANY_OF], path);
    if (said[WORD_ALL_OF].kind) {
        if (json_count(said[WORD_ALL_OF]) != 1 || said[WORD_PROPERTIES].kind)
            return fail(s, under(at, path, "allOf"), "of more than one schema is not supported yet.");
        int32_t rule = compile(s, json_at(said[WORD_ALL_OF], 0), under(at, path, "allOf[0]"));
        return rule < 0 ? -1 : put_call(s->g, rule, s->g->end);
    }
    return said[WORD_TYPE].kind ? put_types(s, said, path) : put_untyped(s, said, path);
}

/* A rule of its own, known before it is made, so that schemas may hold themselves. */
static int32_t compile(struct schemas *s, struct json schema, const char *path) {
    int32_t rule = grammar_rule(s->g);
    if (++s->depth > SCHEMA_DEPTH_MAX)
        return fail(s, path, "is nested more than %d deep.", SCHEMA_DEPTH_MAX);
    if (s->n_seen == SCHEMAS_MAX)
        return fail(s, path, "is one schema of more than %d.", SCHEMAS_MAX);
    s->seen[s->n_seen].at = schema.raw.at;
    s->seen[s->n_seen++].rule = rule;
    int32_t begin = put_schema(s, schema, path);
    s->depth--;
    if (begin < 0)
        return -1;
    s->g->rules[rule] = begin;
    return rule;
}

int32_t schema_rule(struct grammar *g, struct json root, struct json schema, const char *path,
                    struct decode_fault *fault) {
    struct schemas s = {.g = g, .root = root, .fault = fault};
    int32_t rule = compile(&s, schema, path);
    if (rule >= 0 && g->full)
        return fail(&s, path, "is too large: it spells out more than %d pieces.", GRAMMAR_NODES_MAX);
    return rule;
}
