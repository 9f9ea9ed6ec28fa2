/* tollgate audit shred: through the running gateway, so that the chain has one writer; where none runs, or a folder is
 * given, by opening the chain as it would. Always true: the record is in the file before the first key goes. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/audit_content.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"
#include "gateway/gateway.h"

#include <stdio.h>
#include <unistd.h>

#define WHY_MAX 8192
#define REPLY_MAX 65536
#define WRITE_WAIT_US 2000
#define WRITE_PATIENCE_US (30 * US_PER_S)

static int complain(const struct str *why) {
    fprintf(stderr, "tollgate: %s\n", why->at ? why->at : "it did not work");
    return 1;
}

/* 1 and 0 as exit statuses; -1: nobody listens. */
static int ask_gateway(const struct conf *c, const struct shred_words *w) {
    struct str body;
    str_init(&body, REPLY_MAX);
    str_putc(&body, '{');
    json_put_str(&body, "team", w->team);
    json_put_str(&body, "day", w->day);
    json_put_str(&body, "reason", w->reason);
    str_putc(&body, '}');
    int status = client_post(c, w->admin, "/admin/audit/shred", str_span(&body));
    str_fini(&body);
    return status;
}

static bool await(struct audit *a, struct str *why) {
    int64_t until_us = clock_mono_us() + WRITE_PATIENCE_US;
    audit_flush(a);
    while (audit_lag(a) > 0 && audit_healthy(a) && clock_mono_us() < until_us)
        usleep(WRITE_WAIT_US);
    if (audit_lag(a) == 0)
        return true;
    str_puts(why, "the record could not be written, so nothing was destroyed");
    return false;
}

static bool with_chain(struct audit *a, const struct shred_words *w, int64_t day, struct str *why) {
    struct audit_record r = {.kind = AUDIT_SHRED,
                             .what = "content_key",
                             .who = "command line",
                             .role = "operator",
                             .team = w->team,
                             .scope = w->day,
                             .reason = w->reason};
    uint64_t seq = audit_add(a, &r, clock_wall_us());
    if (!seq || !await(a, why))
        return false;
    int64_t n = audit_shred(a, w->team, day, why);
    if (n >= 0)
        printf("{\"team\":\"%s\",\"day\":\"%s\",\"keys_destroyed\":%lld,\"seq\":%llu}\n", w->team, w->day, (long long)n,
               (unsigned long long)seq);
    else
        audit_add(a,
                  &(struct audit_record){
                      .kind = AUDIT_NOTE, .what = "shred_failed", .team = w->team, .scope = w->day, .reason = why->at},
                  clock_wall_us());
    return n >= 0;
}

/* The chain as the gateway opens it: what a crash left open is settled first. */
static int without_gateway(const struct conf *c, const struct shred_words *w, int64_t day, struct str *why) {
    char chain[128];
    snprintf(chain, sizeof chain, "%s.0", c->node);
    struct audit_options o = {.directory = w->directory ? w->directory : c->audit.directory,
                              .chain = chain,
                              .sync_request = true,
                              .interval_us = c->audit.interval_us,
                              .head_every = c->audit.head_every,
                              .head_interval_us = c->audit.head_interval_us,
                              .head_key = c->audit.head_key,
                              .version = TOLLGATE_VERSION,
                              .conf_digest = c->digest};
    struct loop *loop = loop_new();
    struct audit *a = audit_open(&o, loop, clock_wall_us(), why);
    bool good = a && with_chain(a, w, day, why);
    if (a)
        audit_close(a, clock_wall_us());
    loop_free(loop);
    return good ? 0 : complain(why);
}

/* Also keeps a team's name out of what is no name. */
static bool words_are_good(const struct shred_words *w, int64_t *day, struct str *why) {
    int64_t us = 0;
    bool is_day = w->day && strlen(w->day) == 10 && clock_parse(span_of(w->day), &us);
    *day = us / US_PER_DAY;
    if (!w->team || !*w->team ||
        w->team[strspn(w->team, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")])
        str_puts(why, "--team takes the name of a team");
    else if (!is_day)
        str_puts(why, "--day takes a day (UTC) as YYYY-MM-DD");
    else if (!w->reason)
        str_puts(why, "--reason is needed: it stands in the record");
    return why->n == 0;
}

int shred_run(const struct shred_words *w) {
    struct str why;
    int64_t day;
    int status = 1;
    str_init(&why, WHY_MAX);
    if (!words_are_good(w, &day, &why)) {
        complain(&why);
    } else {
        struct conf *c = argument_conf(w->conf ? w->conf : CONF_DEFAULT);
        if (c && (w->directory || (status = ask_gateway(c, w)) < 0))
            status = without_gateway(c, w, day, &why);
        conf_drop(c);
    }
    str_fini(&why);
    return status;
}
