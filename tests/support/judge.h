/* When a row of logits is right: within 1e-4 of the largest wanted number, and with the same most likely token. */
#ifndef TOLLGATE_TESTS_JUDGE_H
#define TOLLGATE_TESTS_JUDGE_H

#include <criterion/criterion.h>
#include <math.h>

#define JUDGE_TOLERANCE 1e-4

static inline void judge(const float *got, const double *want, int64_t n, const char *who) {
    double most = 0, worst = 0;
    int64_t best_got = 0, best_want = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(want[i]));
        worst = fmax(worst, fabs((double)got[i] - want[i]));
        best_got = got[i] > got[best_got] ? i : best_got;
        best_want = want[i] > want[best_want] ? i : best_want;
    }
    cr_expect(worst <= JUDGE_TOLERANCE * most, "%s: off by %g of %g", who, worst, most);
    cr_expect_eq(best_got, best_want, "%s: another token is the most likely", who);
}

#endif
