#include "audit/line.h"
#include <criterion/criterion.h>
#include <stdio.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define GOOD                                                                                                           \
    "{\"seq\":1,\"time\":\"2026-11-30T12:00:00.000000Z\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"" HASH           \
    "\",\"request\":\"r\",\"hash\":\"" HASH "\"}"

Test(line_read, takes_the_frame_and_nothing_else) {
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {GOOD, true},
        {"", false},
        {"{}", false},
        {"{\"seq\":0,\"time\":\"\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"" HASH "\",\"hash\":\"" HASH "\"}",
         false},
        {"{\"seq\":01,\"time\":\"\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"" HASH "\",\"hash\":\"" HASH "\"}",
         false},
        {"{\"seq\":1,\"time\":\"\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"" HASH "\",\"hash\":\"" HASH "\"}",
         true},
        {"{\"seq\":1,\"time\":\"\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"" HASH "\",\"hash\":\"" HASH "\"} ",
         false},
        {" {\"seq\":1,\"time\":\"\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"" HASH "\",\"hash\":\"" HASH "\"}",
         false},
        {"{\"seq\":9223372036854775808,\"time\":\"\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"" HASH
         "\",\"hash\":\"" HASH "\"}",
         false},
        {"{\"seq\":-1,\"time\":\"\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"" HASH "\",\"hash\":\"" HASH "\"}",
         false},
        {"{\"seq\":1,\"time\":\"\",\"uptime_us\":0,\"kind\":\"note\",\"prev\":\"\",\"hash\":\"" HASH "\"}", false},
        {",\"hash\":\"" HASH "\"}", false},
    };
    struct line_frame f;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_assert_eq(line_read(span_of(rows[i].text), &f), rows[i].good, "%zu", i);
    cr_assert(line_read(span_of(GOOD), &f));
    cr_assert(span_is(f.request, "r") && span_is(f.prev, HASH) && !line_hash_is_true(&f));
    cr_assert_eq(line_kind(SPAN("settle")), AUDIT_SETTLE);
    cr_assert_eq(line_kind(SPAN("nothing")), -1);
}

Test(line_read, upper_case_or_short_hashes_are_not_hashes) {
    char text[sizeof GOOD];
    struct line_frame f;
    for (size_t i = 0; i < sizeof GOOD - 1; i++) {
        memcpy(text, GOOD, sizeof text);
        text[i] = 'G'; /* is in no hash, number or literal of the frame */
        bool in_free_text = line_read(span_of(text), &f);
        bool free_place = memmem(GOOD, i + 1, "\"time\":\"", 8) != NULL || i == 0;
        cr_assert(!in_free_text || free_place, "byte %zu", i);
        if (in_free_text)
            cr_assert(!span_equal(f.time, SPAN("2026-11-30T12:00:00.000000Z")) || !span_is(f.kind, "note") ||
                          i > (size_t)(strstr(GOOD, "\"request\"") - GOOD) - 2,
                      "byte %zu", i);
    }
}
