/* What follows a try within the bounds of retries. Always true here: further tries within a rung stay below a share of
 * recent calls and a few more that a quiet gateway may always make; a wait ends before the deadline; and going down a
 * rung costs nothing of that budget. */
#include "routing/inside.h"

#include <assert.h>
#include <math.h>

#define TRAFFIC_WINDOW_US INT64_C(10000000) /* over which calls and retries fade to 1/e */
#define RETRIES_FREE 100                    /* about ten a second */

static void fade(struct routing *r, int64_t now_us) {
    int64_t passed_us = now_us - r->traffic.at_us;
    if (passed_us <= 0)
        return;
    double keep = exp(-(double)passed_us / (double)TRAFFIC_WINDOW_US);
    r->traffic.calls *= keep;
    r->traffic.again *= keep;
    r->traffic.at_us = now_us;
}

void routing_count_call(struct routing *r, int64_t now_us) {
    fade(r, now_us);
    r->traffic.calls++;
}

bool routing_may_retry(struct routing *r, const struct conf *conf, int64_t now_us) {
    fade(r, now_us);
    double most = RETRIES_FREE + r->traffic.calls * (double)conf->retries.budget / (double)FACTOR_ONE;
    if (r->traffic.again + 1 > most)
        return false;
    r->traffic.again++;
    return true;
}

/* Doubles with each try, between half and all of it, and never past half of the time that is left. */
static int64_t back_off(struct routing *r, const struct conf *conf, const struct walked *w) {
    int64_t us = conf->retries.backoff_us, max_us = conf->retries.backoff_max_us;
    for (int i = 1; i < w->tried && us < max_us; i++)
        us *= 2;
    us = us < max_us ? us : max_us;
    us = us / 2 + (int64_t)(random_next(&r->random) % (uint64_t)(us / 2 + 1));
    return us < w->left_us / 2 ? us : w->left_us > 0 ? w->left_us / 2 : 0;
}

struct next routing_next(struct routing *r, const struct conf *conf, const struct plan *p, const struct walked *w,
                         int64_t now_us) {
    const struct outcome_row *row = outcome_row(w->last);
    struct next out = {-1, 0};
    if (w->tried >= p->alias->attempts || w->left_us <= 0)
        return out;
    out.at = plan_next_behind(p, w->at, w->far, false, w->last, w->fallback);
    if (out.at < 0 || p->choices[out.at].rung != p->choices[w->at].rung)
        return out;
    if (row->sent && !routing_may_retry(r, conf, now_us))
        out.at = plan_next_behind(p, w->at, w->far, true, w->last, w->fallback);
    else if (row->waits)
        out.wait_us = back_off(r, conf, w);
    return out;
}

int64_t routing_patience_us(const struct plan *p, const struct walked *w) {
    bool follows =
        w->tried < p->alias->attempts && plan_next_behind(p, w->at, w->far, false, OUTCOME_TIMEOUT, w->fallback) >= 0;
    return follows ? w->left_us / 2 : w->left_us;
}
