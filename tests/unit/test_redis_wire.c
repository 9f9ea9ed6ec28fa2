/* RESP2: what is written is read again, at every cut; what is no RESP2, or too much, breaks the reader for good. */
#include "gateway/redis/redis_wire.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static const char all[] = "*6\r\n$3\r\nab\n\r\n:-42\r\n$-1\r\n+OK\r\n-ERR no\r\n*2\r\n$0\r\n\r\n*0\r\n+PONG\r\n";

static void expect_all(const struct redis_value *v) {
    cr_assert(v->kind == REDIS_ARRAY && v->n == 6);
    cr_expect(v->items[0].kind == REDIS_TEXT && span_is(v->items[0].text, "ab\n"));
    cr_expect(v->items[1].kind == REDIS_INTEGER && v->items[1].number == -42);
    cr_expect(v->items[2].kind == REDIS_NIL);
    cr_expect(v->items[3].kind == REDIS_STATUS && span_is(v->items[3].text, "OK"));
    cr_expect(v->items[4].kind == REDIS_ERROR && span_is(v->items[4].text, "ERR no"));
    cr_assert(v->items[5].kind == REDIS_ARRAY && v->items[5].n == 2);
    cr_expect(v->items[5].items[0].kind == REDIS_TEXT && v->items[5].items[0].text.n == 0);
    cr_expect(v->items[5].items[1].kind == REDIS_ARRAY && v->items[5].items[1].n == 0);
}

Test(redis_wire, every_cut_gives_the_same_values) {
    for (size_t cut = 0; cut < sizeof all; cut++) {
        struct redis_reader *r = redis_reader_new();
        struct redis_value *v = NULL;
        const char *why;
        redis_reader_feed(r, span_from(all, cut));
        enum redis_read got = redis_reader_next(r, &v, &why);
        redis_reader_feed(r, span_from(all + cut, sizeof all - 1 - cut));
        if (got == REDIS_READ_MORE)
            got = redis_reader_next(r, &v, &why);
        cr_assert_eq(got, REDIS_READ_VALUE, "cut at %zu", cut);
        expect_all(v);
        redis_value_free(v);
        cr_assert_eq(redis_reader_next(r, &v, &why), REDIS_READ_VALUE);
        cr_expect(span_is(v->text, "PONG"));
        redis_value_free(v);
        cr_expect_eq(redis_reader_next(r, &v, &why), REDIS_READ_MORE);
        redis_reader_free(r);
    }
}

Test(redis_wire, what_is_no_resp_breaks_the_reader_for_good) {
    static const char *const bad[] = {"HTTP/1.1 400 Bad\r\n",
                                      "*99999999\r\n",
                                      "*-7\r\n",
                                      "$99999999999999999999\r\n",
                                      "*2\r\n:1\r\n?x\r\n",
                                      ":12x\r\n",
                                      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct redis_reader *r = redis_reader_new();
        struct redis_value *v = NULL;
        const char *why = NULL;
        redis_reader_feed(r, span_of(bad[i]));
        cr_expect_eq(redis_reader_next(r, &v, &why), REDIS_READ_BROKEN, "%s", bad[i]);
        cr_expect(why && *why);
        redis_reader_feed(r, SPAN("+OK\r\n"));
        cr_expect_eq(redis_reader_next(r, &v, &why), REDIS_READ_BROKEN, "%s", bad[i]);
        redis_reader_free(r);
    }
}

Test(redis_wire, an_answer_without_end_is_given_up) {
    static char kilobytes[1 << 20];
    struct redis_reader *r = redis_reader_new();
    struct redis_value *v;
    const char *why;
    enum redis_read got = REDIS_READ_MORE;
    redis_reader_feed(r, SPAN("$500000000\r\n"));
    for (int i = 0; i < 70 && got == REDIS_READ_MORE; i++) {
        redis_reader_feed(r, span_from(kilobytes, sizeof kilobytes));
        got = redis_reader_next(r, &v, &why);
    }
    cr_expect_eq(got, REDIS_READ_BROKEN);
    redis_reader_free(r);
}

static struct redis_value *read_back(const char *bytes, size_t n) {
    struct redis_reader *r = redis_reader_new();
    struct redis_value *v = NULL;
    const char *why;
    redis_reader_feed(r, span_from(bytes, n));
    cr_assert_eq(redis_reader_next(r, &v, &why), REDIS_READ_VALUE);
    redis_reader_free(r);
    return v;
}

Test(redis_wire, a_script_goes_by_its_digest_and_then_by_its_text) {
    static struct redis_script script = {"one", "return ARGV[1]", ""};
    struct span argv[] = {SPAN("key"), SPAN("a\r\n\0b")};
    size_t n, m;
    char *sha = redis_command_evalsha(&script, 1, 2, argv, &n),
         *text = redis_command_eval(&script, span_from(sha, n), &m);
    struct redis_value *a = read_back(sha, n), *b = read_back(text, m);
    cr_assert(a->n == 5 && b->n == 5);
    cr_expect(span_is(a->items[0].text, "EVALSHA") && span_is(b->items[0].text, "EVAL"));
    cr_expect(span_is(a->items[1].text, "098e0f0d1448c0a81dafe820f66d460eb09263da"), "%s", a->items[1].text.at);
    cr_expect(span_is(b->items[1].text, script.text));
    for (int i = 2; i < 5; i++)
        cr_expect(span_equal(a->items[i].text, b->items[i].text));
    cr_expect(span_is(a->items[2].text, "1") && span_equal(a->items[4].text, argv[1]));
    redis_value_free(a);
    redis_value_free(b);
    free(sha);
    free(text);
}
