/* Wrong confs: what is said, and at which line and column. One row a fault that somebody has made or will make. */
#include "tests/support/conf_text.h"

#include <stdio.h>

struct bad {
    const char *yaml, *said; /* a part of the printed report, behind "t.yaml:" */
};

#define B MOCK_BACKEND
#define TEAM(inner) "teams: {a: {" inner "}}\n"
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct bad yaml_rows[] = {
    {"listen: [\n", "2:1: error: did not find expected node content"},
    {"a: b: c\n", "1:5: error: mapping values are not allowed in this context"},
    {"log: {level: info}\nlog: {level: warn}\n", "2:1: error: 'log' stands twice; first on line 1"},
    {"log: {level: info, level: warn}\n", "1:20: error: 'level' stands twice"},
    {"x: &a {b: 1}\nlog:\n  <<: *a\n", "3:3: error: merge keys (<<) are not supported"},
    {"log: !!map {level: info}\n", "1:6: error: tags (!...) are not used here"},
    {"log: {level: info}\n---\nlog: {level: warn}\n", "2:1: error: a second document begins here"},
    {"- listen\n", "1:1: error: a conf file holds a map, not a list"},
    {"log: *nobody\n", "1:6: error: the alias names no anchor"},
    {"log: &a {level: *a}\n", "1:17: error: the alias names no anchor that is complete above it"},
    {"log: {level: \"a\\0b\"}\n", "1:14: error: the text holds a NUL"},
    {"log: {? [a] : b}\n", "1:9: error: a key must be a plain word"},
    {"log:\n\tlevel: info\n", "2:1: error: found character that cannot start any token"},
    {"\xff\n", "1:1: error: invalid leading UTF-8 octet"},
};

static const struct bad word_rows[] = {
    {"bakends: {}\n", "1:1: error: 'bakends' is not known in the top level; did you mean 'backends'?"},
    {"log: {levl: info}\n", "1:7: error: 'levl' is not known in log; did you mean 'level'?"},
    {"model_list: []\n", "1:1: error: 'model_list' is another gateway's word; here: 'backends' say who can answer"},
    {"litellm_settings: {}\n", "1:1: error: 'litellm_settings' is another gateway's word"},
    {TEAM("max_budget: 10"), "1:13: error: 'max_budget' is another gateway's word; here: 'budgets: [{limit"},
    {TEAM("rpm: 10"), "1:13: error: 'rpm' is another gateway's word; here: 'rate_limits: {requests_per_minute: N}'"},
    {TEAM("tpm: 10"), "1:13: error: 'tpm' is another gateway's word; here: 'rate_limits: {tokens_per_minute: N}'"},
    {"virtual_keys: []\n", "1:1: error: 'virtual_keys' is another gateway's word; here: 'teams: {NAME: {keys"},
    {"backends: {a: {protocol: openai, api_base: x}}\n",
     "1:34: error: 'api_base' is another gateway's word; here: 'url'"},
    {"backends: {a: {protocol: opnai, url: \"http://a\"}}\n",
     "1:26: error: 'opnai' is no protocol (openai, anthropic, decode); did you mean 'openai'?"},
    {"log: {level: loud}\n", "1:14: error: 'loud' is no level (error, warn, info, debug)"},
    {"audit: {keep: 7d}\n", "1:15: error: keep must be from 35d to 36500d"},
    {"audit: {head: {anchor: [{}]}}\n", "1:25: error: an anchor is a file or a stream: say one of the two"},
    {"audit: {head: {anchor: [{stream: heads}]}}\n", "1:25: error: an anchor in a stream needs redis.url"},
    {"audit: {content: {store: digest}}\n", "1:18: error: store: digest needs a key"},
    {"workers: 2\n", "1:10: error: workers above 1 needs redis, where all of them count what teams spend"},
    {"cache: {store: both}\n", "1:16: error: a cache in Redis needs redis.url"},
    {"workers: 65\n", "1:10: error: workers must be from 1 to 64"},
    {"audit: {content: {store: full}}\n", "1:18: error: store: full needs a key, or anybody could read what is stored"},
    {"audit: {content: {store: full, key: short}}\n", "1:18: error: store: full needs a key of 32 bytes"},
    {"audit: {content: {store: some}}\n", "1:26: error: 'some' is no way to store content (none, digest, full)"},
    {"audit: {content: {redact: [user, \"a..b\"]}}\n",
     "1:27: error: redact: 'a..b': a path is written like messages[*].content"},
    {"audit: {content: {redact: [\"/(/\"]}}\n", "1:27: error: redact: '/(/': this is no POSIX extended expression"},
    {"audit: {content: {keep: 1h}}\n", "1:25: error: keep must be from 1d to 36500d"},
    {"disclose: {budget: teams}\n",
     "1:20: error: 'teams' is no budget (none, key, team, organization); did you mean 'team'?"},
};

