/* Which lanes of a rung may serve a call, and why the others may not, in words. Always true here: what a caller may
 * never have (another dialect, a missing tag, a key of another team) is checked before what it may not have now, so that
 * a boundary never counts as a reason to go down; and health is only read. */
#include "routing/lanes.h"

#include "gateway/base/clock.h"
#include "routing/drain.h"

#include <stdio.h>

/* Nobody has counted the tokens, and a guess errs by a factor of two. Between half of it and the whole the provider
 * decides: it answers "too long", and the plan goes on below. */
#define GUESS_SLACK 2

struct candidate {
    const struct conf_backend *backend;
    struct span model;
    const char *target;
    struct conf_model facts; /* of a candidate within the boundaries */
};

static bool say(struct verdict *v, enum barrier barrier, enum reason reason, const char *format, ...) printf_like(4, 5);
static bool say(struct verdict *v, enum barrier barrier, enum reason reason, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(v->why, sizeof v->why, format, args);
    va_end(args);
    v->barrier = barrier;
    v->reason = reason;
    return true;
}

void lanes_exclude(struct planner *p, const char *target, const struct verdict *v) {
    if (p->quiet)
        return;
    if (v->barrier > p->nearest)
        p->nearest = v->barrier;
    if (p->plan->n_excluded == PLAN_EXCLUDED_MAX) {
        p->plan->n_forgotten++;
        return;
    }
    char *why = arena_strdup(p->arena, span_of(v->why));
    if (!why) {
        p->full = true;
        return;
    }
    p->plan->excluded[p->plan->n_excluded++] = (struct exclusion){target, why, v->reason};
}

/* Whether a check keeps a target out; if so it has filled the verdict. */
typedef bool (*check)(const struct planner *p, const struct candidate *c, struct verdict *v);

static bool speaks_otherwise(const struct planner *p, const struct candidate *c, struct verdict *v) {
    static const char *const names[] = {
        [PROTOCOL_OPENAI] = "openai", [PROTOCOL_ANTHROPIC] = "anthropic", [PROTOCOL_DECODE] = "decode"};
    return !(p->needs->protocols & 1u << c->backend->protocol) &&
           say(v, BARRIER_ABILITY, REASON_N, "protocol %s does not serve this endpoint", names[c->backend->protocol]);
}

static bool has_tag(const struct conf_backend *b, struct span tag) {
    for (size_t i = 0; i < b->n_tags; i++)
        if (span_is(tag, b->tags[i]))
            return true;
    return false;
}

static bool find_missing(const struct conf_backend *b, const char *const *tags, size_t n, struct span *out) {
    for (size_t i = 0; i < n; i++)
        if (!has_tag(b, span_of(tags[i]))) {
            *out = span_of(tags[i]);
            return true;
        }
    return false;
}

/* The first tag that team, key or call require and the backend has not. */
static bool find_missing_tag(const struct needs *needs, const struct conf_backend *b, struct span *out) {
    const struct conf_key *key = needs->key;
    struct span rest = needs->require;
    if (find_missing(b, key->team->require, key->team->n_require, out) ||
        find_missing(b, key->require, key->n_require, out))
        return true;
    while (span_cut(&rest, ',', out)) {
        *out = span_trim(*out);
        if (out->n && !has_tag(b, *out))
            return true;
    }
    return false;
}

static bool lacks_tag(const struct planner *p, const struct candidate *c, struct verdict *v) {
    struct span tag;
    return find_missing_tag(p->needs, c->backend, &tag) &&
           say(v, BARRIER_BOUNDARY, REASON_N, "no tag %.*s", SPAN_ARG(tag));
}

static bool key_is_for_team(const struct conf_upstream_key *key, const struct conf_team *team) {
    for (size_t i = 0; i < key->n_teams; i++)
        if (strcmp(key->teams[i], team->name) == 0)
            return true;
    return !key->teams;
}

static bool has_key_for(const struct conf_backend *b, const struct conf_team *team) {
    for (size_t i = 0; i < b->n_keys; i++)
        if (key_is_for_team(&b->keys[i], team))
            return true;
    return b->n_keys == 0;
}

static bool has_no_key_for_team(const struct planner *p, const struct candidate *c, struct verdict *v) {
    const struct conf_team *team = p->needs->key->team;
    return !has_key_for(c->backend, team) &&
           say(v, BARRIER_BOUNDARY, REASON_N, "no key of backend %s is for team %s", c->backend->name, team->name);
}

bool routing_permits(const struct needs *needs, const struct conf_backend *b) {
    struct span tag;
    return !find_missing_tag(needs, b, &tag) && has_key_for(b, needs->key->team);
}

