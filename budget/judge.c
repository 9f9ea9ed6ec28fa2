/* What the numbers of accounts mean for an ask. Pure, so that every store speaks the same words. Always true here: a
 * refusal names a scope that does not fit, and of those the first whose at_limit is the strictest. */
#include "budget/ledger.h"

__extension__ typedef __int128 wide;

int64_t ledger_room(const struct ledger_sums *s, int64_t limit_nanousd) {
    int64_t room;
    if (__builtin_sub_overflow(limit_nanousd, s->settled_nanousd, &room) ||
        __builtin_sub_overflow(room, s->held_nanousd, &room))
        return INT64_MIN;
    return room;
}

static bool bounds(const struct ledger_scope *scope, const struct ledger_sums *s) {
    return s->stands && scope->limit_nanousd != CONF_UNLIMITED;
}

static int64_t least_room(const struct ledger_ask *ask, const struct ledger_sums *sums) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < ask->n; i++) {
        int64_t room = ledger_room(&sums[i], ask->scopes[i].limit_nanousd);
        if (bounds(&ask->scopes[i], &sums[i]) && room < least)
            least = room;
    }
    return least;
}

void ledger_refuse(const struct ledger_ask *ask, const struct ledger_sums *sums, int i, int64_t need, enum err err,
                   struct hold_op *op) {
    const struct ledger_scope *scope = &ask->scopes[i];
    op->err = err;
    op->refusal = (struct refusal){.level = scope->level,
                                   .scope = scope->owner,
                                   .period = scope->period,
                                   .limit_nanousd = scope->limit_nanousd,
                                   .settled_nanousd = sums[i].settled_nanousd,
                                   .held_nanousd = sums[i].held_nanousd,
                                   .needed_nanousd = need,
                                   .resets_us = sums[i].to_us,
                                   .overrun_nanousd = sums[i].overrun_nanousd,
                                   .at_limit = scope->at_limit,
                                   .room_nanousd = least_room(ask, sums)};
}

int ledger_judge(const struct ledger_ask *ask, const struct ledger_sums *sums, int64_t need, struct hold_op *op) {
    int worst = -1;
    for (int i = 0; i < ask->n; i++) {
        const struct ledger_scope *scope = &ask->scopes[i];
        if (ask->free || !bounds(scope, &sums[i]) || need <= ledger_room(&sums[i], scope->limit_nanousd))
            continue;
        if (worst < 0 || scope->at_limit < ask->scopes[worst].at_limit)
            worst = i;
    }
    if (worst >= 0)
        ledger_refuse(ask, sums, worst, need, ERR_BUDGET, op);
    return worst;
}

int64_t ledger_passed(const struct ledger_scope *scope, const struct ledger_sums *s) {
    int64_t passed = 0;
    wide used = (wide)s->settled_nanousd + s->held_nanousd;
    if (!bounds(scope, s) || used <= 0)
        return 0;
    for (int i = 0; i < scope->n_warn; i++)
        if (used * FACTOR_ONE >= (wide)scope->limit_nanousd * scope->warn[i])
            passed = scope->warn[i];
    return passed;
}

void ledger_tell(const struct ledger_ask *ask, const struct ledger_sums *sums, struct hold_op *op) {
    int64_t *left[] = {&op->remaining_key, &op->remaining_team, &op->remaining_organization};
    for (int i = 0; i < BUDGET_LEVELS; i++) {
        *left[i] = -1;
        op->passed[i] = 0;
    }
    for (int i = 0; i < ask->n; i++) {
        const struct ledger_scope *scope = &ask->scopes[i];
        if (!bounds(scope, &sums[i]))
            continue;
        int64_t room = ledger_room(&sums[i], scope->limit_nanousd), *to = left[scope->level];
        int64_t passed = ledger_passed(scope, &sums[i]);
        room = room < 0 ? 0 : room;
        if (*to < 0 || room < *to)
            *to = room;
        if (passed > op->passed[scope->level])
            op->passed[scope->level] = passed;
    }
}

struct budget_news ledger_news(const struct ledger_scope *scope, const char *owner, const struct ledger_sums *s,
                               enum budget_event event) {
    const char *slash = strchr(owner, '/');
    return (struct budget_news){.event = event,
                                .name = scope->name,
                                .scope = slash ? slash + 1 : owner,
                                .level = scope->level,
                                .period = scope->period,
                                .limit_nanousd = scope->limit_nanousd,
                                .settled_nanousd = s->settled_nanousd,
                                .held_nanousd = s->held_nanousd,
                                .period_from_us = s->from_us,
                                .period_to_us = s->to_us};
}
