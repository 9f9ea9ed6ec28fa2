/* The last requests: told to the account that made them, for a day, the oldest forgotten first. */
#include "gateway/recent.h"

#include "gateway/gateway.h"

#include <criterion/criterion.h>
#include <stdio.h>

struct rig {
    struct recent *recent;
    struct conf conf;
    struct conf_key key;
    struct request request;
    struct audit_attempt tries[1];
    struct audit_record record;
};

static void rig_init(struct rig *g) {
    *g = (struct rig){.recent = recent_new(),
                      .conf = {.disclose = {.target = true, .cost = true, .attempts = true}},
                      .key = {.id = "key00001"},
                      .tries = {{.target = "a/x", .outcome = "ok", .status = 200, .ended_us = 7000}},
                      .record = {.kind = AUDIT_SETTLE,
                                 .endpoint = "chat",
                                 .model = "m",
                                 .target = "a/x",
                                 .status = 200,
                                 .n_attempts = 1,
                                 .cost_nanousd = 15000,
                                 .duration_us = 9000,
                                 .first_content_us = -1,
                                 .usage = {.in = 9, .out = 3}}};
    g->request.conf = &g->conf;
    g->request.key = &g->key;
    g->record.attempts = g->tries;
}

static void keep(struct rig *g, int number) {
    snprintf(g->request.id, sizeof g->request.id, "req_%08d", number);
    recent_keep(g->recent, &g->request, &g->record);
}

static struct span find(struct rig *g, const char *id, const char *account, int64_t later_us) {
    return recent_find(g->recent, span_of(id), account, clock_wall_us() + later_us);
}

Test(recent, a_request_is_told_to_its_own_account_for_a_day) {
    struct rig g;
    struct json v;
    struct json_fault fault;
    rig_init(&g);
    keep(&g, 1);
    struct span told = find(&g, "req_00000001", "key00001", 0);
    cr_assert(json_check(told, JSON_DEPTH_MAX, &v, &fault), "%.*s", SPAN_ARG(told));
    cr_expect(json_is(json_get(v, "state"), "settled") && memmem(told.at, told.n, "\"cost\":0.000015,", 16), "%.*s",
              SPAN_ARG(told));
    cr_expect(json_is(json_get(json_at(json_get(v, "attempts"), 0), "target"), "a/x"));
    cr_expect_null(find(&g, "req_00000001", "key00002", 0).at, "of somebody else");
    cr_expect_null(find(&g, "req_00000002", "key00001", 0).at);
    cr_expect_null(find(&g, "req_00000001", "key00001", RECENT_US + US_PER_MIN).at);
    recent_free(g.recent);
}

Test(recent, what_conf_does_not_disclose_is_not_told) {
    struct rig g;
    rig_init(&g);
    g.conf.disclose.target = g.conf.disclose.cost = g.conf.disclose.attempts = false;
    g.record.kind = AUDIT_REFUSE;
    keep(&g, 1);
    struct span told = find(&g, "req_00000001", "key00001", 0);
    cr_expect_null(memmem(told.at, told.n, "a/x", 3), "%.*s", SPAN_ARG(told));
    cr_expect_null(memmem(told.at, told.n, "cost", 4), "%.*s", SPAN_ARG(told));
    cr_expect_not_null(memmem(told.at, told.n, "\"refused\"", 9));
    recent_free(g.recent);
}

Test(recent, the_oldest_is_forgotten_first_and_one_that_is_too_long_is_not_kept) {
    struct rig g;
    char long_text[RECENT_BYTES_MAX + 1];
    rig_init(&g);
    for (int i = 0; i < RECENT_MAX + 1; i++)
        keep(&g, i);
    cr_expect_null(find(&g, "req_00000000", "key00001", 0).at);
    cr_expect_not_null(find(&g, "req_00000001", "key00001", 0).at);
    memset(long_text, 'x', RECENT_BYTES_MAX);
    long_text[RECENT_BYTES_MAX] = 0;
    g.record.model = long_text;
    keep(&g, 99999999);
    cr_expect_null(find(&g, "req_99999999", "key00001", 0).at);
    recent_free(g.recent);
}
