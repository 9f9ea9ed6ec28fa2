/* One packed answer, counted. */
#include "cache/store.h"

#include <criterion/criterion.h>

Test(entry, copies_its_bytes_and_lives_until_the_last_reader_lets_go) {
    char bytes[] = "answer";
    const struct cache_entry *e = entry_new(span_from(bytes, 6), 42, 50, 60);
    bytes[0] = 'X';
    cr_expect(span_is(e->bytes, "answer"));
    cr_expect(e->kept_us == 42 && e->until_us == 50 && e->drop_us == 60);
    cr_expect(cache_fresh(e, 49) && !cache_fresh(e, 50));
    cr_expect_eq(entry_take(e), e);
    cr_expect_null(entry_take(NULL));
    entry_drop(e);
    cr_expect(span_is(e->bytes, "answer"));
    entry_drop(e);
    entry_drop(NULL);
    e = entry_new(SPAN_NONE, 0, 0, 0);
    cr_expect_eq(e->bytes.n, 0);
    entry_drop(e);
}
