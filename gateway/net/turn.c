/* The turn: a ready list, a dead list and one event that is made active by hand. Always true: an item is on each list at
 * most once, and a buried item is never run again. */
#include "gateway/net/turn.h"

#include "gateway/base/clock.h"

#include <assert.h>

static void free_dead(struct turn *t) {
    struct link *k;
    while ((k = list_shift(&t->dead))) {
        struct turn_item *i = container_of(k, struct turn_item, dead);
        i->dispose(i);
    }
}

static void on_turn(evutil_socket_t fd, short what, void *arg) {
    struct turn *t = arg;
    (void)fd, (void)what;
    for (size_t n = t->ready.n; n && !list_empty(&t->ready); n--) {
        struct turn_item *i = container_of(list_shift(&t->ready), struct turn_item, ready);
        i->run(i);
    }
    free_dead(t);
    if (!list_empty(&t->ready))
        event_active(&t->ev, EV_TIMEOUT, 0);
}

void turn_init(struct turn *t, struct event_base *base) {
    int wrong = event_assign(&t->ev, base, -1, 0, on_turn, t);
    assert(!wrong);
    list_init(&t->ready);
    list_init(&t->dead);
}

void turn_fini(struct turn *t) {
    event_del(&t->ev);
    free_dead(t);
}

void turn_wake(struct turn *t, struct turn_item *i) {
    if (link_on_list(&i->ready) || link_on_list(&i->dead))
        return;
    if (list_empty(&t->ready))
        event_active(&t->ev, EV_TIMEOUT, 0);
    list_append(&t->ready, &i->ready);
}

void turn_rest(struct turn *t, struct turn_item *i) {
    if (link_on_list(&i->ready))
        list_remove(&t->ready, &i->ready);
}

/* Nobody may wait for another wake to have the dead freed, so burying makes the event active too. */
void turn_bury(struct turn *t, struct turn_item *i) {
    turn_rest(t, i);
    if (!link_on_list(&i->dead))
        list_append(&t->dead, &i->dead);
    event_active(&t->ev, EV_TIMEOUT, 0);
}

static void on_alarm(evutil_socket_t fd, short what, void *arg) {
    struct alarm *a = arg;
    (void)fd, (void)what;
    a->armed_us = 0;
    turn_wake(a->turn, a->item);
}

void alarm_init(struct alarm *a, struct turn *t, struct turn_item *i) {
    int wrong = evtimer_assign(&a->ev, event_get_base(&t->ev), on_alarm, a);
    assert(!wrong);
    a->turn = t;
    a->item = i;
    a->armed_us = 0;
}

void alarm_fini(struct alarm *a) {
    event_del(&a->ev);
    a->armed_us = 0;
}

void alarm_at(struct alarm *a, int64_t at_us, int64_t now_us) {
    if (at_us == INT64_MAX || (a->armed_us && a->armed_us <= at_us))
        return;
    int64_t wait = at_us > now_us ? at_us - now_us : 0;
    struct timeval tv = {wait / US_PER_S, wait % US_PER_S};
    a->armed_us = at_us ? at_us : 1;
    event_add(&a->ev, &tv);
}
