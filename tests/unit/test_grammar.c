/* Forms at work, byte by byte: what a schema allows and what it does not, and schemas that are refused by name. */
#include "backends/decode/automaton.h"
#include "gateway/base/json.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define ARENA_MAX (8 << 20)
#define TEXTS 12

static struct decode_fault fault;

static const struct decode_form *form_of(const char *schema, struct arena *a) {
    struct json v = {0};
    if (schema)
        cr_assert(json_check(span_of(schema), JSON_DEPTH_MAX, &v, NULL), "%s", schema);
    return decode_form_of_schema(v, a, "schema", &fault);
}

/* 0: it is not of the form; 1: a beginning; 2: whole. */
static int look(struct automata *all, const struct decode_form *f, const char *text) {
    struct vocabulary *none = (struct vocabulary *)(uintptr_t)all->vocabulary;
    struct walker w;
    bool ends, more;
    (void)none;
    walker_init(&w, all, f);
    walker_step(&w, span_of(text));
    walker_mask(&w, &ends, &more);
    walker_fini(&w, all);
    return ends ? 2 : more ? 1 : 0;
}

#define P                                                                                                              \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},\"c\":{\"type\":"   \
    "\"boolean\"}},\"required\":[\"b\"]}"

static const struct {
    const char *schema;
    const char *whole[TEXTS], *part[TEXTS], *not [TEXTS];
} rows[] = {
    {NULL,
     {"{}", "{ }", "{\"a\":1}", " {\"a\": [1, 2.5e3, -0, null, true, {\"b\": \"\\u00e9\\n\"}]}",
      "{\n  \"a\": \"\xc3\xa9\"\n}"},
     {"", "{", "{\"a", "{\"a\":1", "{\"a\":\"\xc3"},
     {"[", "1", "{}}", "{,", "{\"a\"}", "{\"a\":01", "{\"a\":1,}", "{\"a\":\"\x80", "{\"a\":\"\xed\xa0",
      "{\"a\":\"\\ud8", "{\"a\":\"\n", "{    "}},
    {P,
     {"{\"b\":\"\"}", "{\"a\": 7, \"b\": \"x\"}", "{\"a\":-3,\"b\":\"x\",\"c\":true}", "{\"b\":\"x\",\"c\":false}"},
     {"{\"a\":7", "{\"a\":7,"},
     {"{}", "{\"c\"", "{\"a\":7}", "{\"a\":7,\"c", "{\"b\":1", "{\"x", "{\"a\":\"", "{\"a\":1.", "{\"b\":\"\",\"a"}},
    {"{\"enum\":[\"red\", \"green\", 3, null, {\"a\": [1, \"x y\"]}]}",
     {"\"red\"", "\"green\"", "3", "null", "{\"a\":[1,\"x y\"]}"},
     {"\"re", "n"},
     {"\"blue", "4", "33", "{\"a\": "}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"number\"},\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[1, 2]", "[1,2.5,3]"},
     {"[", "[1,"},
     {"[]", "[1,2,3,", "[\"", "[1 ,"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"abc\"", "\"\xc3\xa9\xc3\xa9\"", "\"\\n\\n\""},
     {"\"a", "\"abc"},
     {"\"a\"", "\"abcd", "\"\""}},
    {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}",
     {"null", "[]", "[null, [[]]]"},
     {"[null"},
     {"[1", "nul "}},
    {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{\"$"
     "ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},"
     "\"required\":[\"v\",\"next\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
     {"{\"v\":1,\"next\":{"},
     {"{\"v\":1}", "{\"next"}},
    {"{\"type\":[\"string\",\"null\"]}", {"\"\"", "null"}, {"n"}, {"1", "{"}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"x\":1,\"y\":2}"},
     {"{\"x\":"},
     {"{\"x\":\""}},
    {"{\"const\":{\"a\":1}}", {"{\"a\":1}"}, {"{"}, {"{}"}},
    {"{\"type\":\"object\",\"required\":[\"q\"]}", {"{\"q\":[1]}"}, {"{"}, {"{}", "{\"x\""}},
    {"true", {"1", "\"x\"", "{}", "[]", "null"}, {"-"}, {"x"}},
};

