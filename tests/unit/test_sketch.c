#include "gateway/sketch.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct sketch of(const char *text) {
    struct sketch s;
    sketch_init(&s);
    sketch_add(&s, span_of(text));
    sketch_end(&s);
    return s;
}

static int64_t likeness(const char *a, const char *b) {
    struct sketch left = of(a), right = of(b);
    int64_t one = sketch_likeness(&left, &right), other = sketch_likeness(&right, &left);
    cr_expect_eq(one, other, "%s | %s", a, b);
    return one;
}

Test(sketch, likeness_of_short_texts) {
    cr_expect_eq(likeness("", ""), SKETCH_ONE);
    cr_expect_eq(likeness("", "a"), 0);
    cr_expect_eq(likeness("a b c", "a  b\nc "), SKETCH_ONE, "blanks are no words");
    cr_expect_eq(likeness("a b c", "d e f"), 0);
    cr_expect_eq(likeness("the cat sat", "sat cat the"), 0, "the order of words counts");
    cr_expect_eq(likeness("a b c d", "a b c e"), 3 * SKETCH_ONE / 5);
}

Test(sketch, pieces_do_not_matter) {
    const char *text = "It does not matter where a text is cut, not even within a w\xc3\xb6rd.";
    struct sketch whole = of(text);
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        struct sketch s;
        sketch_init(&s);
        sketch_add(&s, span_from(text, cut));
        sketch_add(&s, span_of(text + cut));
        sketch_end(&s);
        cr_assert(s.n == whole.n && memcmp(s.at, whole.at, s.n * sizeof s.at[0]) == 0, "cut at %zu", cut);
    }
}

static void put_words(struct sketch *s, int from, int to) {
    char word[32];
    sketch_init(s);
    for (int i = from; i < to; i++) {
        snprintf(word, sizeof word, "word%d ", i);
        sketch_add(s, span_of(word));
    }
    sketch_end(s);
}

/* Of 20,000 words each, half in common: a third of all. */
Test(sketch, long_texts_are_told_apart_within_its_bound) {
    struct sketch a, b;
    put_words(&a, 0, 20000);
    put_words(&b, 10000, 30000);
    int64_t like = sketch_likeness(&a, &b);
    cr_expect(like > SKETCH_ONE * 21 / 100 && like < SKETCH_ONE * 46 / 100, "%ld", (long)like);
    for (size_t i = 1; i < a.n; i++)
        cr_assert_lt(a.at[i - 1], a.at[i]);
    cr_expect_eq(a.n, SKETCH_HASHES);
}
