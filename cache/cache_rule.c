/* Whether a call may be answered from the cache. Always true here: nothing is cached unless the operator said so for the
 * alias (embeddings: unless the operator said otherwise) and the call is deterministic by what it says itself; what a
 * call leaves unsaid is never taken for deterministic. */
#include "cache/cache_key.h"
#include "gateway/base/clock.h"

#define PATIENCE_MAX_US (30 * US_PER_S) /* with the leader of another process */

static bool is_on(const struct cache_ask *ask) {
    if (ask->alias->cache.said)
        return ask->alias->cache.enabled;
    return strcmp(ask->endpoint, "embeddings") == 0;
}

/* A temperature of 0; or a seed where the alias takes seeds for it; or no temperature where the alias replays. */
static const char *why_sampled(const struct cache_ask *ask) {
    const struct call_traits *t = ask->traits;
    if (t->always || t->temperature_zero || (t->seeded && ask->alias->cache.seeded))
        return NULL;
    if (t->temperature_said)
        return "temperature";
    return ask->alias->cache.replay ? NULL : "no_temperature";
}

static const char *why_not(const struct cache_ask *ask) {
    const struct call_traits *t = ask->traits;
    const struct {
        bool is;
        const char *why;
    } bars[] = {
        {!is_on(ask), "off"},  {t->many && !t->always, "n"},          {t->server_tools, "server_tools"},
        {t->stored, "stored"}, {t->remote_content, "remote_content"}, {t->audio_output, "audio_output"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bars); i++)
        if (bars[i].is)
            return bars[i].why;
    return why_sampled(ask);
}

/* Whoever has waited for another process in vain needs time for a try of its own. */
static int64_t patience_us(const struct conf_alias *alias) {
    return alias->deadline_us / 2 < PATIENCE_MAX_US ? alias->deadline_us / 2 : PATIENCE_MAX_US;
}

bool cache_may(const struct cache_ask *ask) {
    return !why_not(ask);
}

void cache_decide(const struct conf *conf, const struct cache_ask *ask, struct cache_rule *out) {
    struct control control = control_read(ask->cache_control);
    *out = (struct cache_rule){
        .why = why_not(ask),
        .no_find = control.no_cache,
        .no_keep = control.no_store,
        .max_age_us = control.max_age_us,
        .ttl_us = ask->alias->cache.ttl_us > 0 ? ask->alias->cache.ttl_us : conf->cache.ttl_us,
        .stale_us = control.no_cache ? 0 : conf->cache.stale_us,
        .patience_us = patience_us(ask->alias),
    };
    if (!out->why && control.no_cache && control.no_store)
        out->why = "cache_control";
    if (!out->why)
        out->why = key_make(ask, out->key);
    out->may = !out->why;
}
