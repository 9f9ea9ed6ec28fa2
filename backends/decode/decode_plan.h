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
    int64_t device_bytes,
        fixed_bytes; /* free on the device, and needed there besides cache and adapters; 0: no device */
};
must_check bool decode_plan_make(const struct decode_options *o, const struct model *m, const struct compute_ops *ops,
                                 struct decode_plan_numbers *out, struct str *why);

#endif
