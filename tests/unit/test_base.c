/* The floor's small parts: spans, strs, arenas, maps, lists, clocks, hashes, the log's mask. */
#include "gateway/base/clock.h"
#include "gateway/base/err.h"
#include "gateway/base/hash.h"
#include "gateway/base/list.h"
#include "gateway/base/log.h"
#include "gateway/base/map.h"
#include "gateway/base/mem.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(span, cuts_trims_and_numbers) {
    struct span rest = SPAN("a,,b"), part;
    cr_assert(span_cut(&rest, ',', &part) && span_is(part, "a"));
    cr_assert(span_cut(&rest, ',', &part) && part.n == 0);
    cr_assert(span_cut(&rest, ',', &part) && span_is(part, "b"));
    cr_assert_not(span_cut(&rest, ',', &part));
    cr_expect(span_is(span_trim(SPAN(" \t x \t")), "x"));
    int64_t v;
    cr_expect(span_to_i64(SPAN("9223372036854775807"), &v) && v == INT64_MAX);
    cr_expect_not(span_to_i64(SPAN("9223372036854775808"), &v));
    cr_expect_not(span_to_i64(SPAN(""), &v));
    cr_expect_not(span_to_i64(SPAN("+1"), &v));
}

Test(span, lines_end_at_the_first_cr_or_lf_however_far) {
    static char text[5000];
    memset(text, 'x', sizeof text);
    cr_expect_eq(span_line(span_from(text, sizeof text)), sizeof text);
    cr_expect_eq(span_line(span_from(text, 0)), 0);
    for (size_t cr = 0; cr < sizeof text; cr += 97)
        for (size_t lf = 0; lf < sizeof text; lf += 509) {
            text[cr] = '\r';
            text[lf] = '\n';
            cr_assert_eq(span_line(span_from(text, sizeof text)), cr < lf ? cr : lf);
            text[cr] = text[lf] = 'x';
        }
}

Test(span, guesses_only_near_words) {
    static const char *const words[] = {"listen", "backends", "budgets"};
    cr_expect_str_eq(span_guess(SPAN("lisen"), words, 3), "listen");
    cr_expect_str_eq(span_guess(SPAN("Backend"), words, 3), "backends");
    cr_expect_eq(span_guess(SPAN("zebra"), words, 3), NULL);
}

Test(str, a_write_over_the_maximum_is_dropped_whole_and_remembered) {
    struct str s;
    str_init(&s, 8);
    str_puts(&s, "12345678");
    cr_expect_not(s.over);
    str_putc(&s, '9');
    cr_expect(s.over);
    cr_expect_str_eq(s.at, "12345678");
    str_clear(&s);
    str_printf(&s, "%d-%s", 42, "ab");
    str_cut(&s, 2);
    cr_expect_str_eq(s.at, "-ab");
    str_fini(&s);
}

Test(arena, never_hands_out_more_than_its_ceiling) {
    struct arena a;
    arena_init(&a, 1000);
    char *first = arena_alloc(&a, 500);
    cr_assert(first && first[499] == 0);
    cr_expect_eq(arena_alloc(&a, 600), NULL);
    cr_expect_eq(arena_alloc(&a, SIZE_MAX), NULL);
    cr_expect_str_eq(arena_strdup(&a, SPAN("hello")), "hello");
    arena_fini(&a);
}

Test(map, finds_what_was_put_among_thousands) {
    struct map m;
    char key[16];
    map_init(&m);
    for (intptr_t i = 1; i <= 5000; i++) {
        int n = snprintf(key, sizeof(key), "k%ld", (long)i);
        cr_assert_eq(map_put(&m, span_from(key, (size_t)n), (void *)i), NULL);
    }
    for (intptr_t i = 1; i <= 5000; i += 2)
        cr_assert_eq(map_remove(&m, span_from(key, (size_t)snprintf(key, sizeof(key), "k%ld", (long)i))), (void *)i);
    size_t seen = 0;
    for (struct map_entry *e = map_next(&m, NULL); e; e = map_next(&m, e))
        seen += (intptr_t)e->value % 2 == 0;
    cr_expect_eq(seen, 2500);
    cr_expect_eq(map_find(&m, SPAN("k2")), (void *)2);
    cr_expect_eq(map_find(&m, SPAN("k1")), NULL);
    map_fini(&m);
}