static const struct bad later_rows[] = {
    {"http: {max_streams: 5}\n", "1:8: error: 'max_streams' is not supported yet"},
    {"responses: {store: memory}\n", "1:20: error: store: memory is not supported yet"},
    {"health: {probe: on}\n", "1:17: error: probe: on is not supported yet"},
    {"state: {writable: [keys, adapters]}\n", "1:26: error: writable: adapters is not supported yet"},
    {"backends: {g: {protocol: gemini, url: \"https://g\"}}\n", "1:26: error: protocol: gemini is not supported yet"},
    {"backends: {g: {protocol: bedrock, region: eu}}\n", "1:35: error: 'region' is not supported yet"},
    {"backends: {g: {protocol: azure, url: \"https://g\"}}\n", "1:26: error: protocol: azure is not supported yet"},
    {"backends: {l: {protocol: decode, model: d, hourly_cost: 1}}\n",
     "1:44: error: 'hourly_cost' is not supported yet"},
    {"backends: {l: {protocol: decode, model: d, quantize: int8}}\n",
     "1:54: error: quantize: int8 is not supported yet"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], hedge: {}}}\n", "2:53: error: 'after' is missing in aliases.a"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], deadline: 10s, hedge: {after: 20s}}}\n",
     "2:68: error: no second try would ever begin: 'deadline' comes before 'after'"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], shadow: {target: mock/n, percent: 5}}}\n",
     "2:54: error: 'budget' is missing in aliases.a.shadow"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], shadow: {target: mock/n, percent: 5, budget: 50 USD}}}\n",
     "2:91: error: budget is an amount and a period, as 50 USD/month"},
    {B
     "aliases: {a: {ladder: [{targets: [mock/m]}], shadow: {target: mock/n, percent: 5, budget: 50 USD/fortnight}}}\n",
     "2:91: error: 'fortnight' is no period (hour, day, week, month, total)"},
    {B "teams: {_gateway: {}}\n", "2:19: error: '_gateway' is the gateway's own team"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], canary: {percent: 5}}}\n",
     "2:54: error: 'target' is missing in aliases.a.canary"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], canary: {target: mock/n, percent: 101}}}\n",
     "2:80: error: percent must be from 0% to 100%"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], canary: {target: mock/n, percent: 5%}}}\n",
     "2:80: error: expected a number of percent, as 5 or 0.5"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], canary: {target: mock/n, percent: 5, by: label}}}\n",
     "2:54: error: 'label' is missing in aliases.a.canary"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], canary: {target: mock/n, percent: 5, label: x}}}\n",
     "2:83: error: 'label' is for 'by: label'"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], canary: {target: \"mock/*\", percent: 5}}}\n",
     "2:54: error: 'mock/*' has a '*', but the alias 'a' has none that it could stand for"},
};

