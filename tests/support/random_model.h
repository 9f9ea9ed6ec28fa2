/* Writes a small random Llama in Hugging Face layout into a directory of its own, and keeps its weights to compute with. The
 * tokenizer is a byte-level BPE with ChatML tokens: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>, 3..258 the bytes in byte
 * order, then a few merges. */
#ifndef TOLLGATE_TESTS_RANDOM_MODEL_H
#define TOLLGATE_TESTS_RANDOM_MODEL_H

#include "gateway/base/span.h"

#define RANDOM_MODEL_VOCABULARY_MIN 280
#define RANDOM_MODEL_PATH_MAX 160

struct model_shape {
    int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary, context;
    bool tied;
    const char *dtype; /* "F32", "F16", "BF16" */
    uint64_t seed;
};
/* What makes it another family than Llama; the reference reads the same words. */
struct model_kind {
    const char *type, *architecture; /* as config.json says them */
    bool qkv_bias, o_bias, mlp_bias, qk_norm;
    int64_t window, window_from; /* 0: none; the first windowed layer */
    const char *rope;            /* rope_type; NULL: null */
    double factor, low, high, original;
    const char *more; /* members of config.json, each with its comma in front; may be NULL */
};
struct random_tensor {
    char name[96];
    int64_t rows, cols; /* cols 0: a vector */
    float *at;          /* owned; exactly the values that the file holds */
};
struct random_model {
    struct model_shape shape;
    struct model_kind kind;
    char directory[RANDOM_MODEL_PATH_MAX];
    struct random_tensor *tensors; /* owned */
    size_t n;
};

extern const struct model_shape shape_small; /* odd sizes on purpose: no dimension is a multiple of eight */

void random_model_write(struct random_model *m, const struct model_shape *shape);
void random_model_write_kind(struct random_model *m, const struct model_shape *shape, const struct model_kind *kind);
void random_model_remove(struct random_model *m); /* files, directory and memory */
const float *random_model_get(const struct random_model *m, const char *name);

/* A tensor of random values that its dtype can hold, and a safetensors file of all tensors; for makers of other files. */
void random_model_add(struct random_model *m, uint64_t *state, const char *name, int64_t rows, int64_t cols);
void random_weights_write(const struct random_model *m, const char *name);

/* One file of the directory, read and written whole; for tests that spoil something. */
void random_file_load(const struct random_model *m, const char *name, struct str *out);
void random_file_save(const struct random_model *m, const char *name, struct span bytes);
/* Replaces the first `from` in a file by `to`; ends the test when it is not there. */
void random_file_edit(const struct random_model *m, const char *name, const char *from, const char *to);

#endif
