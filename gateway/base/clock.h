/* What time it is. Rooms never ask: they are given `now`; only the hall, the command line and the writer thread call these.
 *
 * In test builds (TOLLGATE_TEST) the environment's TOLLGATE_CLOCK names a file of 8 bytes, an int64 offset in
 * microseconds that all processes map and add, so that a day passes when the test says so. */
#ifndef TOLLGATE_BASE_CLOCK_H
#define TOLLGATE_BASE_CLOCK_H

#include "gateway/base/span.h"

#define US_PER_MS INT64_C(1000)
#define US_PER_S INT64_C(1000000)
#define US_PER_MIN (60 * US_PER_S)
#define US_PER_HOUR (60 * US_PER_MIN)
#define US_PER_DAY (24 * US_PER_HOUR)

int64_t clock_wall_us(void); /* microseconds since 1970, UTC */
int64_t clock_mono_us(void); /* never goes back; origin is arbitrary */

#define CLOCK_TEXT_MAX 40
/* RFC 3339 with microseconds and Z: 2026-11-30T12:00:00.000000Z. Returns `out`. */
char *clock_text(int64_t wall_us, char out[CLOCK_TEXT_MAX]);
/* RFC 3339 (Z or an offset), or a bare date = its midnight UTC. */
must_check bool clock_parse(struct span text, int64_t *wall_us);
/* "50ms", "1.5s", "2m", "1h", "30d" to microseconds. */
must_check bool clock_parse_duration(struct span text, int64_t *us);
/* Shortest exact form: "90s" is "1m30s"; for people. */
char *clock_duration_text(int64_t us, char out[CLOCK_TEXT_MAX]);

#endif
