/* Who steps next. All of it belongs to the step thread.
 *
 *     waiting (in order of arrival) -> admitted when a place and all the cache it may need are free -> running
 *     a step = one token of every sequence that decodes + the next chunk of the oldest prompts, within a budget
 */
#ifndef TOLLGATE_DECODE_SCHEDULE_H
#define TOLLGATE_DECODE_SCHEDULE_H

#include "backends/decode/compute.h"
#include "backends/decode/run.h"
#include "backends/decode/tokenizer.h"

struct schedule {
    const struct compute_ops *ops;
    struct compute *compute;
    const struct model *model;
    const struct tokenizer *tokenizer;
    struct kv_pool pool;
    struct sampler sampler;
    struct list waiting, running; /* of struct decode_run by link */
    int64_t max_sequences, batch_tok;
    int64_t chunk_tok;        /* prompt tokens a step may take now; follows what the machine can do */
    struct batch batch;       /* arrays owned */
    struct decode_run **rows; /* owned; [max_sequences] the sequences of the batch */
    float *logits;            /* owned; [max_sequences][vocabulary] */
    struct str shown;         /* scratch */
    _Atomic int64_t steps, tokens, n_running, n_waiting;
};

must_check bool schedule_init(struct schedule *s, const struct compute_ops *ops, const struct model *m,
                              const struct tokenizer *t, const struct compute_limits *l, struct str *why);
void schedule_fini(struct schedule *s);
void schedule_add(struct schedule *s, struct decode_run *r); /* takes over the engine's reference */
bool schedule_idle(const struct schedule *s);
void schedule_step(struct schedule *s); /* one forward pass at most */
void schedule_end_all(struct schedule *s, enum err err);

#endif
