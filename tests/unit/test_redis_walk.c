/* Walks of a shared ledger that a seed decides: three processes hold, raise, settle and correct; answers are late, lost or
 * overtaken; processes are killed and come back with what their log says; Redis loses its data, also twice in a row, with
 * anybody away. At every step of a walk without a loss no limit is passed; when all is quiet, what Redis says is what the
 * logs say, and nothing is left open. REDIS_WALKS sets how many, REDIS_WALK_SEED the first. */
#include "tests/support/ledger_kit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define TEAM "team/search"
#define LIMIT 1000
#define PROCESSES 3
#define SLOTS 3
#define STEPS 60
#define WALKS 12
#define LOST_MAX 2 /* losses of data in one walk */

TestSuite(redis_walk, .init = kit_begin, .fini = kit_end);

struct slot {
    bool open;
    struct hold_op op;
};

struct one {
    struct process p;
    bool dead, away;
    struct slot slots[SLOTS];
    int64_t settled, lowered; /* in its log */
};

struct world {
    struct one all[PROCESSES];
    uint64_t random;
    int64_t number; /* of the next call */
    int lost;
    int lossy; /* losses that this walk may have */
};

static int roll(struct world *w, int below) {
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((w->random >> 33) % (uint64_t)below);
}

static void begin(struct one *o, int i) {
    static const char *const logs[PROCESSES] = {"one", "two", "three"};
    process_start(&o->p, logs[i], WHEN_DOWN_REFUSE);
    house_limit(&o->p.h, LEVEL_TEAM, LIMIT);
    o->dead = o->away = false;
}

static void tick_all(struct world *w, int seconds) {
    for (int s = 0; s < seconds; s++) {
        kit.now_us += US_PER_S;
        for (int i = 0; i < PROCESSES; i++)
            process_tick(w->all[i].dead ? NULL : &w->all[i].p);
    }
}

static void replay(struct one *o, int64_t nanousd) {
    budget_replay(o->p.h.b, &o->p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, nanousd);
}

static void settle(struct one *o, struct slot *s, int64_t cost) {
    o->settled += cost;
    s->open = false;
    process_settle(&o->p, &s->op.lease, cost);
}

/* --- acts --- */

static void act_hold(struct world *w, struct one *o) {
    struct slot *s = &o->slots[roll(w, SLOTS)];
    char id[24];
    if (s->open) {
        (void)process_raise(&o->p, 0, &s->op, s->op.lease.nanousd + roll(w, LIMIT / 8));
        return;
    }
    snprintf(id, sizeof id, "call-%lld", (long long)w->number++);
    s->open = process_hold(&o->p, 0, id, roll(w, LIMIT / 4), &s->op) == ERR_NONE;
}

static void act_settle(struct world *w, struct one *o) {
    struct slot *s = &o->slots[roll(w, SLOTS)];
    if (s->open)
        settle(o, s, roll(w, (int)s->op.lease.nanousd + 1) / 4);
}

static void act_correct(struct world *w, struct one *o) {
    if (o->settled - o->lowered < 8)
        return;
    int64_t back = roll(w, 8);
    o->lowered += back;
    replay(o, -back);
}

static void act_unwell(struct world *w, struct one *o) {
    static const enum sync_mode modes[] = {SYNC_UNHEARD, SYNC_UNDONE, SYNC_OVERTAKEN};
    if (o->away)
        return;
    o->p.s.mode = modes[roll(w, (int)ARRAY_LEN(modes))];
    if (roll(w, 2))
        act_hold(w, o);
    else
        act_settle(w, o);
    process_tick(&o->p);
    o->p.s.mode = SYNC_GOOD;
    if (roll(w, 2))
        sync_redis_catch_up(&o->p.s);
}

static void act_away(struct world *w, struct one *o) {
    (void)w;
    if (o->away)
        sync_redis_mend(&o->p.s);
    else
        sync_redis_break(&o->p.s);
    o->away = !o->away;
}

/* Its log settles what was open at what it held. */
static void act_kill(struct world *w, struct one *o) {
    (void)w;
    for (int i = 0; i < SLOTS; i++) {
        o->settled += o->slots[i].open ? o->slots[i].op.lease.nanousd : 0;
        o->slots[i].open = false;
    }
    sync_redis_catch_up(&o->p.s);
    process_stop(&o->p);
    o->dead = true;
}

