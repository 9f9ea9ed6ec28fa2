/* The ladder digest: what an alias's answers come from, as 32 bytes of a cache key. Always true here: it does not depend
 * on the order of rungs and targets, on weights, policy, keys or timeouts; a degraded rung does not enter it; the target that
 * an arm tries first does. */
#include "routing/routing.h"

#include <stdlib.h>

struct source {
    uint8_t sha256[SHA256_BYTES];
};

static void add_field(struct sha256 *s, struct span text) {
    uint8_t n[8];
    for (int i = 0; i < 8; i++)
        n[i] = (uint8_t)((uint64_t)text.n >> 8 * i);
    sha256_add(s, span_from(n, sizeof n));
    sha256_add(s, text);
}

/* A field is its length and its bytes, so that no two lists of fields look alike. */
static void digest_target(const struct conf_target *t, bool pattern, struct span captured, struct source *out) {
    struct span model = span_of(t->model);
    const char *star = pattern ? memchr(model.at, '*', model.n) : NULL;
    size_t head = star ? (size_t)(star - model.at) : model.n;
    char protocol = (char)t->backend->protocol;
    struct sha256 *s = sha256_new();
    add_field(s, span_of(t->backend->name));
    add_field(s, span_from(&protocol, 1));
    add_field(s, span_of(t->backend->url ? t->backend->url : t->backend->decode.model));
    uint8_t n[8];
    struct span parts[3] = {
        {model.at, head}, star ? captured : SPAN_NONE, star ? span_from(star + 1, model.n - head - 1) : SPAN_NONE};
    uint64_t sum = parts[0].n + parts[1].n + parts[2].n;
    for (int i = 0; i < 8; i++)
        n[i] = (uint8_t)(sum >> 8 * i);
    sha256_add(s, span_from(n, sizeof n));
    for (int i = 0; i < 3; i++)
        sha256_add(s, parts[i]);
    sha256_end(s, out->sha256);
}

static int by_bytes(const void *a, const void *b) {
    return memcmp(a, b, SHA256_BYTES);
}

static size_t n_sources(const struct conf_alias *alias) {
    size_t n = 0;
    for (size_t i = 0; i < alias->n_rungs; i++)
        n += alias->rungs[i].degraded ? 0 : alias->rungs[i].n_targets;
    return n;
}

/* An arm that goes elsewhere first shares no answer with one that goes elsewhere, or nowhere else. */
static void add_arm(const struct conf_alias *alias, struct span captured, const struct arm *arm, struct sha256 *s) {
    struct source first;
    if (!arm->first)
        return;
    add_field(s, span_of(arm_names[arm->kind]));
    digest_target(arm->first, alias->pattern, captured, &first);
    sha256_add(s, span_from(first.sha256, SHA256_BYTES));
}

void routing_ladder_digest(const struct conf_alias *alias, struct span captured, const struct arm *arm,
                           uint8_t out[SHA256_BYTES]) {
    size_t n = 0;
    struct source *sources = xcalloc(n_sources(alias) + 1, sizeof *sources);
    for (size_t i = 0; i < alias->n_rungs; i++)
        for (size_t j = 0; j < alias->rungs[i].n_targets && !alias->rungs[i].degraded; j++)
            digest_target(&alias->rungs[i].targets[j], alias->pattern, captured, &sources[n++]);
    qsort(sources, n, sizeof *sources, by_bytes);
    struct sha256 *s = sha256_new();
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_bytes(&sources[i], &sources[i - 1]) != 0)
            sha256_add(s, span_from(sources[i].sha256, SHA256_BYTES));
    add_arm(alias, captured, arm, s);
    sha256_end(s, out);
    free(sources);
}
