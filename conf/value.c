/* Typed values: one row a type with its name, its JSON Schema and its reader. A reader leaves the value where the
 * directive says and nothing else; a wrong value is a problem at its own place, and the field keeps its zero. */
#include "conf/value.h"

#include "gateway/base/clock.h"

#include <stdio.h>
#include <stdlib.h>

bool value_is_scalar(struct reader *r, const struct node *n, const char *expected) {
    if (n->kind == NODE_SCALAR)
        return true;
    problem_at(r->report, n, "expected %s, found %s", expected, node_kind_name(n));
    return false;
}

static bool in_bounds(struct reader *r, const struct directive *d, const struct node *n, int64_t v) {
    if (!d->min && !d->max && !(d->flags & YET_ABOVE))
        return true;
    if (v >= d->min && v <= d->max)
        return true;
    struct str low, high;
    str_init(&low, 64);
    str_init(&high, 64);
    type_print_bound(d->type, d->min, &low);
    type_print_bound(d->type, d->max, &high);
    if (v > d->max && (d->flags & YET_ABOVE))
        problem_at(r->report, n, "%s above %s is not supported yet", d->name, high.at);
    else
        problem_at(r->report, n, "%s must be from %s to %s", d->name, low.at, high.at);
    str_fini(&low);
    str_fini(&high);
    return false;
}

static bool keep(struct reader *r, const struct directive *d, const struct node *n, int64_t v, void *at) {
    if (!in_bounds(r, d, n, v))
        return false;
    *(int64_t *)at = v;
    return true;
}

/* What stands where a digest belongs may be the secret itself: it is not repeated. */
bool value_hidden(struct reader *r, const struct node *n, const char *expected) {
    problem_at(r->report, n, "expected %s, found something else of %zu characters", expected, n->text.n);
    return false;
}

bool value_wrong(struct reader *r, const struct node *n, const char *expected) {
    problem_at(r->report, n, "expected %s, found '%.*s'", expected, SPAN_ARG(n->text));
    return false;
}

static bool is_bool(const struct node *n, const char *a, const char *b, const char *c) {
    return !n->quoted && (span_is(n->text, a) || span_is(n->text, b) || span_is(n->text, c));
}

static bool read_bool(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d, (void)more;
    bool yes = is_bool(n, "true", "True", "TRUE");
    if (!yes && !is_bool(n, "false", "False", "FALSE"))
        return value_wrong(r, n, "true or false");
    *(bool *)at = yes;
    return true;
}

static bool read_cap(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    bool has;
    if (!read_bool(r, d, n, &has, NULL))
        return false;
    *(unsigned *)at |= d->bit;
    *(unsigned *)more |= has ? d->bit : 0;
    return true;
}

static bool read_count(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    int64_t v;
    return span_to_i64(n->text, &v) ? keep(r, d, n, v, at) : value_wrong(r, n, "a whole number");
}

static bool read_weight(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    int64_t v = 0;
    if (!read_count(r, d, n, &v, more))
        return false;
    *(int *)at = (int)v; /* every such row has bounds far below INT_MAX */
    return true;
}

static bool read_auto(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    if (!span_is(n->text, "auto"))
        return read_count(r, d, n, at, more);
    *(int64_t *)at = 0;
    return true;
}

static bool read_limit(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    if (!span_is(n->text, "none"))
        return read_count(r, d, n, at, more);
    *(int64_t *)at = CONF_UNLIMITED;
    return true;
}

static const struct size_unit {
    const char *name;
    int64_t bytes;
} size_units[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}};

static bool read_size(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    for (size_t i = 0; i < ARRAY_LEN(size_units); i++) {
        size_t unit = strlen(size_units[i].name);
        if (n->text.n <= unit || memcmp(n->text.at + n->text.n - unit, size_units[i].name, unit) != 0)
            continue;
        int64_t v, bytes;
        struct span number = span_trim((struct span){n->text.at, n->text.n - unit});
        if (!span_to_i64(number, &v) || __builtin_mul_overflow(v, size_units[i].bytes, &bytes))
            break;
        return keep(r, d, n, bytes, at);
    }
    return value_wrong(r, n, "a size in bytes or with KiB, MiB or GiB");
}

static bool duration(struct reader *r, const struct directive *d, const struct node *n, struct span text, void *at) {
    int64_t v = 0;
    if (!span_is(text, "0") && !clock_parse_duration(text, &v))
        return value_wrong(r, n, "a time with a unit, as 50ms, 1.5s, 2m, 1h or 30d");
    return keep(r, d, n, v, at);
}

static bool read_duration(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    return duration(r, d, n, n->text, at);
}

