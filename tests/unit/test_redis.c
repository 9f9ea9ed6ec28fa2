/* The link against a Redis that answers by script and against a real one: what a caller is told, and when. */
#include "gateway/redis/redis_node.h"
#include "tests/support/loopback.h"
#include "tests/unit/redis_rig.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(redis, .init = begin, .fini = end, .timeout = 40);

Test(redis, a_connection_begins_with_its_login_and_a_ping_and_then_its_watchers_are_told) {
    options.user = "u", options.password = "secret", options.database = 3;
    open_link();
    cr_expect(!redis_up(redis) && !ask(next(), "GET a") && told[0].call.fault == REDIS_DOWN);
    cr_assert(run_until(is_up, 3000));
    cr_expect_str_eq(fake.said, "AUTH u secret|SELECT 3|CLIENT SETNAME tollgate|PING");
    cr_expect(ups == 1 && downs == 0 && told[0].n == 0);
    cr_expect_str_eq(redis->prefix, "t:");
}

static const char *by_name(struct fake_redis *f, struct fake_peer *p, const struct redis_value *c) {
    (void)f, (void)p;
    return span_is(c->items[0].text, "INCR") ? ":7\r\n" : "$5\r\nhello\r\n";
}

Test(redis, answers_cut_at_every_byte_reach_their_calls_in_order) {
    fake.answer = by_name;
    open_up();
    for (size_t cut = 1; cut < 12; cut++) {
        fake.cut = cut;
        n_sent = 0;
        cr_assert(ask(next(), "GET a") && ask(next(), "INCR b"));
        cr_assert(run_until(all_told, 2000), "cut at %zu", cut);
        cr_expect(told[0].n == 1 && told[1].n == 1 && told[0].kind == REDIS_TEXT && told[1].number == 7, "cut at %zu",
                  cut);
        cr_expect_str_eq(told[0].text, "hello");
    }
}

static const char *none(struct fake_redis *f, struct fake_peer *p, const struct redis_value *c) {
    (void)f, (void)p, (void)c;
    return NULL;
}

Test(redis, a_forgotten_call_is_not_told_and_its_answer_is_nobody_elses) {
    fake.answer = none;
    open_up();
    ask(next(), "GET a");
    ask(next(), "INCR b");
    redis_forget(redis, &told[0].call);
    redis_forget(redis, &told[0].call);
    cr_expect(!told[0].call.open);
    run_until(NULL, 5);
    fake_say(fake_last(&fake), "$1\r\nx\r\n:9\r\n");
    cr_assert(run_until(all_told, 2000));
    cr_expect(told[0].n == 0 && told[1].n == 1 && told[1].number == 9);
}

Test(redis, a_frozen_server_costs_each_caller_one_timeout_and_later_callers_nothing) {
    options.timeout_us = TIMEOUT_US;
    open_up();
    fake.mute = true;
    for (int i = 0; i < 3; i++)
        cr_assert(ask(next(), "GET a"));
    cr_assert(run_until(all_told, 2000));
    for (int i = 0; i < 3; i++)
        cr_expect(told[i].n == 1 && told[i].call.fault == REDIS_LATE &&
                  told[i].done_us - told[i].sent_us >= TIMEOUT_US);
    cr_expect(!redis_up(redis) && downs == 1, "the breaker is open");
    cr_expect(!ask(next(), "GET a") && told[3].call.fault == REDIS_DOWN);
    run_until(NULL, 20);
    fake.mute = false;
    fake_say(fake_last(&fake), "+1\r\n+2\r\n+3\r\n+PONG\r\n");
    cr_assert(run_until(is_up, 3000), "it closes by itself");
    cr_expect(ups == 2 && fake.n_peers == 1, "on the same connection");
    n_sent = 0;
    next()->call.until_us = clock_mono_us() + PATIENT_US;
    cr_assert(ask(&told[0], "GET a") && run_until(all_told, 2000));
    cr_expect_eq(told[0].call.fault, REDIS_OK);
}

Test(redis, a_server_that_freezes_while_nobody_asks_is_noticed_by_a_ping) {
    options.timeout_us = TIMEOUT_US;
    open_up();
    fake.mute = true;
    cr_assert(run_until(is_down, 3000));
    cr_expect(fake.n_commands == 0 && downs == 1);
}

Test(redis, one_late_answer_and_a_late_ping_after_it_open_the_breaker) {
    options.timeout_us = TIMEOUT_US;
    open_up();
    fake.mute = true;
    cr_assert(ask(next(), "GET a"));
    cr_assert(run_until(is_down, 3000));
    cr_expect(told[0].call.fault == REDIS_LATE && strstr(fake.said, "GET a|PING"), "%s", fake.said);
    cr_expect_lt(clock_mono_us() - told[0].done_us, PING_IDLE_US, "sooner than an idle one is asked");
}

