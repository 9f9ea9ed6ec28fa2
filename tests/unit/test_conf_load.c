/* Good confs: what stands in struct conf afterwards, defaults included, and how a conf is counted. */
#include "tests/support/conf_text.h"

#include "gateway/base/clock.h"

Test(conf_load, defaults_stand_where_nothing_is_said) {
    struct conf *c = load_good("");
    cr_expect_eq(c->n_listen, 1);
    cr_expect_str_eq(c->listen[0].address, "127.0.0.1:8080");
    cr_expect_null(c->listen[0].certificate);
    cr_expect_str_eq(c->admin_address, "127.0.0.1:8081");
    cr_expect_null(c->admin_token);
    cr_expect_null(c->metrics_address);
    cr_expect_neq(*c->node, 0);
    cr_expect_eq(c->http.max_body, 32 << 20);
    cr_expect_eq(c->http.max_buffered, 1 << 30);
    cr_expect_eq(c->http.max_headers, 64 << 10);
    cr_expect_eq(c->http.heartbeat_us, 15 * US_PER_S);
    cr_expect_eq(c->http.drain_us, 30 * US_PER_S);
    cr_expect_eq(c->http.max_connections, 20000);
    cr_expect_str_eq(c->state_directory, "var/state");
    cr_expect(c->state_writable_keys);
    cr_expect_str_eq(c->audit.directory, "var/audit");
    cr_expect_not(c->audit.sync_request);
    cr_expect_not(c->audit.when_full_serve);
    cr_expect_eq(c->audit.interval_us, 100 * US_PER_MS);
    cr_expect_eq(c->audit.head_every, 1000);
    cr_expect_eq(c->hold.output_cap_tok, 8192);
    cr_expect_eq(c->hold.max_share_key, 2500);
    cr_expect_eq(c->hold.max_share_team, 5000);
    cr_expect_eq(c->cache.size_bytes, 256 << 20);
    cr_expect_eq(c->cache.ttl_us, US_PER_HOUR);
    cr_expect_eq(c->retries.budget, 1000);
    cr_expect_eq(c->retries.backoff_us, 50 * US_PER_MS);
    cr_expect_eq(c->retries.backoff_max_us, US_PER_S);
    cr_expect_eq(c->health.errors, 5000);
    cr_expect_eq(c->health.samples, 20);
    cr_expect_eq(c->health.cool_down_us, 2 * US_PER_S);
    cr_expect_eq(c->health.cool_down_max_us, 5 * US_PER_MIN);
    cr_expect(c->disclose.target && c->disclose.cost && c->disclose.attempts);
    cr_expect(c->disclose.budget_key && c->disclose.budget_team && !c->disclose.budget_organization);
    cr_expect_null(c->price_default);
    cr_expect_eq(strlen(c->digest), 64);
    conf_drop(c);
}

Test(conf_load, what_is_said_stands) {
    struct conf *c = load_good(
        "listen: [{address: \"unix:/tmp/s\"}, {address: \"[::1]:1\", tls: {certificate: c.pem, private_key: /k.pem}}]\n"
        "admin: {address: \"h:2\", token: t0ken, metrics: {address: \"h:3\"}, tokens: [{name: a, role: metrics, "
        "sha256: "
        "0000000000000000000000000000000000000000000000000000000000000001}]}\n"
        "node: n1\n"
        "audit: {sync: request, when_full: serve, directory: /a, head: {every: 5}}\n"
        "disclose: {budget: organization, cost: false}\n"
        "log: {level: debug, format: json}\n"
        "retries: {backoff: [1ms, 2ms], budget: 12.5%}\n"
        "organization: {budgets: [{limit: 20000.50 USD, period: week, timezone: Europe/Berlin}]}\n");
    cr_expect_str_eq(c->listen[1].certificate, "./c.pem");
    cr_expect_str_eq(c->listen[1].private_key, "/k.pem");
    cr_expect_str_eq(c->admin_token, "t0ken");
    cr_expect_str_eq(c->metrics_address, "h:3");
    cr_expect_eq(c->admin_tokens[0].role, ROLE_METRICS);
    cr_expect_eq(c->admin_tokens[0].sha256[31], 1);
    cr_expect_str_eq(c->node, "n1");
    cr_expect(c->audit.sync_request && c->audit.when_full_serve);
    cr_expect_eq(c->audit.head_every, 5);
    cr_expect(c->disclose.budget_organization && !c->disclose.cost);
    cr_expect_eq(c->log_level, 3);
    cr_expect_eq(c->log_format, 1);
    cr_expect_eq(c->retries.budget, 1250);
    cr_expect_eq(c->n_organization_budgets, 1);
    cr_expect_eq(c->organization_budgets[0].limit_nanousd, INT64_C(20000500000000));
    cr_expect_eq(c->organization_budgets[0].period, PERIOD_WEEK);
    cr_expect_str_eq(zone_name(c->organization_budgets[0].zone), "Europe/Berlin");
    conf_drop(c);
}

