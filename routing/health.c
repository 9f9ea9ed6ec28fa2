/* Passive health: what is known of backends, keys, targets and lanes from how tries on them ended. Always true here:
 * state is keyed by names and outlives any conf; there are at most `max` parts; a part in flight is never forgotten;
 * faults that arrive while a part is already shut do not make its cool-down longer, or one burst would. */
#include "routing/health.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct part_names part_names(const struct choice *c) {
    return (struct part_names){span_of(c->backend->name), span_of(c->target), span_of(c->key ? c->key->name : NULL)};
}

/* "t" + target, "l" + target + NUL + key, ...; n of 0: too long to be remembered. */
static struct span name_of(enum part part, const struct part_names *names, char out[HEALTH_NAME_MAX]) {
    static const char letters[PART_N] = {
        [PART_BACKEND] = 'b', [PART_KEY] = 'k', [PART_TARGET] = 't', [PART_LANE] = 'l'};
    struct span base = part == PART_BACKEND || part == PART_KEY ? names->backend : names->target;
    struct span key = part == PART_KEY || part == PART_LANE ? names->key : SPAN_NONE;
    if (base.n + key.n + 2 > HEALTH_NAME_MAX)
        return SPAN_NONE;
    size_t n = 0;
    out[n++] = letters[part];
    memcpy(out + n, base.at, base.n);
    n += base.n;
    out[n++] = '\0';
    if (key.n)
        memcpy(out + n, key.at, key.n);
    return span_from(out, n + key.n);
}

void health_book_init(struct health_book *b, size_t max) {
    map_init(&b->by_name);
    list_init(&b->recent);
    b->max = max;
}

static void forget(struct health_book *b, struct health *h) {
    map_remove(&b->by_name, span_from(h->name, h->n_name));
    list_remove(&b->recent, &h->link);
    free(h->target);
    free(h->key);
    free(h);
}

void health_book_fini(struct health_book *b) {
    for (struct link *k; (k = list_first(&b->recent));)
        forget(b, container_of(k, struct health, link));
    map_fini(&b->by_name);
}

struct health *health_find(const struct health_book *b, enum part part, const struct part_names *names) {
    char buffer[HEALTH_NAME_MAX];
    struct span name = name_of(part, names, buffer);
    return name.n ? map_find(&b->by_name, name) : NULL;
}

/* The least recently used part that is idle and well; failing that, idle. */
static struct health *find_victim(const struct health_book *b) {
    struct health *idle = NULL;
    int looked = 0;
    for (struct link *k = list_first(&b->recent); k && looked < HEALTH_EVICT_SCAN; k = list_next(&b->recent, k)) {
        struct health *h = container_of(k, struct health, link);
        looked++;
        if (h->in_flight > 0)
            continue;
        if (!h->open)
            return h;
        if (!idle)
            idle = h;
    }
    return idle;
}

static bool make_room(struct health_book *b) {
    if (b->recent.n < b->max)
        return true;
    struct health *victim = find_victim(b);
    if (victim)
        forget(b, victim);
    return victim != NULL;
}

struct health *health_get(struct health_book *b, enum part part, const struct part_names *names) {
    char buffer[HEALTH_NAME_MAX];
    struct span name = name_of(part, names, buffer);
    struct health *h = name.n ? map_find(&b->by_name, name) : NULL;
    if (h) {
        list_remove(&b->recent, &h->link);
        list_append(&b->recent, &h->link);
        return h;
    }
    if (!name.n || !make_room(b))
        return NULL;
    h = xcalloc(1, sizeof *h + name.n + 1);
    h->part = part;
    h->n_name = name.n;
    memcpy(h->name, name.at, name.n);
    if (part == PART_LANE) {
        h->target = xstrndup(names->target.at, names->target.n);
        h->key = xstrndup(names->key.n ? names->key.at : "", names->key.n);
    }
    map_put(&b->by_name, name, h);
    list_append(&b->recent, &h->link);
    return h;
}

static bool shy(const struct health *h) {
    return !h->tripped && !h->asked;
}

