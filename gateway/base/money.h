/* Money without floating point. Amounts are int64 nano-dollars; prices are int64 pico-dollars a unit, read from decimal
 * text; products run in 128 bits and are rounded up once over a request's whole sum. */
#ifndef TOLLGATE_BASE_MONEY_H
#define TOLLGATE_BASE_MONEY_H

#include "gateway/base/span.h"

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

#endif
