/* Writes a synthetic audit log: N requests, an admit and a settle each (with `settles` the settles alone), over 30 days, 40
 * teams, 100 keys and 6 targets.
 *     log DIR N [settles] */
#include "audit/audit.h"
#include "gateway/base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_US INT64_C(1793491200000000) /* 2026-11-01 */
#define LAG_MAX 20000

/* Waits where the log would turn it away. */
static void add(struct audit *a, const struct audit_record *r, int64_t now_us) {
    while (audit_add(a, r, now_us) == 0) {
        audit_flush(a);
        usleep(500);
    }
}

static void one_request(struct audit *a, int64_t i, int64_t n, bool admits) {
    char request[40], team[16], key[16], target[32];
    int64_t at_us = FIRST_US + (int64_t)((__int128)i * 30 * US_PER_DAY / n);
    snprintf(request, sizeof request, "req_%032llx", (unsigned long long)i);
    snprintf(team, sizeof team, "team%lld", (long long)(i % 40));
    snprintf(key, sizeof key, "key%05lld", (long long)(i % 100));
    snprintf(target, sizeof target, "openai/gpt-%lld", (long long)(i % 6));
    struct conf_label labels[] = {{"feature", i % 3 ? "chat" : "search"}, {"cost_center", "4711"}};
    const char *plan[] = {target};
    struct audit_attempt tries[] = {{.target = target,
                                     .upstream_key = "prod",
                                     .outcome = "ok",
                                     .status = 200,
                                     .pico = "1234567",
                                     .usage = {.in = 1000, .out = 120}}};
    struct audit_record r = {.kind = AUDIT_ADMIT,
                             .request = request,
                             .team = team,
                             .key_id = key,
                             .owner = "anna@example.com",
                             .client = "10.0.0.7:51234",
                             .client_family = "openai",
                             .endpoint = "chat",
                             .alias = "smart",
                             .model = "smart",
                             .plan = plan,
                             .n_plan = 1,
                             .hold_nanousd = 100000,
                             .labels = labels,
                             .n_labels = 2};
    if (admits)
        add(a, &r, at_us);
    r.kind = AUDIT_SETTLE;
    r.admitted_us = at_us;
    r.status = 200;
    r.target = target;
    r.attempts = tries;
    r.n_attempts = 1;
    r.usage = tries[0].usage;
    r.cost_nanousd = 1235;
    r.price_digest = "0123456789abcdef";
    add(a, &r, at_us + 1000);
}

int main(int argc, char **argv) {
    struct str why;
    if (argc < 3 || argc > 4)
        return 2;
    int64_t n = atoll(argv[2]);
    struct loop *loop = loop_new();
    str_init(&why, 4096);
    struct audit_options o = {.directory = argv[1], .chain = "bench.0", .interval_us = US_PER_S, .version = "bench"};
    struct audit *a = audit_open(&o, loop, FIRST_US, &why);
    if (!a) {
        fprintf(stderr, "%s\n", why.at);
        return 1;
    }
    for (int64_t i = 0; i < n; i++) {
        one_request(a, i, n, argc == 3);
        while (i % 1000 == 0 && audit_lag(a) > LAG_MAX)
            usleep(500);
    }
    audit_close(a, FIRST_US + 30 * US_PER_DAY);
    loop_free(loop);
    str_fini(&why);
    return 0;
}
