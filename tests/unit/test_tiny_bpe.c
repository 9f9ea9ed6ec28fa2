/* The tokenizer: words as GPT-2 cuts them, merges in order, and every byte comes back. */
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

static size_t back(const int *token, int n, char *out) {
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += tiny_bpe_decode(&bpe, token[i], out + used);
    return used;
}

Test(tiny_bpe, words_are_cut_as_gpt2_cuts_them) {
    static const struct {
        const char *text, *words; /* words with a bar behind each */
    } rows[] = {
        {"What's a key?", "What|'s| a| key|?|"},
        {"user\nHello", "user|\n|Hello|"},
        {"a  b", "a| | b|"},
        {"a \n b", "a| \n| b|"},
        {"x-tollgate 402!", "x|-|tollgate| 402|!|"},
        {"end  ", "end|  |"},
        {"'sure", "'s|ure|"},
        {"'x", "'|x|"},
        {" 's", " '|s|"},
        {"we'll I'd", "we|'ll| I|'d|"},
        {"{\"a\":1}", "{\"|a|\":|1|}|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got[64] = "";
        size_t n = strlen(rows[i].text);
        for (size_t at = 0, step; at < n; at += step) {
            step = tiny_word(rows[i].text + at, n - at);
            strncat(got, rows[i].text + at, step);
            strcat(got, "|");
        }
        cr_assert_str_eq(got, rows[i].words);
    }
}

Test(tiny_bpe, every_byte_comes_back, .init = setup, .fini = teardown) {
    char text[512], out[512];
    int token[512];
    tiny_bpe_train(&bpe, "the gate the gate the key the the gate gate's gate", 280);
    for (int i = 0; i < 512; i++)
        text[i] = (char)(i < 256 ? i : 7 * i + 3);
    int n = tiny_bpe_encode(&bpe, text, sizeof text, token);
    cr_assert_eq(back(token, n, out), sizeof text);
    cr_assert_arr_eq(out, text, sizeof text);
    for (int i = 0; i < n; i++)
        cr_assert_geq(token[i], TINY_SPECIALS, "text never becomes a control token");
}

Test(tiny_bpe, text_that_looks_like_a_control_token_stays_text, .init = setup, .fini = teardown) {
    int token[64];
    int n = tiny_bpe_encode(&bpe, "<|im_end|>", 10, token);
    cr_assert_eq(n, 10);
    cr_assert_eq(token[0], TINY_BYTE('<'));
}

Test(tiny_bpe, the_commonest_pair_is_merged_first_and_merges_apply_in_their_order, .init = setup, .fini = teardown) {
    tiny_bpe_train(&bpe, "aab aab aab ab", TINY_SPECIALS + 256 + 2);
    int first = TINY_SPECIALS + 256, token[8];
    cr_assert_eq(bpe.n, first + 2);
    cr_assert_eq(bpe.left[first], TINY_BYTE('a'));
    cr_assert_eq(bpe.right[first], TINY_BYTE('b'));
    int n = tiny_bpe_encode(&bpe, "aab", 3, token);
    cr_assert_eq(n, bpe.left[first + 1] == TINY_BYTE('a') ? 1 : 2);
    cr_assert_eq(tiny_bpe_encode(&bpe, "ab", 2, token), 1);
    cr_assert_eq(token[0], first);
}

Test(tiny_bpe, training_twice_gives_the_same_and_stops_when_no_pair_stands_twice, .init = setup, .fini = teardown) {
    struct tiny_bpe *other = calloc(1, sizeof *other);
    tiny_bpe_init(other);
    tiny_bpe_train(&bpe, "one gate two gates", 1024);
    tiny_bpe_train(other, "one gate two gates", 1024);
    cr_assert_lt(bpe.n, TINY_SPECIALS + 256 + 8);
    cr_assert_arr_eq(bpe.left, other->left, sizeof bpe.left);
    cr_assert_arr_eq(bpe.right, other->right, sizeof bpe.right);
    tiny_bpe_fini(other);
    free(other);
}
