/* The house looks at itself: what nobody asks about and somebody should be told of.
 *
 *     tick -> each second: lanes that are down, a log that lags     -> alert
 *                          files that ${file:PATH} names            -> the conf anew
 *          -> each day, and after each load: keys that end soon     -> alert */
#ifndef TOLLGATE_GATEWAY_WATCH_H
#define TOLLGATE_GATEWAY_WATCH_H

#include "gateway/base/clock.h"

#define WATCH_LOOK_US US_PER_S
#define WATCH_KEYS_US US_PER_DAY
#define WATCH_LAG_RECORDS 1000 /* not yet written ... */
#define WATCH_LAG_LOOKS 3      /* ... at so many looks in a row: the disk does not keep up */

struct gateway;
struct request;
struct watch;

struct watch *watch_new(void);
void watch_free(struct watch *w);
void watch_tick(struct gateway *g, int64_t mono_us);
void watch_conf_changed(struct gateway *g, bool reloaded); /* reloaded: all its files were read now */
/* A call to a model that has no price; whether it is refused is the ledger's matter. */
void watch_price_unknown(const struct request *r);

#endif
