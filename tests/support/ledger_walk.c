/* See ledger_walk.h. Always true here: a pass counts in the walk's own books from its instant for a minute, with its tokens as
 * counted while it is open and as used afterwards; what a killed process held is settled by its log. */
#include "tests/support/ledger_walk.h"
#include "budget/redis_ledger.h"

#include <stdio.h>
#include <stdlib.h>

#define TEAM "team/search"
#define MONEY 10000
#define KEY_REQUESTS 70
#define TEAM_REQUESTS 100
#define TEAM_TOKENS 3000
#define TEAM_SLOTS 24
#define CALLS 24 /* of a process */
#define SHARE 10 /* a slice is this part of a limit */
#define PASSES_MAX 4096
#define STEP_MAX_US US_PER_S
#define ACTS_A_STEP 4

struct passed {
    int64_t at_us, tokens;
    int key;
};

struct one_call {
    struct rate_op rate;
    struct hold_op hold;
    int64_t pass; /* in the walk's book; -1: counted by its process alone */
    bool open;
};

struct walker {
    struct process p;
    const char *log;
    struct one_call calls[CALLS];
    int64_t settled;
};

struct walk {
    struct walker of[2];
    struct passed passes[PASSES_MAX];
    int64_t n_passes;
    unsigned random;
    int dear;   /* what a call holds at the most */
    bool rapid; /* slots are what runs out, not requests and tokens */
    int64_t *in_slices;
    char wrong[200]; /* "": nothing */
};

static int roll(struct walk *w, int below) {
    w->random = w->random * 1103515245u + 12345u;
    return (int)((w->random >> 12) % (unsigned)below);
}

static void on_wake(struct waiter *w) {
    (void)w;
}

static void begin(const struct walk *w, struct walker *o) {
    struct conf_limits key = {KEY_REQUESTS, CONF_UNLIMITED, CONF_UNLIMITED};
    struct conf_limits team = {TEAM_REQUESTS, TEAM_TOKENS, TEAM_SLOTS};
    if (w->rapid)
        key.requests_per_minute = team.requests_per_minute = team.tokens_per_minute = CONF_UNLIMITED;
    process_start(&o->p, o->log, WHEN_DOWN_REFUSE);
    o->p.h.conf.hold.slice = FACTOR_ONE / SHARE;
    house_limit(&o->p.h, LEVEL_TEAM, MONEY);
    o->p.h.keys[0].limits = key;
    o->p.h.teams[0].limits = team;
    process_ready(&o->p);
}

static void count_slices(struct walk *w, const struct walker *o) {
    struct budget_counts n;
    budget_counts(o->p.h.b, &n);
    *w->in_slices += n.holds_in_slices + n.rates_in_slices;
}

/* --- acts --- */

static void book_pass(struct walk *w, struct one_call *c, int key) {
    c->pass = -1;
    if (!c->rate.slip.shared || w->n_passes == PASSES_MAX)
        return;
    c->pass = w->n_passes;
    w->passes[w->n_passes++] = (struct passed){kit.now_us, c->rate.slip.tokens, key};
}

static void end_rate(struct walk *w, struct walker *o, struct one_call *c, int64_t used) {
    if (!c->rate.slip.open)
        return;
    if (c->pass >= 0)
        w->passes[c->pass].tokens = used;
    budget_rate_end(o->p.h.b, &c->rate.slip, used, kit.now_us);
    sync_redis_pump(&o->p.s);
}

static void call_begin(struct walk *w, struct walker *o, struct one_call *c, int key, int64_t tokens, int64_t cost) {
    static int number;
    char id[24];
    struct budget_house *h = &o->p.h;
    *c = (struct one_call){.rate.waiter.wake = on_wake, .hold.waiter.wake = on_wake, .pass = -1};
    snprintf(id, sizeof id, "n%d", ++number);
    c->rate.may_owe = roll(w, 2);
    if (budget_rate(h->b, &h->conf, &h->keys[key], tokens, kit.now_us, &c->rate) == PROGRESS_WAIT)
        sync_redis_pump(&o->p.s);
    if (c->rate.err != ERR_NONE)
        return;
    c->hold.rates = c->rate.owed ? &c->rate : NULL;
    if (budget_hold(h->b, &h->conf, &h->keys[key], id, &h->price, cost, kit.now_us, &c->hold) == PROGRESS_WAIT)
        sync_redis_pump(&o->p.s);
    if (c->rate.slip.open)
        book_pass(w, c, key);
    c->open = c->rate.err == ERR_NONE && c->hold.err == ERR_NONE;
    if (c->open)
        return;
    if (c->hold.lease.open)
        (void)budget_settle(h->b, &c->hold.lease, 0);
    end_rate(w, o, c, 0);
}

