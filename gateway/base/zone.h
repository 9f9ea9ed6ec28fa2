/* Calendar periods in a time zone of the system's tz database (RFC 8536 files), without touching the process's TZ. */
#ifndef TOLLGATE_BASE_ZONE_H
#define TOLLGATE_BASE_ZONE_H

#include "gateway/base/span.h"

enum period { PERIOD_HOUR, PERIOD_DAY, PERIOD_WEEK, PERIOD_MONTH, PERIOD_TOTAL };
extern const char *const period_names[]; /* "hour", ... ; indexed by enum period */

struct zone;
/* NULL when the name is unknown or malformed; "UTC" always works. Zones are cached for the process's life. */
const struct zone *zone_get(const char *name);
const char *zone_name(const struct zone *z);
int64_t zone_offset_s(const struct zone *z, int64_t wall_us); /* local minus UTC */
/* The half-open period [*from_us, *to_us) that holds wall_us. Weeks begin on Monday (ISO 8601). PERIOD_TOTAL:
 * [0, INT64_MAX). A local midnight that does not exist begins at the first instant after the gap. */
void zone_period(const struct zone *z, enum period p, int64_t wall_us, int64_t *from_us, int64_t *to_us);

#endif
