/* config.json and generation_config.json: the shape of a model. A field that would change the arithmetic and is not
 * understood is refused by its name; nothing is guessed. */
#ifndef TOLLGATE_DECODE_MODEL_CONFIG_H
#define TOLLGATE_DECODE_MODEL_CONFIG_H

#include "backends/decode/rope.h"

#define MODEL_LAYERS_MAX 512    /* against a config that asks for a table of a billion layers */
#define MODEL_DIM_MAX (1 << 20) /* any one dimension; products then stay far inside int64 */
#define MODEL_CONTEXT_MAX (1 << 24)
#define MODEL_ENDS_MAX 16 /* token ids that end an answer */

enum model_family { FAMILY_LLAMA, FAMILY_MISTRAL, FAMILY_QWEN2, FAMILY_QWEN3 };
extern const char *const model_family_names[]; /* "Llama" ... */

struct model_config {
    enum model_family family;
    int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary, max_positions;
    double norm_eps;
    struct rope rope;
    bool tied; /* the head is the embedding */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;   /* each head of q and k is normed before it is turned */
    int64_t window; /* positions a windowed layer looks back, its own included; 0: no layer is windowed */
    bool windowed[MODEL_LAYERS_MAX];
    int64_t ends[MODEL_ENDS_MAX];
    size_t n_ends;
};

must_check bool model_config_read(const char *directory, struct model_config *out, struct str *why);
bool model_config_is_end(const struct model_config *c, int64_t id);
void model_config_add_end(struct model_config *c, int64_t id); /* ignored when it is there or there is no room */

#endif
