/* What a model will need of the machine, before and after it is loaded. */
#ifndef TOLLGATE_DECODE_DECODE_PLAN_H
#define TOLLGATE_DECODE_DECODE_PLAN_H

#include "backends/decode/adapters.h"
#include "backends/decode/compute.h"
#include "backends/decode/decode.h"

#define KV_POOL_BYTES_MAX (INT64_C(2) << 30) /* of the cache, unless one full context needs more */

struct decode_plan_numbers {
    struct compute_limits limits;
    struct adapters_options adapters; /* strings borrowed from the options */
    int64_t kv_bytes, kv_tok_bytes;   /* in all; of one token */
};
must_check bool decode_plan_make(const struct decode_options *o, const struct model_config *c,
                                 struct decode_plan_numbers *out, struct str *why);

#endif
