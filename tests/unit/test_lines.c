#include "audit/line.h"
#include "audit/segment.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <stdlib.h>

Test(lines, come_whole_whatever_their_length) {
    struct kit k;
    struct lines l;
    struct span line;
    kit_init(&k);
    struct str text;
    str_init(&text, (size_t)8 << 20);
    for (size_t n = 1; n < ((size_t)1 << 21); n *= 2) {
        for (size_t i = 0; i < n; i++)
            str_putc(&text, (char)('a' + n % 26));
        str_putc(&text, '\n');
    }
    str_puts(&text, "\ntail");
    kit_write(&k, "f", text.at, text.n);
    cr_assert(lines_open(&l, k.directory, "f"));
    int64_t number = 0;
    for (size_t n = 1; n < ((size_t)1 << 21); n *= 2) {
        cr_assert_eq(lines_next(&l, &line), LINES_LINE);
        cr_assert_eq(line.n, n);
        cr_assert_eq(line.at[n - 1], (char)('a' + n % 26));
        cr_assert_eq(l.line, ++number);
    }
    cr_assert_eq(lines_next(&l, &line), LINES_LINE);
    cr_assert_eq(line.n, 0);
    cr_assert_eq(lines_next(&l, &line), LINES_TORN);
    cr_assert(span_is(line, "tail"));
    cr_assert_eq((size_t)l.offset, text.n);
    cr_assert_eq(lines_next(&l, &line), LINES_END);
    lines_close(&l);
    cr_assert(lines_open(&l, k.directory, "f"));
    cr_assert(lines_skip(&l, 2, 1));
    cr_assert_eq(lines_next(&l, &line), LINES_LINE);
    cr_assert(line.n == 2 && l.line == 2 && l.offset == 5);
    lines_close(&l);
    cr_assert(!lines_open(&l, k.directory, "none"));
    str_fini(&text);
    kit_fini(&k);
}

Test(lines, an_endless_line_is_refused_in_bounded_memory) {
    struct kit k;
    struct lines l;
    struct span line;
    size_t n = LINE_MAX_BYTES * 2;
    char *text = calloc(1, n);
    kit_init(&k);
    kit_write(&k, "f", text, n);
    cr_assert(lines_open(&l, k.directory, "f"));
    cr_assert_eq(lines_next(&l, &line), LINES_LONG);
    cr_assert_leq(l.capacity, LINE_MAX_BYTES * 2);
    lines_close(&l);
    free(text);
    kit_fini(&k);
}
