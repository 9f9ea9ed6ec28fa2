#include "audit/line.h"
#include "gateway/base/json.h"
#include <criterion/criterion.h>
#include <stdio.h>

static char *write_one(const struct audit_record *r, struct str *out) {
    char hash[SHA256_HEX_MAX];
    struct line_place at = {7, INT64_C(1796040000000001), 12, LINE_ZERO_HASH};
    str_init(out, LINE_MAX_BYTES);
    line_write(out, r, &at, SPAN_NONE, hash);
    cr_assert(strstr(out->at, hash));
    return out->at;
}

Test(line_write, a_line_is_framed_and_its_hash_is_true) {
    struct str out;
    struct line_frame f;
    struct audit_record r = {.kind = AUDIT_ADMIT, .request = "req_1", .team = "a \"b\"\n", .hold_nanousd = 0};
    char *line = write_one(&r, &out);
    cr_assert_eq(line[out.n - 1], '\n');
    cr_assert(strstr(line, "{\"seq\":7,\"time\":\"2026-11-30T12:00:00.000001Z\",\"uptime_us\":12,\"kind\":\"admit\","
                           "\"prev\":\"0000") == line,
              "%s", line);
    cr_assert(strstr(line, "\"team\":\"a \\\"b\\\"\\n\"") && strstr(line, "\"hold_nanousd\":0"));
    cr_assert(line_read(span_from(out.at, out.n - 1), &f) && line_hash_is_true(&f));
    cr_assert(span_is(f.request, "req_1") && span_is(f.kind, "admit") && f.seq == 7);
    str_fini(&out);
}

Test(line_write, only_the_members_of_a_kind_are_written) {
    struct str out;
    struct audit_record r = {.kind = AUDIT_HOLD, .request = "req_1", .cost_nanousd = 5, .status = 200, .alias = "fast"};
    char *line = write_one(&r, &out);
    cr_assert(!strstr(line, "cost_nanousd") && !strstr(line, "status") && !strstr(line, "alias"));
    str_fini(&out);
    r.kind = AUDIT_SETTLE;
    r.duration_us = 0;
    r.first_content_us = -1;
    line = write_one(&r, &out);
    cr_assert(strstr(line, "\"cost_nanousd\":5") && strstr(line, "\"duration_us\":0") &&
              strstr(line, "\"web_search\":0"));
    cr_assert(!strstr(line, "first_content_us") && !strstr(line, "aborted") && !strstr(line, "labels"));
    str_fini(&out);
}

Test(line_write, a_secret_in_a_callers_text_is_masked) {
    struct str out;
    static const char secret[] = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789";
    struct audit_attempt try = {.target = "openai/gpt",
                                .outcome = "failed",
                                .why = "Incorrect API key provided: "
                                       "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"};
    struct audit_record r = {
        .kind = AUDIT_REFUSE, .model = secret, .idempotency_key = secret, .attempts = &try, .n_attempts = 1};
    char *line = write_one(&r, &out);
    cr_assert_null(strstr(line, "AbCdEfGhIjKlMnOpQrStUvWxYz"), "%s", line);
    cr_assert(strstr(line, "Incorrect API key"));
    str_fini(&out);
}

Test(line_write, no_record_of_strangers_outgrows_a_line) {
    struct str out;
    struct json root;
    struct json_fault fault;
    static char long_text[100000];
    memset(long_text, 1, sizeof long_text - 1); /* each byte becomes six */
    struct conf_label labels[100];
    const char *plan[100];
    struct audit_attempt tries[100] = {0};
    for (size_t i = 0; i < 100; i++) {
        labels[i] = (struct conf_label){long_text, long_text};
        plan[i] = long_text;
        tries[i] = (struct audit_attempt){long_text, long_text, long_text, long_text, .status = 500};
        memset(tries[i].pico, '9', sizeof tries[i].pico);
    }
    struct audit_record r = {.kind = AUDIT_SETTLE,
                             .request = long_text,
                             .team = long_text,
                             .key_id = long_text,
                             .owner = long_text,
                             .client = long_text,
                             .alias = long_text,
                             .model = long_text,
                             .target = long_text,
                             .plan = plan,
                             .n_plan = 100,
                             .labels = labels,
                             .n_labels = 100,
                             .attempts = tries,
                             .n_attempts = 100,
                             .code = long_text,
                             .idempotency_key = long_text,
                             .upstream_id = long_text};
    write_one(&r, &out);
    cr_assert(json_check(str_span(&out), JSON_DEPTH_MAX, &root, &fault), "%s", fault.what);
    cr_assert_lt(out.n, LINE_MAX_BYTES / 2);
    str_fini(&out);
}

Test(line_write, text_is_never_clipped_inside_a_character) {
    struct str out;
    struct json root;
    struct json_fault fault;
    char text[700];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof text);
        for (size_t i = shift; i + 4 < sizeof text - 1; i += 4)
            memcpy(text + i, "\xF0\x9F\x98\x80", 4);
        text[sizeof text - 1] = 0;
        struct audit_record r = {.kind = AUDIT_NOTE, .reason = text};
        char *line = write_one(&r, &out);
        cr_assert(json_check(str_span(&out), JSON_DEPTH_MAX, &root, &fault));
        cr_assert_null(strstr(line, "\xEF\xBF\xBD"));
        str_fini(&out);
    }
}

Test(line_write, a_price_record_has_a_number_for_every_line) {
    struct str out;
    struct price p = {.in = 150000, .out = -1, .call = 3, .factor = FACTOR_ONE, .known = true, .source = "list"};
    struct audit_record r = {.kind = AUDIT_PRICE, .model = "gpt", .price_digest = "abcd", .price = &p};
    char *line = write_one(&r, &out);
    cr_assert(strstr(line, "\"price\":{\"in\":150000,") && strstr(line, "\"out\":-1") && strstr(line, "\"call\":3"));
    cr_assert(strstr(line, "\"source\":\"list\"") && !strstr(line, "\"from\""));
    str_fini(&out);
}

Test(line_write, a_correction_says_whose_it_is_and_takes_members_as_they_are) {
    struct str out;
    struct json root;
    struct json_fault fault;
    int64_t n;
    struct audit_record r = {.kind = AUDIT_ADJUST,
                             .request = "req_1",
                             .team = "search",
                             .cost_nanousd = -7,
                             .who = "anna",
                             .reason = "price list of June",
                             .members = SPAN("\"alias\":\"m\",\"list_nanousd\":-9")};
    write_one(&r, &out);
    cr_assert(json_check(str_span(&out), JSON_DEPTH_MAX, &root, &fault), "%s", out.at);
    cr_assert(json_is(json_get(root, "kind"), "adjust") && json_is(json_get(root, "request"), "req_1"));
    cr_assert(json_i64(json_get(root, "cost_nanousd"), &n) && n == -7);
    cr_assert(json_i64(json_get(root, "list_nanousd"), &n) && n == -9);
    str_fini(&out);
    r.kind = AUDIT_SETTLE; /* the same members would say the same twice */
    r.members = SPAN_NONE;
    r.list_nanousd = 12;
    r.end_user = "0011";
    write_one(&r, &out);
    cr_assert(strstr(out.at, "\"list_nanousd\":12") && strstr(out.at, "\"end_user\":\"0011\""), "%s", out.at);
    cr_assert(!strstr(out.at, "\"alias\"") && !strstr(out.at, "saved_nanousd"), "%s", out.at);
    str_fini(&out);
}
