/* What happens once a turn of the loop: items that were woken are run, then what was buried is freed.
 *
 * Event callbacks only wake; all work is done in run(), and nothing is freed before every run() of the turn has
 * returned. An item woken while the turn runs comes in the next round of the same dispatch. */
#ifndef TOLLGATE_GATEWAY_TURN_H
#define TOLLGATE_GATEWAY_TURN_H

#include "gateway/base/list.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdint.h>

struct turn_item {
    struct link ready, dead;
    void (*run)(struct turn_item *i);
    void (*dispose)(struct turn_item *i); /* frees the owner, at the end of the turn in which it was buried */
};

struct turn {
    struct event ev;
    struct list ready, dead;
};

void turn_init(struct turn *t, struct event_base *base);
void turn_fini(struct turn *t); /* frees what is buried */
void turn_wake(struct turn *t, struct turn_item *i);
void turn_rest(struct turn *t, struct turn_item *i); /* not woken after all */
void turn_bury(struct turn *t, struct turn_item *i);

/* Wakes an item at a time or, since it is lazy about moving back, somewhat earlier: look at the clock. */
struct alarm {
    struct event ev;
    struct turn *turn;
    struct turn_item *item;
    int64_t armed_us; /* 0: not armed */
};

void alarm_init(struct alarm *a, struct turn *t, struct turn_item *i);
void alarm_fini(struct alarm *a);
void alarm_at(struct alarm *a, int64_t at_us, int64_t now_us); /* INT64_MAX: no need */

#endif
