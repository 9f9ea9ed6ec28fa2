/* Which budgets a call must fit in, and what they are called. Always true here: a budget's name is made of whose it is,
 * its period and its zone, so that it stays the same account when a new conf lists it elsewhere or changes its limit;
 * two budgets of one name are one account under the tighter limit. */
#include "budget/ledger.h"

#include <stdio.h>

#define NAME_KEPT 24      /* bytes of an over-long name that are kept for people */
#define DIGEST_BYTES 8    /* of its SHA-256, so that two of them never share an account */
#define ZONE_KEPT_MAX 42  /* real zones have at most 32 bytes */
#define PERIOD_TEXT_MAX 8 /* "/month@" */

const char *const budget_level_names[] = {"key", "team", "organization"};

/* A name that may be of any length, in at most `max` bytes with the NUL. */
static void name_fit(struct span name, char *out, size_t max) {
    if (name.n < max) {
        if (name.n)
            memcpy(out, name.at, name.n);
        out[name.n] = '\0';
        return;
    }
    uint8_t digest[SHA256_BYTES];
    char hex[2 * DIGEST_BYTES + 1];
    sha256(name, digest);
    snprintf(out, max, "%.*s~%s", NAME_KEPT, name.at, hex_put(digest, DIGEST_BYTES, hex));
}

void ledger_owner_name(enum budget_level level, struct span name, char out[OWNER_NAME_MAX]) {
    int n = snprintf(out, OWNER_NAME_MAX, "%s", budget_level_names[level]);
    if (level == LEVEL_ORGANIZATION)
        return;
    out[n++] = '/';
    name_fit(name, out + n, OWNER_NAME_MAX - (size_t)n);
}

void ledger_scope_name(const char *owner, enum period period, const struct zone *zone, char out[SCOPE_NAME_MAX]) {
    char whose[SCOPE_NAME_MAX - ZONE_KEPT_MAX - PERIOD_TEXT_MAX], where[ZONE_KEPT_MAX];
    name_fit(span_of(owner), whose, sizeof whose);
    name_fit(span_of(zone_name(zone)), where, sizeof where);
    snprintf(out, SCOPE_NAME_MAX, "%s/%s@%s", whose, period_names[period], where);
}

/* A part of a limit, in whole nano-dollars; without a product that could wrap. */
static int64_t part_of(int64_t limit, int64_t factor) {
    return limit / FACTOR_ONE * factor + limit % FACTOR_ONE * factor / FACTOR_ONE;
}

/* One set of budgets: whose they are, and the share of one member where others are to be kept from starving. */
struct budgets_of {
    enum budget_level level;
    const char *owner;  /* as accounts are named */
    const char *people; /* as people know it */
    const struct conf_budget *at;
    size_t n;
    int64_t share; /* over FACTOR_ONE */
};

static void scope_fill(const struct budgets_of *of, const struct conf_budget *budget, struct ledger_scope *out) {
    ledger_scope_name(of->owner, budget->period, budget->zone, out->name);
    out->level = of->level;
    out->period = budget->period;
    out->zone = budget->zone;
    out->owner = of->people;
    out->limit_nanousd = budget->limit_nanousd;
    out->at_limit = budget->at_limit;
    out->n_warn = (int)budget->n_warn;
    for (int i = 0; i < out->n_warn; i++)
        out->warn[i] = budget->warn[i];
    out->share_nanousd = of->share >= FACTOR_ONE ? CONF_UNLIMITED : part_of(budget->limit_nanousd, of->share);
}

static bool scope_join(struct ledger_scope *at, int n, const struct ledger_scope *more) {
    for (int i = 0; i < n; i++) {
        if (strcmp(at[i].name, more->name) != 0)
            continue;
        enum conf_at_limit stricter = more->at_limit < at[i].at_limit ? more->at_limit : at[i].at_limit;
        if (more->limit_nanousd < at[i].limit_nanousd)
            at[i] = *more;
        at[i].at_limit = stricter;
        return true;
    }
    return false;
}

static bool ask_add(struct ledger_ask *ask, const struct budgets_of *of) {
    for (size_t i = 0; i < of->n; i++) {
        struct ledger_scope scope;
        scope_fill(of, &of->at[i], &scope);
        if (scope_join(ask->scopes, ask->n, &scope))
            continue;
        if (ask->n == LEASE_SCOPES_MAX)
            return false;
        ask->scopes[ask->n++] = scope;
    }
    return true;
}

/* A member's share only matters where there are other members. */
static int64_t share_among(int64_t share, size_t members) {
    return members > 1 ? share : FACTOR_ONE;
}

static struct budgets_of of_key(const struct conf_key *key, const char *owner) {
    return (struct budgets_of){LEVEL_KEY, owner, key->name, key->budgets, key->n_budgets, FACTOR_ONE};
}

/* A key that was admitted at run time is none of those that conf lists for its team. */
static size_t members_of(const struct conf_team *team, const struct conf_key *key) {
    return team->n_keys + (key && key->runtime);
}

static struct budgets_of of_team(const struct conf *conf, const struct conf_team *team, const struct conf_key *key,
                                 const char *owner) {
    int64_t share = share_among(conf->hold.max_share_key, members_of(team, key));
    return (struct budgets_of){LEVEL_TEAM, owner, team->name, team->budgets, team->n_budgets, share};
}