static bool is_off(const struct planner *p, const struct candidate *c, struct verdict *v) {
    (void)p;
    return c->backend->off && say(v, BARRIER_TIME, REASON_UNAVAILABLE, "backend %s is off: %s", c->backend->name,
                                  c->backend->off_reason ? c->backend->off_reason : "no key");
}

static bool is_too_small(const struct planner *p, const struct candidate *c, struct verdict *v) {
    int64_t context_tok = c->facts.context_tok;
    if (context_tok <= 0)
        return false;
    if (p->needs->in_bound_tok / GUESS_SLACK > context_tok)
        return say(v, BARRIER_CONTEXT, REASON_CONTEXT_WINDOW, "context of %lld is too small", (long long)context_tok);
    return p->needs->max_output_tok > context_tok &&
           say(v, BARRIER_CONTEXT, REASON_CONTEXT_WINDOW, "context of %lld is too small for %lld of output",
               (long long)context_tok, (long long)p->needs->max_output_tok);
}

static bool cannot(const struct planner *p, const struct candidate *c, struct verdict *v) {
    static const struct {
        enum cap cap;
        const char *name;
    } caps[] = {{CAP_VISION, "vision"}, {CAP_TOOLS, "tools"},         {CAP_JSON_SCHEMA, "json_schema"},
                {CAP_AUDIO, "audio"},   {CAP_DOCUMENTS, "documents"}, {CAP_LOGPROBS, "logprobs"}};
    unsigned missing = p->needs->caps & c->facts.caps_said & ~c->facts.caps;
    for (size_t i = 0; i < ARRAY_LEN(caps); i++)
        if (missing & caps[i].cap)
            return say(v, BARRIER_ABILITY, REASON_CAPABILITY, "no %s", caps[i].name);
    return false;
}

static bool writes_too_little(const struct planner *p, const struct candidate *c, struct verdict *v) {
    int64_t most_tok = c->facts.max_output_tok;
    return most_tok > 0 && p->needs->max_output_tok > most_tok &&
           say(v, BARRIER_ABILITY, REASON_CAPABILITY, "at most %lld of output", (long long)most_tok);
}

static bool is_another_model(const struct planner *p, const struct candidate *c, struct verdict *v) {
    if (!p->models || p->needs->fallback == FALLBACK_ANY)
        return false;
    if (p->needs->fallback == FALLBACK_NONE)
        return say(v, BARRIER_NONE, REASON_N, "the caller wants no fallback");
    for (size_t i = 0; i < p->n_models; i++)
        if (span_equal(p->models[i], c->model))
            return false;
    return say(v, BARRIER_NONE, REASON_N, "another model, and the caller wants the same");
}

static const check boundaries[] = {speaks_otherwise, lacks_tag, has_no_key_for_team};
static const check conditions[] = {is_another_model, is_off, is_too_small, cannot, writes_too_little};

static bool any(const check *checks, size_t n, const struct planner *p, const struct candidate *c, struct verdict *v) {
    for (size_t i = 0; i < n; i++)
        if (checks[i](p, c, v))
            return true;
    return false;
}

static void note_back(struct planner *p, int64_t back_us) {
    if (back_us < p->back_us)
        p->back_us = back_us;
}

static bool has_no_slot(struct planner *p, const struct lane *lane, const struct part_names *names, struct verdict *v) {
    const struct health *h = health_find(&p->r->health, PART_BACKEND, names);
    int64_t max = lane->backend->in_flight;
    if (!h || max == CONF_UNLIMITED || h->in_flight < max)
        return false;
    note_back(p, p->now_us + SOON_US);
    return say(v, BARRIER_TIME, REASON_RATE_LIMITED, "all %lld slots of backend %s are in use", (long long)max,
               lane->backend->name);
}

/* What keeps a lane waiting. */
struct illness {
    const struct health *worst; /* the part that is back last; NULL: all are well enough */
    bool probe;                 /* one of them is half-open, and this call may probe it */
    bool shut;                  /* one of them is shut ... */
    bool hopeless;              /* ... and may not be tried even where nothing else is left */
    int64_t back_us;            /* when the lane may be tried at the latest where nothing else is left */
};

