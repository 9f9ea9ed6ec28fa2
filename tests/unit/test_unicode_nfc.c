/* Marks in any order, what is taken apart and put together again, Hangul, and a long run of marks. */
#include "backends/decode/unicode.h"

#include <criterion/criterion.h>

static void expect(struct span text, struct span want) {
    struct str out;
    str_init(&out, 1 << 24);
    unicode_nfc(text, &out);
    cr_expect(span_equal(str_span(&out), want), "%.*s became %.*s", SPAN_ARG(text), (int)out.n, out.at);
    str_fini(&out);
}

Test(unicode_nfc, text_takes_its_one_form) {
    static const char *const rows[][2] = {
        {"", ""},
        {"plain \xc3\xa9", "plain \xc3\xa9"},
        {"e\xcc\x81", "\xc3\xa9"}, /* e and acute */
        {"xe\xcc\x81y", "x\xc3\xa9y"},
        {"\xe2\x84\xab", "\xc3\x85"},               /* Angstrom sign */
        {"q\xcc\xa3\xcc\x87", "q\xcc\xa3\xcc\x87"}, /* nothing to join: below before above */
        {"q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87"},
        {"d\xcc\x87\xcc\xa3", "\xe1\xb8\x8d\xcc\x87"},            /* d with dot below, dot above */
        {"\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"}, /* three letters, one syllable */
        {"\xed\x95\x98\xe1\x86\xab", "\xed\x95\x9c"},
        {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"}, /* stays apart */
        {"\xcc\x81", "\xcc\x81"},                     /* a mark with nothing before it */
        {"a\xff\xcc\x81", "a\xff\xcc\x81"},           /* a bad byte stays, and joins nothing */
        {"\xf0\x91\x82\x99\xf0\x91\x82\xba", "\xf0\x91\x82\x9a"},
        {"\xe2\x80\x99\xe4\xbd\xa0", "\xe2\x80\x99\xe4\xbd\xa0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect(span_of(rows[i][0]), span_of(rows[i][1]));
}

Test(unicode_nfc, a_long_run_of_marks_takes_no_square_of_its_length) {
    struct str in, want;
    str_init(&in, 1 << 24);
    str_init(&want, 1 << 24);
    str_puts(&in, "q");
    str_puts(&want, "q");
    for (int i = 0; i < 100000; i++)
        str_puts(&in, i % 2 ? "\xcc\xa3" : "\xcc\x87");
    for (int i = 0; i < 100000; i++)
        str_puts(&want, i < 50000 ? "\xcc\xa3" : "\xcc\x87");
    expect(str_span(&in), str_span(&want));
    str_fini(&in);
    str_fini(&want);
}