static bool read_durations(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    struct span rest = n->text, first = SPAN_NONE;
    if (!n->source) /* a default: "50ms 1s" */
        return span_cut(&rest, ' ', &first) && duration(r, d, n, first, at) && duration(r, d, n, rest, more);
    if (n->kind != NODE_LIST || n->n != 2) {
        problem_at(r->report, n, "expected two times, [first, longest]");
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (!value_is_scalar(r, n->items[i], "a time") ||
            !duration(r, d, n->items[i], n->items[i]->text, i ? more : at))
            return false;
    if (*(int64_t *)at > *(int64_t *)more)
        problem_at(r->report, n, "the first time is longer than the longest");
    return true;
}

static bool read_percent(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    int64_t v;
    struct span text = n->text;
    if (!text.n || text.at[text.n - 1] != '%')
        return value_wrong(r, n, "a share, as 25%");
    text.n--;
    if (!money_decimal(span_trim(text), 2, &v, NULL))
        return value_wrong(r, n, "a share, as 25%");
    return keep(r, d, n, v, at);
}

static bool read_of_hundred(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    int64_t v;
    return money_decimal(n->text, 2, &v, NULL) ? keep(r, d, n, v, at)
                                               : value_wrong(r, n, "a number of percent, as 5 or 0.5");
}

/* In ascending order, whatever the order in which they were written. */
static void percent_put(int64_t *list, size_t n, int64_t v) {
    for (; n && list[n - 1] > v; n--)
        list[n] = list[n - 1];
    list[n] = v;
}

static bool read_percents(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    int64_t *list = tree_alloc(&r->conf->arena, CONF_WARN_MAX * sizeof *list), v;
    if (n->kind != NODE_LIST || n->n > CONF_WARN_MAX) {
        problem_at(r->report, n, "expected a list of at most %d shares, as [50%%, 80%%]", CONF_WARN_MAX);
        return false;
    }
    for (size_t i = 0; i < n->n; i++) {
        if (!value_is_scalar(r, n->items[i], "a share") || !read_percent(r, d, n->items[i], &v, NULL))
            return false;
        percent_put(list, i, v);
    }
    *(int64_t **)at = list;
    *(size_t *)more = n->n;
    return true;
}

static bool read_factor(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    int64_t v;
    bool inexact = false;
    if (!money_decimal(n->text, 4, &v, &inexact) || inexact)
        return value_wrong(r, n, "a factor of at most four decimals, as 0.85");
    return keep(r, d, n, v, at);
}

static bool read_money(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    int64_t v;
    if (!money_parse(n->text, &v))
        return value_wrong(r, n, "money, as 500 USD");
    return keep(r, d, n, v, at);
}

static bool read_money_limit(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    if (!span_is(n->text, "none"))
        return read_money(r, d, n, at, more);
    *(int64_t *)at = CONF_UNLIMITED;
    return true;
}

static bool read_price_value(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)more;
    int64_t v = 0;
    bool inexact = false;
    if (!span_is(n->text, "0") && !money_parse_price(n->text, &v, &inexact))
        return value_wrong(r, n, "a price, as 2.50 USD/1M");
    if (inexact)
        warning_at(r->report, n, "digits past a pico-dollar a unit are rounded");
    return keep(r, d, n, v, at);
}

static bool read_date(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more) {
    (void)d, (void)more;
    if (clock_parse(n->text, at))
        return true;
    return value_wrong(r, n, "a date, as 2027-06-30, or an RFC 3339 time");
}

#define SCHEMA_TEXT "\"type\": \"string\""
#define SCHEMA_COUNT "\"type\": \"integer\", \"minimum\": 0"
#define SCHEMA_UNIT(pattern) "\"type\": [\"string\", \"integer\"], \"pattern\": \"" pattern "\""

