/* The arrays of one step, filled row by row in order of adapter, with the tiles that the twins work by. */
#ifndef TOLLGATE_DECODE_SCHEDULE_BATCH_H
#define TOLLGATE_DECODE_SCHEDULE_BATCH_H

#include "backends/decode/compute.h"
#include "backends/decode/run.h"

struct schedule_batch {
    struct batch batch;       /* arrays owned */
    struct decode_run **runs; /* owned; [max_sequences] the sequences of the step */
    int64_t n_runs;
};

void batch_init(struct schedule_batch *b, int64_t rows, int64_t sequences);
void batch_fini(struct schedule_batch *b);
void batch_clear(struct schedule_batch *b);
/* A sequence takes part with its next r->chunk tokens, for which it has blocks. */
void batch_add(struct schedule_batch *b, struct decode_run *r);
/* Sorts the sequences and fills the arrays; afterwards every n_cached is moved on. */
void batch_fill(struct schedule_batch *b);

#endif
