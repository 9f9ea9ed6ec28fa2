/* What is told of a request out of its record, and what is no id. */
#include "gateway/lookup.h"

#include "gateway/base/json.h"

#include <criterion/criterion.h>

#define RECORD                                                                                                         \
    "{\"seq\":7,\"time\":\"2026-11-30T12:00:02.000000Z\",\"uptime_us\":1,\"kind\":\"settle\",\"request\":\"req_a\","   \
    "\"key_id\":\"testkey1\",\"endpoint\":\"chat\",\"model\":\"m\",\"target\":\"up/x\",\"status\":200,\"attempts\":["  \
    "{\"target\":\"up/x\",\"upstream_key\":\"prod\",\"outcome\":\"good\",\"status\":200,\"began_us\":1000,"            \
    "\"ended_us\":3000}],\"usage\":{\"in\":9,\"cache_read\":2,\"out\":3,\"reasoning\":1},\"cost_nanousd\":5000,"       \
    "\"stream\":true,\"duration_us\":2000000}"

static bool tell(const char *record, struct lookup_discloses may, struct str *out) {
    str_init(out, 4096);
    return lookup_tell(span_of(record), may, out);
}

Test(lookup, a_record_is_told_as_the_memory_tells_it) {
    struct str out;
    struct json v, try;
    cr_assert(tell(RECORD, (struct lookup_discloses){true, true, true}, &out));
    cr_assert(json_check(str_span(&out), JSON_DEPTH_MAX, &v, NULL), "%s", out.at);
    cr_expect(json_is(json_get(v, "id"), "req_a") && json_is(json_get(v, "state"), "settled"));
    cr_expect(json_is(json_get(v, "target"), "up/x"));
    cr_expect(json_is(json_get(v, "received"), "2026-11-30T12:00:00.000000Z"), "%s", out.at);
    cr_expect(span_is(json_get(json_get(v, "usage"), "output_tokens").raw, "3"), "%s", out.at);
    cr_expect(span_is(json_get(v, "cost").raw, "0.000005"), "%s", out.at);
    try = json_at(json_get(v, "attempts"), 0);
    cr_expect(span_is(json_get(try, "ended_ms").raw, "3"));
    cr_expect_null(strstr(out.at, "prod"), "the name of a provider's key is none of the caller's business");
    str_fini(&out);
}

Test(lookup, what_conf_does_not_disclose_is_left_out) {
    struct str out;
    cr_assert(tell(RECORD, (struct lookup_discloses){false, false, false}, &out));
    cr_expect_null(strstr(out.at, "up/x"));
    cr_expect_null(strstr(out.at, "attempts"));
    cr_expect_null(strstr(out.at, "cost"));
    str_fini(&out);
    cr_assert(tell(RECORD, (struct lookup_discloses){false, true, false}, &out));
    cr_expect_null(strstr(out.at, "up/x"));
    str_fini(&out);
}

Test(lookup, a_record_that_is_broken_is_not_told) {
    static const char *const rows[] = {"", "[]", "{\"request\":", "7"};
    struct str out;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_expect_not(tell(rows[i], (struct lookup_discloses){true, true, true}, &out), "%s", rows[i]);
        str_fini(&out);
    }
}

Test(lookup, only_an_id_of_our_making_is_worth_a_look) {
    cr_expect(lookup_is_id(SPAN("req_0123456789abcdef0123456789abcdef")));
    cr_expect_not(lookup_is_id(SPAN("req_0123456789abcdef0123456789abcdeg")));
    cr_expect_not(lookup_is_id(SPAN("req_0123456789ABCDEF0123456789abcdef")));
    cr_expect_not(lookup_is_id(SPAN("req_0123456789abcdef0123456789abcde\0")));
    cr_expect_not(lookup_is_id(SPAN("req_0")));
    cr_expect_not(lookup_is_id(SPAN_NONE));
}