Test(conf_load, a_conf_is_counted_and_its_digest_names_its_bytes) {
    struct conf *a = load_good("node: a\n"), *b = load_good("node: b\n"), *again = load_good("node: a\n");
    cr_expect_str_eq(a->digest, again->digest);
    cr_expect_str_neq(a->digest, b->digest);
    cr_expect_eq(conf_take(a), a);
    conf_drop(a);
    cr_expect_str_eq(a->node, "a"); /* still ours */
    conf_drop(a);
    conf_drop(b);
    conf_drop(again);
    conf_drop(NULL);
}

Test(conf_load, the_shipped_file_serves_the_tiny_model_without_any_key) {
    unsetenv("OPENAI_API_KEY");
    unsetenv("ANTHROPIC_API_KEY");
    struct loaded l = load_text("conf/tollgate.yaml", NULL);
    struct span captured;
    cr_assert_not_null(l.conf, "%s", l.text.at);
    const struct conf_alias *a = conf_find_alias(l.conf, SPAN("tiny"), &captured);
    cr_assert_not_null(a);
    const struct conf_backend *b = a->rungs[0].targets[0].backend;
    cr_expect_eq(b->protocol, PROTOCOL_DECODE);
    cr_expect_str_eq(b->decode.model, "conf/tiny/base");
    cr_expect_not(b->off);
    struct price p = conf_price(l.conf, b, SPAN("tiny"), 0);
    cr_expect(p.known && !p.free);
    cr_expect_eq(p.in, 50000);
    cr_expect(conf_find_backend(l.conf, SPAN("openai"))->off);
    cr_expect(strstr(l.text.at, "warning: backend 'openai' is off: OPENAI_API_KEY is not set"), "%s", l.text.at);
    cr_expect_eq(l.conf->teams[0].n_budgets, 1);
    unload(&l);
}

Test(conf_load, the_conf_of_the_load_bench_loads) {
    struct conf *c = load_good(
        "listen: [{address: \"127.0.0.1:1\"}]\n"
        "admin: {address: \"127.0.0.1:2\", token: bench}\n"
        "audit: {directory: \"/nonexistent/audit\"}\n"
        "state: {directory: \"/nonexistent/state\"}\n"
        "prices: {unknown: {input: 0.15 USD/1M, output: 0.60 USD/1M}}\n"
        "hold: {max_share_key: 100%, max_share_team: 100%}\n"
        "backends: {mock: {protocol: openai, url: \"http://127.0.0.1:3/v1\", api_keys: [sk-up], rate_limits: "
        "{in_flight: 20000}}}\n"
        "aliases:\n  gpt-4o-mini: mock/gpt-4o-mini\n  \"mock-*\": mock/mock-*\n"
        "teams: {bench: {keys: [{name: k, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef, "
        "rate_limits: {in_flight: 20000}}], allow: [\"*\"], rate_limits: {in_flight: 20000}, "
        "budgets: [{limit: 1000000 USD, period: month}]}}\n");
    cr_expect_eq(c->backends[0].in_flight, 20000);
    cr_expect_eq(c->teams[0].keys[0].limits.in_flight, 20000);
    cr_expect_eq(c->teams[0].keys[0].limits.requests_per_minute, CONF_UNLIMITED);
    cr_expect_eq(c->price_default->out, 600000);
    cr_expect_str_eq(c->teams[0].keys[0].id, "01234567");
    conf_drop(c);
}