static void call_end(struct walk *w, struct walker *o, struct one_call *c, int64_t cost) {
    process_settle(&o->p, &c->hold.lease, cost);
    end_rate(w, o, c, c->rate.slip.tokens * roll(w, 3) / 2);
    o->settled += cost;
    c->open = false;
}

/* Its log settles what was open at what it held; who takes its place is told so. */
static void kill_it(struct walk *w, struct walker *o) {
    count_slices(w, o);
    for (int i = 0; i < CALLS; i++) {
        if (o->calls[i].open)
            o->settled += o->calls[i].hold.lease.nanousd;
        o->calls[i].open = false;
        free(o->calls[i].rate.slip.team);
        o->calls[i].rate.slip = (struct rate_slip){0};
    }
    process_stop(&o->p);
    begin(w, o);
    budget_replay_log(o->p.h.b, NULL);
    budget_replay(o->p.h.b, &o->p.h.conf, SPAN("key00001"), SPAN("search"), kit.now_us, o->settled);
    process_tick(&o->p);
}

static void act(struct walk *w, struct walker *o) {
    static const enum sync_mode modes[] = {SYNC_UNHEARD, SYNC_UNDONE, SYNC_DOWN};
    int dice = roll(w, 40);
    struct one_call *c = &o->calls[roll(w, CALLS)];
    if (dice == 39) {
        kill_it(w, o);
        return;
    }
    if (dice == 38) {
        sync_redis_break(&o->p.s);
        sync_redis_mend(&o->p.s);
    }
    o->p.s.mode = dice < 3 ? modes[dice] : SYNC_GOOD;
    if (!c->open)
        call_begin(w, o, c, roll(w, 2), 1 + roll(w, 50), 1 + roll(w, w->dear));
    else if (roll(w, 3) == 0)
        (void)process_raise(&o->p, 0, &c->hold, c->hold.lease.nanousd + roll(w, w->dear));
    else
        call_end(w, o, c, c->hold.lease.nanousd * roll(w, 3) / 2);
    o->p.s.mode = SYNC_GOOD;
}

/* --- what must be so --- */

static void wrong(struct walk *w, const char *what, int64_t is, int64_t most) {
    if (!w->wrong[0])
        snprintf(w->wrong, sizeof w->wrong, "%s: %lld, and %lld is the limit", what, (long long)is, (long long)most);
}

static void at_most(struct walk *w, const char *what, int64_t is, int64_t most) {
    if (is > most)
        wrong(w, what, is, most);
}

static int64_t in_the_logs(const struct walk *w) {
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        sum += w->of[i].settled;
        for (int k = 0; k < CALLS; k++)
            sum += w->of[i].calls[k].open ? w->of[i].calls[k].hold.lease.nanousd : 0;
    }
    return sum;
}

static void look_money(struct walk *w) {
    struct process *p = &w->of[0].p;
    int64_t held = kit_account(p, TEAM, "h"), logs = in_the_logs(w);
    int64_t stands = kit_account(p, TEAM, "s") + held + kit_account(p, TEAM, "p");
    at_most(w, "money in the logs", logs, MONEY);
    at_most(w, "money in Redis", stands, MONEY);
    at_most(w, "money in the logs beside Redis", logs, stands);
    at_most(w, "money that binds early", stands - logs, 2 * 2 * MONEY / SHARE);
    at_most(w, "less than nothing held", -held, 0);
}

static void look_rates(struct walk *w) {
    int64_t of_key = 0, of_team = 0, tokens = 0, open = 0;
    for (int64_t i = 0; i < w->n_passes; i++) {
        const struct passed *p = &w->passes[i];
        if (kit.now_us - p->at_us >= US_PER_MIN)
            continue;
        of_team++;
        of_key += p->key == 0;
        tokens += p->tokens;
    }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < CALLS; k++)
            open += w->of[i].calls[k].rate.slip.open && w->of[i].calls[k].pass >= 0;
    at_most(w, "calls of a team in flight", open, TEAM_SLOTS);
    if (w->rapid)
        return;
    at_most(w, "requests of a key in a minute", of_key, KEY_REQUESTS);
    at_most(w, "requests of a team in a minute", of_team, TEAM_REQUESTS);
    at_most(w, "tokens of a team in a minute", tokens, TEAM_TOKENS);
}

