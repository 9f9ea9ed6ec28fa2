/* Typed values at their edges: what is taken, and to which number. */
#include "tests/support/conf_text.h"

#include "gateway/base/clock.h"

#include <stdio.h>

static struct conf *load_one(const char *format, const char *value) {
    char yaml[512];
    snprintf(yaml, sizeof yaml, format, value);
    struct loaded l = load_text("t.yaml", yaml);
    struct conf *c = l.conf;
    str_fini(&l.text);
    return c;
}

Test(conf_value, sizes) {
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } rows[] = {{"1048576", 1 << 20},         {"1MiB", 1 << 20}, {"1 MiB", 1 << 20}, {"2GiB", INT64_C(2) << 30},
                {"1024KiB", 1 << 20},         {"1MB", -1},       {"1.5MiB", -1},     {"-1", -1},
                {"99999999999999999GiB", -1}, {"MiB", -1},       {"\"\"", -1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *c = load_one("http: {max_buffered: %s}\n" NO_STATE, rows[i].text);
        cr_expect_eq(c ? c->http.max_buffered : -1, rows[i].bytes, "%s", rows[i].text);
        conf_drop(c);
    }
}

Test(conf_value, times) {
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {{"0", 0},
                {"1s", US_PER_S},
                {"1.5s", 1500000},
                {"250ms", 250000},
                {"2m", 2 * US_PER_MIN},
                {"1h", US_PER_HOUR},
                {"2h", -1},
                {"1", -1},
                {"1 fortnight", -1},
                {"-1s", -1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *c = load_one("http: {drain: %s}\n" NO_STATE, rows[i].text);
        cr_expect_eq(c ? c->http.drain_us : -1, rows[i].us, "%s", rows[i].text);
        conf_drop(c);
    }
}

Test(conf_value, shares_and_factors) {
    static const struct {
        const char *text;
        int64_t over; /* FACTOR_ONE */
    } rows[] = {{"100%", 10000}, {"12.5%", 1250}, {"0.01%", 1}, {"0%", -1}, {"101%", -1}, {"50", -1}, {"-1%", -1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *c = load_one("hold: {max_share_key: %s}\n" NO_STATE, rows[i].text);
        cr_expect_eq(c ? c->hold.max_share_key : -1, rows[i].over, "%s", rows[i].text);
        conf_drop(c);
    }
    struct conf *c =
        load_one("backends: {a: {protocol: openai, url: \"http://h\", price_factor: %s}}\n" NO_STATE, "1.1");
    cr_expect_eq(c->backends[0].price_factor, 11000);
    conf_drop(c);
}

Test(conf_value, money_is_exact) {
    static const struct {
        const char *text;
        int64_t nanousd;
    } rows[] = {{"500 USD", 500 * NANO_PER_USD},
                {"0.000000001 USD", 1},
                {"0 USD", 0},
                {"500", -1},
                {"500 EUR", -1},
                {"-5 USD", -1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *c = load_one("organization: {budgets: [{limit: %s, period: day}]}\n" NO_STATE, rows[i].text);
        cr_expect_eq(c ? c->organization_budgets[0].limit_nanousd : -1, rows[i].nanousd, "%s", rows[i].text);
        conf_drop(c);
    }
}

Test(conf_value, addresses) {
    static const struct {
        const char *text;
        bool ok;
    } rows[] = {
        {"127.0.0.1:8080", true}, {"localhost:0", true}, {"[::1]:1", true},  {"unix:/a b", true}, {"[]:1", false},
        {"::1:80", false},        {":80", false},        {"h:65536", false}, {"h:", false},       {"h", false},
        {"unix:rel", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *c = load_one("listen: [{address: \"%s\"}]\n" NO_STATE, rows[i].text);
        cr_expect_eq(c != NULL, rows[i].ok, "%s", rows[i].text);
        conf_drop(c);
    }
}

Test(conf_value, dates) {
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {{"1970-01-02", US_PER_DAY}, {"1970-01-01T01:00:00+01:00", 0}, {"1970-13-01", -1}, {"tomorrow", -1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conf *c = load_one("teams: {a: {keys: [{name: k, expires: \"%s\", sha256: "
                                  "00000000000000000000000000000000000000000000000000000000000000aa}]}}\n" NO_STATE,
                                  rows[i].text);
        cr_expect_eq(c ? c->teams[0].keys[0].expires_us : -1, rows[i].us, "%s", rows[i].text);
        conf_drop(c);
    }
}

Test(conf_value, bounds_are_printed_as_they_are_written) {
    static const struct {
        enum type type;
        int64_t v;
        const char *text;
    } rows[] = {{TYPE_SIZE, 1 << 20, "1MiB"}, {TYPE_SIZE, 1500, "1500"},
                {TYPE_SIZE, 0, "0"},          {TYPE_DURATION, 90 * US_PER_S, "1m30s"},
                {TYPE_DURATION, 0, "0"},      {TYPE_PERCENT, 1250, "12.5%"},
                {TYPE_FACTOR, 8500, "0.85"},  {TYPE_COUNT, 7, "7"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str out;
        str_init(&out, 64);
        type_print_bound(rows[i].type, rows[i].v, &out);
        cr_expect_str_eq(out.at, rows[i].text);
        str_fini(&out);
    }
}

Test(conf_value, words_of_other_gateways) {
    cr_expect_not_null(foreign_word(SPAN("model_list")));
    cr_expect_not_null(foreign_word(SPAN("rpm")));
    cr_expect_null(foreign_word(SPAN("backends")));
    for (size_t i = 0; i < root_section.n; i++)
        cr_expect_null(foreign_word(span_of(root_section.rows[i].name)), "our own word %s is called foreign",
                       root_section.rows[i].name);
}
