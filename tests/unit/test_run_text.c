/* What a client sees of a stream of token bytes: whole characters, and never a part of a stop string. */
#include "backends/decode/run_text.h"

#include <criterion/criterion.h>

static const struct {
    const char *stops[3];
    const char *in, *out;
    bool strip, stopped;
} rows[] = {
    {{"END"}, "abc", "abc", false, false},
    {{"END"}, "abcENDx", "abc", false, true},
    {{"END"}, "abcEN", "abcEN", false, false},
    {{"END"}, "EENEND", "EEN", false, true},
    {{"aab"}, "aaaab", "aa", false, true},
    {{"abcd", "bc"}, "xabcd", "xa", false, true},
    {{"abc", "b"}, "xabc", "xa", false, true},
    {{"\xe2\x82\xac"}, "1\xe2\x82\xac", "1", false, true},
    {{"\xe2\x82\xac"}, "1\xe2\x82\xab", "1\xe2\x82\xab", false, false},
    {{NULL},
     "a\xff"
     "b\xe2\x82",
     "a\xef\xbf\xbd"
     "b",
     false,
     false},
    {{NULL}, "\xe2\x82(", "\xef\xbf\xbd(", false, false},
    {{NULL}, " one", "one", true, false},
    {{NULL}, "  one", " one", true, false},
    {{"", "Z"}, "aZ", "a", false, true},
};

Test(run_text, the_same_text_comes_out_however_the_bytes_are_cut) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t chunk = 1; chunk <= 7; chunk++) {
            struct run_text t;
            struct str out;
            struct span stops[3], in = span_of(rows[i].in);
            size_t n_stops = 0;
            while (n_stops < 3 && rows[i].stops[n_stops]) {
                stops[n_stops] = span_of(rows[i].stops[n_stops]);
                n_stops++;
            }
            str_init(&out, 1000);
            run_text_init(&t, stops, n_stops, rows[i].strip);
            for (size_t at = 0; at < in.n; at += chunk)
                run_text_put(&t, span_from(in.at + at, in.n - at < chunk ? in.n - at : chunk), &out);
            cr_expect_eq(t.stopped, rows[i].stopped, "row %zu", i);
            run_text_end(&t, &out);
            cr_expect(span_is(str_span(&out), rows[i].out), "row %zu by %zu: %s", i, chunk, out.at);
            run_text_fini(&t);
            str_fini(&out);
        }
}

Test(run_text, nothing_that_may_begin_a_stop_is_shown_early) {
    struct run_text t;
    struct str out;
    struct span stop = SPAN("\n\nUser:");
    str_init(&out, 1000);
    run_text_init(&t, &stop, 1, false);
    run_text_put(&t, SPAN("Hi\n\nUs"), &out);
    cr_expect(span_is(str_span(&out), "Hi"));
    run_text_put(&t, SPAN("e"), &out);
    cr_expect(span_is(str_span(&out), "Hi"));
    run_text_put(&t, SPAN("d"), &out);
    cr_expect(span_is(str_span(&out), "Hi\n\nUsed"));
    run_text_fini(&t);
    str_fini(&out);
}