Test(redis, a_slow_answer_is_late_for_its_call_and_spoils_no_other) {
    options.timeout_us = TIMEOUT_US;
    fake.answer = none;
    open_up();
    ask(next(), "GET a");
    cr_assert(run_until(all_told, 2000));
    cr_expect(told[0].call.fault == REDIS_LATE && redis_up(redis), "one is no reason to open the breaker");
    fake.mute = true;
    run_until(NULL, 5);
    fake.mute = false;
    fake_say(fake_last(&fake), "+late\r\n+PONG\r\n"); /* the second is for the PING that a late answer brings */
    fake.answer = by_name;
    run_until(NULL, 5);
    cr_assert(run_until(is_up, 3000));
    next()->call.until_us = clock_mono_us() + PATIENT_US;
    ask(&told[1], "INCR a");
    cr_assert(run_until(all_told, 2000));
    cr_expect(told[1].number == 7 && told[0].n == 1, "%s %d", redis_fault_names[told[1].call.fault], told[0].n);
}

Test(redis, a_call_may_bring_its_own_deadline_and_one_that_has_passed_is_never_sent) {
    fake.answer = none;
    open_up();
    struct told *a = next(), *b = next();
    a->call.until_us = clock_mono_us() + 100 * US_PER_MS;
    b->call.until_us = clock_mono_us() - 1;
    cr_expect(ask(a, "GET a") && !ask(b, "GET b") && b->call.fault == REDIS_DOWN);
    cr_assert(run_until(all_told, 2000));
    cr_expect(a->call.fault == REDIS_LATE && a->done_us - a->sent_us < PATIENT_US / 2);
    cr_expect_eq(fake.n_commands, 1);
}

static bool is_second(void) {
    return fake.n_peers >= 2 && redis_up(redis);
}

Test(redis, calls_in_flight_are_lost_with_the_connection_and_a_new_one_is_made) {
    fake.answer = none;
    open_up();
    ask(next(), "GET a");
    ask(next(), "GET b");
    run_until(NULL, 5);
    fake_hang_up(&fake);
    cr_assert(run_until(all_told, 2000));
    cr_expect(told[0].call.fault == REDIS_LOST && told[1].call.fault == REDIS_LOST && downs == 1);
    cr_assert(run_until(is_second, 3000));
    cr_expect_eq(ups, 2);
}

Test(redis, an_answer_that_nobody_asked_for_or_that_is_none_closes_the_connection) {
    static const char *const bad[] = {"+OK\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "*1000000\r\n"};
    open_up();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int before = fake.n_peers;
        fake_say(fake_last(&fake), bad[i]);
        cr_assert(run_until(is_down, 2000), "%s", bad[i]);
        cr_assert(run_until(is_up, 3000));
        cr_expect_gt(fake.n_peers, before);
    }
}

Test(redis, a_flood_of_commands_meets_down_and_not_memory) {
    static char value[1 << 20];
    struct span argv[] = {SPAN("SET"), SPAN("k"), {value, sizeof value}};
    fake.answer = none;
    open_up();
    fake.mute = true;
    int taken = 0;
    while (n_sent < CALLS_MAX - 1 && redis_send(redis, &next()->call, 3, argv))
        taken++;
    for (int i = 0; i < 40 && taken >= n_sent; i++) {
        struct redis_call *c = &told[0].call;
        redis_forget(redis, c);
        taken += redis_send(redis, c, 3, argv) ? 1 : -1000;
    }
    cr_expect(taken < 0, "64 MiB unsent are enough");
}

static bool has_tried_twice(void) {
    return fake.n_peers >= 2;
}

Test(redis, a_server_that_loads_or_wants_a_password_is_not_up_and_is_asked_again) {
    static const char *const answers[] = {"-LOADING Redis is loading\r\n", "-NOAUTH Authentication required.\r\n",
                                          "+What\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        fake.ping = answers[i];
        fake.n_peers = 0;
        open_link();
        cr_assert(run_until(has_tried_twice, 3000));
        cr_expect(!redis_up(redis) && ups == 0, "%s", answers[i]);
        struct str json;
        str_init(&json, 1000);
        redis_put(redis, &json);
        cr_expect(strstr(json.at, "\"state\":\"down\"") && strstr(json.at, "\"why\":\"it "), "%s", json.at);
        str_fini(&json);
        redis_unwatch(redis, &watcher);
        redis_close(redis);
        redis = NULL;
        fake_hang_up(&fake);
    }
}

static const char *readonly(struct fake_redis *f, struct fake_peer *p, const struct redis_value *c) {
    (void)f, (void)p, (void)c;
    return "-READONLY You can't write against a read only replica.\r\n";
}

