/* The ledger's scripts with a fault planted in them do not pass the walk, and without one they do. So what the walk looks at
 * is what the scripts are for. LEDGER_WALKS sets how many walks there are without a fault. */
#include "tests/support/ledger_walk.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/log.h"

#define ACTS 900
#define WALKS 3
#define TRIES 4 /* walks in one of which a fault shows */

static void quiet_begin(void) {
    log_setup(LOG_ERROR, LOG_TEXT);
    kit_begin();
}

TestSuite(redis_faults, .init = quiet_begin, .fini = kit_end);

Test(redis_faults, no_order_of_calls_deaths_and_lost_answers_passes_a_limit) {
    const char *text = getenv("LEDGER_WALKS");
    unsigned walks = text ? (unsigned)atoi(text) : WALKS;
    int64_t in_slices = 0;
    for (unsigned seed = 1; seed <= walks; seed++) {
        const char *wrong = ledger_walk(seed, ACTS, &in_slices);
        cr_assert_null(wrong, "seed %u: %s", seed, wrong);
    }
    cr_assert_gt(in_slices, 100 * (int64_t)walks, "%lld were decided from slices", (long long)in_slices);
}

Test(redis_faults, what_is_leased_is_never_more_than_a_slice_nor_used_too_late) {
    int64_t busy = 0, late = 0;
    const char *wrong = ledger_busy(&busy);
    cr_assert_null(wrong, "busy: %s", wrong);
    cr_assert_gt(busy, 200, "%lld were decided from slices", (long long)busy);
    wrong = ledger_late(&late);
    cr_assert_null(wrong, "late: %s", wrong);
    cr_assert_gt(late, 10, "%lld were decided from slices", (long long)late);
}

static const struct {
    const char *what;
    struct plant plant;
} faults[] = {
    {"a hold is compared with no limit",
     {"return free or scope.limit == '' or not above(high, low, scope.limit), false", "return true, false"}},
    {"a slice is asked for with what it spent before",
     {"if mode == 'slice' then amount = difference(amount, lease and lease[4] or '0') end", ""}},
    {"a slice that grows stands as it was", {"stand(lease, need, 0)", ""}},
    {"a slice that grows is noted as it was", {"lease[1] = amount\n", "\n"}},
    {"a lease is not kept", {"lease_put(who, id, lease, now + lives)\nfor", "for"}},
    {"what a slice spent goes back", {"spent = larger(spent, old)", ""}},
    {"what a slice spent stays held", {"local left = difference(all, spent)", "local left = all"}},
    {"a slice is made smaller in its lease alone", {"stand(lease, difference(left, lease[1]), 0)", ""}},
    {"what a slice spent is forgotten", {"lease[1], lease[4] = left, spent", "lease[1] = left"}},
    {"a settle ends no lease", {"lease_drop(who, id)\n  tombstone_take(who, id)", "tombstone_take(who, id)"}},
    {"a settle adds nothing", {"call('HINCRBY', key, into, back and negated(more) or more)", ""}},
    {"an expired lease gives its money back", {"charge(lease, lease[1])\n", "\n"}},
    {"what is leased counts as used at once", {"lease[kind], step.slice_lives)", "lease[kind], 0)"}},
    {"what is leased does not count", {"window_add(of.cells[kind], lease[kind], step.slice_lives)", ""}},
    {"a lot is what is wished for", {"math.min(step.wish[kind], left)", "step.wish[kind]"}},
    {"a call that passes does not count", {"window_add(of.cells[kind], step.need[kind], 0)", ""}},
    {"only the newest cell counts", {"used = used + cells[i + 2]", "used = cells[i + 2]"}},
    {"calls in flight have no limit", {"if of.mine + of.others > limit then", "if false then"}},
    {"slots are what is wished for", {"math.min(of.spare, left)", "of.spare"}},
    {"slots of others do not count", {"others = others + number", "others = number - number"}},
    {"a hold does not look at its rates",
     {"if step and not step_look(step) then", "if step and not step_look(step) and false then"}},
    {"tokens come back twice",
     {"window_take_back(cells, count, when)\n  window_add", "window_take_back(cells, 2 * count, when)\n  window_add"}},
    {"calls that end free all slots",
     {"mine_put(owner, math.max(mine, math.min((in_flight(owner, 0)), keep)))", "mine_put(owner, 0)"}},
};

/* In a process of its own: a fault may also run into what the ledger asserts of itself. */
static bool shows(const struct plant *plant) {
    pid_t child = fork();
    if (child == 0) {
        int64_t in_slices = 0;
        close(STDERR_FILENO); /* what is asserted there is what is looked for */
        sync_redis_plant(plant);
        const char *wrong = ledger_busy(&in_slices);
        wrong = wrong ? wrong : ledger_late(&in_slices);
        for (unsigned seed = 1; seed <= TRIES && !wrong; seed++)
            wrong = ledger_walk(seed, ACTS, &in_slices);
        _exit(wrong ? 1 : 0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && status != 0;
}

Test(redis_faults, each_planted_fault_is_seen) {
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        cr_assert(shows(&faults[i].plant), "nobody saw that %s", faults[i].what);
}
