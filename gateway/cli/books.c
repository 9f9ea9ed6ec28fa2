/* tollgate reprice and tollgate close: through the running gateway, so that the chain has one writer; where none runs, by
 * opening the chain as it would. */
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"
#include "gateway/finance/reprice.h"
#include "gateway/gateway.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WHY_MAX 4096
#define REPLY_MAX 65536
#define WRITE_WAIT_US 2000
#define WRITE_PATIENCE_US (30 * US_PER_S)

static const char reprice_usage[] =
    "usage: tollgate reprice (--month YYYY-MM | --from DAY --to DAY) --reason TEXT [--model NAME] [--dry-run]\n"
    "                        [--timezone ZONE] [-c FILE] [--admin ADDRESS]\n"
    "\n"
    "Prices the usage of a period's settle records anew with today's prices of the conf and writes an `adjust` record "
    "for\n"
    "each request whose cost differs. Twice writes nothing new. --model: \"gpt-5.4\" or \"openai/gpt-5.4\"; absent: "
    "all.\n"
    "A correction of a closed month is booked in the open one. Without a running gateway the log is written "
    "directly.\n";
static const char close_usage[] =
    "usage: tollgate close --month YYYY-MM --reason TEXT [--timezone ZONE] [-c FILE] [--admin ADDRESS]\n"
    "\n"
    "Freezes a month: `tollgate spend --month` prints the same bytes from then on, also when its settle records are "
    "gone.\n"
    "Refused while the month is not over, has requests in flight, or the log does not verify.\n";

struct asked {
    const char *month, *from, *to, *model, *reason, *zone, *conf, *admin;
    bool dry_run, closes;
};

static int complain(const struct str *why) {
    fprintf(stderr, "tollgate: %s\n", why->at ? why->at : "it did not work");
    return 1;
}

/* ---- through the gateway ---- */

static void put_body(const struct asked *q, struct str *out) {
    const struct {
        const char *name, *value;
    } words[] = {{"month", q->month}, {"from", q->from},     {"to", q->to},
                 {"model", q->model}, {"reason", q->reason}, {"timezone", q->zone}};
    str_putc(out, '{');
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (words[i].value)
            json_put_str(out, words[i].name, words[i].value);
    if (q->dry_run)
        json_put_bool(out, "dry_run", true);
    str_putc(out, '}');
}

/* 1 and 0 as exit statuses; -1: nobody listens. */
static int ask_gateway(const struct conf *c, const struct asked *q) {
    struct str body;
    str_init(&body, REPLY_MAX);
    put_body(q, &body);
    int status = client_post(c, q->admin, q->closes ? "/admin/close" : "/admin/reprice", str_span(&body));
    str_fini(&body);
    return status;
}

/* ---- without one ---- */

static bool write_records(struct audit *a, struct finance_records *r, const struct asked *q, struct str *why) {
    struct finance_act act = {"command line", "operator", q->reason};
    int64_t until_us = clock_mono_us() + WRITE_PATIENCE_US;
    size_t before = 0;
    while (!finance_records_write(r, a, &act, clock_wall_us(), NULL, NULL)) {
        if (r->written > before)
            until_us = clock_mono_us() + WRITE_PATIENCE_US;
        before = r->written;
        if (clock_mono_us() > until_us) {
            str_puts(why, "the log takes no records");
            return false;
        }
        usleep(WRITE_WAIT_US);
    }
    return true;
}

static bool make_records(const struct conf *c, const struct asked *q, const struct zone *z, struct reprice_result *out,
                         struct str *why) {
    int64_t now_us = clock_wall_us();
    if (q->closes) {
        struct books_ask ask = {.directory = c->audit.directory, .month = q->month, .zone = z, .now_us = now_us};
        struct spend_sums total;
        return books_close(&ask, &out->adjusts, &total, why);
    }
    struct reprice_ask ask = {
        .directory = c->audit.directory, .conf = c, .model = q->model, .now_us = now_us, .zone = z};
    bool days = q->month ? spend_month(z, q->month, &ask.from_us, &ask.to_us)
                         : spend_day(z, q->from, &ask.from_us) && spend_day(z, q->to, &ask.to_us);
    if (days && ask.from_us < ask.to_us)
        return reprice_run(&ask, out, why);
    str_puts(why, "--month takes YYYY-MM; --from and --to take YYYY-MM-DD, --to the later one");
    return false;
}

