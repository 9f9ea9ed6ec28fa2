/* The drawing at the top of request.h, as the table has it: what may follow what, and that every way leads out. */
#include "gateway/request.h"

#include <criterion/criterion.h>

#define TO(state) (1u << STATE_##state)
static const unsigned may[STATE_N] = {
#define X(name, word, next) [STATE_##name] = next,
    STATE_TABLE(X)
#undef X
};

/* States that can be reached without going through `without`. */
static unsigned reach(enum state from, enum state without) {
    unsigned seen = 1u << from;
    for (int round = 0; round < STATE_N; round++)
        for (enum state s = 0; s < STATE_N; s++)
            if (seen & 1u << s && s != without)
                seen |= may[s];
    return seen;
}

Test(request, every_way_out_goes_by_settle_and_release) {
    for (enum state s = 0; s < STATE_SETTLE; s++) {
        cr_expect(reach(s, STATE_N) & TO(DONE), "%s never ends", state_names[s]);
        cr_expect_not(reach(s, STATE_SETTLE) & TO(RELEASE), "%s ends without a settle", state_names[s]);
        cr_expect_not(reach(s, STATE_RELEASE) & TO(DONE), "%s ends without a release", state_names[s]);
    }
}

Test(request, the_only_turn_is_another_try) {
    for (enum state s = 0; s < STATE_N; s++)
        for (enum state to = 0; to <= s; to++)
            if (may[s] & 1u << to)
                cr_expect(s == STATE_SEND && to == STATE_HOLD, "%s > %s", state_names[s], state_names[to]);
    cr_expect_not(reach(STATE_STREAM, STATE_N) & (TO(HOLD) | TO(SEND)), "after content nothing turns back");
}

Test(request, whatever_waits_before_the_answer_may_be_refused) {
    for (enum state s = 0; s < STATE_STREAM; s++)
        cr_expect(may[s] & TO(REFUSE), "%s", state_names[s]);
    cr_expect_eq(may[STATE_STREAM], TO(SETTLE));
    cr_expect_eq(may[STATE_DONE], 0);
}

Test(request, nothing_goes_upstream_without_hold_and_admit) {
    cr_expect_not(reach(STATE_HEAD, STATE_HOLD) & TO(SEND));
    unsigned first_try = may[STATE_HOLD] & ~TO(SEND); /* HOLD > SEND is for a lease that is already on record */
    cr_expect(first_try & TO(ADMIT));
    cr_expect_not(may[STATE_CACHE] & (TO(ADMIT) | TO(SEND)));
}

Test(request, states_have_names_and_the_order_of_the_drawing) {
    static const char *const words[] = {"head",  "auth", "body",   "expand", "rate",   "route",   "cache", "hold",
                                        "admit", "send", "stream", "refuse", "settle", "release", "done"};
    cr_assert_eq(ARRAY_LEN(words), STATE_N);
    for (enum state s = 0; s < STATE_N; s++)
        cr_expect_str_eq(state_names[s], words[s]);
}
