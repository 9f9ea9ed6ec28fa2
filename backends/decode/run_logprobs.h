/* How likely the tokens of an answer were, as JSON, each told with the first text of it that is shown: what a stop string takes back
 * is not told. */
#ifndef TOLLGATE_DECODE_RUN_LOGPROBS_H
#define TOLLGATE_DECODE_RUN_LOGPROBS_H

#include "backends/decode/decode.h"
#include "backends/decode/tokenizer.h"

#define LOGPROBS_TOP_MAX 20 /* as OpenAI's own */

struct run_logprobs {
    bool on;
    int64_t top;
    struct str held; /* objects that are not told yet */
    struct place {
        size_t text, bytes; /* of the answer's text before the token; of its object in `held` */
    } * places;             /* owned */
    size_t n, capacity, text;
};

void run_logprobs_init(struct run_logprobs *l, const struct decode_ask *ask, size_t bytes_max);
void run_logprobs_fini(struct run_logprobs *l);
/* The logits as the model gave them, and the token that was taken. */
void run_logprobs_see(struct run_logprobs *l, const struct tokenizer *t, const float *logits, int32_t id);
/* Appends, with commas between, what belongs to the first `shown` bytes of text, or all that is left. */
void run_logprobs_tell(struct run_logprobs *l, size_t shown, bool all, struct str *out);

#endif
