/* JSON: what is accepted, what is refused and where, reading in place, canonical form. */
#include "gateway/base/json.h"

#include <criterion/criterion.h>
#include <stdio.h>

static bool accepts(const char *text, size_t n) {
    struct json v;
    struct json_fault fault;
    return json_check(span_from(text, n), JSON_DEPTH_MAX, &v, &fault);
}

static struct json doc(const char *text) {
    struct json v;
    cr_assert(json_check(span_of(text), JSON_DEPTH_MAX, &v, NULL), "%s", text);
    return v;
}

Test(json, exactly_rfc_8259_is_accepted) {
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"{}", true},
        {" [ ] ", true},
        {"0", true},
        {"-0", true},
        {"1e5", true},
        {"1.5E-3", true},
        {"null", true},
        {"\"\\ud800\"", true},
        {"\"\\u00e9\xC3\xA9\"", true},
        {"{\"a\":[1,{\"b\":null}],\"c\":\"\"}", true},
        {"", false},
        {"{", false},
        {"}", false},
        {"[1,]", false},
        {"{\"a\":1,}", false},
        {"{a:1}", false},
        {"01", false},
        {"1.", false},
        {".5", false},
        {"+1", false},
        {"1e", false},
        {"-", false},
        {"NaN", false},
        {"Infinity", false},
        {"nul", false},
        {"tru", false},
        {"\"\t\"", false},
        {"\"\\x\"", false},
        {"\"\\u12g4\"", false},
        {"\"\xC0\x80\"", false},
        {"\"\xED\xA0\x80\"", false},
        {"\"\xF4\x90\x80\x80\"", false},
        {"\"\xFF\"", false},
        {"\xEF\xBB\xBF{}", false},
        {"{} {}", false},
        {"[1 2]", false},
        {"{\"a\" 1}", false},
        {"'a'", false},
        {"[1]]", false},
        {"{\"a\":}", false},
        {"\"abc", false},
        {"\v1", false},
        {"[,1]", false},
        {"{\"a\":1 \"b\":2}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(accepts(rows[i].text, strlen(rows[i].text)), rows[i].good, "%s", rows[i].text);
    cr_expect_not(accepts("\"\0\"", 3));
}

Test(json, depth_is_bounded_and_the_place_of_a_fault_is_named) {
    char deep[200];
    struct json v;
    struct json_fault fault;
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    cr_assert_not(json_check(span_from(deep, 200), 64, &v, &fault));
    cr_expect_eq(fault.at, 64);
    cr_expect_str_eq(fault.what, "nested too deeply");
    cr_expect(json_check(span_from(deep + 36, 128), 64, &v, &fault));
    cr_assert_not(json_check(SPAN("{\"a\":1,,}"), 64, &v, &fault));
    cr_expect_eq(fault.at, 7);
}

Test(json, every_prefix_of_a_document_is_refused) {
    static const char text[] = "{\"a\":[1,2.5e1,true,null,\"x\\u0041\xE2\x82\xAC\"],\"b\":{}}";
    for (size_t n = 0; n < sizeof(text) - 1; n++)
        cr_expect_not(accepts(text, n), "prefix of %zu", n);
    cr_expect(accepts(text, sizeof(text) - 1));
}

/* Strings are looked through in words: what is special is found at every place of a word, and nothing else is. */
Test(json, a_special_byte_is_seen_wherever_it_stands_in_a_string) {
    for (size_t n = 1; n < 36; n++)
        for (size_t place = 0; place < n; place++)
            for (int b = 1; b < 256; b++) {
                char text[64] = "\"";
                memset(text + 1, 'x', n);
                text[1 + place] = (char)b;
                strcpy(text + 1 + n, "\"");
                bool good = b >= 0x20 && b < 0x80 && b != '"' && b != '\\';
                cr_assert_eq(accepts(text, n + 2), good, "byte %d at %zu of %zu", b, place, n);
            }
}

Test(json, a_quote_ends_a_string_only_when_an_even_run_of_backslashes_stands_before_it) {
    for (int runs = 0; runs < 40; runs++) {
        char text[256] = "{\"a\":\"";
        size_t n = strlen(text), from = n;
        for (int i = 0; i < runs; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", i % 3 ? "\\\\" : "\\\"");
        size_t length = n - from;
        snprintf(text + n, sizeof text - n, "\",\"b\":\"\\\\\",\"c\":7}");
        struct json v = doc(text);
        int64_t seven = 0;
        cr_expect_eq(json_get(v, "a").raw.n, length + 2, "%s", text);
        cr_expect(json_i64(json_get(v, "c"), &seven) && seven == 7, "%s", text);
    }
}

Test(json, members_are_found_under_escaped_names_and_the_last_wins) {
    struct json v = doc("{\"mod\\u0065l\" : \"a\", \"x\":{\"model\":1}, \"n\":2 , \"n\":3}");
    cr_expect(json_is(json_get(v, "model"), "a"));
    cr_expect(span_is(json_get(v, "n").raw, "3"));
    cr_expect_eq(json_get(v, "missing").kind, JSON_NONE);
    static const char *const names[] = {"n", "x", "absent"};
    struct json out[3];
    cr_expect_str_eq(json_pick(v, names, out, 3), "n");
    cr_expect_eq(out[1].kind, JSON_OBJECT);
    cr_expect_eq(out[2].kind, JSON_NONE);
    cr_expect_eq(json_count(v), 4);
    struct json list = doc("[ 1 , [2,3] ,{\"a\":\"]\"}, \"}\" ]");
    cr_expect_eq(json_count(list), 4);
    cr_expect(span_is(json_at(list, 1).raw, "[2,3]"));
    cr_expect(span_is(json_at(list, 2).raw, "{\"a\":\"]\"}"));
    cr_expect_eq(json_at(list, 4).kind, JSON_NONE);
}