static const struct bad value_rows[] = {
    {"http: {max_body: 32MB}\n", "1:18: error: expected a size in bytes or with KiB, MiB or GiB, found '32MB'"},
    {"http: {max_body: 1}\n", "1:18: error: max_body must be from 1KiB to 512MiB"},
    {"http: {heartbeat: 15}\n", "1:19: error: expected a time with a unit"},
    {"http: {max_connections: many}\n", "1:25: error: expected a whole number, found 'many'"},
    {"http: {max_connections: [1]}\n", "1:25: error: expected number, found a list"},
    {"http: [1]\n", "1:7: error: http must be a map, not a list"},
    {"http: {drain: }\n", "1:8: error: 'drain' has no value"},
    {"disclose: {cost: yes}\n", "1:18: error: expected true or false, found 'yes'"},
    {"disclose: {cost: \"true\"}\n", "1:18: error: expected true or false"},
    {"hold: {max_share_key: 0.25}\n", "1:23: error: expected a share, as 25%, found '0.25'"},
    {TEAM("budgets: [{limit: 1 USD, period: day, at_limit: stop}]"),
     "1:61: error: 'stop' is no at_limit (refuse, degrade, clamp)"},
    {TEAM("budgets: [{limit: 1 USD, period: day, warn: 50%}]"), "1:57: error: expected a list of at most 8 shares"},
    {TEAM("budgets: [{limit: 1 USD, period: day, warn: [50%, 120%]}]"), "1:63: error: warn must be from 0.01% to 100%"},
    {TEAM("budgets: [{limit: 1 USD, period: day, warn: [[50%]]}]"), "1:58: error: expected a share, found a list"},
    {"hold: {max_share_key: 120%}\n", "1:23: error: max_share_key must be from 0.01% to 100%"},
    {"retries: {backoff: 50ms}\n", "1:20: error: expected two times, [first, longest]"},
    {"retries: {backoff: [2s, 1s]}\n", "1:20: error: the first time is longer than the longest"},
    {"listen: [{address: localhost}]\n", "1:20: error: expected an address, as 127.0.0.1:8080"},
    {"listen: [{address: \"127.0.0.1:70000\"}]\n", "1:20: error: expected an address"},
    {"listen: [{address: \"::1:8080\"}]\n", "1:20: error: expected an address"},
    {"listen: []\n", "1:9: error: listen names no address"},
    {"listen: [{tls: {certificate: c, private_key: k}}]\n", "1:10: error: 'address' is missing in listen[0]"},
    {"listen: [{address: \"unix:/s\", tls: {certificate: c, private_key: k}}]\n", "1:36: error: TLS on a unix socket"},
    {"listen: [{address: \"a:1\", tls: {certificate: c}}]\n", "1:32: error: 'private_key' is missing in listen[0].tls"},
    {"listen: [{address: \"a:1\"}, {address: \"a:1\"}]\n", "1:28: error: 'a:1' stands twice in listen"},
    {"admin: {token: \"\"}\n", "1:16: error: the secret is empty"},
    {"admin: {token: \"a b\"}\n", "1:16: error: the secret holds a space"},
    {"admin: {token: \"${TOLLGATE_UNSET_IN_TESTS}\"}\n", "1:16: error: TOLLGATE_UNSET_IN_TESTS is not set"},
    {"admin: {token: \"${file:/nonexistent/f}\"}\n", "1:16: error: the file /nonexistent/f does not exist"},
    {"admin: {token: \"${oops\"}\n", "1:16: error: '${' without '}'"},
    {"admin: {token: \"${1A}\"}\n", "1:16: error: '${1A}' is no name of a variable"},
    {"admin: {tokens: [{name: a, sha256: abc, role: operator}]}\n", "1:36: error: expected 64 hex digits"},
    {"admin: {tokens: [{name: a, sha256: " HEX64 ", role: root}]}\n", "1:108: error: 'root' is no role"},
    {"node: a b\n", "1:7: error: expected a name of up to 64 letters"},
    {"prices: {unknown: accept}\n", "1:19: error: expected refuse or a price"},
    {"prices: {unknown: {input: 1 USD/1M}}\n", "1:19: error: 'output' is missing in prices.unknown"},
    {"prices: {models: {m: {input: 1, output: 2 USD/1M}}}\n",
     "1:30: error: expected a price, as 2.50 USD/1M, found '1'"},
    {"prices: {files: [/nonexistent/p.json]}\n", "1:18: error: the price file /nonexistent/p.json does not exist"},
};