static int64_t slots_told(struct walk *w) {
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        const char *text = sync_redis_ask(&w->of[0].p.s, "HGET tg:{money}:r:%s f:%s", TEAM, w->of[i].log);
        const char *number = strchr(text, ':');
        sum += number ? strtoll(number + 1, NULL, 10) : 0;
    }
    return sum;
}

static void look_at_the_end(struct walk *w) {
    struct process *p = &w->of[0].p;
    int64_t settled = kit_account(p, TEAM, "s"), logs = in_the_logs(w);
    at_most(w, "settled, more than the logs", settled, logs);
    at_most(w, "settled in the logs, more than in Redis", logs, settled);
    at_most(w, "left held", kit_account(p, TEAM, "h"), 0);
    at_most(w, "left charged", kit_account(p, TEAM, "p"), 0);
    at_most(w, "left open", kit_account(p, TEAM, "k"), 0);
    at_most(w, "left in flight", slots_told(w), 0);
}

static void end_all(struct walk *w) {
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < CALLS; k++)
            if (w->of[i].calls[k].open)
                call_end(w, &w->of[i], &w->of[i].calls[k], 0);
    kit_pass(8 * US_PER_S, &w->of[0].p, &w->of[1].p);
    look_at_the_end(w);
}

static struct walk w;

static void walk_begin(unsigned seed, int64_t *in_slices) {
    w = (struct walk){.of = {{.log = "one"}, {.log = "two"}},
                      .random = seed * 2654435761u,
                      .dear = seed % 2 ? 40 : 200,
                      .rapid = seed % 3 == 0,
                      .in_slices = in_slices};
    begin(&w, &w.of[0]);
    begin(&w, &w.of[1]);
}

static const char *walk_end(void) {
    if (!w.wrong[0])
        end_all(&w);
    sync_redis_ask(&w.of[0].p.s, "FLUSHALL");
    for (int i = 0; i < 2; i++) {
        count_slices(&w, &w.of[i]);
        for (int k = 0; k < CALLS; k++)
            free(w.of[i].calls[k].rate.slip.team);
        process_stop(&w.of[i].p);
    }
    return w.wrong[0] ? w.wrong : NULL;
}

const char *ledger_walk(unsigned seed, int acts, int64_t *in_slices) {
    walk_begin(seed, in_slices);
    for (int n = 0; n < acts && !w.wrong[0]; n++) {
        act(&w, &w.of[n % 2]);
        if (n % ACTS_A_STEP == 0) {
            kit.now_us += roll(&w, STEP_MAX_US);
            process_tick(&w.of[0].p);
            process_tick(&w.of[1].p);
        }
        look_money(&w);
        look_rates(&w);
    }
    return walk_end();
}

/* --- two stories that no walk is sure to tell --- */

/* A call that ends as it held; whether it passed. */
static bool one_through(struct walker *o) {
    struct one_call *c = &o->calls[0];
    call_begin(&w, o, c, 1, 1, 40);
    if (c->open)
        call_end(&w, o, c, 40);
    return c->pass >= 0;
}

const char *ledger_busy(int64_t *in_slices) {
    walk_begin(3, in_slices);
    for (int n = 0; n < 150 && !w.wrong[0]; n++) {
        (void)one_through(&w.of[0]);
        if (n % 20 == 0)
            process_tick(&w.of[0].p);
        struct process *p = &w.of[0].p;
        int64_t stands = kit_account(p, TEAM, "s") + kit_account(p, TEAM, "h");
        at_most(&w, "unused of one slice", stands - in_the_logs(&w), MONEY / SHARE + 40);
    }
    struct one_call *last = &w.of[0].calls[1];
    call_begin(&w, &w.of[0], last, 1, 1, MONEY - in_the_logs(&w));
    at_most(&w, "the last dollar, refused", !last->open, 0);
    return walk_end();
}

const char *ledger_late(int64_t *in_slices) {
    walk_begin(1, in_slices);
    int64_t from_us = kit.now_us;
    (void)one_through(&w.of[0]);
    kit.now_us += SLICE_LIVES_US - US_PER_MS;
    for (int i = 0; i < TEAM_REQUESTS / SHARE; i++)
        (void)one_through(&w.of[0]);
    for (int n = 0; n < TEAM_REQUESTS && one_through(&w.of[1]); n++)
        look_rates(&w);
    while (kit.now_us < from_us + US_PER_MIN)
        kit_pass(US_PER_S, &w.of[0].p, &w.of[1].p);
    for (int n = 0; n < TEAM_REQUESTS && one_through(&w.of[1]); n++)
        look_rates(&w);
    return walk_end();
}
