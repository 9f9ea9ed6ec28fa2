/* A key as somebody asks for it in JSON: the words of conf, and what is said of a wrong one. */
#include "conf/state.h"
#include "tests/support/conf_text.h"

#include "gateway/base/clock.h"

#define TEAMS NO_STATE "teams: {search: {allow: [\"*\"]}}\n"

Test(wish, every_member_that_a_key_has_in_conf_is_read_and_kept) {
    struct conf *c = load_good(TEAMS);
    struct conf_wish w;
    struct str why, line;
    str_init(&why, 1024);
    str_init(&line, 4096);
    cr_assert(
        conf_wish_read(c,
                       SPAN("{\"team\":\"search\",\"name\":\"ci\",\"owner\":\"anna@x\",\"role\":\"owner\","
                            "\"expires\":\"2027-06-30\",\"allow\":[\"smart\",\"!x\"],"
                            "\"budgets\":[{\"limit\":\"5 USD\",\"period\":\"month\",\"timezone\":\"Europe/Berlin\"}],"
                            "\"rate_limits\":{\"in_flight\":4},\"max_cost_per_call\":\"1 USD\","
                            "\"fallback\":\"none\"}"),
                       &w, &why),
        "%s", why.at);
    cr_expect_eq(w.key.team, &c->teams[0]);
    cr_expect_eq(conf_key_form(span_of(w.text)), KEY_FORM_GOOD);
    cr_expect(strlen(w.key.id) == 8 && strncmp(w.text + 6, w.key.id, 8) == 0);
    cr_expect(w.key.role == KEY_OWNER && w.key.fallback == FALLBACK_NONE);
    cr_expect_eq(w.key.budgets[0].limit_nanousd, 5 * NANO_PER_USD);
    cr_expect_str_eq(zone_name(w.key.budgets[0].zone), "Europe/Berlin");
    cr_expect_eq(w.key.limits.in_flight, 4);
    cr_expect_eq(w.key.limits.requests_per_minute, CONF_UNLIMITED);
    cr_expect_eq(w.key.max_cost_per_call, NANO_PER_USD);
    cr_expect_lt(w.key.expires_us, INT64_MAX);
    act_write_add(&w.key, "anna", 0, &line);
    cr_expect_null(strstr(line.at, w.text), "the key itself is written nowhere");
    struct conf_wish like;
    conf_wish_like(c, &w.key, &like);
    cr_expect_str_eq(conf_key_account(&like.key), w.key.id);
    cr_expect_str_neq(like.key.id, w.key.id);
    cr_expect_eq(like.key.budgets, w.key.budgets);
    conf_wish_free(&like);
    conf_wish_free(&w);
    str_fini(&line);
    str_fini(&why);
    conf_drop(c);
}

Test(wish, a_wrong_one_is_told_which_member) {
    static const struct {
        const char *json, *said;
    } rows[] = {
        {"[1]", "a key is a JSON object"},
        {"{\"team\":\"search\"", "not JSON"},
        {"{\"name\":\"x\"}", "team: there is no such team"},
        {"{\"team\":\"serch\"}", "team: there is no such team"},
        {"{\"team\":[]}", "team: there is no such team"},
        {"{\"team\":\"search\",\"sha256\":\"x\"}", "sha256: is made here"},
        {"{\"team\":\"search\",\"id\":\"abcdefgh\"}", "id: is made here"},
        {"{\"team\":\"search\",\"name\":\"a b\"}", "name: expected a name"},
        {"{\"team\":\"search\",\"expires\":\"soon\"}", "expires: expected"},
        {"{\"team\":\"search\",\"budgets\":[{\"limit\":\"5 EUR\",\"period\":\"month\"}]}", "budgets: expected money"},
        {"{\"team\":\"search\",\"budgets\":{}}", "budgets: budgets must be a list"},
        {"{\"team\":\"search\",\"strict\":true}", "'strict' is not supported yet"},
        {"{\"team\":\"search\",\"role\":\"admin\"}", "role: 'admin' is no role"},
        {"{\"team\":\"search\",\"expirs\":\"x\"}", "did you mean 'expires'?"},
        {"{\"team\":\"search\",\"owner\":\"${HOME}\"}", NULL},
    };
    struct conf *c = load_good(TEAMS);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf_wish w;
        struct str why;
        str_init(&why, 1024);
        bool good = conf_wish_read(c, span_of(rows[i].json), &w, &why);
        cr_expect_eq(good, !rows[i].said, "%s", rows[i].json);
        if (rows[i].said)
            cr_expect(why.n && strstr(why.at, rows[i].said), "%s\n%s", rows[i].json, why.at);
        else
            cr_expect_str_eq(w.key.owner, "${HOME}", "nothing is expanded for a caller");
        if (good)
            conf_wish_free(&w);
        str_fini(&why);
    }
    conf_drop(c);
}