static const struct bad backend_rows[] = {
    {"backends: {a: {url: \"https://h\"}}\n", "1:15: error: 'protocol' is missing in backends.a"},
    {"backends: {a: {protocol: openai}}\n", "1:15: error: 'url' is missing in backends.a"},
    {"backends: {a/b: {protocol: openai, url: \"https://h\"}}\n", "1:12: error: 'a/b' is no name for a backend"},
    {"backends: {a: {protocol: openai, url: \"ftp://h\"}}\n", "1:39: error: expected a url that begins with https://"},
    {"backends: {a: {protocol: openai, url: \"https://u:p@h\"}}\n", "1:39: error: the url holds a user"},
    {"backends: {a: {protocol: openai, url: \"https://h/?k=1\"}}\n", "1:39: error: the url holds a user, a query"},
    {"backends: {a: {protocol: openai, url: \"https://h:0\"}}\n", "1:39: error: the url has no usable port"},
    {"backends: {a: {protocol: openai, url: \"https:///v1\"}}\n", "1:39: error: the url has no usable host"},
    {"backends: {a: {protocol: openai, url: \"https://h\", device: cpu}}\n",
     "1:52: error: 'device' is for protocol decode"},
    {"backends: {a: {protocol: decode, model: d, url: \"https://h\"}}\n",
     "1:44: error: 'url' has no meaning for protocol decode"},
    {"backends: {a: {protocol: decode}}\n", "1:15: error: 'model' is missing in backends.a"},
    {"backends: {a: {protocol: openai, url: \"https://h\", api_keys: [{name: k, value: x1}, {name: k, value: x2}]}}\n",
     "1:85: error: two keys are called 'k'"},
    {"backends: {a: {protocol: openai, url: \"https://h\", api_keys: [{value: xyz, teams: [nob]}]}}\nteams: {bob: "
     "{}}\n",
     "1:83: error: there is no team 'nob'; did you mean 'bob'?"},
    {"backends: {a: {protocol: openai, url: \"https://h\", price_factor: 0.12345}}\n",
     "1:66: error: expected a factor"},
};

static const struct bad alias_rows[] = {
    {B "aliases: {a: mok/m}\n", "2:14: error: there is no backend 'mok'; did you mean 'mock'?"},
    {B "aliases: {a: [mock/m, mok/m]}\n", "2:23: error: there is no backend 'mok'"},
    {B "aliases: {a: mock}\n", "2:14: error: 'mock' names no model: a target is backend/model"},
    {B "aliases: {a: mock/m, b: a}\n", "2:25: error: 'a' is an alias; a target is backend/model"},
    {B "aliases: {a: mock/*}\n", "2:14: error: 'mock/*' has a '*', but the alias 'a' has none"},
    {B "aliases: {\"a*b*\": mock/m}\n", "2:11: error: 'a*b*' has more than one '*'"},
    {B "aliases: {\"a*\": mock/*-*}\n", "2:17: error: a target has at most one '*'"},
    {B "aliases: {\"gpt-*\": mock/m, \"*-mini\": mock/m, \"*gpt-\": mock/m}\n",
     "2:46: error: 'gpt-*' and '*gpt-' could match"},
    {B "aliases: {\"a b\": mock/m}\n", "2:11: error: 'a b' is no name for an alias"},
    {B "aliases: {a: {ladder: []}}\n", "2:23: error: the ladder has no rungs"},
    {B "aliases: {a: {attempts: 2}}\n", "2:14: error: 'ladder' is missing in aliases.a"},
    {B "aliases: {a: {ladder: [{targets: []}]}}\n", "2:34: error: the rung has no targets"},
    {B "aliases: {a: {ladder: [{targets: [mock/m], only_for: [timeout]}]}}\n",
     "2:44: error: 'only_for' on the first rung"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}, {targets: [mock/n], only_for: [tiemout]}]}}\n",
     "2:76: error: 'tiemout' is no reason for only_for; did you mean 'timeout'?"},
    {B "aliases: {a: {ladder: [{targets: [mock/m, mock/m]}]}}\n", "2:43: error: 'mock/m' stands twice in the rung"},
    {B "aliases: {a: {ladder: [{targets: [{target: mock/m, weight: 0}]}]}}\n",
     "2:60: error: weight must be from 1 to 1000"},
    {B "aliases: {a: {ladder: [{targets: [mock/m]}], attempts: 99}}\n", "2:56: error: attempts must be from 1 to 32"},
    {"backends: {l: {protocol: decode, model: d, name: base}}\naliases: {a: l/legal}\n",
     "2:14: error: 'l' holds one model, 'base'; adapters need 'adapters: {directory: ...}'"},
};

