/* A sliding minute in cells. Always true here: `sum` is the sum of the cells, and cells are in the order of time. When
 * the clock is set back, the cells go back with it: what was used up stays so for a minute, not until the old time. */
#include "budget/window.h"

#include <assert.h>

static struct window_cell *cell(struct window *w, int i) {
    return &w->cells[(w->at + i) % RATE_CELLS];
}

static const struct window_cell *cell_seen(const struct window *w, int i) {
    return &w->cells[(w->at + i) % RATE_CELLS];
}

static int64_t sum_of(int64_t a, int64_t b) {
    int64_t out;
    return __builtin_add_overflow(a, b, &out) ? INT64_MAX : out;
}

static void follow_clock(struct window *w, int64_t now_us) {
    int64_t ahead = w->n > 0 ? cell(w, w->n - 1)->last_us - now_us : 0;
    if (ahead <= RATE_CELL_US)
        return;
    for (int i = 0; i < w->n; i++) {
        cell(w, i)->first_us -= ahead;
        cell(w, i)->last_us -= ahead;
    }
}

void window_forget(struct window *w, int64_t now_us) {
    follow_clock(w, now_us);
    while (w->n > 0 && now_us - cell(w, 0)->last_us >= RATE_WINDOW_US) {
        w->sum -= cell(w, 0)->sum;
        w->at = (w->at + 1) % RATE_CELLS;
        w->n--;
    }
}

/* A count that does not fit the sum is cut: far above any limit nothing more is to be learnt. */
void window_add(struct window *w, int64_t count, int64_t now_us) {
    window_forget(w, now_us);
    count = sum_of(w->sum, count) - w->sum;
    if (count <= 0)
        return;
    if (w->n > 0 && now_us < cell(w, w->n - 1)->last_us)
        now_us = cell(w, w->n - 1)->last_us;
    if (w->n == 0 || now_us - cell(w, w->n - 1)->first_us >= RATE_CELL_US) {
        assert(w->n < RATE_CELLS);
        *cell(w, w->n++) = (struct window_cell){.first_us = now_us};
    }
    struct window_cell *c = cell(w, w->n - 1);
    c->last_us = now_us;
    c->sum += count;
    w->sum += count;
}

void window_take_back(struct window *w, int64_t count, int64_t at_us) {
    for (int i = w->n - 1; i >= 0 && count > 0; i--) {
        struct window_cell *c = cell(w, i);
        if (at_us < c->first_us || at_us > c->last_us)
            continue;
        int64_t back = count < c->sum ? count : c->sum;
        c->sum -= back;
        w->sum -= back;
        return;
    }
}

int64_t window_wait_us(const struct window *w, int64_t limit, int64_t count, int64_t now_us) {
    if (count > limit)
        return INT64_MAX;
    int64_t left = w->sum, wait = 0;
    for (int i = 0; i < w->n && left > limit - count; i++) {
        left -= cell_seen(w, i)->sum;
        wait = cell_seen(w, i)->last_us + RATE_WINDOW_US - now_us;
    }
    return wait;
}

int64_t window_empty_us(const struct window *w, int64_t now_us) {
    return w->n == 0 ? 0 : cell_seen(w, w->n - 1)->last_us + RATE_WINDOW_US - now_us;
}
