/* Who steps next. All of it belongs to the step thread.
 *
 *     waiting -> admitted: a place, blocks for what is known of it, its adapter in memory -> running -> over
 *        ^                                                                                     |
 *        '---- preempted: blocks are short, or a team has no place while another has many -----'
 *     a step = one token of every sequence that decodes + the next chunk of prompts, within a budget
 *
 * First comes whose team has had least, then the lower priority number, then whose adapter has had least within the team,
 * then who came first. Rows of a step stand in order of adapter, so that tiles are neighbours. */
#ifndef TOLLGATE_DECODE_SCHEDULE_H
#define TOLLGATE_DECODE_SCHEDULE_H

#include "backends/decode/compute.h"
#include "backends/decode/run.h"
#include "backends/decode/schedule_batch.h"
#include "backends/decode/tokenizer.h"

struct schedule {
    const struct compute_ops *ops;
    struct compute *compute;
    const struct model *model;
    const struct tokenizer *tokenizer;
    struct adapters *adapters; /* the engine's */
    struct kv_pool pool;
    struct shares shares;
    struct sampler sampler;
    struct vocabulary vocabulary;
    struct automata automata;
    struct list waiting, running; /* of struct decode_run by link */
    int64_t max_sequences, batch_tok, arrivals, admissions;
    bool lost;         /* the device has failed: nothing more can be computed on it */
    int64_t chunk_tok; /* prompt tokens a step may take now; follows what the machine can do */
    struct schedule_batch batch;
    float *logits;              /* owned; [max_sequences][vocabulary] */
    float *raw;                 /* owned; [vocabulary] scratch: logits as they were */
    struct str shown, logprobs; /* scratch */
    _Atomic int64_t steps, tokens, n_running, n_waiting, preemptions, hit_tok, asked_tok;
    _Atomic int64_t busy_us, base_us, base_tok;
    int64_t opened_us;
};

must_check bool schedule_init(struct schedule *s, const struct compute_ops *ops, const struct model *m,
                              const struct tokenizer *t, struct adapters *a, const struct compute_limits *l,
                              bool prefixes, struct str *why);
void schedule_fini(struct schedule *s);
void schedule_add(struct schedule *s, struct decode_run *r); /* takes over the engine's reference */
bool schedule_idle(const struct schedule *s);
/* One forward pass at most; false: nobody can step until something changes. */
bool schedule_step(struct schedule *s);
void schedule_end_all(struct schedule *s, enum err err);
/* From a device that is lost to another twin: all that step wait again, and what they know is computed anew there. */
must_check bool schedule_move(struct schedule *s, const struct compute_ops *ops, const struct compute_limits *l,
                              struct str *why);

/* schedule_admit.c */
void schedule_admit(struct schedule *s);
void schedule_let_go(struct schedule *s, struct list *from, struct decode_run *r); /* with all that it holds */
void schedule_preempt(struct schedule *s, struct decode_run *r);
/* Blocks for n tokens of a sequence, if need be those of others that came later; false: r itself is the latest and waits again. */
bool schedule_find_blocks(struct schedule *s, struct decode_run *r, int64_t n_tok);

#endif
