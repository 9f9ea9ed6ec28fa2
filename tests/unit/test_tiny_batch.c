/* Dialogues as rows: ChatML as the template renders it, and the weights on the rows before the answer's tokens. */
#include "tests/models/tiny.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct tiny_bpe bpe;

static void setup(void) {
    tiny_bpe_init(&bpe);
}

static void teardown(void) {
    tiny_bpe_fini(&bpe);
}

/* The rows' tokens as text, control tokens by their names. */
static void render(const int *token, int n, char *out) {
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        if (token[i] < TINY_SPECIALS) {
            strcpy(out + used, TINY_SPECIAL_TEXT[token[i]]);
            used += strlen(TINY_SPECIAL_TEXT[token[i]]);
        } else {
            used += tiny_bpe_decode(&bpe, token[i], out + used);
        }
    }
    out[used] = 0;
}

Test(tiny_batch, a_pair_becomes_chatml_and_only_the_answer_counts, .init = setup, .fini = teardown) {
    static struct tiny_batch b;
    struct tiny_pair pair = {.question = "Hi", .answer = "Yo"};
    char text[256];
    int counted = 0;
    cr_assert(tiny_batch_add(&b, &bpe, &pair));
    int first = b.rows;
    cr_assert(tiny_batch_add(&b, &bpe, &pair));
    cr_assert_eq(b.rows, 2 * first);
    cr_assert_eq(b.start[first], first);
    cr_assert_eq(b.start[first - 1], 0);
    render(b.token, first, text);
    cr_assert_str_eq(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>");
    for (int r = 0; r < first; r++) {
        if (b.weight[r] > 0)
            text[counted++] = (char)(b.target[r] == TINY_IM_END ? '.' : b.target[r] - TINY_SPECIALS);
    }
    text[counted] = 0;
    cr_assert_str_eq(text, "Yo.");
}

Test(tiny_batch, the_prompt_ends_where_the_answer_begins, .init = setup, .fini = teardown) {
    int token[TINY_SEGMENT_MAX];
    char text[256];
    int n = tiny_prompt(&bpe, "Hi", token);
    render(token, n, text);
    cr_assert_str_eq(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

Test(tiny_batch, a_full_batch_says_so_and_a_feed_fills_it_from_every_pair, .init = setup, .fini = teardown) {
    static struct tiny_batch b;
    struct tiny_pair pairs[3] = {{.question = "one", .answer = "1"},
                                 {.question = "two", .answer = "2"},
                                 {.question = "out", .answer = "3", .held_out = true}};
    struct tiny_text text = {pairs, 3};
    struct tiny_feed feed;
    while (tiny_batch_add(&b, &bpe, &pairs[0]))
        ;
    cr_assert(b.rows <= TINY_ROWS && b.rows > TINY_ROWS - 60);
    tiny_feed_init(&feed, &bpe, &text, 9);
    tiny_feed_fill(&feed, &b);
    int ones = 0, twos = 0, threes = 0;
    for (int r = 0; r < b.rows; r++) {
        ones += b.weight[r] == 1 && b.target[r] == TINY_BYTE('1');
        twos += b.weight[r] == 1 && b.target[r] == TINY_BYTE('2');
        threes += b.target[r] == TINY_BYTE('3');
    }
    cr_assert(ones > 0 && twos > 0 && threes == 0, "%d %d %d", ones, twos, threes);
    cr_assert_geq(ones + twos, b.dialogues);
    tiny_feed_fini(&feed);
}