Test(grammar, a_form_allows_what_its_schema_does_and_nothing_else) {
    struct arena a;
    struct tokenizer t = {0};
    struct vocabulary v;
    struct automata all;
    arena_init(&a, ARENA_MAX);
    vocabulary_init(&v, &t);
    automata_init(&all, &v);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct decode_form *f = form_of(rows[i].schema, &a);
        cr_assert(f, "%s %s", fault.field, fault.text);
        for (size_t k = 0; k < TEXTS && rows[i].whole[k]; k++)
            cr_expect_eq(look(&all, f, rows[i].whole[k]), 2, "row %zu: %s", i, rows[i].whole[k]);
        for (size_t k = 0; k < TEXTS && rows[i].part[k]; k++)
            cr_expect_eq(look(&all, f, rows[i].part[k]), 1, "row %zu: %s", i, rows[i].part[k]);
        for (size_t k = 0; k < TEXTS && rows[i].not [k]; k++)
            cr_expect_eq(look(&all, f, rows[i].not [k]), 0, "row %zu: %s", i, rows[i].not [k]);
    }
    automata_fini(&all);
    vocabulary_fini(&v);
    arena_fini(&a);
}

Test(grammar, what_is_not_understood_is_refused_with_its_path) {
    static const struct {
        const char *schema, *field;
    } bad[] = {
        {"{\"type\":\"string\",\"pattern\":\"a\"}", "schema.pattern"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\",\"minimum\":1}}}",
         "schema.properties.a.minimum"},
        {"{\"type\":\"text\"}", "schema.type"},
        {"{\"type\":[]}", "schema.type"},
        {"{\"oneOf\":[{}]}", "schema.oneOf"},
        {"{\"$ref\":\"#/$defs/x\"}", "schema.$ref"},
        {"{\"$ref\":\"http://x/y\"}", "schema.$ref"},
        {"{\"anyOf\":[]}", "schema.anyOf"},
        {"{\"anyOf\":[{\"not\":{}}]}", "schema.anyOf[0].not"},
        {"{\"allOf\":[{},{}]}", "schema.allOf"},
        {"{\"enum\":[]}", "schema.enum"},
        {"{\"type\":\"array\",\"minItems\":2,\"maxItems\":1}", "schema.maxItems"},
        {"{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":99999}}", "schema.items.maxLength"},
        {"{\"type\":\"array\",\"maxItems\":4096,\"items\":{\"type\":\"array\",\"minItems\":4096,\"items\":{\"type\":"
         "\"array\",\"minItems\":4096,\"items\":{\"type\":\"array\",\"maxItems\":4096,\"items\":{\"type\":\"array\","
         "\"maxItems\":4096,\"items\":{\"type\":\"array\",\"maxItems\":4096}}}}}}",
         "schema"},
        {"3", "schema"},
    };
    struct arena a;
    arena_init(&a, ARENA_MAX);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_expect_null(form_of(bad[i].schema, &a), "%s", bad[i].schema);
        cr_expect_str_eq(fault.field, bad[i].field, "%s: %s", bad[i].schema, fault.text);
    }
    arena_fini(&a);
}

/* Schemas that hold nothing but themselves allow nothing, and take no longer than others to say so. */
Test(grammar, a_schema_that_only_means_itself_allows_nothing) {
    static const char *const texts[] = {
        "{\"$ref\":\"#\"}", "{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}"};
    struct arena a;
    struct tokenizer t = {0};
    struct vocabulary v;
    struct automata all;
    arena_init(&a, ARENA_MAX);
    vocabulary_init(&v, &t);
    automata_init(&all, &v);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const struct decode_form *f = form_of(texts[i], &a);
        struct walker w;
        bool ends, more = true;
        cr_assert(f);
        walker_init(&w, &all, f);
        for (int k = 0; k < 2000 && more; k++) {
            walker_step(&w, i == 2 ? SPAN("{\"a\":") : SPAN("{"));
            walker_mask(&w, &ends, &more);
            cr_expect_not(ends);
        }
        cr_expect_not(more, "%s", texts[i]);
        walker_fini(&w, &all);
    }
    automata_fini(&all);
    vocabulary_fini(&v);
    arena_fini(&a);
}
