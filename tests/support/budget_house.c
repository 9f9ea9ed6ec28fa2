/* A conf built by hand. Always true here: names and ids are those of the header's comment. */
#include "tests/support/budget_house.h"

static void price_fill(struct price *p) {
    *p = (struct price){.in = 1000, .out = 1000, .factor = FACTOR_ONE, .known = true};
    p->cache_read = p->cache_write_5m = p->cache_write_1h = p->in_audio = p->out_audio = p->web_search = -1;
}

static void team_fill(struct budget_house *h, int t, const char *name, struct conf_key *keys, size_t n) {
    const struct conf_limits none = {CONF_UNLIMITED, CONF_UNLIMITED, CONF_UNLIMITED};
    h->teams[t] = (struct conf_team){
        .name = name, .limits = none, .max_cost_per_call = CONF_UNLIMITED, .keys = keys, .n_keys = n};
    for (size_t i = 0; i < n; i++) {
        keys[i].team = &h->teams[t];
        keys[i].limits = none;
        keys[i].max_cost_per_call = CONF_UNLIMITED;
        map_put(&h->conf.keys_by_id, span_of(keys[i].id), &keys[i]);
    }
}

void house_init(struct budget_house *h) {
    *h = (struct budget_house){0};
    map_init(&h->conf.keys_by_id);
    map_init(&h->conf.gateway_keys);
    h->keys[0] = (struct conf_key){.id = "key00001", .name = "k1"};
    h->keys[1] = (struct conf_key){.id = "key00002", .name = "k2"};
    h->keys[2] = (struct conf_key){.id = "key00003", .name = "k3"};
    team_fill(h, 0, "search", &h->keys[0], 2);
    team_fill(h, 1, "ads", &h->keys[2], 1);
    h->conf.teams = h->teams;
    h->conf.n_teams = 2;
    h->conf.hold.output_cap_tok = 8192;
    h->conf.hold.max_share_key = h->conf.hold.max_share_team = FACTOR_ONE;
    price_fill(&h->price);
    h->b = budget_new();
}

void house_fini(struct budget_house *h) {
    budget_free(h->b);
    map_fini(&h->conf.keys_by_id);
    map_fini(&h->conf.gateway_keys);
}

void house_limit(struct budget_house *h, enum budget_level level, int64_t nanousd) {
    struct conf_budget budget = {.limit_nanousd = nanousd, .period = PERIOD_MONTH, .zone = zone_get("UTC")};
    if (level == LEVEL_KEY) {
        h->key_budget = budget;
        h->keys[0].budgets = &h->key_budget;
        h->keys[0].n_budgets = 1;
    } else if (level == LEVEL_TEAM) {
        h->team_budget = budget;
        h->teams[0].budgets = &h->team_budget;
        h->teams[0].n_budgets = 1;
    } else {
        h->organization_budget = budget;
        h->conf.organization_budgets = &h->organization_budget;
        h->conf.n_organization_budgets = 1;
    }
}

enum err house_hold(struct budget_house *h, int k, const char *id, int64_t nanousd, struct hold_op *op) {
    (void)budget_hold(h->b, &h->conf, &h->keys[k], id, &h->price, nanousd, HOUSE_NOW_US, op);
    return op->err;
}

struct look {
    enum budget_level level;
    int64_t now_us;
    struct house_view out;
};

static void see(const struct budget_view *v, void *user) {
    struct look *l = user;
    bool current = l->now_us >= v->period_from_us && l->now_us < v->period_to_us;
    bool better = !l->out.found || v->in_flight > l->out.v.in_flight;
    if (v->level == l->level && current && better)
        l->out = (struct house_view){true, *v};
}

struct house_view house_look(struct budget_house *h, enum budget_level level, int64_t now_us) {
    struct look l = {.level = level, .now_us = now_us};
    budget_each(h->b, &h->conf, now_us, see, &l);
    return l.out;
}
