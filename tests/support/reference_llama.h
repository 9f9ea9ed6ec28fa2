/* A Llama, and the families that differ from it in what struct model_kind says, in double precision, written from the architecture's description alone: the judge of the engine's numbers. */
#ifndef TOLLGATE_TESTS_REFERENCE_LLAMA_H
#define TOLLGATE_TESTS_REFERENCE_LLAMA_H

#include "tests/support/random_adapter.h"

/* Logits after each of n tokens: [n][vocabulary]. */
void reference_logits_adapted(const struct random_model *m, const struct random_adapter *a, const int32_t *ids,
                              int64_t n, double *logits);
void reference_logits(const struct random_model *m, const int32_t *ids, int64_t n, double *logits);

#endif
