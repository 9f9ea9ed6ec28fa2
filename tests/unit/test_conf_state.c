/* State: keys admitted and revoked at run time, across loads, with torn and broken files. */
#include "conf/state.h"
#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"

#include <unistd.h>

#define HEX_A "00000000000000000000000000000000000000000000000000000000000000aa"

struct world {
    struct temp_folder t;
    char yaml[1024], keys[256];
};

static struct world world_new(const char *more) {
    struct world w = {.t = temp_new()};
    snprintf(w.yaml, sizeof w.yaml,
             "state: {directory: %s/deep/state%s}\nteams: {a: {keys: [{id: confKey1, name: c, sha256: " HEX_A "}]}}\n",
             w.t.path, more);
    snprintf(w.keys, sizeof w.keys, "%s/deep/state/keys.jsonl", w.t.path);
    return w;
}

static void world_free(struct world *w) {
    temp_free(&w->t);
}

static struct conf_key wanted(const struct conf *c, const char *id) {
    struct conf_key k = {
        .id = id, .name = "run", .owner = "anna", .team = &c->teams[0], .expires_us = 77, .demo = true};
    k.account = "first001";
    k.made_by = "owner001";
    k.role = KEY_OWNER;
    k.fallback = FALLBACK_SAME_MODEL;
    static const char *allow[] = {"smart", "!x"};
    static struct conf_budget budgets[1];
    static int64_t warn[] = {5000, 8000};
    budgets[0] = (struct conf_budget){.limit_nanousd = 5 * NANO_PER_USD,
                                      .period = PERIOD_DAY,
                                      .zone = zone_get("Europe/Berlin"),
                                      .at_limit = AT_LIMIT_CLAMP,
                                      .warn = warn,
                                      .n_warn = 2};
    sha256(span_of(id), k.sha256);
    k.allow = allow;
    k.n_allow = 2;
    k.budgets = budgets;
    k.n_budgets = 1;
    k.limits = (struct conf_limits){60, CONF_UNLIMITED, 3};
    k.max_cost_per_call = NANO_PER_USD;
    return k;
}

static const struct conf_key *find(const struct conf *c, const char *id) {
    return map_find(&c->keys_by_id, span_of(id));
}

Test(conf_state, a_key_admitted_at_run_time_comes_back_whole) {
    struct world w = world_new("");
    struct conf *c = load_good(w.yaml);
    struct conf_key k = wanted(c, "runKey01");
    cr_assert_eq(conf_state_add_key(c, &k, "anna"), ERR_NONE);
    cr_expect_null(find(c, "runKey01"), "a loaded conf never changes");
    struct conf *next = load_good(w.yaml);
    const struct conf_key *back = conf_find_key(next, k.sha256);
    cr_assert_not_null(back);
    cr_expect(back->runtime && back->demo && !back->revoked);
    cr_expect_str_eq(back->name, "run");
    cr_expect_str_eq(back->owner, "anna");
    cr_expect_eq(back->team, &next->teams[0]);
    cr_expect_eq(back->expires_us, 77);
    cr_expect_eq(back->n_allow, 2);
    cr_expect_str_eq(back->allow[1], "!x");
    cr_expect_eq(back->n_budgets, 1);
    cr_expect_eq(back->budgets[0].limit_nanousd, 5 * NANO_PER_USD);
    cr_expect_str_eq(zone_name(back->budgets[0].zone), "Europe/Berlin");
    cr_expect_eq(back->budgets[0].at_limit, AT_LIMIT_CLAMP);
    cr_expect(back->budgets[0].n_warn == 2 && back->budgets[0].warn[1] == 8000);
    cr_expect_eq(back->limits.requests_per_minute, 60);
    cr_expect_eq(back->limits.tokens_per_minute, CONF_UNLIMITED);
    cr_expect_eq(back->limits.in_flight, 3);
    cr_expect_eq(back->max_cost_per_call, NANO_PER_USD);
    cr_expect_str_eq(conf_key_account(back), "first001");
    cr_expect_str_eq(back->made_by, "owner001");
    cr_expect(back->role == KEY_OWNER && back->fallback == FALLBACK_SAME_MODEL);
    cr_expect(strstr(back->from, "keys.jsonl:1 by anna"), "%s", back->from);
    cr_expect_eq(conf_state_add_key(next, &k, "anna"), ERR_CONFLICT);
    conf_drop(c);
    conf_drop(next);
    world_free(&w);
}

