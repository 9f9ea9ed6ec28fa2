/* CORRECTIONS: what a period would cost at the prices that today's conf has for it, from the usage that its settles recorded, and the adjust records
 * that make the bill say so.
 *
 *     settle's tries x today's rows - (what they were priced at + every adjust since) -> adjust, where that is not 0
 *
 * Each request has its own adjust, with the words of its settle; so doing it twice writes nothing new. A correction of a
 * closed month is booked now, and says which month it concerns. */
#ifndef TOLLGATE_FINANCE_REPRICE_H
#define TOLLGATE_FINANCE_REPRICE_H

#include "gateway/finance/books.h"

#define REPRICE_ADJUSTS_MAX ((size_t)200000) /* of one run: what bounds its memory; the next run goes on */
#define REPRICE_KNOWN_MAX ((size_t)2000000)  /* requests that have adjusts already */

struct reprice_ask {
    const char *directory;
    const struct conf *conf;
    const char *model; /* "gpt-5.4" or "openai/gpt-5.4"; NULL: all */
    int64_t from_us, to_us;
    int64_t now_us;
    const struct zone *zone; /* of the months that adjusts concern */
    const atomic_bool *stop;
};
struct reprice_result {
    int64_t requests;                      /* looked at */
    int64_t unknown;                       /* left: a try's target has no known price in this conf */
    int64_t unusable;                      /* left: settled at their hold, without usage */
    int64_t before_nanousd, after_nanousd; /* of those that change */
    bool more;                             /* REPRICE_ADJUSTS_MAX was reached: run again */
    struct finance_records adjusts;
};
must_check bool reprice_run(const struct reprice_ask *ask, struct reprice_result *out, struct str *why);
void reprice_fini(struct reprice_result *r);
/* {"requests":...,"adjusts":...,...} */
void reprice_print(const struct reprice_result *r, struct str *out);

#endif
