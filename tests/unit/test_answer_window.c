/* The counted answer: what readers see, what a window forgets, when a writer must stop. */
#include "gateway/answer.h"

#include <criterion/criterion.h>

#define TEXT_MAX (64 * 1024)

static char text[TEXT_MAX];
static int woken;

static void on_wake(struct answer_reader *r) {
    (void)r;
    woken++;
}

/* An event of n bytes whose first byte tells it from others. */
static void put(struct answer *a, unsigned bits, size_t n, char mark) {
    memset(text, 'x', sizeof text);
    text[0] = mark;
    struct part part = {.text = span_from(text, n)};
    struct event e = {.bits = bits, .parts = &part, .n_parts = 1, .text_bytes = (int64_t)n};
    answer_put(a, &e);
}

static char next(struct answer_reader *r) {
    struct part parts[EVENT_PARTS_MAX];
    struct event e;
    return answer_next(r, &e, parts) ? e.parts[0].text.at[0] : '-';
}

static struct answer_reader new_reader(void) {
    return (struct answer_reader){.wake = on_wake};
}

Test(answer_window, nothing_is_read_before_content_and_everything_after) {
    struct answer *a = answer_new(false);
    struct answer_reader r = new_reader();
    woken = 0;
    cr_assert(answer_join(a, &r));
    put(a, 0, 10, 'a');
    cr_expect_eq(next(&r), '-');
    cr_expect_eq(woken, 0, "a role alone wakes nobody");
    put(a, EVENT_CONTENT, 10, 'b');
    cr_expect_eq(woken, 1);
    cr_expect_eq(next(&r), 'a');
    cr_expect_not(answer_read_all(&r));
    cr_expect_eq(next(&r), 'b');
    cr_expect_eq(next(&r), '-');
    cr_expect(answer_read_all(&r));
    answer_end(a, ERR_NONE, NULL);
    answer_end(a, ERR_UPSTREAM, "the first end stands");
    cr_expect(woken == 2 && a->ended && a->err == ERR_NONE);
    answer_leave(&r);
    answer_drop(a);
}

Test(answer_window, a_window_forgets_what_was_read_and_takes_no_new_reader) {
    struct answer *a = answer_new(false);
    struct answer_reader r = new_reader(), late = new_reader();
    cr_assert(answer_join(a, &r));
    put(a, EVENT_CONTENT, 1000, 'a');
    put(a, EVENT_CONTENT, 1000, 'b');
    cr_expect(next(&r) == 'a' && next(&r) == 'b' && next(&r) == '-');
    cr_expect_eq(a->bytes.n, 0);
    cr_expect_eq(a->start, a->end);
    cr_expect_not(answer_join(a, &late));
    cr_expect_null(late.of);
    answer_leave(&r);
    answer_drop(a);
}

Test(answer_window, a_window_has_no_room_while_its_slowest_reader_lags) {
    struct answer *a = answer_new(false);
    struct answer_reader fast = new_reader(), slow = new_reader();
    cr_assert(answer_join(a, &fast) && answer_join(a, &slow));
    size_t n = 0;
    for (; answer_room(a); n++)
        put(a, EVENT_CONTENT, 1000, (char)('a' + n % 26));
    cr_expect(a->bytes.n >= ANSWER_WINDOW && a->bytes.n < ANSWER_WINDOW + 2000, "%zu events", n);
    for (size_t i = 0; i < n; i++)
        cr_expect_eq(next(&fast), (char)('a' + i % 26));
    cr_expect_not(answer_room(a), "the slow one has not read");
    woken = 0;
    cr_expect_eq(next(&slow), 'a');
    cr_expect(answer_room(a));
    cr_expect_eq(woken, 2, "who makes room wakes the one who writes");
    answer_leave(&slow);
    cr_expect(answer_room(a), "a reader that leaves holds nobody up");
    cr_expect_eq(answer_readers(a), 1);
    answer_leave(&fast);
    answer_drop(a);
}

Test(answer_window, a_kept_answer_is_read_from_its_start_at_any_time) {
    struct answer *a = answer_new(true);
    struct answer_reader r = new_reader(), late = new_reader();
    cr_assert(answer_join(a, &r));
    for (char c = 'a'; c <= 'z'; c++) {
        put(a, EVENT_CONTENT, 5000, c);
        cr_expect_eq(next(&r), c);
        cr_expect(answer_room(a));
    }
    answer_end(a, ERR_NONE, NULL);
    cr_assert(answer_join(a, &late));
    for (char c = 'a'; c <= 'z'; c++)
        cr_expect_eq(next(&late), c);
    struct str packed;
    str_init(&packed, 1 << 20);
    answer_pack(a, &packed);
    struct answer *stored = answer_from(str_span(&packed));
    str_fini(&packed);
    struct answer_reader again = new_reader();
    cr_assert(answer_join(stored, &again));
    cr_expect(stored->ended && next(&again) == 'a');
    answer_leave(&again);
    answer_drop(stored);
    answer_leave(&late);
    answer_leave(&r);
    answer_drop(a);
}

Test(answer_window, past_its_limit_a_kept_answer_becomes_a_window) {
    struct answer *a = answer_new(true);
    struct answer_reader r = new_reader(), late = new_reader();
    cr_assert(answer_join(a, &r));
    for (size_t n = 0; n <= ANSWER_KEEP_MAX; n += TEXT_MAX) {
        put(a, EVENT_CONTENT, TEXT_MAX, 'a');
        cr_expect_eq(next(&r), 'a');
    }
    cr_expect_not(a->keeping);
    cr_expect_eq(next(&r), '-');
    cr_expect_lt(a->bytes.n, ANSWER_WINDOW);
    cr_expect_not(answer_join(a, &late));
    answer_leave(&r);
    answer_drop(a);
}

Test(answer_window, it_lives_as_long_as_somebody_counts_it) {
    struct answer *a = answer_new(false);
    struct answer_reader r = new_reader();
    cr_assert(answer_join(a, &r));
    answer_drop(a);
    put(a, EVENT_CONTENT, 10, 'b');
    cr_expect_eq(next(&r), 'b');
    answer_leave(&r);
    answer_leave(&r); /* twice is once */
}

/* Any order of puts and reads: each reader sees every event once and in order, and start + bytes == end. */
Test(answer_window, any_order_of_puts_and_reads_gives_each_reader_all_of_it) {
    for (unsigned seed = 1; seed <= 40; seed++) {
        struct answer *a = answer_new(seed % 2);
        struct answer_reader readers[3];
        size_t seen[3] = {0}, written = 0;
        uint64_t x = seed * 2654435761u;
        for (size_t i = 0; i < 3; i++) {
            readers[i] = new_reader();
            cr_assert(answer_join(a, &readers[i]));
        }
        for (int step = 0; step < 600; step++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            unsigned pick = (unsigned)(x >> 33) % 4;
            if (pick == 3 && answer_room(a))
                put(a, EVENT_CONTENT, 1 + (x >> 40) % 3000, (char)('a' + written++ % 26));
            char c = pick < 3 ? next(&readers[pick]) : '-';
            if (c != '-')
                cr_assert_eq(c, (char)('a' + seen[pick]++ % 26));
            cr_assert_eq(a->start + a->bytes.n, a->end);
        }
        for (size_t i = 0; i < 3; i++) {
            for (char c; (c = next(&readers[i])) != '-';)
                cr_assert_eq(c, (char)('a' + seen[i]++ % 26));
            cr_expect_eq(seen[i], written);
            answer_leave(&readers[i]);
        }
        answer_drop(a);
    }
}