Test(conf_state, a_revocation_is_never_undone) { /* */
    struct world w = world_new("");
    struct conf *c = load_good(w.yaml);
    struct conf_key k = wanted(c, "runKey01"), again = wanted(c, "runKey02");
    cr_expect_eq(conf_state_revoke_key(c, "nobody00", "anna", "x"), ERR_NOT_FOUND);
    cr_assert_eq(conf_state_revoke_key(c, "confKey1", "anna", "lost"), ERR_NONE);
    cr_assert_eq(conf_state_add_key(c, &k, "anna"), ERR_NONE);
    cr_assert_eq(conf_state_add_key(c, &again, "anna"), ERR_NONE);
    conf_drop(c);
    c = load_good(w.yaml);
    cr_expect(find(c, "confKey1")->revoked);
    cr_assert_eq(conf_state_revoke_key(c, "runKey01", "anna", "lost"), ERR_NONE);
    FILE *f = fopen(w.keys, "a"); /* an add behind the tombstone */
    fprintf(f, "{\"act\":\"add\",\"id\":\"runKey01\",\"team\":\"a\",\"name\":\"n\",\"sha256\":\"" HEX_A "\"}\n");
    fclose(f);
    conf_drop(c);
    c = load_good(w.yaml);
    cr_expect(find(c, "runKey01")->revoked);
    cr_expect_not(find(c, "runKey02")->revoked);
    cr_expect(find(c, "confKey1")->revoked);
    conf_drop(c);
    world_free(&w);
}

Test(conf_state, a_revoked_key_does_not_come_back_under_another_id) { /* */
    struct world w = world_new("");
    struct conf *c = load_good(w.yaml);
    cr_assert_eq(conf_state_revoke_key(c, "confKey1", "anna", "lost"), ERR_NONE);
    conf_drop(c);
    char *id = strstr(w.yaml, "confKey1");
    cr_assert_not_null(id);
    id[7] = '9';
    c = load_good(w.yaml);
    cr_expect(find(c, "confKey9")->revoked);
    conf_drop(c);
    world_free(&w);
}

Test(conf_state, a_torn_last_line_is_passed_over_and_then_cut) {
    struct world w = world_new("");
    struct conf *c = load_good(w.yaml);
    struct conf_key k = wanted(c, "runKey01"), k2 = wanted(c, "runKey02");
    cr_assert_eq(conf_state_add_key(c, &k, "anna"), ERR_NONE);
    FILE *f = fopen(w.keys, "a");
    fputs("{\"act\":\"revoke\",\"id\":\"runKey01\"", f);
    fclose(f);
    struct loaded l = load_text("t.yaml", w.yaml);
    cr_assert_not_null(l.conf, "%s", l.text.at);
    cr_expect(strstr(l.text.at, "warning: "), "%s", l.text.at);
    cr_expect(strstr(l.text.at, "the last line is torn"), "%s", l.text.at);
    cr_expect_not(find(l.conf, "runKey01")->revoked);
    cr_assert_eq(conf_state_add_key(l.conf, &k2, "anna"), ERR_NONE);
    unload(&l);
    conf_drop(c);
    c = load_good(w.yaml);
    cr_expect(find(c, "runKey01") && find(c, "runKey02"));
    conf_drop(c);
    world_free(&w);
}