static struct budgets_of of_organization(const struct conf *conf, const char *owner) {
    int64_t share = share_among(conf->hold.max_share_team, conf->n_teams);
    return (struct budgets_of){
        LEVEL_ORGANIZATION,           owner, budget_level_names[LEVEL_ORGANIZATION], conf->organization_budgets,
        conf->n_organization_budgets, share};
}

/* The zone of the first budget, else `other`. */
static const struct zone *zone_of(const struct conf_budget *budgets, size_t n, const struct zone *other) {
    return n ? budgets[0].zone : other;
}

static bool ask_fill(const struct conf *conf, const struct conf_key *key, const struct conf_team *team,
                     struct ledger_ask *ask) {
    struct ledger_owner *o = ask->owners;
    const struct zone *utc = zone_get("UTC");
    o[LEVEL_ORGANIZATION].zone = zone_of(conf->organization_budgets, conf->n_organization_budgets, utc);
    o[LEVEL_TEAM].zone = team ? zone_of(team->budgets, team->n_budgets, utc) : utc;
    o[LEVEL_KEY].zone = key ? zone_of(key->budgets, key->n_budgets, o[LEVEL_TEAM].zone) : o[LEVEL_TEAM].zone;
    struct budgets_of sets[LEDGER_OWNERS] = {0};
    if (key)
        sets[LEVEL_KEY] = of_key(key, o[LEVEL_KEY].name);
    if (team)
        sets[LEVEL_TEAM] = of_team(conf, team, key, o[LEVEL_TEAM].name);
    sets[LEVEL_ORGANIZATION] = of_organization(conf, o[LEVEL_ORGANIZATION].name);
    ask->n = 0;
    for (int i = 0; i < LEDGER_OWNERS; i++) {
        if (!ask_add(ask, &sets[i]))
            return false;
    }
    return true;
}

static void owners_name(struct ledger_ask *ask, struct span key_id, struct span team) {
    ledger_owner_name(LEVEL_KEY, key_id, ask->owners[LEVEL_KEY].name);
    ledger_owner_name(LEVEL_TEAM, team, ask->owners[LEVEL_TEAM].name);
    ledger_owner_name(LEVEL_ORGANIZATION, SPAN_NONE, ask->owners[LEVEL_ORGANIZATION].name);
}

bool ledger_ask_of(const struct conf *conf, const struct conf_key *key, struct ledger_ask *ask) {
    owners_name(ask, span_of(conf_key_account(key)), span_of(key->team->name));
    return ask_fill(conf, key, key->team, ask);
}

bool ledger_ask_of_names(const struct conf *conf, struct span key_id, struct span team, struct ledger_ask *ask) {
    const struct conf_key *key = conf_key_of_id(conf, key_id);
    owners_name(ask, key ? span_of(conf_key_account(key)) : key_id, team);
    return ask_fill(conf, key, conf_find_team(conf, team), ask);
}

/* --- all of them --- */

static void each_of(const struct budgets_of *of, void (*see)(const struct ledger_scope *s, void *user), void *user) {
    for (size_t i = 0; i < of->n; i++) {
        struct ledger_scope scope, other;
        bool said = false;
        scope_fill(of, &of->at[i], &scope);
        for (size_t j = 0; j < of->n; j++) {
            scope_fill(of, &of->at[j], &other);
            bool same = j != i && strcmp(other.name, scope.name) == 0;
            said = said || (same && j < i);
            if (same)
                (void)scope_join(&scope, 1, &other);
        }
        if (!said)
            see(&scope, user);
    }
}

void ledger_scopes_each(const struct conf *conf, void (*see)(const struct ledger_scope *s, void *user), void *user) {
    char owner[OWNER_NAME_MAX];
    for (struct map_entry *e = map_next(&conf->keys_by_id, NULL); e; e = map_next(&conf->keys_by_id, e)) {
        const struct conf_key *key = e->value;
        const char *account = conf_key_account(key);
        if (account != key->id && map_find(&conf->keys_by_id, span_of(account)))
            continue; /* seen with the key whose budgets it goes on with */
        ledger_owner_name(LEVEL_KEY, span_of(account), owner);
        struct budgets_of set = of_key(key, owner);
        set.people = account; /* keys' names are only known within their team */
        each_of(&set, see, user);
    }
    for (struct map_entry *e = map_next(&conf->gateway_keys, NULL); e; e = map_next(&conf->gateway_keys, e)) {
        const struct conf_key *key = e->value;
        ledger_owner_name(LEVEL_KEY, span_of(key->id), owner);
        struct budgets_of set = of_key(key, owner);
        set.people = key->id;
        each_of(&set, see, user);
    }
    for (size_t t = 0; t < conf->n_teams; t++) {
        const struct conf_team *team = &conf->teams[t];
        ledger_owner_name(LEVEL_TEAM, span_of(team->name), owner);
        struct budgets_of set = of_team(conf, team, NULL, owner);
        each_of(&set, see, user);
    }
    ledger_owner_name(LEVEL_ORGANIZATION, SPAN_NONE, owner);
    struct budgets_of set = of_organization(conf, owner);
    each_of(&set, see, user);
}
