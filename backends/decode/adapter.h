/* The weights of one LoRA adapter, read whole into memory of its own: files may change under their names, a sequence never
 * sees it. Every tensor of the file has its place in here, or there is no adapter.
 *
 *     y = gain * (W x + scale * B (A x))          gain: DoRA only, else 1
 */
#ifndef TOLLGATE_DECODE_ADAPTER_H
#define TOLLGATE_DECODE_ADAPTER_H

#include "backends/decode/model.h"
#include "gateway/base/hash.h"

#define ADAPTER_CONFIG_FILE "adapter_config.json"
#define ADAPTER_WEIGHTS_FILE "adapter_model.safetensors"
#define ADAPTER_MANIFEST_FILE "manifest.json"
#define ADAPTER_RANK_MAX 1024                      /* whatever max_adapter_rank says */
#define ADAPTER_FILE_BYTES_MAX ((size_t)8 << 30)   /* of the weights; against a directory that is not an adapter */
#define ADAPTER_CONFIG_BYTES_MAX ((size_t)1 << 20) /* of a small file beside them */

enum module {
    MODULE_Q,
    MODULE_K,
    MODULE_V,
    MODULE_O,
    MODULE_GATE,
    MODULE_UP,
    MODULE_DOWN,
    MODULES_A_LAYER,
    MODULE_HEAD = MODULES_A_LAYER, /* one of each a model */
    MODULE_EMBED,
    MODULES
};

struct adapter_part {
    struct tensor a,
        b; /* [rank, in], [out, rank]; a.at NULL: the module is as the base has it. Embedding: A is [rank, vocabulary] */
    float scale;
    float *gain; /* owned; [out]; NULL: not DoRA */
};
struct adapter {
    struct adapter_part *parts; /* owned; [layers * MODULES_A_LAYER + 2] */
    int64_t layers, rank_max, bytes;
    uint8_t digest[SHA256_BYTES]; /* of the config and the weights */
    uint8_t *data;                /* owned; the weights file */
};

/* Reads a folder's files, all of which lie inside `root` (NULL: anywhere); NULL with a sentence that names file and field or
 * tensor. */
must_check struct adapter *adapter_open(const char *directory, const char *root, const struct model *m,
                                        int64_t rank_max, struct str *why);
void adapter_close(struct adapter *a);
/* NULL: absent. `layer` means nothing for head and embedding. */
const struct adapter_part *adapter_part(const struct adapter *a, int64_t layer, enum module m);

#endif
