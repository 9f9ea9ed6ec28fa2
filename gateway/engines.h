/* The engines of the house: made from conf at start, and what a call's model means to one. */
#ifndef TOLLGATE_GATEWAY_ENGINES_H
#define TOLLGATE_GATEWAY_ENGINES_H

#include "backends/backends.h"
#include "gateway/base/hash.h"
#include "routing/routing.h"

struct gateway;
struct request;

must_check bool engines_open(struct gateway *g, struct str *why);
void engines_free(struct gateway *g);
/* What conf says to an engine; strings are borrowed. */
struct decode_options engine_options(const struct conf_backend *b);
/* Adds to an ask what conf and the caller decide: the adapter that a model's name means, the team, the scope. */
void engine_ask_for(const struct conf_backend *b, struct span model, const char *team, struct decode_ask *ask);
/* Puts the content of the adapters that an alias reaches into its ladder's digest: an answer of another content is another. */
void engines_identify(const struct gateway *g, const struct conf_alias *alias, struct span captured,
                      const struct arm *arm, uint8_t ladder[SHA256_BYTES]);

#endif
