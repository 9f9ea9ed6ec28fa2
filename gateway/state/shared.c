/* What the processes of one gateway share. Always true: the gateway starts and serves without Redis, and says so; what state adds at run time
 * reaches every process, over the file on one host and over the stream from host to host. */
#include "gateway/state/shared.h"

#include "gateway/base/json.h"
#include "gateway/base/log.h"
#include "gateway/redis/redis.h"
#include "gateway/state/acts.h"
#include "gateway/state/keys.h"
#include "gateway/state/override.h"

#include <stdio.h>

#define CLIENT_NAME_BYTES 160

static enum err take_line(struct span line, void *gateway) {
    struct gateway *g = gateway;
    enum err e = keys_take(g, line);
    if (e == ERR_INVALID) {
        e = overrides_take(g->overrides, g->conf, line, clock_wall_us());
        if (!e)
            overrides_review(g);
    }
    return e;
}

static void each_line(void (*see)(struct span line, void *acts), void *acts, void *gateway) {
    struct gateway *g = gateway;
    (void)conf_state_read(g->conf, 0, see, acts);
    overrides_lines(g->overrides, see, acts);
}

static void on_line(struct span line, void *gateway) {
    acts_add(((struct gateway *)gateway)->acts, line);
}

static const struct acts_ops acts_ops = {take_line, each_line};

bool shared_open(struct gateway *g, struct str *why) {
    const struct conf *c = g->conf;
    char name[CLIENT_NAME_BYTES];
    if (!c->redis.url)
        return true;
    snprintf(name, sizeof(name), "tollgate:%.64s.%d", c->node, g->worker);
    struct redis_options o = {.address = c->redis.address,
                              .tls = c->redis.tls,
                              .ca_file = c->redis.ca_file,
                              .user = c->redis.user,
                              .password = c->redis.password,
                              .database = (int)c->redis.database,
                              .prefix = c->redis.prefix,
                              .name = name,
                              .timeout_us = c->redis.timeout_us,
                              .connect_us = c->redis.connect_us,
                              .sentinels = c->redis.sentinel.addresses,
                              .n_sentinels = c->redis.sentinel.n_addresses,
                              .master = c->redis.sentinel.master,
                              .sentinel_user = c->redis.sentinel.user,
                              .sentinel_password = c->redis.sentinel.password,
                              .cluster = c->redis.cluster.n_addresses > 0,
                              .seeds = c->redis.cluster.addresses,
                              .n_seeds = c->redis.cluster.n_addresses};
    g->redis = redis_open(g->loop, &o, why);
    if (!g->redis)
        return false;
    cache_share(g->cache, g->redis, c->redis.timeout_us, (enum conf_cache_store)c->cache.store);
    if (g->worker > 0) /* worker 0 carries acts to the file that all look at */
        return true;
    g->acts = acts_new(g->redis, &acts_ops, g);
    keys_on_line(g, on_line, g);
    overrides_on_line(g->overrides, on_line, g);
    return true;
}

void shared_tick(struct gateway *g, int64_t mono_us) {
    acts_tick(g->acts, mono_us);
}

void shared_close(struct gateway *g) {
    acts_free(g->acts);
    g->acts = NULL;
    redis_close(g->redis);
    g->redis = NULL;
}

void shared_put(const struct gateway *g, struct str *json) {
    json_put_name(json, "redis");
    str_puts(json, "{");
    if (g->redis)
        redis_put(g->redis, json);
    else
        json_put_str(json, "state", "off");
    str_puts(json, "}");
}
