/* What the processes of one gateway share. Always true: the gateway starts and serves without Redis, and says so. */
#include "gateway/shared.h"

#include "gateway/base/json.h"
#include "gateway/base/log.h"
#include "gateway/redis.h"

#include <stdio.h>

#define CLIENT_NAME_BYTES 160

bool shared_open(struct gateway *g, struct str *why) {
    const struct conf *c = g->conf;
    char name[CLIENT_NAME_BYTES];
    if (!c->redis.url)
        return true;
    snprintf(name, sizeof(name), "tollgate:%.64s", c->node);
    struct redis_options o = {.address = c->redis.address,
                              .tls = c->redis.tls,
                              .ca_file = c->redis.ca_file,
                              .user = c->redis.user,
                              .password = c->redis.password,
                              .database = (int)c->redis.database,
                              .prefix = c->redis.prefix,
                              .name = name,
                              .timeout_us = c->redis.timeout_us,
                              .connect_us = c->redis.connect_us};
    g->redis = redis_open(g->loop, &o, why);
    return g->redis != NULL;
}

void shared_close(struct gateway *g) {
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
