/* The rules of JSON (RFC 8259) that every schema is made of, over UTF-8 as RFC 3629 has it: what they allow is always JSON that any
 * reader takes. No escape gives half a surrogate pair. */
#include "backends/decode/grammar.h"

#define DIGITS_MAX 15 /* after the first one */
#define EXPONENT_MAX 2
#define INDENT_MAX 16

static int32_t put_range(struct grammar *g, const char *pairs, int32_t next) {
    int32_t any = put_bytes(g, (uint8_t)pairs[0], (uint8_t)pairs[1], next);
    for (pairs += 2; *pairs; pairs += 2)
        any = put_split(g, any, put_bytes(g, (uint8_t)pairs[0], (uint8_t)pairs[1], next));
    return any;
}

static int32_t make_blank(struct grammar *g) {
    int32_t indent = g->end;
    for (int i = 0; i < INDENT_MAX; i++)
        indent = put_split(g, put_range(g, "  \t\t", indent), g->end);
    return put_split(g, put_split(g, put_bytes(g, ' ', ' ', g->end), put_bytes(g, '\n', '\n', indent)), g->end);
}

static int32_t put_tail(struct grammar *g, uint8_t lo, uint8_t hi, uint8_t second_lo, uint8_t second_hi, int more) {
    int32_t next = g->end;
    while (more-- > 0)
        next = put_bytes(g, 0x80, 0xBF, next);
    return put_bytes(g, lo, hi, put_bytes(g, second_lo, second_hi, next));
}

/* Of two bytes and more: no overlong forms, no surrogates, nothing above U+10FFFF. */
static int32_t put_wide(struct grammar *g) {
    static const struct {
        uint8_t lo, hi, second_lo, second_hi;
        int more;
    } rows[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
                {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
    int32_t any = -1;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int32_t one = put_tail(g, rows[i].lo, rows[i].hi, rows[i].second_lo, rows[i].second_hi, rows[i].more);
        any = any < 0 ? one : put_split(g, any, one);
    }
    return any;
}

static int32_t put_escape(struct grammar *g) {
    static const char hex[] = "09afAF";
    int32_t last = put_range(g, hex, g->end), two = put_range(g, hex, last), three = put_range(g, hex, two);
    int32_t low_d = put_range(g, "07", two); /* \uD000 to \uD7FF */
    int32_t code = put_split(g, put_range(g, "09acefACEF", three), put_range(g, "ddDD", low_d));
    int32_t plain = put_range(g, "\"\"\\\\//bbffnnrrtt", g->end);
    return put_bytes(g, '\\', '\\', put_split(g, plain, put_bytes(g, 'u', 'u', code)));
}

static int32_t make_character(struct grammar *g) {
    int32_t ascii = put_range(g, " !#[]\x7f", g->end);
    return put_split(g, put_split(g, ascii, put_escape(g)), put_wide(g));
}

static int32_t make_string(struct grammar *g) {
    int32_t close = put_bytes(g, '"', '"', g->end);
    return put_bytes(g, '"', '"', put_repeat(g, json_rule(g, RULE_CHARACTER), 0, -1, -1, close));
}

static int32_t put_digits(struct grammar *g, int most, int32_t next) {
    int32_t at = next;
    for (int i = 0; i < most; i++)
        at = put_split(g, put_bytes(g, '0', '9', at), next);
    return at;
}

static int32_t put_whole(struct grammar *g, int32_t next) {
    int32_t some = put_bytes(g, '1', '9', put_digits(g, DIGITS_MAX, next));
    int32_t any = put_split(g, put_bytes(g, '0', '0', next), some);
    return put_split(g, any, put_bytes(g, '-', '-', any));
}

static int32_t make_integer(struct grammar *g) {
    return put_whole(g, g->end);
}

static int32_t make_number(struct grammar *g) {
    int32_t power = put_bytes(g, '0', '9', put_digits(g, EXPONENT_MAX - 1, g->end));
    int32_t exponent = put_split(g, put_range(g, "eeEE", put_split(g, put_range(g, "++--", power), power)), g->end);
    int32_t fraction = put_bytes(g, '.', '.', put_bytes(g, '0', '9', put_digits(g, DIGITS_MAX, exponent)));
    return put_whole(g, put_split(g, fraction, exponent));
}

static int32_t make_value(struct grammar *g) {
    static const enum json_rule kinds[] = {RULE_STRING, RULE_NUMBER, RULE_OBJECT, RULE_ARRAY};
    static const char *const words[] = {"true", "false", "null"};
    int32_t any = put_literal(g, SPAN("true"), g->end);
    for (size_t i = 1; i < ARRAY_LEN(words); i++)
        any = put_split(g, any, put_literal(g, span_of(words[i]), g->end));
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        any = put_split(g, any, put_call(g, json_rule(g, kinds[i]), g->end));
    return any;
}

static int32_t make_object(struct grammar *g) {
    return put_map(g, json_rule(g, RULE_VALUE), g->end);
}

static int32_t make_array(struct grammar *g) {
    return put_list(g, json_rule(g, RULE_VALUE), 0, -1, g->end);
}

int32_t json_rule(struct grammar *g, enum json_rule which) {
    static int32_t (*const make[])(struct grammar * g) = {make_blank,  make_character, make_string, make_integer,
                                                          make_number, make_value,     make_object, make_array};
    if (g->json[which])
        return g->json[which] - 1;
    int32_t rule = grammar_rule(g);
    g->json[which] = rule + 1; /* before it is made: values hold values */
    int32_t begin = make[which](g);
    g->rules[rule] = begin;
    return rule;
}

int32_t put_blank(struct grammar *g, int32_t next) {
    return put_call(g, json_rule(g, RULE_BLANK), next);
}

/* A comma and a blank, as a rule. */
static int32_t comma(struct grammar *g) {
    int32_t rule = grammar_rule(g), begin = put_bytes(g, ',', ',', put_blank(g, g->end));
    g->rules[rule] = begin;
    return rule;
}

int32_t put_list(struct grammar *g, int32_t rule, int64_t least, int64_t most, int32_t next) {
    int32_t close = put_blank(g, put_bytes(g, ']', ']', next));
    int32_t items = put_repeat(g, rule, least, most, comma(g), close);
    return put_bytes(g, '[', '[', put_blank(g, items));
}

int32_t put_map(struct grammar *g, int32_t rule, int32_t next) {
    int32_t member = grammar_rule(g);
    int32_t value = put_bytes(g, ':', ':', put_blank(g, put_call(g, rule, g->end)));
    int32_t begin = put_call(g, json_rule(g, RULE_STRING), value), close = put_blank(g, put_bytes(g, '}', '}', next));
    g->rules[member] = begin;
    return put_bytes(g, '{', '{', put_blank(g, put_repeat(g, member, 0, -1, comma(g), close)));
}