Test(redis, a_replica_that_takes_no_writes_is_left_for_whoever_answers_there_next) {
    fake.answer = readonly;
    open_up();
    ask(next(), "SET a 1");
    cr_assert(run_until(all_told, 2000));
    cr_expect(told[0].call.fault == REDIS_OK && told[0].kind == REDIS_ERROR, "the caller is told what was said");
    fake.answer = NULL;
    cr_assert(run_until(is_second, 3000));
}

/* ---- a real one ---- */

static struct redis_script add = {"add", "return redis.call('INCRBY', KEYS[1], ARGV[1])", ""};

static int64_t run_add(void) {
    struct told *t = next();
    struct span argv[] = {SPAN("t:n"), SPAN("5")};
    t->call.until_us = clock_mono_us() + US_PER_S;
    cr_assert(redis_run(redis, &t->call, &add, 1, 2, argv) && run_until(all_told, 3000));
    cr_assert(t->call.fault == REDIS_OK && t->kind == REDIS_INTEGER, "%s", t->text);
    return t->number;
}

Test(redis, a_real_server_runs_scripts_also_after_it_lost_them_and_is_back_after_a_kill) {
    struct real_redis real;
    real_redis_begin(&real, NULL);
    options.address = real.socket;
    open_up();
    cr_expect(run_add() == 5 && run_add() == 10);
    real_redis_kill(&real);
    cr_assert(run_until(is_down, 3000));
    real_redis_start(&real);
    cr_assert(run_until(is_up, 3000));
    cr_expect_eq(run_add(), 5, "NOSCRIPT fell back to the text");
    ask(next(), "SCRIPT FLUSH");
    cr_assert(run_until(all_told, 2000));
    cr_expect_eq(run_add(), 10);
    real_redis_end(&real);
}

Test(redis, a_real_server_that_is_stopped_opens_the_breaker_and_one_that_goes_on_closes_it) {
    struct real_redis real;
    real_redis_begin(&real, NULL);
    options.address = real.socket, options.timeout_us = TIMEOUT_US;
    open_up();
    real_redis_signal(&real, SIGSTOP);
    for (int i = 0; i < 3; i++)
        cr_assert(ask(next(), "GET a"));
    cr_assert(run_until(all_told, 2000));
    cr_expect(!redis_up(redis) && told[0].call.fault == REDIS_LATE);
    real_redis_signal(&real, SIGCONT);
    cr_assert(run_until(is_up, 3000));
    real_redis_end(&real);
}

Test(redis, a_wrong_password_is_said_and_shows_no_password) {
    static const char *const protected[] = {"--requirepass", "right", NULL};
    struct real_redis real;
    struct str json;
    str_init(&json, 1000);
    real_redis_begin(&real, protected);
    options.address = real.socket, options.password = "wrong-canary";
    open_link();
    for (int i = 0; i < 200 && !strstr(json.at ? json.at : "", "refuses"); i++) {
        run_until(NULL, 5);
        str_clear(&json);
        redis_put(redis, &json);
    }
    cr_expect(strstr(json.at, "it refuses the user or the password (WRONGPASS") && !strstr(json.at, "canary"), "%s",
              json.at);
    redis_unwatch(redis, &watcher);
    redis_close(redis);
    options.password = "right";
    open_up();
    real_redis_end(&real);
    str_fini(&json);
}

static bool has_given_up(void) {
    struct str json;
    str_init(&json, 1000);
    redis_put(redis, &json);
    bool said = strstr(json.at, "certificate") != NULL;
    str_fini(&json);
    return said;
}

Test(redis, tls_is_verified) {
    char folder[] = "/tmp/tg-redis-XXXXXX", cert[64], key[64], at[32], port[8];
    cr_assert(mkdtemp(folder));
    make_certificate(folder, "localhost");
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    snprintf(port, sizeof port, "%d", free_port());
    const char *const words[] = {"--tls-port",
                                 port,
                                 "--tls-cert-file",
                                 cert,
                                 "--tls-key-file",
                                 key,
                                 "--tls-auth-clients",
                                 "no",
                                 "--tls-ca-cert-file",
                                 cert,
                                 NULL};
    struct real_redis real;
    real_redis_begin(&real, words);
    snprintf(at, sizeof at, "localhost:%s", port);
    options.address = at, options.tls = true, options.ca_file = cert;
    open_up();
    cr_expect_eq(run_add(), 5);
    redis_unwatch(redis, &watcher);
    redis_close(redis);
    snprintf(at, sizeof at, "127.0.0.1:%s", port); /* a name the certificate does not hold */
    open_link();
    cr_assert(run_until(has_given_up, 5000));
    cr_expect(!redis_up(redis));
    real_redis_end(&real);
    unlink(cert);
    unlink(key);
    rmdir(folder);
}
