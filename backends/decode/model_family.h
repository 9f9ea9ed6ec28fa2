/* What tells one family of models from another, where config.json leaves it unsaid. */
#ifndef TOLLGATE_DECODE_MODEL_FAMILY_H
#define TOLLGATE_DECODE_MODEL_FAMILY_H

#include "backends/decode/model_config.h"

/* By model_type and architectures; false with a sentence for one that is not known. */
must_check bool model_family_find(struct json root, struct model_config *c, struct str *why);
/* Biases, norms and windows, when all other fields are read. */
must_check bool model_family_apply(struct json root, struct model_config *c, struct str *why);

#endif
