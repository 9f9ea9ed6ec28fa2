/* One conf after the other: read, compared with the running one, swapped in whole or refused whole. Always true here: what
 * runs keeps the conf it began with; a conf that is prepared has changed nothing that dropping it does not change back. */
#include "gateway/alerts/watch.h"
#include "gateway/gateway.h"
#include "gateway/house.h"
#include "gateway/keeper.h"
#include "gateway/state/keys.h"

struct conf *conf_read(const char *path, struct str *why) {
    struct conf_report report;
    conf_report_init(&report);
    struct conf *c = conf_load(path, &report);
    conf_report_print(&report, why);
    conf_report_fini(&report);
    return c;
}

void conf_record(struct gateway *g, const char *what) {
    audit_add(g->audit, &(struct audit_record){.kind = AUDIT_CONF, .conf_digest = g->conf->digest, .what = what},
              clock_wall_us());
    gateway_turn_soon(g);
}

void gateway_swap(struct gateway *g, struct conf *next, const char *what) {
    struct front_limits limits = limits_of(next, next->http.max_connections);
    conf_drop(g->conf);
    g->conf = next;
    front_set_limits(g->front, &limits);
    cache_resize(g->cache, next->cache.size_bytes);
    cache_share(g->cache, g->redis, next->redis.timeout_us, (enum conf_cache_store)next->cache.store);
    log_setup((enum log_level)next->log_level, (enum log_format)next->log_format);
    keeper_conf_changed(g);
    watch_conf_changed(g, strcmp(what, "reloaded") == 0);
    conf_record(g, what);
    overrides_review(g);
}

static struct conf *load_next(struct gateway *g, struct str *report) {
    struct conf *next = conf_read(g->conf_path, report);
    struct str restart;
    if (!next)
        return NULL;
    str_init(&restart, 8192);
    conf_restart_needed(g->conf, next, &restart);
    bool good = restart.n == 0;
    str_put(report, str_span(&restart));
    str_fini(&restart);
    if (good)
        return next;
    conf_drop(next);
    return NULL;
}

static bool tune(struct gateway *g, const struct conf *c, struct str *why) {
    const char *files[ANCHOR_FILES_MAX];
    struct audit_options options = audit_options_of(g, c, clock_wall_us(), files);
    return audit_tune(g->audit, &options, why);
}

bool gateway_reload(struct gateway *g, bool dry_run, struct str *report) {
    struct conf *next = load_next(g, report);
    if (!next)
        return false;
    if (dry_run || !tune(g, next, report)) {
        conf_drop(next);
        return dry_run;
    }
    gateway_swap(g, next, "reloaded");
    return true;
}

bool gateway_reread(struct gateway *g, struct str *report) {
    struct conf_report problems;
    conf_report_init(&problems);
    struct conf *next = conf_with_state(g->conf, &problems);
    conf_report_print(&problems, report);
    conf_report_fini(&problems);
    if (!next || !tune(g, next, report)) {
        conf_drop(next);
        return false;
    }
    gateway_swap(g, next, "files");
    return true;
}

bool gateway_prepare(struct gateway *g, struct str *report) {
    gateway_drop_prepared(g);
    g->prepared = load_next(g, report);
    if (g->prepared && !tune(g, g->prepared, report))
        gateway_drop_prepared(g);
    return g->prepared;
}

void gateway_take_prepared(struct gateway *g) {
    struct conf *next = g->prepared;
    g->prepared = NULL;
    gateway_swap(g, next, "reloaded");
    keys_look_again(g); /* acts may have come between the reading and now */
}

void gateway_drop_prepared(struct gateway *g) {
    struct str why;
    if (!g->prepared)
        return;
    conf_drop(g->prepared);
    g->prepared = NULL;
    str_init(&why, 1024);
    if (!tune(g, g->conf, &why))
        log_error("the audit log cannot go on as it was: %s", why.at ? why.at : "");
    str_fini(&why);
}
