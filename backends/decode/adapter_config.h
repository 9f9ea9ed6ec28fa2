/* adapter_config.json: how much of an adapter's product counts, module by module. */
#ifndef TOLLGATE_DECODE_ADAPTER_CONFIG_H
#define TOLLGATE_DECODE_ADAPTER_CONFIG_H

#include "gateway/base/json.h"

struct adapter_config {
    int64_t rank;
    double alpha;
    bool rslora, dora;
    struct json rank_pattern, alpha_pattern; /* objects, or JSON_NONE; borrow the text */
};

/* `text` is the file's, and outlives what is read from it. */
must_check bool adapter_config_read(struct span text, struct adapter_config *out, struct str *why);
/* Rank and scale of one module ("model.layers.0.self_attn.q_proj"); false when a pattern is beyond what is understood. */
must_check bool adapter_config_module(const struct adapter_config *c, const char *path, int64_t *rank, float *scale,
                                      struct str *why);

/* Whether `path` is `(.*\.)?KEY` for a KEY of letters, `\.`, `.`, `\d`, `[0-9]`, `(a|b)`, `*`, `+`, `?`, `^`, `$`:
 * 1 yes, 0 no, -1 not understood, or too much work. */
int adapter_pattern_match(struct span key, struct span path);

#endif
