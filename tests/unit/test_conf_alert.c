/* alerts: which events a webhook is told, and what a wrong one is told. */
#include "tests/support/conf_text.h"

#define ALERTS(inner) "alerts: [{" inner "}]\n"

Test(conf_alert, a_webhook_is_told_all_events_or_the_ones_it_names) {
    struct conf *c =
        load_good(ALERTS("url: \"https://hooks.example:8443/a/b?sig=1\", secret: s3cret") "log: {level: info}\n");
    cr_assert_eq(c->n_alerts, 1);
    cr_expect(c->alerts[0].tls && c->alerts[0].port == 8443);
    cr_expect_str_eq(c->alerts[0].host, "hooks.example");
    cr_expect_str_eq(c->alerts[0].path, "/a/b?sig=1");
    cr_expect_eq(c->alerts[0].events, ((1u << ALERT_EVENTS) - 1) & ~(1u << ALERT_AUDIT_HEAD), "heads go to who asks");
    conf_drop(c);
    c = load_good(ALERTS("url: \"http://h\", secret: whsec_c2VjcmV0, events: [target_down, key_expiring]"));
    cr_expect_eq(c->alerts[0].events, 1u << ALERT_TARGET_DOWN | 1u << ALERT_KEY_EXPIRING);
    cr_expect(!c->alerts[0].tls && c->alerts[0].port == 80 && c->alerts[0].path[0] == '\0');
    conf_drop(c);
}

Test(conf_alert, wrong_ones_are_named_with_their_place_and_their_secret_is_not_shown) {
    static const struct {
        const char *yaml, *said;
    } rows[] = {
        {ALERTS("url: \"http://h\""), "'secret' is missing in alerts[0]"},
        {ALERTS("secret: abc"), "'url' is missing in alerts[0]"},
        {ALERTS("url: ftp://h, secret: abc"), "expected a url that begins with"},
        {ALERTS("url: \"http://u:p@h\", secret: abc"), "holds a user, a fragment"},
        {ALERTS("url: \"http://h\", secret: abc, events: []"), "events is a list of one event or more"},
        {ALERTS("url: \"http://h\", secret: abc, events: [target_dwn]"),
         "'target_dwn' is no event; did you mean 'target_down'?"},
        {ALERTS("url: \"http://h\", secret: whsec_canary!, events: [audit_lag]"), "behind whsec_ stands no base64"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct loaded l = load_text("t.yaml", rows[i].yaml);
        cr_expect_null(l.conf, "%s", rows[i].yaml);
        cr_expect_not_null(strstr(l.text.at, rows[i].said), "%s\n%s", rows[i].yaml, l.text.at);
        cr_expect_null(strstr(l.text.at, "canary"), "%s", l.text.at);
        unload(&l);
    }
}