static void look_at_part(const struct health *h, int64_t now_us, struct illness *out) {
    enum health_state state = health_state(h, now_us);
    bool half = state == HEALTH_HALF_OPEN, probed = health_probing(h, now_us);
    out->probe = out->probe || (half && !probed);
    if (state == HEALTH_CLOSED || (half && !probed))
        return;
    bool shut = h->tripped || h->asked;
    out->shut = out->shut || shut;
    out->hopeless = out->hopeless || (shut && (half || !health_may_early(h, now_us)));
    int64_t back_us = h->asked || h->early_us > h->open_until_us ? h->open_until_us : h->early_us;
    out->back_us = back_us > out->back_us ? back_us : out->back_us;
    if (!out->worst || h->open_until_us > out->worst->open_until_us)
        out->worst = h;
}

static void say_cooling(const struct planner *p, const struct health *h, struct verdict *v) {
    static const char *const parts[PART_N] = {"backend", "key", "target", "lane"};
    int64_t left_us = h->open_until_us - p->now_us;
    char text[CLOCK_TEXT_MAX];
    if (left_us <= 0)
        say(v, BARRIER_TIME, h->reason, "%s is being probed after its cool-down", parts[h->part]);
    else
        say(v, BARRIER_TIME, h->reason, "%s cooling down for %s (%s)", parts[h->part],
            clock_duration_text((left_us + 99999) / 100000 * 100000, text), reason_names[h->reason]);
}

static bool is_ill(struct planner *p, struct lane *lane, const struct part_names *names, struct verdict *v) {
    struct illness ill = {0};
    for (enum part part = 0; part < PART_N; part++) {
        const struct health *h = health_find(&p->r->health, part, names);
        if (h)
            look_at_part(h, p->now_us, &ill);
    }
    if (!ill.worst) {
        lane->why = ill.probe ? "probe after cool-down" : NULL;
        return false;
    }
    if (!ill.hopeless && p->take_last) {
        lane->last = true;
        lane->why = ill.shut ? "probe before its time: nothing else is left" : "cooling down, but nothing else is left";
        return false;
    }
    p->n_last += !ill.hopeless;
    note_back(p, ill.back_us > p->now_us ? ill.back_us : p->now_us + SOON_US); /* else another's probe is under way */
    say_cooling(p, ill.worst, v);
    return true;
}

static bool is_drained(struct planner *p, const struct part_names *names, struct verdict *v) {
    char text[CLOCK_TEXT_MAX];
    int64_t until_us = drain_until(p->r, names, p->now_us), left_us = until_us - p->now_us;
    if (!until_us)
        return false;
    if (until_us == INT64_MAX)
        return say(v, BARRIER_TIME, REASON_UNAVAILABLE, "drained by an operator");
    note_back(p, until_us);
    return say(v, BARRIER_TIME, REASON_UNAVAILABLE, "drained by an operator for %s",
               clock_duration_text((left_us + US_PER_S - 1) / US_PER_S * US_PER_S, text));
}

/* A lane's exclusion names its key where there are several. */
static void exclude_lane(struct planner *p, const struct lane *lane, const struct verdict *v, struct rung_lanes *out) {
    struct verdict with_key = *v;
    if (lane->key && lane->backend->n_keys > 1)
        say(&with_key, v->barrier, v->reason, "key %s: %.*s", lane->key->name, WHY_MAX - 80, v->why);
    if (v->reason != REASON_N)
        out->reasons |= REASON_BIT(v->reason);
    lanes_exclude(p, lane->target, &with_key);
}

/* Whether the lane has a place already: higher up in the plan, or in this rung. */
static bool is_there_already(const struct planner *p, const struct lane *lane, const struct rung_lanes *out) {
    for (int i = 0; i < p->plan->n; i++)
        if (p->plan->choices[i].key == lane->key && strcmp(p->plan->choices[i].target, lane->target) == 0)
            return true;
    for (size_t i = 0; i < out->n; i++)
        if (out->lanes[i].key == lane->key && strcmp(out->lanes[i].target, lane->target) == 0)
            return true;
    return false;
}

/* What the policies look at. */
static void look_at(const struct planner *p, struct lane *lane, const struct part_names *names) {
    const struct health *target = health_find(&p->r->health, PART_TARGET, names),
                        *own = health_find(&p->r->health, PART_LANE, names);
    lane->facts.latency_us = target ? latency_now(&target->waits[p->needs->stream], p->now_us) : -1;
    lane->facts.in_flight = target ? target->in_flight : 0;
    lane->in_flight = own ? own->in_flight : 0;
}

