/* Where the known expressions cut, as a backtracking engine cuts. '|' stands between words. */
#include "backends/decode/pretoken.h"
#include "backends/decode/unicode.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const struct {
    enum pretoken_style style;
    bool digits;
    const char *text, *cut;
} rows[] = {
    {PRETOKEN_GPT2, false, "Hello world", "Hello| world"},
    {PRETOKEN_GPT2, false, "I'm they're DON'T", "I|'m| they|'re| DON|'|T"},
    {PRETOKEN_GPT2, false, "a  b", "a| | b"},
    {PRETOKEN_GPT2, false, "a \n b  ", "a| \n| b|  "},
    {PRETOKEN_GPT2, false, "x=12345;", "x|=|12345|;"},
    {PRETOKEN_GPT2, false, "  ", "  "},
    {PRETOKEN_GPT2, false, " \t!", " |\t|!"},
    {PRETOKEN_GPT2, false, "na\xc3\xafve \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80",
     "na\xc3\xafve| \xe4\xbd\xa0\xe5\xa5\xbd| \xf0\x9f\x98\x80"},
    {PRETOKEN_GPT2, true, "a  12 b", "a|  |1|2| b"},
    {PRETOKEN_LLAMA3, false, "12345 6", "123|45| |6"},
    {PRETOKEN_LLAMA3, false, "DON'T don't", "DON|'T| don|'t"},
    {PRETOKEN_LLAMA3, false, "a \n\n  b", "a| \n\n| | b"},
    {PRETOKEN_LLAMA3, false, "end.\n\nNext", "end|.\n\n|Next"},
    {PRETOKEN_LLAMA3, false, "\tif (x)", "\tif| (|x|)"},
    {PRETOKEN_LLAMA3, false, "a\r\n", "a|\r\n"},
    {PRETOKEN_LLAMA3, false, "$100", "$|100"},
    {PRETOKEN_LLAMA3, false, "\xc2\xa0x \xc2\xa0", "\xc2\xa0x| \xc2\xa0"},
    {PRETOKEN_QWEN2, false, "12345", "1|2|3|4|5"},
    {PRETOKEN_NONE, false, "a b 1", "a b 1"},
};

Test(pretoken, words_are_cut_where_the_expressions_cut) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct pretoken_walk w;
        struct span word;
        struct str got;
        str_init(&got, 1000);
        pretoken_walk_init(&w, span_of(rows[i].text), rows[i].style, rows[i].digits);
        while (pretoken_walk_next(&w, &word)) {
            cr_assert(word.n > 0);
            if (got.n)
                str_putc(&got, '|');
            str_put(&got, word);
        }
        cr_expect_str_eq(got.at, rows[i].cut, "row %zu: %s", i, got.at);
        str_fini(&got);
    }
}

Test(pretoken, an_expression_that_is_not_known_exactly_is_not_known) {
    enum pretoken_style style;
    cr_expect(pretoken_style_of(SPAN("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                                     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
                                &style) &&
              style == PRETOKEN_LLAMA3);
    cr_expect_not(pretoken_style_of(SPAN("\\p{N}{1,3}"), &style));
    cr_expect_not(pretoken_style_of(SPAN(""), &style));
}

Test(unicode, only_whole_shortest_forms_are_characters) {
    static const struct {
        const char *bytes;
        int look;
    } looks[] = {{"a", 1},         {"\xc3\xa4", 2},     {"\xc3", 0},
                 {"\xe2\x82", 0},  {"\xe2\x82\xac", 3}, {"\xf0\x9f\x98\x80", 4},
                 {"\xf0\x9f", 0},  {"\x80", -1},        {"\xc0\x80", -1},
                 {"\xe0\x80", -1}, {"\xed\xa0", -1},    {"\xf4\x90", -1},
                 {"\xf5", -1},     {"\xc3(", -1},       {"\xe2\x82(", -2}};
    for (size_t i = 0; i < ARRAY_LEN(looks); i++)
        cr_expect_eq(utf8_look(looks[i].bytes, strlen(looks[i].bytes)), looks[i].look, "%zu", i);
    for (uint32_t c = 1; c < 0x110000; c += c < 0x900 ? 1 : 97) {
        char bytes[UTF8_BYTES_MAX];
        uint32_t back;
        if (c >= 0xd800 && c < 0xe000)
            continue;
        size_t n = utf8_put(c, bytes);
        cr_assert(utf8_next(bytes, n, &back) == n && back == c, "U+%04X", c);
    }
    cr_expect(unicode_is_letter(0x4e00) && unicode_is_letter(0xe9) && !unicode_is_letter('1'));
    cr_expect(unicode_is_number(0x0663) && unicode_is_number(0xbd) && !unicode_is_number('x'));
    cr_expect(unicode_is_space(0x3000) && unicode_is_space('\n') && !unicode_is_space(0x200b));
}