static const struct bad team_rows[] = {
    {TEAM("tier: gold"), "1:19: error: there is no tier 'gold'"},
    {"tiers: {gold: {}}\nteams: {a: {tier: gild}}\n", "2:19: error: there is no tier 'gild'; did you mean 'gold'?"},
    {"tiers: {gold: {keys: []}}\n", "1:16: error: 'keys' is not known in tiers.gold"},
    {"teams: {a: }\n", "1:12: error: teams.a must be a map, not nothing"},
    {"teams: {\"a b\": {}}\n", "1:9: error: 'a b' is no name for a team"},
    {TEAM("budgets: [{limit: 5, period: day}]"), "1:31: error: expected money, as 500 USD, found '5'"},
    {TEAM("budgets: [{limit: 5 USD}]"), "1:23: error: 'period' is missing in teams.a.budgets[0]"},
    {TEAM("budgets: [{limit: 5 USD, period: year}]"),
     "1:46: error: 'year' is no period (hour, day, week, month, total)"},
    {TEAM("budgets: [{limit: 5 USD, period: day, timezone: Mars/Base}]"), "1:61: error: expected a time zone"},
    {TEAM("budgets: {limit: 5 USD}"), "1:22: error: budgets must be a list, not a map"},
    {TEAM("keys: [{name: k}]"), "1:20: error: 'sha256' is missing in teams.a.keys[0]"},
    {TEAM("keys: [{id: short, name: k, sha256: " HEX64 "}]"), "1:25: error: an id is 8 letters and digits"},
    {TEAM("keys: [{name: k, sha256: " HEX64 "}, {name: l, sha256: " HEX64 "}]"),
     "1:105: error: two keys have the id '01234567'"},
    {TEAM("keys: [{name: k, sha256: " HEX64 ", expires: soon}]"), "1:113: error: expected a date, as 2027-06-30"},
    {TEAM("labels: [a]"), "1:21: error: expected a map of names to values, found a list"},
    {TEAM("allow: [a b]"), "1:21: error: expected a word without spaces, found 'a b'"},
    {TEAM("rate_limits: {in_flight: 0}"), "1:38: error: in_flight must be from 1 to 1000000"},
};

static void check(const struct bad *rows, size_t n) {
    char expected[512];
    for (size_t i = 0; i < n; i++) {
        struct loaded l = load_text("t.yaml", rows[i].yaml);
        snprintf(expected, sizeof expected, "t.yaml:%s", rows[i].said);
        cr_expect(strstr(l.text.at, expected), "for\n%s\nwanted %s\nsaid\n%s", rows[i].yaml, expected, l.text.at);
        cr_expect_null(l.conf, "accepted: %s", rows[i].yaml);
        unload(&l);
    }
}

Test(conf_bad, yaml_says_line_and_column) {
    check(yaml_rows, ARRAY_LEN(yaml_rows));
}

Test(conf_bad, unknown_and_foreign_words_get_a_guess) {
    check(word_rows, ARRAY_LEN(word_rows));
}

Test(conf_bad, what_is_not_built_is_refused_by_name) {
    check(later_rows, ARRAY_LEN(later_rows));
}

Test(conf_bad, values_of_a_wrong_type_or_size) {
    check(value_rows, ARRAY_LEN(value_rows));
}

Test(conf_bad, backends) {
    check(backend_rows, ARRAY_LEN(backend_rows));
}

