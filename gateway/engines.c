/* Engines and the names of their models. Always true: the base is what conf calls it, every other name is an adapter, and none
 * means the base by mistake. */
#include "gateway/engines.h"

#include "gateway/gateway.h"
#include "gateway/workers/worker.h"

#include <stdio.h>
#include <stdlib.h>

#define PATH_BYTES_MAX 4096

struct decode_options engine_options(const struct conf_backend *b) {
    const struct conf_decode *d = &b->decode;
    return (struct decode_options){.directory = d->model,
                                   .device = d->device,
                                   .dtype = d->dtype,
                                   .falls_back = d->on_device_error == DEVICE_ERROR_CPU,
                                   .max_context = d->max_context,
                                   .max_sequences = d->max_sequences,
                                   .batch_tokens = d->batch_tokens,
                                   .threads = d->threads,
                                   .no_prefixes = d->prefixes == PREFIXES_OFF,
                                   .adapters = d->adapters,
                                   .adapter_memory = d->adapter_memory,
                                   .max_adapter_rank = d->max_adapter_rank,
                                   .adapter_watch_us = d->adapter_watch_us,
                                   .keep_versions = d->keep_versions,
                                   .pins = d->pins,
                                   .n_pins = d->n_pins};
}

bool engines_open(struct gateway *g, struct str *why) {
    char history[PATH_BYTES_MAX];
    for (size_t i = 0; g->worker == 0 && i < g->conf->n_backends; i++) {
        const struct conf_backend *b = &g->conf->backends[i];
        struct decode_options o = engine_options(b);
        if (b->protocol != PROTOCOL_DECODE || b->off)
            continue;
        snprintf(history, sizeof(history), "%s/adapters-%s.jsonl", g->conf->state_directory, b->name);
        o.adapter_history = history;
        struct decode *d = decode_open(&o, g->loop, why);
        if (!d)
            return false;
        map_put(&g->engines, span_of(b->name), d);
    }
    return true;
}

void engines_free(struct gateway *g) {
    for (struct map_entry *e = map_next(&g->engines, NULL); e; e = map_next(&g->engines, e))
        decode_close(e->value);
    map_fini(&g->engines);
}

void engine_ask_for(const struct conf_backend *b, struct span model, const char *team, struct decode_ask *ask) {
    ask->adapter = span_is(model, b->decode.name) ? SPAN_NONE : model;
    ask->team = span_of(team);
    ask->shared_prefix = b->decode.prefixes == PREFIXES_ALL;
}

static void identify(const struct gateway *g, const struct conf_target *t, struct span captured, struct sha256 *s) {
    const struct decode *engine = map_find(&g->engines, span_of(t->backend->name));
    const char *star = strchr(t->model, '*');
    uint8_t digest[SHA256_BYTES] = {0};
    char name[PATH_BYTES_MAX];
    if (star)
        snprintf(name, sizeof(name), "%.*s%.*s%s", (int)(star - t->model), t->model, SPAN_ARG(captured), star + 1);
    else
        snprintf(name, sizeof(name), "%s", t->model);
    if (g->worker > 0 && g->start)
        engine_page_read(g->start->engine_page, digest); /* of all adapters: another one changes more than need be */
    else if (!engine || !decode_adapter_digest(engine, span_of(name), digest))
        return;
    sha256_add(s, span_from(digest, sizeof(digest)));
}

void engines_identify(const struct gateway *g, const struct conf_alias *alias, struct span captured,
                      const struct arm *arm, uint8_t ladder[SHA256_BYTES]) {
    struct sha256 *s = sha256_new();
    sha256_add(s, span_from(ladder, SHA256_BYTES));
    if (arm->first && arm->first->backend->protocol == PROTOCOL_DECODE)
        identify(g, arm->first, captured, s);
    for (size_t i = 0; i < alias->n_rungs; i++)
        for (size_t k = 0; k < alias->rungs[i].n_targets; k++)
            if (alias->rungs[i].targets[k].backend->protocol == PROTOCOL_DECODE)
                identify(g, &alias->rungs[i].targets[k], captured, s);
    sha256_end(s, ladder);
}
