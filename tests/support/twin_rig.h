/* A twin with a model, adapters and sequences that step as a test says: what tests of twins share. */
#ifndef TOLLGATE_TESTS_TWIN_RIG_H
#define TOLLGATE_TESTS_TWIN_RIG_H

#include "backends/decode/adapter.h"
#include "backends/decode/compute.h"

#define RIG_SEQUENCES 8
#define RIG_LENGTH_MAX 640
#define RIG_ROWS_MAX 700
#define RIG_SLOTS 4
#define RIG_RANK_MAX 64

struct twin_rig {
    const struct compute_ops *ops;
    const struct model *model; /* the test's */
    struct compute *compute;
    int32_t blocks[RIG_SEQUENCES][RIG_LENGTH_MAX / KV_BLOCK_TOK];
    int32_t slots[RIG_SEQUENCES]; /* -1: the base */
    struct batch batch;
    int32_t ids[RIG_ROWS_MAX], pos[RIG_ROWS_MAX], seq[RIG_ROWS_MAX], want[RIG_ROWS_MAX], ctx_len[RIG_SEQUENCES];
    const int32_t *block_tab[RIG_SEQUENCES];
    struct batch_tile tiles[RIG_ROWS_MAX], want_tiles[RIG_ROWS_MAX];
    float *logits; /* owned; [RIG_ROWS_MAX][vocabulary] */
};

/* `length`: of the longest sequence. Ends the test when it does not open. */
void rig_open(struct twin_rig *r, const struct model *m, const struct compute_ops *ops, int threads, int64_t length);
void rig_close(struct twin_rig *r);
int32_t rig_token(int sequence, int pos);
/* Tokens from .. to-1 of a sequence join the step; all rows want their logits, or only the last. */
void rig_add(struct twin_rig *r, int sequence, int from, int to, bool all_wanted);
bool rig_run(struct twin_rig *r);
/* Every row's logits, [RIG_SEQUENCES][length][vocabulary]: sequences in uneven chunks together, the last `decoded` tokens of
 * each one at a time; or each sequence for itself. Ends the test when the twin fails. */
float *rig_all(struct twin_rig *r, int length, int decoded, bool alone);

#endif
