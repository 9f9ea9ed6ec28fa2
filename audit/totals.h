/* Settled money by team, key and quarter hour of the admit: enough to rebuild any calendar period in any time zone (all
 * offsets are whole quarters of an hour), so that a start need not read the settles themselves. */
#ifndef TOLLGATE_AUDIT_TOTALS_H
#define TOLLGATE_AUDIT_TOTALS_H

#include "gateway/base/json.h"
#include "gateway/base/map.h"

struct totals {
    struct map by_key; /* team NUL key NUL quarter -> owned int64_t nano-dollars */
};

void totals_init(struct totals *t);
void totals_fini(struct totals *t);
void totals_add(struct totals *t, struct span team, struct span key_id, int64_t admitted_us, int64_t nanousd);
/* Joins what is older than every open period but the endless one. */
void totals_age(struct totals *t, int64_t now_us);
/* Appends [["team","key",quarter,nanousd],...]; false, with nothing appended, when that is over max_bytes. */
must_check bool totals_put(const struct totals *t, size_t max_bytes, struct str *out);
must_check bool totals_read(struct totals *t, struct json v);
void totals_each(const struct totals *t,
                 void (*see)(struct span team, struct span key_id, int64_t admitted_us, int64_t nanousd, void *user),
                 void *user);

#endif
