/* A call as routing sees it. Always true here: what only some policies look at is worked out only where a rung of the
 * alias has one of them. */
#include "gateway/needs.h"

static bool has_policy(const struct conf_alias *a, enum conf_policy p) {
    for (size_t i = 0; i < a->n_rungs; i++)
        if (a->rungs[i].policy == p)
            return true;
    return false;
}

/* The tier that a call asks for, where it is sure which one it gets. */
static enum usage_tier tier_of(unsigned tiers) {
    for (enum usage_tier t = 0; t < TIER_N; t++)
        if (tiers == 1u << t)
            return t;
    return TIER_STANDARD;
}

static struct usage foresee(const struct call_size *s, int64_t in_tok, int64_t out_tok) {
    return (struct usage){.in = in_tok,
                          .out = out_tok,
                          .images_in = s->images,
                          .web_search = s->web_searches > 0,
                          .file_search = s->file_searches > 0,
                          .code_session = s->code_sessions > 0,
                          .tier = tier_of(s->tiers),
                          .regional = s->region_asked,
                          .estimated = true};
}

void needs_of_call(const struct llm_call *c, const struct budget *b, struct needs *n) {
    n->protocols = endpoint_row(c->endpoint)->protocols;
    n->caps = c->caps;
    n->in_bound_tok = budget_expect_tok(b, n->alias->name, &c->size);
    n->max_output_tok = c->size.max_output_tok;
    n->stream = c->stream;
    if (has_policy(n->alias, POLICY_COST))
        n->expected = foresee(&c->size, n->in_bound_tok, budget_expect_out_tok(b, n->alias->name, &c->size));
    n->affinity = has_policy(n->alias, POLICY_STICKY) ? call_affinity(c) : 0;
}
