/* The house's ledger. Always true here: what this process tells Redis goes under the name of its log, which is its chain and
 * the identity of the chain's files: a chain of the same name whose files were taken away is another log, so that what the
 * old one settled stays settled. */
#include "gateway/ledger.h"

#include "gateway/state/state.h"

#include <stdio.h>

#define LOG_NAME_MAX 256

/* The identity lies among the chain's own files, and goes where they go. */
static bool log_name(const struct gateway *g, const char *chain, char out[LOG_NAME_MAX], struct str *why) {
    char path[4096], secret[STATE_SECRET_MAX];
    int n = snprintf(path, sizeof(path), "%s/ledger-%s.id", g->conf->audit.directory, chain);
    if (n < 0 || (size_t)n >= sizeof(path) || !state_secret_at(path, secret, why))
        return false;
    n = snprintf(out, LOG_NAME_MAX, "%.200s#%.16s", chain, secret);
    return n > 0;
}

bool ledger_open(struct gateway *g, struct str *why) {
    char name[LOG_NAME_MAX];
    const struct conf *c = g->conf;
    if (!g->redis)
        return true;
    if (!log_name(g, g->chain, name, why))
        return false;
    budget_use_redis(g->budget, g->redis,
                     &(struct budget_redis){.log = name,
                                            .timeout_us = c->redis.timeout_us,
                                            .when_down = c->redis.when_down_budget,
                                            .now_us = clock_wall_us()});
    return true;
}

void ledger_replay(struct gateway *g, const struct audit_settled *s) {
    char name[LOG_NAME_MAX];
    struct str why;
    if (g->redis && strcmp(s->chain, g->replayed) != 0) {
        str_init(&why, 1024);
        snprintf(g->replayed, sizeof(g->replayed), "%s", s->chain);
        if (log_name(g, s->chain, name, &why))
            budget_replay_log(g->budget, name);
        else
            log_error("the Redis ledger is not told what a log settled chain=%s: %s", s->chain, why.at);
        str_fini(&why);
    }
    budget_replay(g->budget, g->conf, s->key_id, s->team, s->admitted_us, s->nanousd);
}

void ledger_put(const struct gateway *g, struct str *json) {
    json_put_str(json, "ledger", !g->redis ? "memory" : budget_ready(g->budget) ? "redis" : "closed");
}

void ledger_metrics(const struct gateway *g, struct str *out) {
    struct budget_counts n;
    if (!g->redis)
        return;
    budget_counts(g->budget, &n);
    const struct {
        const char *what, *way;
        int64_t count;
    } rows[] = {{"hold", "asked", n.holds_asked},
                {"hold", "slice", n.holds_in_slices},
                {"rate", "asked", n.rates_asked},
                {"rate", "slice", n.rates_in_slices},
                {"rate", "with_hold", n.both_asked}};
    str_puts(out,
             "# HELP tollgate_ledger_steps_total How holds and rate limits were decided: Redis was asked, or a slice "
             "had it.\n# TYPE tollgate_ledger_steps_total counter\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        str_printf(out, "tollgate_ledger_steps_total{what=\"%s\",way=\"%s\"} %lld\n", rows[i].what, rows[i].way,
                   (long long)rows[i].count);
}