static void gather_lane(struct planner *p, const struct lane *lane, struct rung_lanes *out) {
    struct verdict v = {.barrier = BARRIER_NONE};
    struct part_names names = {span_of(lane->backend->name), span_of(lane->target),
                               span_of(lane->key ? lane->key->name : NULL)};
    struct lane *slot = &out->lanes[out->n];
    *slot = *lane;
    look_at(p, slot, &names);
    if (lane->key && !key_is_for_team(lane->key, p->needs->key->team)) {
        say(&v, BARRIER_BOUNDARY, REASON_N, "not for team %s", p->needs->key->team->name);
        exclude_lane(p, lane, &v, out);
    } else if (is_there_already(p, lane, out)) {
        say(&v, BARRIER_NONE, REASON_N, "stands in the plan already");
        exclude_lane(p, lane, &v, out);
    } else if (is_drained(p, &names, &v) || has_no_slot(p, lane, &names, &v) || is_ill(p, slot, &names, &v))
        exclude_lane(p, lane, &v, out);
    else
        out->n++;
}

/* `text` with its first '*' replaced by what the alias's '*' matched. */
static struct span fill_capture(struct arena *a, struct span text, struct span captured) {
    const char *star = memchr(text.at, '*', text.n);
    if (!star)
        return text;
    size_t head = (size_t)(star - text.at), n = text.n - 1 + captured.n;
    char *out = arena_alloc(a, n + 1);
    if (!out)
        return SPAN_NONE;
    memcpy(out, text.at, head);
    if (captured.n)
        memcpy(out + head, captured.at, captured.n);
    memcpy(out + head + captured.n, star + 1, text.n - head - 1);
    return span_from(out, n);
}

static bool name_candidate(struct planner *p, const struct conf_target *t, struct candidate *c) {
    struct span model = span_of(t->model);
    c->backend = t->backend;
    c->model = p->needs->alias->pattern ? fill_capture(p->arena, model, p->needs->captured) : model;
    size_t n_name = strlen(t->backend->name);
    char *target = c->model.at ? arena_alloc(p->arena, n_name + 1 + c->model.n + 1) : NULL;
    if (!target) {
        p->full = true;
        return false;
    }
    memcpy(target, t->backend->name, n_name);
    target[n_name] = '/';
    memcpy(target + n_name + 1, c->model.at, c->model.n);
    c->target = target;
    return true;
}

static int64_t cost_of(const struct planner *p, const struct candidate *c) {
    struct price price = conf_price(p->needs->conf, c->backend, c->model, p->needs->wall_us);
    return price.known ? price_cost(&price, &p->needs->expected) : -1;
}

static void gather_target(struct planner *p, const struct conf_rung *rung, size_t i, struct rung_lanes *out) {
    const struct conf_target *t = &rung->targets[i];
    struct candidate c = {.facts = {.context_tok = -1}};
    struct verdict v = {.barrier = BARRIER_NONE};
    if (!name_candidate(p, t, &c))
        return;
    if (any(boundaries, ARRAY_LEN(boundaries), p, &c, &v)) {
        lanes_exclude(p, c.target, &v);
        return;
    }
    c.facts = conf_model_facts(p->needs->conf, c.backend, c.model);
    out->models[out->n_models++] = c.model;
    if (any(conditions, ARRAY_LEN(conditions), p, &c, &v)) {
        if (v.reason != REASON_N)
            out->reasons |= REASON_BIT(v.reason);
        lanes_exclude(p, c.target, &v);
        return;
    }
    struct lane lane = {.backend = c.backend,
                        .model = c.model,
                        .target = c.target,
                        .nth_target = i,
                        .target_weight = t->weight,
                        .key_weight = 1,
                        .facts.cost_nanousd = rung->policy == POLICY_COST ? cost_of(p, &c) : -1};
    if (c.backend->n_keys == 0)
        gather_lane(p, &lane, out);
    for (size_t k = 0; k < c.backend->n_keys; k++) {
        lane.key = &c.backend->keys[k];
        lane.key_weight = lane.key->weight;
        gather_lane(p, &lane, out);
    }
}

void lanes_gather(struct planner *p, const struct conf_rung *rung, struct rung_lanes *out) {
    size_t n_lanes = 0;
    for (size_t i = 0; i < rung->n_targets; i++)
        n_lanes += rung->targets[i].backend->n_keys ? rung->targets[i].backend->n_keys : 1;
    /* One place more: a lane is written down before it is judged. */
    *out = (struct rung_lanes){.lanes = arena_alloc(p->arena, (n_lanes + 1) * sizeof *out->lanes),
                               .models = arena_alloc(p->arena, (rung->n_targets + 1) * sizeof *out->models)};
    if (!out->lanes || !out->models) {
        p->full = true;
        return;
    }
    for (size_t i = 0; i < rung->n_targets && !p->full; i++)
        gather_target(p, rung, i, out);
}