static const struct type_row {
    const char *name, *schema;
    bool (*read)(struct reader *r, const struct directive *d, const struct node *n, void *at, void *more);
    bool any_kind; /* takes lists or maps too */
} types[TYPE_N] = {
    [TYPE_BOOL] = {"true or false", "\"type\": \"boolean\"", read_bool, false},
    [TYPE_COUNT] = {"number", SCHEMA_COUNT, read_count, false},
    [TYPE_WEIGHT] = {"number", SCHEMA_COUNT, read_weight, false},
    [TYPE_AUTO] = {"number or auto", "\"type\": [\"integer\", \"string\"]", read_auto, false},
    [TYPE_LIMIT] = {"number or none", "\"type\": [\"integer\", \"string\"]", read_limit, false},
    [TYPE_SIZE] = {"size", SCHEMA_UNIT("^[0-9]+ *(KiB|MiB|GiB)?$"), read_size, false},
    [TYPE_DURATION] = {"time", SCHEMA_UNIT("^(0|[0-9.]+(ms|s|m|h|d|y))$"), read_duration, false},
    [TYPE_DURATIONS] = {"two times", "\"type\": \"array\", \"minItems\": 2, \"maxItems\": 2", read_durations, true},
    [TYPE_PERCENT] = {"share", "\"type\": \"string\", \"pattern\": \"^[0-9.]+%$\"", read_percent, false},
    [TYPE_OF_HUNDRED] = {"number of percent", "\"type\": \"number\"", read_of_hundred, false},
    [TYPE_PERCENTS] = {"list of shares", "\"type\": \"array\", \"items\": {\"type\": \"string\"}", read_percents, true},
    [TYPE_FACTOR] = {"factor", "\"type\": \"number\", \"minimum\": 0", read_factor, false},
    [TYPE_MONEY] = {"money", "\"type\": \"string\", \"pattern\": \"^[0-9.]+ USD$\"", read_money, false},
    [TYPE_MONEY_LIMIT] = {"money or none", "\"type\": \"string\", \"pattern\": \"^([0-9.]+ USD|none)$\"",
                          read_money_limit, false},
    [TYPE_PRICE] = {"price", SCHEMA_UNIT("^(0|[0-9.eE-]+ USD/1[KM]?)$"), read_price_value, false},
    [TYPE_DATE] = {"date", SCHEMA_TEXT, read_date, false},
    [TYPE_WORD] = {"word", SCHEMA_TEXT, read_word, false},
    [TYPE_SWITCH] = {"word", SCHEMA_TEXT, read_switch, false},
    [TYPE_CAP] = {"true or false", "\"type\": \"boolean\"", read_cap, false},
    [TYPE_TEXT] = {"text", "\"type\": [\"string\", \"number\"]", read_text, false},
    [TYPE_NAME] = {"name", "\"type\": [\"string\", \"number\"], \"pattern\": \"^[A-Za-z0-9._-]{1,64}$\"", read_name,
                   false},
    [TYPE_MODEL] = {"model", SCHEMA_TEXT, read_model, false},
    [TYPE_SECRET] = {"secret", SCHEMA_TEXT, read_secret, false},
    [TYPE_PATH] = {"path", SCHEMA_TEXT, read_path, false},
    [TYPE_URL] = {"url", SCHEMA_TEXT, read_url, false},
    [TYPE_ADDRESS] = {"address", SCHEMA_TEXT, read_address, false},
    [TYPE_SHA256] = {"hex digits", "\"type\": [\"string\", \"number\"], \"pattern\": \"^[0-9a-fA-F]{64}$\"",
                     read_sha256, false},
    [TYPE_ZONE] = {"time zone", SCHEMA_TEXT, read_zone, false},
    [TYPE_TEXTS] = {"list of words",
                    "\"type\": [\"array\", \"string\"], \"items\": {\"type\": [\"string\", \"number\"]}", read_texts,
                    true},
    [TYPE_REASONS] = {"list of reasons", "\"type\": \"array\", \"items\": {\"type\": \"string\"}", read_reasons, true},
    [TYPE_LABELS] = {"map", "\"type\": \"object\"", read_labels, true},
    [TYPE_SECTION] = {"section", NULL, NULL, true},
    [TYPE_LIST] = {"list", NULL, NULL, true},
    [TYPE_MAP] = {"map", NULL, NULL, true},
    [TYPE_CUSTOM] = {"", NULL, NULL, true},
};

bool value_read(struct reader *r, const struct directive *d, const struct node *n, void *at, void *count_at) {
    const struct type_row *t = &types[d->type];
    if (!t->any_kind && !value_is_scalar(r, n, t->name))
        return false;
    return t->read(r, d, n, at, count_at);
}

const char *type_name(enum type t) {
    return types[t].name;
}

const char *type_schema(enum type t) {
    return types[t].schema;
}

/* v over `one` as a decimal without trailing zeros. */
static void print_decimal(int64_t v, int64_t one, struct str *out) {
    str_printf(out, "%lld", (long long)(v / one));
    for (int64_t rest = v % one, digit = one / 10; rest; rest %= digit, digit /= 10)
        str_printf(out, "%s%lld", digit == one / 10 ? "." : "", (long long)(rest / digit));
}

static void print_size(int64_t v, struct str *out) {
    size_t i = 0;
    while (v % size_units[i].bytes)
        i++;
    str_printf(out, "%lld%s", (long long)(v / size_units[i].bytes), v ? size_units[i].name : "");
}

void type_print_bound(enum type t, int64_t v, struct str *out) {
    char text[CLOCK_TEXT_MAX];
    if (t == TYPE_DURATION || t == TYPE_DURATIONS) {
        str_puts(out, v ? clock_duration_text(v, text) : "0");
    } else if (t == TYPE_PERCENT || t == TYPE_PERCENTS || t == TYPE_OF_HUNDRED) {
        print_decimal(v, 100, out);
        str_putc(out, '%');
    } else if (t == TYPE_FACTOR) {
        print_decimal(v, FACTOR_ONE, out);
    } else if (t == TYPE_SIZE) {
        print_size(v, out);
    } else {
        str_printf(out, "%lld", (long long)v);
    }
}
