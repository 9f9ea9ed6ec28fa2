/* Private to rate.c: what happened within the last minute, exactly enough to promise that no sixty seconds, wherever
 * they begin, hold more than a limit. What falls into one second after a cell was opened is kept in that cell, and
 * leaves with the last of it: so at most RATE_CELLS cells, and nobody waits longer than a minute. */
#ifndef TOLLGATE_BUDGET_WINDOW_H
#define TOLLGATE_BUDGET_WINDOW_H

#include "gateway/base/clock.h"

#define RATE_WINDOW_US (60 * US_PER_S)
#define RATE_CELL_US US_PER_S
#define RATE_CELLS 64 /* 62 are the most that can stand at once */

struct window_cell {
    int64_t first_us, last_us, sum;
};
struct window {
    struct window_cell cells[RATE_CELLS]; /* a ring, oldest at `at` */
    int at, n;
    int64_t sum; /* over all cells */
};

void window_forget(struct window *w, int64_t now_us); /* lets go of what is over; before a question is asked */
void window_add(struct window *w, int64_t count, int64_t now_us);
/* Takes back what was counted at an instant, as far as it is still there. */
void window_take_back(struct window *w, int64_t count, int64_t at_us);
/* How long until `count` more stay within the limit, if nobody else comes: 0 now, INT64_MAX never. */
int64_t window_wait_us(const struct window *w, int64_t limit, int64_t count, int64_t now_us);
int64_t window_empty_us(const struct window *w, int64_t now_us); /* how long until nothing is left in it */

#endif
