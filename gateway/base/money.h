/* Money without floating point. Amounts are int64 nano-dollars; prices are int64 pico-dollars a unit, read from decimal
 * text; products run in 128 bits and are rounded up once over a request's whole sum. */
#ifndef TOLLGATE_BASE_MONEY_H
#define TOLLGATE_BASE_MONEY_H

#include "gateway/base/usage.h"

#define NANO_PER_USD INT64_C(1000000000)
#define PICO_PER_NANO INT64_C(1000)
#define FACTOR_ONE INT64_C(10000) /* factors are integers over 10^4 */

/* Decimal text ("2.5e-06", "0.15") times 10^scale to an integer, half to even past the last digit (then *inexact, which
 * may be NULL, is set). False on bad text, a negative amount or overflow. */
must_check bool money_decimal(struct span text, int scale, int64_t *out, bool *inexact);
/* "500 USD" to nano-dollars. */
must_check bool money_parse(struct span text, int64_t *nanousd);
/* "2.50 USD/1M" (or /1K, or /1) to pico-dollars a unit. */
must_check bool money_parse_price(struct span text, int64_t *picousd, bool *inexact);

#define MONEY_TEXT_MAX 32
/* "0.000012345": exact USD, no trailing zeros. Returns `out`. */
char *money_text(int64_t nanousd, char out[MONEY_TEXT_MAX]);
/* The same as a JSON member, a number. */
void money_put(struct str *out, const char *name, int64_t nanousd);

/* One model's prices in pico-dollars a unit; -1: unknown. One member a priced line of struct usage, by the same name. */
struct price {
#define X(name) int64_t name;
    USAGE_LINES(X)
#undef X
    int64_t call;        /* a fee per call, pico-dollars; 0 if none */
    int64_t factor;      /* over FACTOR_ONE: the backend's price_factor */
    bool known;          /* false: no row: refuse where a budget applies */
    bool free;           /* every line is explicitly 0 */
    bool visible_output; /* all output that is charged is shown: no hidden reasoning */
    char digest[17];     /* first 16 hex of SHA-256 over the row's canonical text: names the row in audit records */
    const char *source;  /* where the row came from; owned by the conf; may be NULL */
    const char *from;    /* effective_from; owned by the conf; may be NULL */
};

/* Exact cost in nano-dollars, rounded up once; INT64_MAX on overflow. An unknown line is priced at the row's `in`
 * (input lines) or `out` (output lines). */
int64_t price_cost(const struct price *p, const struct usage *u);
/* The same over several tries of one request: one rounding over the whole sum. */
struct price_use {
    const struct price *price; /* borrowed */
    const struct usage *usage; /* borrowed */
};
int64_t price_cost_sum(const struct price_use *uses, size_t n);
/* The same before rounding, in pico-dollars as a decimal string, for the audit record of one try. */
#define PICO_TEXT_MAX 48
char *price_pico_text(const struct price *p, const struct usage *u, char out[PICO_TEXT_MAX]);

#endif