Test(clock, text_and_back) {
    static const struct {
        const char *in, *out;
    } rows[] = {{"2026-11-30T12:00:00.123456Z", "2026-11-30T12:00:00.123456Z"},
                {"2024-02-29", "2024-02-29T00:00:00.000000Z"},
                {"2026-01-01T01:30:00+02:00", "2025-12-31T23:30:00.000000Z"},
                {"1969-12-31T23:59:59Z", "1969-12-31T23:59:59.000000Z"}};
    char text[CLOCK_TEXT_MAX];
    int64_t us;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert(clock_parse(span_of(rows[i].in), &us), "%s", rows[i].in);
        cr_expect_str_eq(clock_text(us, text), rows[i].out);
    }
    static const char *const bad[] = {"2026-13-01",          "2023-02-29", "2026-01-01T24:00:00Z",
                                      "2026-01-01T00:00:00", "x",          "2026-01-01Z "};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_expect_not(clock_parse(span_of(bad[i]), &us), "%s", bad[i]);
}

Test(clock, durations) {
    int64_t us;
    char text[CLOCK_TEXT_MAX];
    cr_expect(clock_parse_duration(SPAN("1.5s"), &us) && us == 1500000);
    cr_expect(clock_parse_duration(SPAN("1h30m"), &us) && us == 90 * US_PER_MIN);
    cr_expect(clock_parse_duration(SPAN("400d"), &us) && us == 400 * US_PER_DAY);
    cr_expect_not(clock_parse_duration(SPAN("5"), &us));
    cr_expect_not(clock_parse_duration(SPAN("99999999999d"), &us));
    cr_expect_not(clock_parse_duration(SPAN(""), &us));
    cr_expect_str_eq(clock_duration_text(90 * US_PER_S, text), "1m30s");
    cr_expect_str_eq(clock_duration_text(0, text), "0s");
}

Test(hash, known_answers) {
    uint8_t digest[SHA256_BYTES], again[SHA256_BYTES];
    char hex[SHA256_HEX_MAX];
    sha256(SPAN("abc"), digest);
    cr_expect_str_eq(hex_put(digest, sizeof(digest), hex),
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hmac_sha256(SPAN("Jefe"), SPAN("what do ya want for nothing?"), again); /* RFC 4231, case 2 */
    cr_expect_str_eq(hex_put(again, sizeof(again), hex),
                     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    struct sha256 *running = sha256_new();
    sha256_add(running, SPAN("a"));
    sha256_add(running, SPAN("bc"));
    sha256_end(running, again);
    cr_expect(bytes_equal_secret(digest, again, sizeof(digest)));
    cr_expect(hex_read(span_of(hex), again, sizeof(again)));
    cr_expect_not(hex_read(SPAN("zz"), again, 1));
    cr_expect_eq(crc32_of(SPAN("123456789")), 0xCBF43926u);
}

static void expect_mask(const char *text, const char *masked) {
    char copy[256];
    strcpy(copy, text);
    copy[log_mask(copy, strlen(copy))] = '\0';
    cr_expect_str_eq(copy, masked);
}

Test(hash, base64_is_read_as_it_is_written) {
    uint8_t mac[SHA256_BYTES];
    char text[BASE64_MAX(SHA256_BYTES)];
    struct str back;
    random_bytes(mac, sizeof mac);
    str_init(&back, 64);
    for (size_t n = 0; n <= SHA256_BYTES; n++) {
        str_clear(&back);
        cr_expect(base64_read(span_of(base64_put(mac, n, text)), &back) && back.n == n);
        cr_expect(n == 0 || memcmp(back.at, mac, n) == 0);
    }
    static const char *const wrong[] = {"A", "AB=", "AB===", "A*==", "AB==C", "AB", "=", "AAA A"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        str_clear(&back);
        cr_expect_not(base64_read(span_of(wrong[i]), &back), "%s", wrong[i]);
    }
    str_fini(&back);
}

Test(log, secrets_are_masked_wherever_they_stand) {
    expect_mask("key sk-proj-abcdefgh0123456789 refused", "key sk-p... refused");
    expect_mask("Authorization: Bearer abcdefgh", "Authorization: Bearer abcd...");
    expect_mask("AIzaSyD-1234567890abcdefghij", "AIza...");
    expect_mask("nothing to hide here: gpt-5.4 at 12:30", "nothing to hide here: gpt-5.4 at 12:30");
    expect_mask("opaque A1B2C3D4E5F6a7b8c9d0e1f2 run", "opaque A1B2... run");
}

Test(err, every_row_is_complete) {
    for (enum err e = ERR_NONE + 1; e < ERR_N; e++) {
        const struct err_row *row = err_row(e);
        cr_expect(row->status >= 400 && row->status < 600 && row->anthropic_status >= 400);
        cr_expect(row->code[0] && row->type[0] && row->anthropic_type[0] && row->text[0]);
    }
    cr_expect_eq(err_row(ERR_BUDGET)->status, 402);
    cr_expect_str_eq(err_row(ERR_BUDGET)->type, "insufficient_quota");
    cr_expect_eq(err_row(ERR_BUSY)->anthropic_status, 529);
}