static void print_result(const struct asked *q, const struct reprice_result *r) {
    struct str out;
    str_init(&out, REPLY_MAX);
    str_putc(&out, '{');
    if (q->closes) {
        json_put_str(&out, "closed", q->month);
        json_put_i64(&out, "rollups", (int64_t)r->adjusts.n - 1);
    } else {
        reprice_print(r, &out);
        json_put_bool(&out, "dry_run", q->dry_run);
    }
    str_putc(&out, '}');
    puts(out.at);
    str_fini(&out);
}

static bool with_chain(const struct conf *c, struct audit *a, const struct asked *q, const struct zone *z,
                       struct str *why) {
    struct reprice_result r = {0};
    bool good = make_records(c, q, z, &r, why);
    if (good && !q->dry_run)
        good = write_records(a, &r.adjusts, q, why);
    if (good)
        print_result(q, &r);
    reprice_fini(&r);
    return good;
}

/* The chain as the gateway opens it: what a crash left open is settled first. */
static int without_gateway(const struct conf *c, const struct asked *q, struct str *why) {
    char chain[128];
    const struct zone *z = zone_get(q->zone ? q->zone : "UTC");
    if (!z) {
        str_printf(why, "there is no time zone %s", q->zone);
        return complain(why);
    }
    snprintf(chain, sizeof chain, "%s.0", c->node);
    struct audit_options o = {.directory = c->audit.directory,
                              .chain = chain,
                              .sync_request = c->audit.sync_request,
                              .interval_us = c->audit.interval_us,
                              .head_every = c->audit.head_every,
                              .head_interval_us = c->audit.head_interval_us,
                              .head_key = c->audit.head_key,
                              .version = TOLLGATE_VERSION,
                              .conf_digest = c->digest};
    struct loop *loop = loop_new();
    struct audit *a = audit_open(&o, loop, clock_wall_us(), why);
    bool good = a && with_chain(c, a, q, z, why);
    if (a)
        audit_close(a, clock_wall_us());
    loop_free(loop);
    return good ? 0 : complain(why);
}

/* ---- words ---- */

static bool words_are_good(const struct asked *q, struct str *why) {
    bool days = q->from && q->to && !q->month;
    if (q->closes && !q->month)
        str_puts(why, "--month is needed");
    else if (!q->closes && !days && (!q->month || q->from || q->to))
        str_puts(why, "--month, or --from and --to, are needed");
    else if (!q->reason && !q->dry_run)
        str_puts(why, "--reason is needed: it stands in every record");
    return why->n == 0;
}

static int run(const struct asked *q) {
    struct str why;
    int status = 1;
    str_init(&why, WHY_MAX);
    if (words_are_good(q, &why)) {
        struct conf *c = argument_conf(q->conf ? q->conf : CONF_DEFAULT);
        if (c && (status = ask_gateway(c, q)) < 0)
            status = without_gateway(c, q, &why);
        conf_drop(c);
    } else {
        complain(&why);
    }
    str_fini(&why);
    return status;
}

static int read_and_run(int argc, char **argv, struct asked *q, const char *usage) {
    const struct argument options[] = {
        {"--month", &q->month, NULL},     {"--from", &q->from, NULL},     {"--to", &q->to, NULL},
        {"--model", &q->model, NULL},     {"--reason", &q->reason, NULL}, {"--timezone", &q->zone, NULL},
        {"--dry-run", NULL, &q->dry_run}, {"-c", &q->conf, NULL},         {"--admin", &q->admin, NULL},
    };
    const struct argument of_close[] = {options[0], options[4], options[5], options[7], options[8]};
    int status;
    if (!arguments_only(argc, argv, q->closes ? of_close : options,
                        q->closes ? ARRAY_LEN(of_close) : ARRAY_LEN(options), usage, &status))
        return status;
    return run(q);
}

int cli_reprice(int argc, char **argv) {
    struct asked q = {0};
    return read_and_run(argc, argv, &q, reprice_usage);
}

int cli_close(int argc, char **argv) {
    struct asked q = {.closes = true};
    return read_and_run(argc, argv, &q, close_usage);
}
