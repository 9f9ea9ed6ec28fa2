/* config.json and generation_config.json: the shape of a model. A field that would change the arithmetic and is not
 * understood is refused by its name; nothing is guessed. */
#ifndef TOLLGATE_DECODE_MODEL_CONFIG_H
#define TOLLGATE_DECODE_MODEL_CONFIG_H

#include "backends/decode/model_file.h"

#define MODEL_LAYERS_MAX 512    /* against a config that asks for a table of a billion layers */
#define MODEL_DIM_MAX (1 << 20) /* any one dimension; products then stay far inside int64 */
#define MODEL_CONTEXT_MAX (1 << 24)
#define MODEL_ENDS_MAX 16 /* token ids that end an answer */

struct model_config {
    int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary, max_positions;
    double norm_eps, rope_theta;
    bool tied; /* the head is the embedding */
    int64_t ends[MODEL_ENDS_MAX];
    size_t n_ends;
};

must_check bool model_config_read(const char *directory, struct model_config *out, struct str *why);
bool model_config_is_end(const struct model_config *c, int64_t id);
void model_config_add_end(struct model_config *c, int64_t id); /* ignored when it is there or there is no room */

#endif
