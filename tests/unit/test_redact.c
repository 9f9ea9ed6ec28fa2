#include "gateway/base/redact.h"

#include "gateway/base/json.h"

#include <criterion/criterion.h>

static enum redacted redact(const char *const *rules, size_t n, struct span text, struct str *out) {
    struct str why;
    str_init(&why, 512);
    str_init(out, 1 << 20);
    struct redact *r = redact_new(rules, n, &why);
    cr_assert(r, "%s", why.at);
    enum redacted got = redact_json(r, text, out);
    redact_free(r);
    str_fini(&why);
    return got;
}

Test(redact, rules_blank_what_they_mean_and_leave_every_other_byte) {
    static const struct {
        const char *rule, *in, *out;
    } rows[] = {
        {"user", "{ \"user\" : \"me\", \"b\": 1.50 }", "{ \"user\" : \"[redacted]\", \"b\": 1.50 }"},
        {"user", "{\"a\":{\"user\":1}}", "{\"a\":{\"user\":1}}"},
        {"user", "{\"\\u0075ser\":1,\"user\":2}", "{\"\\u0075ser\":\"[redacted]\",\"user\":\"[redacted]\"}"},
        {"messages[*].content",
         "{\"messages\":[{\"content\":[{\"text\":\"x\"}]},{\"role\":\"user\",\"content\":null}]}",
         "{\"messages\":[{\"content\":\"[redacted]\"},{\"role\":\"user\",\"content\":\"[redacted]\"}]}"},
        {"messages[1]", "{\"messages\":[1,2,3]}", "{\"messages\":[1,\"[redacted]\",3]}"},
        {"*.b", "{\"a\":{\"b\":1},\"c\":{\"b\":{}}}", "{\"a\":{\"b\":\"[redacted]\"},\"c\":{\"b\":\"[redacted]\"}}"},
        {"[*][0].a", "[[{\"a\":1},{\"a\":2}]]", "[[{\"a\":\"[redacted]\"},{\"a\":2}]]"},
        {"/sk-[a-z]{3,}/", "{\"a\":\"is sk-abc, sk-abcdef.\"}", "{\"a\":\"is [redacted], [redacted].\"}"},
        {"/sk-[a-z]+/", "{\"a\":\"\\u0073k\\u002dabc\"}", "{\"a\":\"[redacted]\"}"},
        {"/sk-[a-z]+/", "{\"sk-abc\":[\"sk-x\"]}", "{\"[redacted]\":[\"[redacted]\"]}"},
        {"/[0-9]{12,}/", "{\"card\":4111111111111111,\"n\":12}", "{\"card\":\"[redacted]\",\"n\":12}"},
        {"/^a/", "[\"aaa\"]", "[\"[redacted]aa\"]"},
        {"/x\\/y/", "[\"x/y\\n\"]", "[\"[redacted]\\n\"]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str out;
        cr_expect_eq(redact(&rows[i].rule, 1, span_of(rows[i].in), &out), REDACT_DONE, "%s", rows[i].rule);
        cr_expect_str_eq(out.at, rows[i].out, "%s", rows[i].rule);
        str_fini(&out);
    }
}

Test(redact, a_text_with_a_nul_inside_is_looked_at_to_its_end) {
    const char *rule = "/secret/";
    struct str out;
    cr_assert_eq(redact(&rule, 1, SPAN("[\"a\\u0000secret\"]"), &out), REDACT_DONE);
    cr_assert_str_eq(out.at, "[\"a\\u0000[redacted]\"]");
    str_fini(&out);
}

Test(redact, several_rules_act_together) {
    static const char *const rules[] = {"a.b", "a.c[0]", "/x+/", "/y/"};
    struct str out;
    cr_assert_eq(redact(rules, ARRAY_LEN(rules), SPAN("{\"a\":{\"b\":\"x\",\"c\":[\"q\",\"xyx\"]}}"), &out),
                 REDACT_DONE);
    cr_assert_str_eq(out.at,
                     "{\"a\":{\"b\":\"[redacted]\",\"c\":[\"[redacted]\",\"[redacted][redacted][redacted]\"]}}");
    str_fini(&out);
}

Test(redact, what_cannot_be_looked_at_whole_does_not_come_out) {
    const char *rule = "/secret/";
    struct str out, text;
    cr_assert_eq(redact(&rule, 1, SPAN("{\"a\":"), &out), REDACT_NOT_JSON);
    str_fini(&out);
    str_init(&text, 1 << 20);
    str_puts(&text, "[\"");
    for (size_t i = 0; i < REDACT_TEXT_MAX; i++)
        str_putc(&text, 'a');
    str_puts(&text, "secret\"]");
    cr_assert_eq(redact(&rule, 1, str_span(&text), &out), REDACT_TOO_LARGE);
    str_fini(&out);
    rule = "a"; /* paths alone are not bounded by it */
    cr_assert_eq(redact(&rule, 1, str_span(&text), &out), REDACT_DONE);
    str_fini(&out);
    str_fini(&text);
}

/* regexec alone takes a second and a half for 16 KiB of this. */
Test(redact, a_text_that_almost_matches_everywhere_takes_no_longer_than_another, .timeout = 5) {
    static const char *const rules[] = {"/[a-z0-9._]+@[a-z0-9.]+\\.[a-z]+/", "/(a|aa)+b/", "/a.*b/"};
    struct str out, text;
    str_init(&text, 1 << 20);
    str_puts(&text, "[\"");
    for (size_t i = 0; i + 16 < REDACT_TEXT_MAX; i++)
        str_putc(&text, 'a');
    str_puts(&text, "\"]");
    cr_assert_eq(redact(rules, ARRAY_LEN(rules), str_span(&text), &out), REDACT_DONE);
    cr_assert_eq(out.n, text.n);
    str_fini(&out);
    str_fini(&text);
}

Test(redact, long_matches_and_many_blank_the_whole_text) {
    const char *rule = "/sk-[a-z]+/";
    struct str out, text;
    str_init(&text, 4096);
    str_puts(&text, "[\"left sk-");
    for (int i = 0; i < 300; i++)
        str_putc(&text, 'a');
    str_puts(
        &text,
        " right\",\"sk-a sk-b sk-c sk-d sk-e sk-f sk-g sk-h\",\"1 sk-a sk-b sk-c sk-d sk-e sk-f sk-g sk-h sk-i\"]");
    cr_assert_eq(redact(&rule, 1, str_span(&text), &out), REDACT_DONE);
    cr_assert_str_eq(out.at, "[\"[redacted]\",\"[redacted] [redacted] [redacted] [redacted] [redacted] [redacted] "
                             "[redacted] [redacted]\",\"[redacted]\"]");
    str_fini(&out);
    str_fini(&text);
}

Test(redact, bad_rules_are_named) {
    static const struct {
        const char *rule, *why;
    } rows[] = {{"", "a path is written"},
                {"a..b", "a path is written"},
                {"a[", "a path is written"},
                {"a[x]", "a path is written"},
                {"a]b", "a path is written"},
                {"a.", "a path is written"},
                {"[0]a", "a path is written"},
                {"/a", "between slashes"},
                {"//", "between slashes"},
                {"/(/", "no POSIX"},
                {"/(a)\\1/", "may not refer back"},
                {"/a*/", "match everywhere"},
                {"/a)(b/", "no POSIX"},
                {"/a{1,65}/", "at most 64"},
                {"/b|$/", "match everywhere"},
                {"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q", "a path is written"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str why;
        str_init(&why, 512);
        cr_expect_null(redact_new(&rows[i].rule, 1, &why), "%s", rows[i].rule);
        cr_expect(why.at && strstr(why.at, rows[i].why), "%s: %s", rows[i].rule, why.at);
        str_fini(&why);
    }
    const char *many[REDACT_RULES_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = "a";
    struct str why;
    str_init(&why, 512);
    cr_assert_null(redact_new(many, ARRAY_LEN(many), &why));
    str_fini(&why);
}
