/* The effective conf, and what needs a restart. */
#include "tests/support/conf_text.h"

static struct str effective(const char *yaml) {
    struct conf *c = load_good(yaml);
    struct str out;
    str_init(&out, 1 << 20);
    conf_print_effective(c, &out);
    conf_drop(c);
    return out;
}

static const char yaml[] =
    "admin: {token: hunter2canary}\n"
    "http:\n  drain: 10s\n"
    "team_defaults: {contact: us}\n"
    "backends: {m: {protocol: openai, url: \"http://h/v1\", api_keys: [\"${HOME}\", topsecret]}}\n"
    "aliases: {x: m/y}\n"
    "teams: {a: {allow: [x]}}\n" NO_STATE;

Test(conf_print, every_value_has_its_place) {
    static const char *const lines[] = {
        "http.drain: 10s  # t.yaml:3\n",
        "http.heartbeat: 15s  # default\n",
        "admin.token: (hidden)  # t.yaml:1\n",
        "backends.m.url: \"http://h/v1\"  # t.yaml:5\n",
        "backends.m.api_keys[0].value: \"${HOME}\"  # t.yaml:5\n",
        "backends.m.api_keys[1].value: (hidden)  # t.yaml:5\n",
        "backends.m.timeouts.connect: 5s  # default\n",
        "aliases.x.ladder[0].targets[0].target: m/y  # t.yaml:6\n",
        "teams.a.contact: us  # t.yaml:4\n",
        "teams.a.allow: [x]  # t.yaml:7\n",
    };
    struct str out = effective(yaml);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        cr_expect(strstr(out.at, lines[i]), "no line %s in\n%s", lines[i], out.at);
    cr_expect_null(strstr(out.at, "canary"));
    cr_expect_null(strstr(out.at, "topsecret"));
    cr_expect_null(strstr(out.at, "redis"), "what is not obeyed is not shown");
    str_fini(&out);
}

struct change {
    const char *before, *after, *said; /* said NULL: nothing */
};

Test(conf_print, what_needs_a_restart_is_named_and_the_rest_is_live) {
    static const struct change rows[] = {
        {"node: a\n", "node: a\n", NULL},
        {"node: a\n", "node: b\n", "node has changed and needs a restart (t.yaml:1)\n"},
        {"workers: 1\n", "", NULL},
        {"", "listen: [{address: \"127.0.0.1:1\"}]\n", "listen has changed"},
        {"admin: {address: \"127.0.0.1:1\"}\n", "", "admin.address has changed and needs a restart (t.yaml:1)\n"},
        {"audit: {directory: a}\n", "audit: {directory: b}\n", "audit.directory has changed"},
        {"audit: {interval: 1s}\n", "audit: {interval: 2s}\n", NULL},
        {"log: {level: info}\n", "log: {level: warn}\nteams: {x: {}}\n", NULL},
        {"backends: {l: {protocol: decode, model: a}}\n", "backends: {l: {protocol: decode, model: b}}\n",
         "backends.l.model has changed"},
        {"backends: {l: {protocol: decode, model: a}}\n", "backends: {l: {protocol: decode, model: a, tags: [x]}}\n",
         NULL},
        {"backends: {l: {protocol: decode, model: a}}\n", "",
         "the embedded backend 'l' is gone: that needs a restart\n"},
        {"", "backends: {l: {protocol: decode, model: a}}\n",
         "the embedded backend 'l' is new: that needs a restart\n"},
        {"backends: {o: {protocol: openai, url: \"http://a\"}}\n",
         "backends: {o: {protocol: openai, url: \"http://b\"}}\n", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *a = load_good(rows[i].before), *b = load_good(rows[i].after);
        struct str out;
        str_init(&out, 1 << 16);
        conf_restart_needed(a, b, &out);
        if (rows[i].said)
            cr_expect(out.at && strstr(out.at, rows[i].said), "%s -> %s said %s", rows[i].before, rows[i].after,
                      out.at ? out.at : "nothing");
        else
            cr_expect_eq(out.n, 0, "%s -> %s said %s", rows[i].before, rows[i].after, out.at);
        str_fini(&out);
        conf_drop(a);
        conf_drop(b);
    }
}
