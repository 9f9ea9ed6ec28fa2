/* Calls of this process in flight, by key and by team, as Redis counts them. Always true here: what is told is a state, how
 * many run and how many slots are kept beyond them, so that it may be told again; what is kept is made less only while no
 * more is asked for, and is gone when this process was not heard in time. */
#include "budget/redis_rates.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

__extension__ typedef __int128 wide;

#define SLOTS_SWEEP 8          /* looked at in a tick */
#define SLOTS_PEAK_US US_PER_S /* what was not used for one to two of these is not kept */
#define SLOTS_KEEP_ALL 1000000000

struct slots *slots_get(struct rates_shared *s, const char *owner) {
    struct slots *one = map_find(&s->slots, span_of(owner));
    if (one)
        return one;
    one = xcalloc(1, sizeof *one);
    memcpy(one->owner, owner, strlen(owner) + 1);
    map_put(&s->slots, span_of(owner), one);
    list_append(&s->all, &one->in_all);
    return one;
}

void slots_untold(struct rates_shared *s, struct slots *one) {
    if (!one->untold)
        list_append(&s->untold, &one->in_untold);
    one->untold = true;
}

void slots_add(struct rates_shared *s, const struct payers *payers, int n) {
    for (int i = 0; i < RATE_LEVELS; i++) {
        struct slots *one = slots_get(s, payers->of[i]);
        one->n += n;
        one->peak = one->n > one->peak ? one->n : one->peak;
        assert(one->n >= 0);
        if (n < 0 && one->n >= one->kept)
            slots_untold(s, one);
    }
}

/* While more is asked for, what else is said keeps what may be had by now. */
void slots_put(const struct slots *one, bool leases, struct words *w) {
    words_i64(w, one->n);
    words_i64(w, one->leasing && !leases ? SLOTS_KEEP_ALL : one->kept);
}

bool slots_keep(struct rates_shared *s, struct slots *one, int64_t most) {
    if (one->leasing || one->kept <= most)
        return false;
    one->kept = most;
    slots_untold(s, one);
    return true;
}

bool slots_are_free(const struct rates_shared *s, const struct slots *one, int64_t now_us) {
    return one->n < one->kept && instant_lives(&s->l->seen, now_us);
}

/* Those of calls that end are taken again; of limits on few calls a share would be none. */
int64_t slots_wish(const struct slots *one, int64_t limit, int64_t share) {
    int64_t part = (int64_t)((wide)limit * share / FACTOR_ONE);
    if (limit == CONF_UNLIMITED || share == 0 || one->leasing)
        return 0;
    return part > one->n ? part : one->n;
}

/* Others may have them by now. */
void slots_lost(struct rates_shared *s) {
    for (struct link *k = list_first(&s->all); k; k = list_next(&s->all, k)) {
        struct slots *one = container_of(k, struct slots, in_all);
        one->kept = 0;
        slots_untold(s, one);
    }
}

void slots_check(struct rates_shared *s, int64_t now_us) {
    if (s->l->seen.wall_us && !instant_lives(&s->l->seen, now_us))
        slots_lost(s);
}

void slots_heard(struct rates_shared *s, const struct instant *sent) {
    struct redis_ledger *l = s->l;
    if (sent->wall_us <= l->seen.wall_us)
        return;
    if (sent->wall_us - l->seen.wall_us >= SLICE_LIVES_US || sent->mono_us - l->seen.mono_us >= SLICE_LIVES_US)
        slots_lost(s);
    l->seen = *sent;
}

static void peaks_look(struct rates_shared *s) {
    int64_t now_us = s->l->now_us;
    if (now_us >= s->peaked_us && now_us - s->peaked_us < SLOTS_PEAK_US)
        return;
    s->peaked_us = now_us;
    for (struct link *k = list_first(&s->all); k; k = list_next(&s->all, k)) {
        struct slots *one = container_of(k, struct slots, in_all);
        (void)slots_keep(s, one, one->peak > one->peak_was ? one->peak : one->peak_was);
        one->peak_was = one->peak;
        one->peak = one->n;
    }
}

static bool is_idle(const struct slots *one) {
    return one->n == 0 && one->kept == 0 && !one->leasing && !one->untold;
}

void slots_tick(struct rates_shared *s) {
    peaks_look(s);
    for (int i = 0; i < SLOTS_SWEEP && !list_empty(&s->all); i++) {
        struct slots *one = container_of(list_shift(&s->all), struct slots, in_all);
        if (!is_idle(one)) {
            list_append(&s->all, &one->in_all);
            continue;
        }
        map_remove(&s->slots, span_of(one->owner));
        free(one);
    }
}
