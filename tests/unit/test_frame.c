/* Server-sent events: what the bytes mean must not depend on line ends, on the cut, or on comments between. */
#include "gateway/net/http.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void put_event(struct str *out, const struct frame_reader *f) {
    str_printf(out, "{%.*s}", SPAN_ARG(f->name));
    str_put(out, str_span(&f->data));
    str_putc(out, '|');
}

/* All events of bytes given in pieces of `step` after a first piece of `cut`; true if nothing was too large. */
static bool read_cut(struct span bytes, size_t cut, size_t step, bool rest, struct str *out) {
    struct frame_reader f;
    size_t at = 0, given = cut;
    bool good = true;
    frame_init(&f);
    while (good) {
        size_t used;
        enum frame_result r = frame_read(&f, span_from(bytes.at + at, given - at), &used);
        at += used;
        good = r != FRAME_TOO_LARGE;
        if (r == FRAME_READY)
            put_event(out, &f);
        else if (at == bytes.n)
            break;
        else if (at == given)
            given = given + step < bytes.n ? given + step : bytes.n;
    }
    if (good && rest && frame_rest(&f))
        put_event(out, &f);
    frame_fini(&f);
    return good;
}

static void expect_events(struct span bytes, const char *events) {
    struct str out;
    str_init(&out, 1 << 20);
    for (size_t cut = 0; cut <= bytes.n; cut++) {
        for (size_t step = 1; step <= bytes.n; step += bytes.n > 1 ? bytes.n - 1 : 1) {
            str_clear(&out);
            cr_assert(read_cut(bytes, cut, step, false, &out));
            cr_assert_str_eq(out.at ? out.at : "", events, "cut at %zu, then by %zu", cut, step);
        }
    }
    str_fini(&out);
}

Test(frame, s01_a_cut_inside_a_character_or_event_changes_nothing) {
    expect_events(SPAN("data: \xe6\xbc\xa2\xf0\x9f\x98\x80\n\ndata: {\"usage\":1}\n\n"),
                  "{}\xe6\xbc\xa2\xf0\x9f\x98\x80|{}{\"usage\":1}|");
}

Test(frame, s02_every_line_end_and_spelling) {
    expect_events(SPAN("event: x\ndata: a\n\ndata: b\n\n"), "{x}a|{}b|");
    expect_events(SPAN("event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n"), "{x}a|{}b|");
    expect_events(SPAN("event: x\rdata: a\r\rdata: b\r\r"), "{x}a|{}b|");
    expect_events(SPAN("event:x\r\ndata:a\n\rdata:b\r\n\n"), "{x}a|{}b|");
    expect_events(SPAN("\xef\xbb\xbf"
                       "data: a\n\n"),
                  "{}a|");
    expect_events(SPAN("\xef\xbb"
                       "data: a\n\ndata: b\n\n"),
                  "{}b|");
    expect_events(SPAN("data: {\ndata:  1}\n\n"), "{}{\n 1}|");
    expect_events(SPAN("data\n\ndata:\n\ndata: \n\n"), "{}|{}|{}|");
}

Test(frame, s03_comments_and_other_fields_are_not_data) {
    expect_events(SPAN(": PROCESSING\n\n: PROCESSING\n:\n\ndata: a\n: between\n\n: x\ndata: [DONE]\n\n"),
                  "{}a|{}[DONE]|");
    expect_events(SPAN("id: 7\nretry: 10\nfoo: bar\n\nevent: lost\n\ndata: a\n\n"), "{}a|");
    expect_events(SPAN("dataset: a\n data: b\ndata : c\ndata: d\n\n"), "{}d|");
}

Test(frame, s03_comments_are_counted) {
    struct frame_reader f;
    size_t used;
    frame_init(&f);
    cr_expect_eq(frame_read(&f, SPAN(": a\n:\r\n: b"), &used), FRAME_MORE);
    cr_expect_eq(f.comments, 2);
    frame_fini(&f);
}

static char *one_event(size_t n, size_t *total) {
    char *bytes = malloc(n + 8);
    memcpy(bytes, "data: ", 6);
    memset(bytes + 6, 'x', n);
    memcpy(bytes + 6 + n, "\n\n", 2);
    *total = n + 8;
    return bytes;
}

Test(frame, s11_long_lines_are_whole_up_to_the_limit_and_refused_over_it) {
    static const size_t sizes[] = {65535, 65537, 1048577, 8 << 20, FRAME_MAX, FRAME_MAX + 1};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct str out;
        size_t n;
        char *bytes = one_event(sizes[i], &n);
        str_init(&out, FRAME_MAX + 64);
        bool good = read_cut(span_from(bytes, n), 1000, 16384, false, &out);
        cr_expect_eq(good, sizes[i] <= FRAME_MAX, "%zu", sizes[i]);
        cr_expect(!good || out.n == sizes[i] + 3);
        str_fini(&out);
        free(bytes);
    }
}

Test(frame, s11_an_endless_comment_takes_no_memory) {
    struct frame_reader f;
    static char bytes[65536];
    size_t used;
    frame_init(&f);
    memset(bytes, ':', sizeof bytes);
    for (int i = 0; i < 1024; i++)
        cr_assert_eq(frame_read(&f, span_from(bytes, sizeof bytes), &used), FRAME_MORE);
    cr_expect(f.line.capacity < 1024);
    frame_fini(&f);
}

Test(frame, s22_a_last_event_without_its_blank_line_is_given_on_asking) {
    static const struct {
        const char *bytes, *with_rest;
    } rows[] = {
        {"data: a\n\ndata: u\n", "{}a|{}u|"}, {"data: a\n\ndata: u", "{}a|{}u|"},
        {"data: a\r\rdata: u\r", "{}a|{}u|"}, {"data: a\n\n", "{}a|"},
        {"data: a\n\n: c", "{}a|"},           {"data: a\n\nevent: x\n", "{}a|"},
    };
    struct str out;
    str_init(&out, 4096);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        str_clear(&out);
        cr_assert(read_cut(span_of(rows[i].bytes), 0, 1, true, &out));
        cr_expect_str_eq(out.at, rows[i].with_rest, "row %zu", i);
    }
    expect_events(SPAN("data: a\n\ndata: u\n"), "{}a|");
    str_fini(&out);
}