static void come_back(struct world *w, struct one *o) {
    begin(o, (int)(o - w->all));
    replay(o, o->settled);
    if (o->lowered)
        replay(o, -o->lowered);
    process_tick(&o->p);
}

/* What was on its way is lost with the data. */
static void act_lose(struct world *w, struct one *o) {
    if (w->lost == w->lossy || o->away)
        return;
    w->lost++;
    for (int i = 0; i < PROCESSES; i++) {
        if (!w->all[i].dead)
            sync_redis_catch_up(&w->all[i].p.s);
    }
    sync_redis_ask(&o->p.s, "FLUSHALL");
    for (int i = 0; i < PROCESSES; i++) {
        struct one *each = &w->all[(i + roll(w, PROCESSES)) % PROCESSES];
        if (each->dead || each->away)
            continue;
        sync_redis_break(&each->p.s);
        if (roll(w, 3))
            sync_redis_mend(&each->p.s);
        else
            each->away = true;
    }
}

static void act_pass(struct world *w, struct one *o) {
    (void)o;
    tick_all(w, 1 + roll(w, 4));
}

static void step(struct world *w) {
    static void (*const acts[])(struct world * w, struct one * o) = {
        act_hold,   act_hold,    act_hold, act_hold, act_settle, act_settle, act_settle, act_unwell, act_unwell,
        act_unwell, act_correct, act_away, act_kill, act_lose,   act_lose,   act_pass,   act_pass};
    struct one *o = &w->all[roll(w, PROCESSES)];
    void (*act)(struct world *, struct one *) = acts[roll(w, (int)ARRAY_LEN(acts))];
    if (o->dead)
        come_back(w, o);
    else
        act(w, o);
}

/* --- what must be so --- */

static int64_t sum(struct process *p) {
    return kit_account(p, TEAM, "s") + kit_account(p, TEAM, "h") + kit_account(p, TEAM, "p");
}

static void finish(struct world *w) {
    for (int i = 0; i < PROCESSES; i++) {
        struct one *o = &w->all[i];
        if (o->dead)
            come_back(w, o);
        else if (o->away)
            act_away(w, o);
        sync_redis_catch_up(&o->p.s);
        for (int k = 0; k < SLOTS; k++) {
            if (o->slots[k].open)
                settle(o, &o->slots[k], 0);
        }
    }
    tick_all(w, 10);
}

static void walk(uint64_t seed) {
    struct world w = {.random = seed * UINT64_C(0x9E3779B97F4A7C15), .lossy = (int)(seed % (LOST_MAX + 1))};
    kit.now_us = HOUSE_NOW_US;
    for (int i = 0; i < PROCESSES; i++)
        begin(&w.all[i], i);
    sync_redis_ask(&w.all[0].p.s, "FLUSHALL");
    tick_all(&w, 5);
    for (int i = 0; i < STEPS; i++) {
        step(&w);
        struct one *any = &w.all[i % PROCESSES];
        if (!any->dead && w.lost == 0)
            cr_assert_leq(sum(&any->p), LIMIT, "seed %llu, step %d", (unsigned long long)seed, i);
    }
    finish(&w);
    int64_t logged = 0;
    for (int i = 0; i < PROCESSES; i++)
        logged += w.all[i].settled - w.all[i].lowered;
    struct process *p = &w.all[0].p;
    cr_assert_eq(kit_account(p, TEAM, "s"), logged, "seed %llu: Redis %lld, logs %lld", (unsigned long long)seed,
                 (long long)kit_account(p, TEAM, "s"), (long long)logged);
    cr_assert_eq(kit_account(p, TEAM, "h"), 0, "seed %llu: held", (unsigned long long)seed);
    cr_assert_eq(kit_account(p, TEAM, "p"), 0, "seed %llu: charged", (unsigned long long)seed);
    cr_assert_eq(kit_account(p, TEAM, "k"), 0, "seed %llu: calls", (unsigned long long)seed);
    for (int i = 0; i < PROCESSES; i++)
        process_stop(&w.all[i].p);
}

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

Test(redis_walk, redis_is_what_the_logs_say_whatever_was_lost) {
    uint64_t first = number_of("REDIS_WALK_SEED", 1), n = number_of("REDIS_WALKS", WALKS);
    for (uint64_t seed = first; seed < first + n; seed++)
        walk(seed);
}
