/* One answer under way, seen from both sides. The loop holds the handle (take, end); the step thread holds the sequence. What
 * passes between them is under the run's own lock, so a run outlives its engine and a handle can be ended at any time.
 *
 *     QUEUED -> PREFILL (prompt goes into the cache, by chunks) -> DECODE (a token a step) -> over
 *        ^------- preempted: what it knows stays, its cache is computed again ------'
 */
#ifndef TOLLGATE_DECODE_RUN_H
#define TOLLGATE_DECODE_RUN_H

#include "backends/decode/adapters.h"
#include "backends/decode/automaton.h"
#include "backends/decode/bpe.h"
#include "backends/decode/decode.h"
#include "backends/decode/kv.h"
#include "backends/decode/run_logprobs.h"
#include "backends/decode/run_text.h"
#include "backends/decode/sample.h"
#include "backends/decode/share.h"
#include "gateway/base/list.h"

#include <pthread.h>
#include <stdatomic.h>

#define RUN_TEAM_BYTES_MAX 200 /* longer names share an account with their beginning */

struct decode_run {
    /* --- both sides --- */
    _Atomic int refs;       /* the handle, the engine, each job in the loop's post box */
    _Atomic bool cancelled; /* the handle is gone; the step thread lets the sequence go at its next step */
    pthread_mutex_t lock;
    struct str pending;          /* under lock: text not taken yet; bounded by max_out tokens */
    struct str pending_logprobs; /* under lock: of the same tokens */
    struct usage usage;          /* under lock */
    bool over, posted;           /* under lock */
    const char *finish;          /* under lock; static */
    enum err err;                /* under lock */

    /* --- the loop's side --- */
    struct loop *loop; /* the house's */
    struct loop_job job;
    void (*on_ready)(void *user);
    void *user;
    struct str taken, taken_logprobs; /* what the last piece points into */
    bool last_taken;

    /* --- the step thread's side --- */
    struct link link;
    struct tokens ids; /* prompt, then what was sampled */
    int64_t n_prompt, n_cached, n_out, max_out;
    struct kv_seq kv;
    uint8_t root[SHA256_BYTES];      /* of its keys in the cache */
    struct adapter_version *version; /* a reference, until the engine lets it go; NULL: the base */
    char adapter[ADAPTER_NAME_BYTES_MAX + ADAPTER_VERSION_BYTES_MAX];
    char team[RUN_TEAM_BYTES_MAX];
    struct share *share;                              /* while it waits or steps */
    int64_t priority, deadline_us, arrived, admitted; /* the last two by count */
    int32_t slot;                                     /* while it steps; -1: the base */
    int64_t chunk;                                    /* tokens in this step */
    struct run_text text;
    struct sample_options sampling;
    struct decode_bias *biases; /* owned; what sampling borrows */
    struct decode_form *form;   /* owned; NULL: any text */
    struct walker walker;       /* of the form, from when the step thread has it */
    struct run_logprobs logprobs;
    bool ignore_ends;
    bool shown; /* text of it has been given: its deadline is kept */
};

struct decode_run *run_new(struct loop *loop, void (*on_ready)(void *user), void *user);
void run_drop(struct decode_run *r);
/* Shows text, logprobs and the usage so far, and tells the loop if there is something to take. */
void run_show(struct decode_run *r, struct span text, struct span logprobs);
/* The run is over, once: on the step thread, or before the engine has it. */
void run_finish(struct decode_run *r, const char *finish, enum err err);

#endif