Test(conf_state, lines_that_cannot_be_read_stop_the_start) {
    static const struct {
        const char *line, *said;
    } rows[] = {
        {"nonsense\n", "keys.jsonl:2:1: error: not an act on keys: "},
        {"{\"act\":\"revoke\"}\n", "keys.jsonl:2:1: error: not an act on keys: it names no key"},
        {"{\"act\":\"praise\",\"id\":\"x\"}\n",
         "keys.jsonl:2:1: error: not an act on keys: its act is none of add, revoke and expire"},
        {"{\"act\":\"add\",\"id\":\"x\",\"team\":\"a\"}\n",
         "keys.jsonl:2:1: error: not an act on keys: a member is missing or wrong"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w = world_new("");
        temp_folder_make(&w.t, "deep");
        temp_folder_make(&w.t, "deep/state");
        char text[512];
        snprintf(text, sizeof text, "\n%s", rows[i].line);
        temp_write(&w.t, "deep/state/keys.jsonl", text);
        struct loaded l = load_text("t.yaml", w.yaml);
        cr_expect_null(l.conf);
        cr_expect(strstr(l.text.at, rows[i].said), "wanted %s\nsaid %s", rows[i].said, l.text.at);
        unload(&l);
        world_free(&w);
    }
}

Test(conf_state, a_key_of_a_team_that_is_gone_is_not_admitted) {
    struct world w = world_new("");
    struct conf *c = load_good(w.yaml);
    struct conf_key k = wanted(c, "runKey01");
    cr_assert_eq(conf_state_add_key(c, &k, "anna"), ERR_NONE);
    conf_drop(c);
    char yaml[512];
    snprintf(yaml, sizeof yaml, "state: {directory: %s/deep/state}\nteams: {b: {}}\n", w.t.path);
    struct loaded l = load_text("t.yaml", yaml);
    cr_assert_not_null(l.conf, "%s", l.text.at);
    cr_expect_null(find(l.conf, "runKey01"));
    cr_expect(strstr(l.text.at, "belongs to team 'a', which conf no longer has"), "%s", l.text.at);
    unload(&l);
    world_free(&w);
}

Test(conf_state, conf_says_whether_keys_may_be_added) {
    struct world w = world_new(", writable: []");
    struct conf *c = load_good(w.yaml);
    struct conf_key k = wanted(c, "runKey01");
    cr_expect_eq(conf_state_add_key(c, &k, "anna"), ERR_TARGET_FORBIDDEN);
    cr_expect_eq(conf_state_revoke_key(c, "confKey1", "anna", "lost"), ERR_NONE, "narrowing is always allowed");
    conf_drop(c);
    world_free(&w);
}

struct lines {
    int n, revoked;
    char last[512];
};

static void see(struct span line, void *user) {
    struct lines *l = user;
    char id[16];
    uint8_t digest[SHA256_BYTES];
    bool digested;
    l->n++;
    l->revoked += conf_act_revokes(line, id, digest, &digested);
    snprintf(l->last, sizeof l->last, "%.*s", SPAN_ARG(line));
}

Test(conf_state, an_end_only_shortens_a_life_and_stays_before_and_behind_its_key) {
    struct world w = world_new("");
    struct conf *c = load_good(w.yaml);
    struct conf_key k = wanted(c, "runKey01");
    cr_assert_eq(conf_state_add_key(c, &k, "anna"), ERR_NONE);
    cr_expect_eq(conf_state_expire_key(c, "nobody00", 5, "anna", "x"), ERR_NOT_FOUND);
    cr_expect_eq(conf_state_expire_key(c, "confKey1", 500, "anna", "x"), ERR_NONE);
    cr_expect_eq(conf_state_expire_key(c, "confKey1", 900, "anna", "later is no end"), ERR_NONE);
    conf_drop(c);
    c = load_good(w.yaml);
    cr_expect_eq(find(c, "confKey1")->expires_us, 500);
    cr_expect_eq(find(c, "runKey01")->expires_us, 77);
    conf_drop(c);
    world_free(&w);
}

Test(conf_state, a_line_of_another_host_is_taken_once_and_only_when_it_is_an_act) {
    struct world here = world_new(""), there = world_new("");
    struct conf *a = load_good(here.yaml), *b = load_good(there.yaml);
    struct conf_key k = wanted(a, "runKey01");
    struct lines l = {0};
    cr_assert_eq(conf_state_add_key(a, &k, "anna"), ERR_NONE);
    cr_assert_eq(conf_state_revoke_key(a, "confKey1", "anna", "lost"), ERR_NONE);
    int64_t end = conf_state_read(a, 0, see, &l);
    cr_expect(l.n == 2 && l.revoked == 1 && end > 0);
    cr_expect_eq(conf_state_read(a, end, see, &l), end);
    cr_expect_eq(l.n, 2, "nothing new");
    for (int i = 0; i < 3; i++)
        cr_expect_eq(conf_state_apply(b, span_of(l.last)), ERR_NONE);
    struct lines there_lines = {0};
    cr_expect_gt(conf_state_read(b, 0, see, &there_lines), 0);
    cr_expect_eq(there_lines.n, 1, "three times the same line");
    cr_expect_eq(conf_state_apply(b, SPAN("{\"act\":\"add\"}")), ERR_INVALID);
    cr_expect_eq(conf_state_apply(b, SPAN("{\"act\":\"revoke\",\"id\":\"a\"}\n{}")), ERR_INVALID);
    conf_drop(b);
    b = load_good(there.yaml);
    cr_expect(find(b, "confKey1")->revoked);
    conf_drop(a);
    conf_drop(b);
    world_free(&here);
    world_free(&there);
}

Test(conf_state, an_act_comes_into_force_without_the_files_that_somebody_is_editing) {
    struct world w = world_new("");
    char path[300];
    struct conf_report report;
    snprintf(path, sizeof path, "%s", temp_write(&w.t, "t.yaml", w.yaml));
    conf_report_init(&report);
    struct conf *c = conf_load(path, &report);
    cr_assert_not_null(c);
    struct conf_key k = wanted(c, "runKey01");
    cr_assert_eq(conf_state_add_key(c, &k, "anna"), ERR_NONE);
    temp_write(&w.t, "t.yaml", "half an edit: [");
    struct conf *next = conf_with_state(c, &report);
    cr_assert_not_null(next);
    cr_expect_str_eq(next->digest, c->digest);
    cr_expect_not_null(find(next, "runKey01"));
    conf_drop(c);
    struct conf *third = conf_with_state(next, &report); /* what the first was made from lives on */
    conf_drop(next);
    cr_assert_not_null(third);
    cr_expect_not_null(find(third, "runKey01"));
    cr_expect_str_eq(third->teams[0].name, "a");
    conf_drop(third);
    conf_report_fini(&report);
    world_free(&w);
}
