/* The text the model reads: how a line becomes pairs, what is held out, how a question is reworded. */
#include "tests/models/tiny.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tiny_text text;

static bool read_lines_for(const char *lines, const char *system) {
    char path[] = "/tmp/test_tiny_text.XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, lines, strlen(lines)) == (ssize_t)strlen(lines));
    close(fd);
    bool done = tiny_text_read(&text, path, system);
    unlink(path);
    return done;
}

static bool read_lines(const char *lines) {
    return read_lines_for(lines, NULL);
}

static void teardown(void) {
    tiny_text_fini(&text);
}

Test(tiny_text, a_line_is_one_answer_and_its_questions, .fini = teardown) {
    cr_assert(read_lines("# remark\n\nWhat is a / b / !c :: An answer.\n! d :: Unseen / still unseen.\n"));
    static const struct tiny_pair wanted[] = {
        {"What is a", "An answer.", NULL, false, false},
        {"b", "An answer.", NULL, false, false},
        {"c", "An answer.", NULL, true, true},
        {"d", "Unseen / still unseen.", NULL, true, false},
    };
    cr_assert_eq(text.n, 4);
    for (int i = 0; i < 4; i++) {
        cr_assert_str_eq(text.pairs[i].question, wanted[i].question);
        cr_assert_str_eq(text.pairs[i].answer, wanted[i].answer);
        cr_assert_eq(text.pairs[i].held_out, wanted[i].held_out);
        cr_assert_eq(text.pairs[i].known_answer, wanted[i].known_answer);
    }
}

Test(tiny_text, a_voice_that_is_asked_for_leaves_out_what_is_held_out, .fini = teardown) {
    cr_assert(read_lines_for("a / !b :: c\n! d :: e\n", "Speak."));
    cr_assert_eq(text.n, 1);
    cr_assert_str_eq(text.pairs[0].system, "Speak.");
}

Test(tiny_text, a_line_without_answer_or_beyond_ascii_is_refused, .fini = teardown) {
    cr_redirect_stderr();
    cr_assert_not(read_lines("no answer here\n"));
    cr_assert_not(read_lines("caf\xc3\xa9 :: no\n"));
}

Test(tiny_text, what_is_held_out_never_reaches_the_tokenizer_or_the_feed, .fini = teardown) {
    cr_assert(read_lines("alpha / !beta :: gamma\n! delta :: epsilon\n"));
    char *corpus;
    size_t n;
    FILE *file = open_memstream(&corpus, &n);
    tiny_text_put_corpus(&text, file);
    fclose(file);
    cr_assert(strstr(corpus, "alpha") && strstr(corpus, "gamma"));
    cr_assert(!strstr(corpus, "beta") && !strstr(corpus, "delta") && !strstr(corpus, "epsilon"));
    free(corpus);
    struct tiny_bpe *bpe = calloc(1, sizeof *bpe);
    struct tiny_feed feed;
    tiny_bpe_init(bpe);
    tiny_feed_init(&feed, bpe, &text, 1);
    cr_assert_eq(feed.n, 1);
    cr_assert_eq(feed.order[0], 0);
    tiny_feed_fini(&feed);
    tiny_bpe_fini(bpe);
    free(bpe);
}

Test(tiny_text, a_plain_question_gets_its_mark_and_a_greeting_none) {
    char out[TINY_QUESTION_MAX];
    tiny_reword(out, "What is a key", NULL);
    cr_assert_str_eq(out, "What is a key?");
    tiny_reword(out, "Hello", NULL);
    cr_assert_str_eq(out, "Hello");
}

Test(tiny_text, rewording_gives_many_wordings_that_fit_and_the_same_for_the_same_seed) {
    struct tiny_rng a = {5}, b = {5};
    char seen[64][TINY_QUESTION_MAX], other[TINY_QUESTION_MAX];
    int kinds = 0;
    for (int i = 0; i < 64; i++) {
        tiny_reword(seen[i], "What is a budget", &a);
        tiny_reword(other, "What is a budget", &b);
        cr_assert_str_eq(seen[i], other);
        int k = 0;
        while (strcmp(seen[k], seen[i]) != 0)
            k++;
        kinds += k == i;
    }
    cr_assert_gt(kinds, 20);
}
