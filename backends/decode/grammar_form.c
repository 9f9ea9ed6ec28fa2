/* Whole forms: JSON of a schema, and calls of tools in each way that models write them. A form may begin with one space, since some
 * tokenizers put one before every text and take it off again. */
#include "backends/decode/grammar.h"

#include <stdio.h>

static const struct decode_form *close_form(struct grammar *g, bool good, struct arena *a, const char *path,
                                            struct decode_fault *fault) {
    const struct decode_form *form = good ? grammar_form(g, a) : NULL;
    if (good && !form) {
        snprintf(fault->field, sizeof fault->field, "%s", path);
        snprintf(fault->text, sizeof fault->text, "is too large.");
    }
    grammar_fini(g);
    return form;
}

const struct decode_form *decode_form_of_schema(struct json schema, struct arena *a, const char *path,
                                                struct decode_fault *fault) {
    struct grammar g;
    grammar_init(&g);
    int32_t rule = schema.kind ? schema_rule(&g, schema, schema, path, fault) : json_rule(&g, RULE_OBJECT);
    if (rule >= 0)
        g.rules[0] = put_split(&g, put_call(&g, rule, g.end), put_bytes(&g, ' ', ' ', put_call(&g, rule, g.end)));
    return close_form(&g, rule >= 0, a, path, fault);
}

#define SEVERAL_MAX 8 /* calls in one answer: against a model that does not come to an end */

static const struct {
    const char *before, *key, *behind, *open, *between, *close;
} ways[] = {[CALLS_NONE] = {"", "arguments", "", "", "", ""},
            [CALLS_TAGGED] = {"<tool_call>\n", "arguments", "\n</tool_call>", "", "\n", ""},
            [CALLS_PARAMETERS] = {"", "parameters", "", "", "; ", ""},
            [CALLS_ARGUMENTS] = {"", "arguments", "", "[", ", ", "]"}};

/* {"name": NAME, "arguments": what its schema allows} */
static int32_t tool_rule(struct grammar *g, enum decode_calls how, struct json tool, size_t i,
                         struct decode_fault *fault) {
    struct json f = json_get(tool, "function"), name = json_get(f, "name"), schema = json_get(f, "parameters");
    char path[64];
    snprintf(path, sizeof path, "tools[%zu].function.parameters", i);
    int32_t rule = schema.kind == JSON_OBJECT ? schema_rule(g, schema, schema, path, fault) : json_rule(g, RULE_OBJECT);
    if (rule < 0)
        return -1;
    int32_t at = put_bytes(g, '}', '}', put_literal(g, span_of(ways[how].behind), g->end));
    at = put_literal(g, SPAN("\": "), put_call(g, rule, at));
    at = put_literal(g, SPAN(", \""), put_literal(g, span_of(ways[how].key), at));
    at = put_literal(g, SPAN("{\"name\": "), put_literal(g, name.raw, at));
    int32_t whole = grammar_rule(g);
    g->rules[whole] = put_literal(g, span_of(ways[how].before), at);
    return whole;
}

const struct decode_form *decode_form_of_tools(enum decode_calls how, const struct json *tools, size_t n, bool several,
                                               struct arena *a, struct decode_fault *fault) {
    struct grammar g;
    int32_t any = -1, rule = 0;
    grammar_init(&g);
    for (size_t i = 0; i < n && rule >= 0; i++) {
        rule = tool_rule(&g, how, tools[i], i, fault);
        int32_t call = rule < 0 ? -1 : put_call(&g, rule, g.end);
        any = any < 0 ? call : put_split(&g, any, call);
    }
    int32_t one = grammar_rule(&g), between = grammar_rule(&g);
    g.rules[one] = any < 0 ? g.end : any;
    g.rules[between] = put_literal(&g, span_of(ways[how].between), g.end);
    int32_t at = put_literal(&g, span_of(ways[how].close), g.end);
    at = put_repeat(&g, one, 1, several ? SEVERAL_MAX : 1, between, at);
    at = put_literal(&g, span_of(ways[how].open), at);
    g.rules[0] = put_split(&g, at, put_bytes(&g, ' ', ' ', at));
    return close_form(&g, rule >= 0, a, "tools", fault);
}