Test(conf_bad, aliases) {
    check(alias_rows, ARRAY_LEN(alias_rows));
}

Test(conf_bad, teams_and_keys) {
    check(team_rows, ARRAY_LEN(team_rows));
}

Test(conf_bad, all_problems_in_one_run_each_with_its_caret) {
    struct loaded l = load_text("t.yaml", "log: {level: loud}\nworkers: 0\nbakends: {}\n");
    cr_assert_eq(l.n_errors, 3, "%s", l.text.at);
    cr_assert_str_eq(l.text.at, "t.yaml:1:14: error: 'loud' is no level (error, warn, info, debug)\n"
                                "  log: {level: loud}\n"
                                "               ^\n"
                                "t.yaml:2:10: error: workers must be from 1 to 64\n"
                                "  workers: 0\n"
                                "           ^\n"
                                "t.yaml:3:1: error: 'bakends' is not known in the top level; did you mean 'backends'?\n"
                                "  bakends: {}\n"
                                "  ^\n");
    unload(&l);
}

Test(conf_bad, harmless_values_stay_readable) {
    struct loaded l = load_text("t.yaml", "log: {levl: info}\n");
    cr_expect(strstr(l.text.at, "  log: {levl: info}\n"), "%s", l.text.at);
    unload(&l);
}

Test(conf_bad, aliases_of_aliases_and_deep_nests_are_bounded) {
    struct str bomb, nest;
    str_init(&bomb, 1 << 20);
    str_init(&nest, 1 << 20);
    str_puts(&bomb, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++) {
        str_printf(&bomb, "a%d: &a%d [", i, i);
        for (int k = 0; k < 9; k++)
            str_printf(&bomb, "%s*a%d", k ? ", " : "", i - 1);
        str_puts(&bomb, "]\n");
    }
    struct loaded l = load_text("t.yaml", bomb.at);
    cr_expect(strstr(l.text.at, "error: too many aliases"), "%s", l.text.at);
    unload(&l);
    for (int i = 0; i < 100000; i++)
        str_putc(&nest, '[');
    l = load_text("t.yaml", nest.at);
    cr_expect(strstr(l.text.at, "t.yaml:1:65: error: nested too deeply"), "%s", l.text.at);
    unload(&l);
    str_fini(&bomb);
    str_fini(&nest);
}

Test(conf_bad, secrets_in_source_lines_and_reports) { /* A-01: a wrong conf printed its keys */
    static const char *const rows[] = {
        "backends: {a: {protocol: opnai, url: \"https://h\", api_keys: [hunter2canary]}}\n",
        "backends: {a: {protocol: openai, url: \"https://h\", api_key: hunter2canary}}\n",
        "master_key: hunter2canary\n",
        "litellm_settings: {deep: [{db_password: hunter2canary}]}\n",
        "redis: {url: \"redis://:hunter2canary@h/0\", bogus: 1}\n",
        "redis: {url: \"redis://:hunter2canary@h:x\"}\n",
        "redis: {url: \"redis://h\", username: a, pasword: hunter2canary}\n",
        "bogus: 0123456789012345678901234567canary\n",
        "backends: {a: {protocol: openai, url: \"https://u:hunter2canary@h\"}}\n",
        "admin: {token: hunter2canary, bogus: 1}\n",
        "admin: {token: \"hunter2canary \", bogus: 1}\n",
        "admin: {tokeen: hunter2canary}\n",
        "admin: {token: [hunter2canary]}\n",
        "backends: {a: {protocol: openai, url: \"https://h\", api_keys: [\"${sk-hunter2-0123456789-canary}\"]}}\n",
        "backends: {a: {protocol: openai, url: sk-hunter2-0123456789-canary, api_keys: [a]}}\n",
        "backends: {a: {protocol: openai, url: hunter2canary, api_keys: [hunter2canary]}}\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct loaded l = load_text("t.yaml", rows[i]);
        cr_expect_null(l.conf);
        cr_expect_null(strstr(l.text.at, "canary"), "%s", l.text.at);
        unload(&l);
    }
}
