/* Money as integers, read from decimal text and written as it. Always true here: no floating point, and what does not fit
 * is refused. */
#include "gateway/base/money.h"

#include "gateway/base/json.h"

#include <stdio.h>

#define DECIMAL_TEXT_MAX 1024 /* against numbers written to keep the reader busy */
#define EXPONENT_MAX 1000000  /* larger exponents stop here: their value is zero or too large in any case */
#define NANO_DIGITS 9         /* decimal digits of a nano-dollar */
#define PICO_DIGITS 12        /* decimal digits of a pico-dollar */

/* --- reading --- */

/* A decimal taken apart: the digits of `whole` and then of `fraction`, the point standing `exponent` places to the
 * right of where it was written. */
struct decimal {
    struct span whole, fraction;
    int64_t exponent;
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static struct span take_digits(struct span *rest) {
    struct span digits = {rest->at, 0};
    while (digits.n < rest->n && is_digit(rest->at[digits.n]))
        digits.n++;
    rest->at += digits.n;
    rest->n -= digits.n;
    return digits;
}

static bool take_char(struct span *rest, char c) {
    if (rest->n == 0 || *rest->at != c)
        return false;
    rest->at++;
    rest->n--;
    return true;
}

static bool take_exponent(struct span *rest, int64_t *exponent) {
    bool negative = take_char(rest, '-');
    if (!negative)
        (void)take_char(rest, '+');
    struct span digits = take_digits(rest);
    int64_t value = 0;
    for (size_t i = 0; i < digits.n && value < EXPONENT_MAX; i++)
        value = value * 10 + (digits.at[i] - '0');
    *exponent = negative ? -value : value;
    return digits.n > 0;
}

static bool decimal_read(struct span text, struct decimal *d) {
    if (text.n == 0 || text.n > DECIMAL_TEXT_MAX)
        return false;
    d->whole = take_digits(&text);
    d->fraction = SPAN_NONE;
    d->exponent = 0;
    if (d->whole.n == 0)
        return false;
    if (take_char(&text, '.')) {
        d->fraction = take_digits(&text);
        if (d->fraction.n == 0)
            return false;
    }
    if ((take_char(&text, 'e') || take_char(&text, 'E')) && !take_exponent(&text, &d->exponent))
        return false;
    return text.n == 0;
}

static int decimal_digit(const struct decimal *d, int64_t i) {
    int64_t whole = (int64_t)d->whole.n, all = whole + (int64_t)d->fraction.n;
    if (i < 0 || i >= all)
        return 0;
    return (i < whole ? d->whole.at[i] : d->fraction.at[i - whole]) - '0';
}

static bool decimal_any_from(const struct decimal *d, int64_t i) {
    int64_t all = (int64_t)(d->whole.n + d->fraction.n);
    for (i = i < 0 ? 0 : i; i < all; i++) {
        if (decimal_digit(d, i) != 0)
            return true;
    }
    return false;
}

/* The first `n` digits as an integer; zeros stand for digits that were not written. */
static bool decimal_head(const struct decimal *d, int64_t n, int64_t *out) {
    int64_t all = (int64_t)(d->whole.n + d->fraction.n);
    *out = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i >= all && *out == 0)
            return true;
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, decimal_digit(d, i), out))
            return false;
    }
    return true;
}

bool money_decimal(struct span text, int scale, int64_t *out, bool *inexact) {
    struct decimal d;
    if (!decimal_read(text, &d))
        return false;
    int64_t point = (int64_t)d.whole.n + d.exponent + scale;
    if (!decimal_head(&d, point, out))
        return false;
    int next = point < 0 ? 0 : decimal_digit(&d, point);
    bool tail = decimal_any_from(&d, point + 1);
    if (inexact)
        *inexact = next != 0 || tail;
    bool up = next > 5 || (next == 5 && (tail || *out % 2 != 0));
    return !up || !__builtin_add_overflow(*out, 1, out);
}

/* Cuts `unit` off the end of a text, with the spaces before it. */
static bool cut_unit(struct span *text, const char *unit) {
    size_t n = strlen(unit);
    if (text->n < n || memcmp(text->at + text->n - n, unit, n) != 0)
        return false;
    text->n -= n;
    *text = span_trim(*text);
    return true;
}

/* An amount finer than a nano-dollar is refused, since nobody would be told that it was rounded. */
bool money_parse(struct span text, int64_t *nanousd) {
    bool inexact;
    text = span_trim(text);
    return cut_unit(&text, "USD") && money_decimal(text, NANO_DIGITS, nanousd, &inexact) && !inexact;
}

/* A bare zero needs no unit: `price: {input: 0, output: 0}` says that a model is free. */
static bool price_zero(struct span text, int64_t *picousd) {
    struct decimal d;
    if (!decimal_read(text, &d) || decimal_any_from(&d, 0))
        return false;
    *picousd = 0;
    return true;
}

bool money_parse_price(struct span text, int64_t *picousd, bool *inexact) {
    static const struct {
        const char *unit;
        int digits; /* the unit is 10^digits */
    } units[] = {{"USD/1M", 6}, {"USD/1K", 3}, {"USD/1", 0}};
    text = span_trim(text);
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (cut_unit(&text, units[i].unit))
            return money_decimal(text, PICO_DIGITS - units[i].digits, picousd, inexact);
    }
    if (inexact)
        *inexact = false;
    return price_zero(text, picousd);
}

/* --- writing --- */

char *money_text(int64_t nanousd, char out[MONEY_TEXT_MAX]) {
    uint64_t size = nanousd < 0 ? -(uint64_t)nanousd : (uint64_t)nanousd;
    uint64_t usd = size / (uint64_t)NANO_PER_USD, rest = size % (uint64_t)NANO_PER_USD;
    int n = snprintf(out, MONEY_TEXT_MAX, "%s%llu.%09llu", nanousd < 0 ? "-" : "", (unsigned long long)usd,
                     (unsigned long long)rest);
    while (out[n - 1] == '0')
        out[--n] = '\0';
    if (out[n - 1] == '.')
        out[--n] = '\0';
    return out;
}

void money_put(struct str *out, const char *name, int64_t nanousd) {
    char text[MONEY_TEXT_MAX];
    json_put_raw(out, name, span_of(money_text(nanousd, text)));
}
