/* Writes a random LoRA adapter for a random model in PEFT's layout, and keeps its numbers to compute with. Scales are worked
 * out here from the kind's own words, not by the reader under test. */
#ifndef TOLLGATE_TESTS_RANDOM_ADAPTER_H
#define TOLLGATE_TESTS_RANDOM_ADAPTER_H

#include "tests/support/random_model.h"

struct adapter_kind {
    const char *name;
    int64_t rank;
    double alpha;
    const char *dtype;
    bool rslora, dora;
    const char *only;      /* comma list of last parts of module names; NULL: the seven of a layer */
    int64_t without_layer; /* 1 + layer that has no tensors; 0: all have */
    int64_t q_rank;        /* rank_pattern of q_proj; 0: none */
    double v_alpha;        /* alpha_pattern of layer 1's v_proj, written as a pattern; 0: none */
    const char *infix;     /* ".default" as some exports have it; NULL: "" */
    const char *prefix;    /* NULL: "base_model.model." */
    uint64_t seed;
};
struct random_part {
    int64_t layer;
    char module[32]; /* "self_attn.q_proj", "lm_head", "embed_tokens" */
    int64_t rank;
    double scale;
    const float *a, *b, *magnitude; /* in files.tensors; magnitude NULL: not DoRA */
};
struct random_adapter {
    struct adapter_kind kind;
    struct random_model files; /* directory and tensors */
    struct random_part *parts; /* owned */
    size_t n;
};

extern const struct adapter_kind adapter_plain;

/* Into a folder of its own when `directory` is NULL, else into that one, which is made. */
void random_adapter_write(struct random_adapter *a, const struct random_model *m, const struct adapter_kind *kind,
                          const char *directory);
void random_adapter_remove(struct random_adapter *a); /* files, directory and memory */
const struct random_part *random_adapter_find(const struct random_adapter *a, int64_t layer, const char *module);

#endif