Test(json, text_is_decoded_with_surrogates) {
    struct arena a;
    arena_init(&a, 4096);
    cr_expect(span_is(json_text(doc("\"a\\n\\\"\\/\\u00e9\\ud83d\\ude00\""), &a), "a\n\"/\xC3\xA9\xF0\x9F\x98\x80"));
    cr_expect(span_is(json_text(doc("\"x\\ud800y\""), &a), "x\xEF\xBF\xBDy"));
    cr_expect(span_is(json_text(doc("\"\\ud800\\ud800\""), &a), "\xEF\xBF\xBD\xEF\xBF\xBD"));
    cr_expect_eq(json_text_bytes(doc("\"\\u0000\\u00e9\"")), 3);
    cr_expect_eq(json_text(doc("12"), &a).at, NULL);
    arena_fini(&a);
}

Test(json, whole_numbers_of_any_spelling) {
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } rows[] = {{"0", true, 0},
                {"-0.0", true, 0},
                {"1e3", true, 1000},
                {"2.0", true, 2},
                {"1200e-2", true, 12},
                {"9223372036854775807", true, INT64_MAX},
                {"-9223372036854775808", true, INT64_MIN},
                {"9223372036854775808", false, 0},
                {"1.5", false, 0},
                {"1e-1", false, 0},
                {"1e400", false, 0},
                {"0e999999999", true, 0},
                {"100000000000000000000e-18", true, 100}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t v = -1;
        cr_expect_eq(json_i64(doc(rows[i].text), &v), rows[i].good, "%s", rows[i].text);
        cr_expect(!rows[i].good || v == rows[i].value, "%s", rows[i].text);
    }
    cr_expect(json_is_zero(doc("0.000e5")));
    cr_expect_not(json_is_zero(doc("1e-400")));
    cr_expect_not(json_is_zero(doc("null")));
}

static char *canonical(const char *text) {
    struct str out;
    static const char *const skip[] = {"user"}, *const deep[] = {"cache_control"};
    str_init(&out, 4096);
    bool good = json_canonical(doc(text), skip, 1, deep, 1, &out);
    if (!good)
        str_clear(&out), str_puts(&out, "!");
    return str_release(&out);
}

Test(json, canonical_form_is_the_same_for_the_same_value_only) {
    static const struct {
        const char *text, *canonical;
    } rows[] = {
        {"{ \"b\":1.0, \"a\":\"\\u0041\" }", "{\"a\":\"A\",\"b\":1}"},
        {"{\"a\":1e0,\"user\":1}", "{\"a\":1}"},
        {"{\"a\":{\"user\":1,\"cache_control\":2}}", "{\"a\":{\"user\":1}}"},
        {"[100, 1e2, 1.00e2]", "[1e2,1e2,1e2]"},
        {"[-0, 0.0, 0e5]", "[0,0,0]"},
        {"[0.10, 1e-1, 9007199254740993]", "[1e-1,1e-1,9007199254740993]"},
        {"{\"a\":1,\"\\u0061\":2}", "!"},
        {"{\"user\":1,\"user\":2}", "!"},
        {"[\"\\ud800\"]", "!"},
        {"[\"\\ud83d\\ude00\\n\"]", "[\"\xF0\x9F\x98\x80\\n\"]"},
        {"{\"aa\":1,\"a\":2}", "{\"a\":2,\"aa\":1}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *got = canonical(rows[i].text);
        cr_expect_str_eq(got, rows[i].canonical, "%s gave %s", rows[i].text, got);
        free(got);
    }
}

Test(json, writers_escape_and_place_commas) {
    struct str out;
    str_init(&out, 256);
    str_putc(&out, '{');
    json_put_str(&out, "a", "x\"\n\x01");
    json_put_i64(&out, "b", INT64_MIN);
    json_put_name(&out, "c");
    str_putc(&out, '[');
    json_put_text(&out, SPAN("\xFF\xE2\x82"));
    str_puts(&out, "]");
    json_put_bool(&out, "d", true);
    json_put_str(&out, "e", NULL);
    str_putc(&out, '}');
    cr_expect_str_eq(
        out.at,
        "{\"a\":\"x\\\"\\n\\u0001\",\"b\":-9223372036854775808,\"c\":[\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"],"
        "\"d\":true,\"e\":null}");
    cr_expect(accepts(out.at, out.n));
    str_fini(&out);
}

/* A look-up passes over strings by searching for their quote: escapes beside it must not end them. */
Test(json, strings_that_end_in_escapes_are_passed_over_whole) {
    static const char text[] = "{\"a\":\"\\\\\",\"b\":\"\\\"\",\"c\":\"x\\\\\\\",\\\"d\\\":2\",\"\":\"\",\"d\":1}";
    struct json whole;
    int64_t v = 0;
    cr_assert(json_check(SPAN(text), JSON_DEPTH_MAX, &whole, NULL));
    cr_expect(json_i64(json_get(whole, "d"), &v) && v == 1);
}

Test(json, bytes_that_need_no_look_are_counted_to_the_first_that_does) {
    char text[20];
    for (size_t n = 0; n <= sizeof text; n++)
        for (size_t at = 0; at <= n; at++)
            for (int byte = 0; byte < 256; byte++) {
                memset(text, 'a', sizeof text);
                if (at < n)
                    text[at] = (char)byte;
                bool odd = byte < 0x20 || byte >= 0x80 || byte == '"' || byte == '\\';
                cr_assert_eq(json_plain_bytes(text, n), at < n && odd ? at : n, "byte %d at %zu of %zu", byte, at, n);
            }
}