enum health_state health_state(const struct health *h, int64_t now_us) {
    if (!h->open)
        return HEALTH_CLOSED;
    if (now_us >= h->open_until_us)
        return HEALTH_HALF_OPEN;
    return shy(h) ? HEALTH_SHY : HEALTH_SHUT;
}

bool health_probing(const struct health *h, int64_t now_us) {
    return h->prober && now_us - h->probe_us < PROBE_PATIENCE_US;
}

/* Old tries weigh less: by 1/e for each window that has passed. */
static void decay(struct health *h, int64_t window_us, int64_t now_us) {
    int64_t passed_us = now_us - h->decayed_us;
    if (passed_us > 0 && window_us > 0) {
        double keep = exp(-(double)passed_us / (double)window_us);
        h->good *= keep;
        h->bad *= keep;
    }
    if (passed_us > 0)
        h->decayed_us = now_us;
}

/* Enough tries of late, and too many of them bad. The floor keeps one fault from being 100 % of one try. */
static bool ratio_is_bad(const struct health *h, const struct conf *conf) {
    double all = h->good + h->bad;
    double floor = conf->health.samples > HEALTH_STREAK ? (double)conf->health.samples : HEALTH_STREAK;
    return all >= floor - 0.5 && h->bad * (double)FACTOR_ONE >= (double)conf->health.errors * all;
}

/* A quarter longer each time: about a fifth of the outage so far, so that its end is noticed within that. */
static int64_t cool_down(const struct health *h, const struct conf *conf) {
    int64_t us = conf->health.cool_down_us;
    for (int i = 0; i < h->level && us < conf->health.cool_down_max_us; i++)
        us += us / 4;
    return us < conf->health.cool_down_max_us ? us : conf->health.cool_down_max_us;
}

static int64_t obeyed(int64_t retry_after_us) {
    return retry_after_us < RETRY_AFTER_MAX_US ? retry_after_us : RETRY_AFTER_MAX_US;
}

static void shut(struct health *h, const struct conf *conf, const struct fault *f, int64_t now_us) {
    h->asked = f->retry_after_us > 0;
    h->at_once = f->at_once;
    h->early_us = now_us + conf->health.cool_down_us;
    h->open_until_us = now_us + (h->asked ? obeyed(f->retry_after_us) : cool_down(h, conf));
    h->reason = f->reason;
    h->open = true;
    h->prober = NULL;
    h->level++;
}

static void stay_shut(struct health *h, const struct conf *conf, const struct fault *f, int64_t now_us) {
    h->early_us = now_us + conf->health.cool_down_us;
    if (f->retry_after_us <= 0)
        return;
    int64_t until_us = now_us + obeyed(f->retry_after_us);
    h->asked = true;
    if (until_us > h->open_until_us)
        h->open_until_us = until_us;
}

void health_fault(struct health *h, const struct conf *conf, const struct fault *f, int64_t now_us) {
    decay(h, conf->health.window_us, now_us);
    h->bad += 1;
    h->streak++;
    h->tripped = h->tripped || ratio_is_bad(h, conf);
    enum health_state state = health_state(h, now_us);
    if (state == HEALTH_SHY || state == HEALTH_SHUT)
        stay_shut(h, conf, f, now_us);
    else if (state == HEALTH_HALF_OPEN || h->tripped || f->at_once || f->retry_after_us > 0 ||
             h->streak >= HEALTH_STREAK)
        shut(h, conf, f, now_us);
}

bool health_may_early(const struct health *h, int64_t now_us) {
    return !h->asked && now_us >= h->early_us && !health_probing(h, now_us);
}

/* A good try ends a cool-down that is over or that it was to probe, or one that only a streak began: it has broken it. */
void health_good(struct health *h, const struct conf *conf, bool probe, int64_t now_us) {
    decay(h, conf->health.window_us, now_us);
    h->good += 1;
    h->streak = 0;
    enum health_state state = health_state(h, now_us);
    bool streak_only = state == HEALTH_SHY && !h->at_once;
    if (!h->open || (state != HEALTH_HALF_OPEN && !streak_only && !probe))
        return;
    h->open = h->tripped = h->asked = h->at_once = false;
    h->prober = NULL;
    h->level = 0;
    h->open_until_us = 0;
    h->good = h->bad = 0;
}
