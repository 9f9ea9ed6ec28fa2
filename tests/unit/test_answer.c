/* The counted answer: who may join, what is kept, and when its writer must stop. */
#include "gateway/answer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct seen {
    struct answer_reader reader;
    int woken;
};

static void on_wake(struct answer_reader *r) {
    container_of(r, struct seen, reader)->woken++;
}

static void put(struct answer *a, unsigned bits, struct span data) {
    struct event e = {.bits = bits, .data = data, .text_bytes = (int64_t)data.n};
    answer_put(a, &e);
}

static bool next_is(struct seen *s, struct span data) {
    static struct part parts[EVENT_PARTS_MAX];
    struct event e;
    return answer_next(&s->reader, &e, parts) && span_equal(e.data, data);
}

static bool nothing(struct seen *s) {
    static struct part parts[EVENT_PARTS_MAX];
    struct event e;
    return !answer_next(&s->reader, &e, parts);
}

Test(answer, nothing_is_read_before_content_and_then_all_in_order) {
    struct answer *a = answer_new(false);
    struct seen s = {.reader.wake = on_wake};
    cr_assert(answer_join(a, &s.reader));
    put(a, 0, SPAN("role"));
    cr_expect(s.woken == 0 && nothing(&s));
    put(a, EVENT_CONTENT, SPAN("hello"));
    cr_expect_eq(s.woken, 1);
    cr_expect(next_is(&s, SPAN("role")) && next_is(&s, SPAN("hello")) && nothing(&s));
    cr_expect(answer_read_all(&s.reader));
    answer_end(a, ERR_NONE, NULL);
    answer_end(a, ERR_UPSTREAM, "the first end counts");
    cr_expect(a->err == ERR_NONE && s.woken == 2);
    answer_leave(&s.reader);
    answer_leave(&s.reader);
    answer_drop(a);
}

Test(answer, a_kept_answer_takes_late_readers_and_can_be_stored) {
    struct answer *a = answer_new(true);
    struct seen first = {0}, late = {0}, again = {0};
    cr_assert(answer_join(a, &first.reader));
    put(a, EVENT_CONTENT, SPAN("one"));
    cr_expect(next_is(&first, SPAN("one")));
    cr_assert(answer_join(a, &late.reader));
    cr_expect_eq(answer_readers(a), 2);
    cr_expect(next_is(&late, SPAN("one")));
    answer_leave(&late.reader);
    put(a, EVENT_FINISH, SPAN("two"));
    answer_end(a, ERR_NONE, NULL);
    struct str packed;
    str_init(&packed, 4096);
    snprintf(a->target, sizeof(a->target), "up/one\ntwo");
    answer_pack(a, &packed);
    struct answer *stored = answer_from(str_span(&packed));
    str_fini(&packed);
    cr_expect_str_eq(stored->target, "up/one\ntwo");
    cr_assert(answer_join(stored, &again.reader));
    cr_expect(next_is(&again, SPAN("one")) && next_is(&again, SPAN("two")) && nothing(&again));
    cr_expect(stored->ended && stored->keeping);
    answer_leave(&again.reader);
    answer_leave(&first.reader);
    answer_drop(stored);
    answer_drop(a);
}

static char page[4096];

/* Puts pages while there is room; how many. */
static int fill(struct answer *a, int most) {
    int n = 0;
    while (n < most && answer_room(a)) {
        put(a, EVENT_CONTENT, span_from(page, sizeof(page)));
        n++;
    }
    return n;
}

Test(answer, a_window_holds_no_more_than_its_slowest_reader_left) {
    struct answer *a = answer_new(false);
    struct seen slow = {0}, fast = {0};
    cr_assert(answer_join(a, &slow.reader) && answer_join(a, &fast.reader));
    int n = fill(a, 1000);
    cr_expect(n * sizeof(page) >= ANSWER_WINDOW && a->bytes.n < ANSWER_WINDOW + 2 * sizeof(page));
    while (!nothing(&fast))
        ;
    cr_expect_not(answer_room(a), "the slow one has read nothing");
    answer_leave(&slow.reader);
    cr_expect(answer_room(a));
    for (int i = 0; i < 1000; i++) {
        put(a, EVENT_CONTENT, span_from(page, sizeof(page)));
        cr_assert(next_is(&fast, span_from(page, sizeof(page))));
        cr_assert_leq(a->bytes.n, ANSWER_WINDOW + 2 * sizeof(page));
    }
    struct seen late = {0};
    cr_expect_not(answer_join(a, &late.reader), "its beginning is gone");
    answer_leave(&fast.reader);
    answer_drop(a);
}

Test(answer, one_kept_too_long_becomes_a_window) {
    struct answer *a = answer_new(true);
    struct seen s = {0}, late = {0};
    cr_assert(answer_join(a, &s.reader));
    fill(a, 2 * ANSWER_KEEP_MAX / (int)sizeof(page));
    cr_expect_not(a->keeping);
    cr_expect_leq(a->bytes.n, ANSWER_KEEP_MAX + 2 * sizeof(page));
    while (!nothing(&s))
        ;
    cr_expect(answer_room(a) && answer_read_all(&s.reader));
    cr_expect_not(answer_join(a, &late.reader));
    answer_leave(&s.reader);
    answer_drop(a);
}

Test(answer, stored_bytes_that_cannot_be_read_end_with_an_error) {
    struct answer *a = answer_from(span_from("up/x\0not packed events", 22));
    struct seen s = {0};
    cr_assert(answer_join(a, &s.reader));
    cr_expect(nothing(&s) && nothing(&s) && answer_read_all(&s.reader));
    answer_leave(&s.reader);
    answer_drop(a);
}

Test(answer, one_that_has_failed_takes_no_new_reader) {
    struct answer *a = answer_new(true);
    struct seen first = {0}, late = {0};
    cr_assert(answer_join(a, &first.reader));
    put(a, EVENT_CONTENT, SPAN("half"));
    answer_end(a, ERR_CLIENT_GONE, NULL);
    cr_expect(!answer_join(a, &late.reader), "whoever comes now can still have a whole one");
    cr_expect(next_is(&first, SPAN("half")), "those who are there see how it ends");
    answer_leave(&first.reader);
    answer_drop(a);
}
