/* The url of a Redis taken apart, and what of it is ever shown. */
#include "tests/support/conf_text.h"

#include "gateway/base/clock.h"

#include <stdio.h>

Test(conf_redis, urls_are_taken_apart) {
    static const struct {
        const char *url, *address, *user, *password;
        int64_t database;
        bool tls;
    } rows[] = {
        {"redis://h", "h:6379", NULL, NULL, 0, false},
        {"redis://127.0.0.1:7000/5", "127.0.0.1:7000", NULL, NULL, 5, false},
        {"rediss://[::1]:1/", "[::1]:1", NULL, NULL, 0, true},
        {"redis://:p%40ss%25@h:1", "h:1", NULL, "p@ss%", 0, false},
        {"redis://anna:a@b:c@h/1", "h:6379", "anna", "a@b:c", 1, false},
        {"unix:/run/redis.sock", "/run/redis.sock", NULL, NULL, 0, false},
        {"unix:///run/redis.sock", "/run/redis.sock", NULL, NULL, 0, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char yaml[256];
        snprintf(yaml, sizeof yaml, "redis: {url: \"%s\"}\n" NO_STATE, rows[i].url);
        struct conf *c = load_good(yaml);
        cr_expect_str_eq(c->redis.address, rows[i].address);
        cr_expect_str_eq(c->redis.user ? c->redis.user : "-", rows[i].user ? rows[i].user : "-");
        cr_expect_str_eq(c->redis.password ? c->redis.password : "-", rows[i].password ? rows[i].password : "-");
        cr_expect(c->redis.database == rows[i].database && c->redis.tls == rows[i].tls, "%s", rows[i].url);
        cr_expect(c->redis.timeout_us == 50 * US_PER_MS && c->redis.when_down_budget == WHEN_DOWN_LEASED);
        cr_expect_str_eq(c->redis.prefix, "tollgate:");
        conf_drop(c);
    }
}

Test(conf_redis, sentinels_and_nodes_get_their_ports) {
    struct conf *c = load_good(
        "redis: {url: \"redis://h\", sentinel: {addresses: [a, \"b:1\"], master: m, password: p}}\n" NO_STATE);
    cr_assert(c->redis.sentinel.n_addresses == 2 && c->redis.cluster.n_addresses == 0);
    cr_expect_str_eq(c->redis.sentinel.addresses[0], "a:26379");
    cr_expect_str_eq(c->redis.sentinel.addresses[1], "b:1");
    cr_expect_str_eq(c->redis.sentinel.password, "p");
    conf_drop(c);
    c = load_good("redis: {url: \"redis://h\", cluster: {addresses: [a]}}\n" NO_STATE);
    cr_assert(c->redis.cluster.n_addresses == 1);
    cr_expect_str_eq(c->redis.cluster.addresses[0], "a:6379");
    conf_drop(c);
}

Test(conf_redis, secrets_of_a_url_are_hidden_and_the_rest_of_it_is_shown) {
    static const char *const rows[][2] = {
        {"redis://anna:canary@h:1/2", "redis.url: redis://(hidden)@h:1/2"},
        {"redis://h:1", "redis.url: \"redis://h:1\""},
        {"redis://:${HOME}x@h", "redis.url: redis://(hidden)@h"},
        {"canary:x@y@h", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char yaml[256];
        snprintf(yaml, sizeof yaml, "redis: {url: \"%s\"}\n" NO_STATE, rows[i][0]);
        struct loaded l = load_text("t.yaml", yaml);
        struct str out;
        str_init(&out, 1 << 20);
        str_puts(&out, "");
        if (l.conf)
            conf_print_effective(l.conf, &out);
        cr_expect_eq(l.conf != NULL, rows[i][1] != NULL, "%s", l.text.at);
        cr_expect(!l.conf || strstr(out.at, rows[i][1]), "no %s", rows[i][1]);
        cr_expect(!strstr(l.text.at, "canary") && !(out.at && strstr(out.at, "canary")), "%s", l.text.at);
        str_fini(&out);
        unload(&l);
    }
}

Test(conf_redis, what_is_wrong_is_said_in_words) {
    static const char *const rows[][2] = {
        {"redis: {url: \"http://h\"}\n", "error: the url begins with none of redis://, rediss:// and unix:/"},
        {"redis: {prefix: x}\n", "error: 'url' is missing in redis"},
        {"redis: {url: \"redis://h\", prefix: \"a b\"}\n", "error: prefix: up to 64 characters"},
        {"redis: {url: \"redis://h:0\"}\n", "error: the url has no usable port behind ':'"},
        {"redis: {url: \"redis://h/x\"}\n", "error: the url ends in something that is no number of a database"},
        {"redis: {url: \"redis://h?db=1\"}\n", "error: the url holds a '?' or a '#'"},
        {"redis: {url: \"redis://:a@h\", password: b}\n", "error: the url holds what 'username' or 'password' says"},
        {"redis: {url: \"redis://:%zz@h\"}\n", "error: the url holds a '%' that stands for nothing"},
        {"redis: {url: \"redis://h\", ca_file: x}\n", "error: ca_file is for rediss:// urls"},
        {"redis: {url: \"redis://h\", username: x}\n", "error: a user without a password cannot log in"},
        {"redis: {url: \"redis://h\", sentinel: {addresses: [a]}}\n", "error: 'master' is missing in redis.sentinel"},
        {"redis: {url: \"redis://h\", sentinel: {addresses: [\"a:x\"], master: m}}\n", "'a:x' has no usable port"},
        {"redis: {url: \"unix:/s\", cluster: {addresses: [a]}}\n", "error: sentinel and cluster are reached over TCP"},
        {"redis: {url: \"redis://h/2\", cluster: {addresses: [a]}}\n", "error: a cluster has database 0 alone"},
        {"redis: {url: \"redis://h\", cluster: {addresses: [a]}, sentinel: {addresses: [a], master: m}}\n",
         "error: sentinel and cluster exclude each other"},
        {"redis: {url: \"redis://h\", when_down: {budget: maybe}}\n", "1:47: error: 'maybe' is no budget"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct loaded l = load_text("t.yaml", rows[i][0]);
        cr_expect(!l.conf && strstr(l.text.at, rows[i][1]), "%s said %s", rows[i][0], l.text.at);
        unload(&l);
    }
}

Test(conf_redis, every_change_needs_a_restart) {
    struct conf *none = load_good(NO_STATE), *one = load_good("redis: {url: \"redis://h\"}\n" NO_STATE),
                *other = load_good("redis: {url: \"redis://h\", timeout: 9ms}\n" NO_STATE);
    struct str out;
    str_init(&out, 1 << 16);
    conf_restart_needed(none, one, &out);
    cr_expect(out.at && strstr(out.at, "redis.url has changed and needs a restart"), "%s", out.at);
    str_clear(&out);
    conf_restart_needed(one, other, &out);
    cr_expect(strstr(out.at, "redis.timeout has changed and needs a restart"), "%s", out.at);
    str_fini(&out);
    conf_drop(none);
    conf_drop(one);
    conf_drop(other);
}
