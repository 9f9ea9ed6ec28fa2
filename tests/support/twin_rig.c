/* Batches as the scheduler would build them, without one. */
#include "tests/support/twin_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>

void rig_open(struct twin_rig *r, const struct model *m, const struct compute_ops *ops, int threads, int64_t length) {
    struct str why;
    int32_t blocks = (int32_t)((length + KV_BLOCK_TOK - 1) / KV_BLOCK_TOK), all = blocks * RIG_SEQUENCES;
    struct compute_limits limits = {.max_context = length,
                                    .n_blocks = all,
                                    .batch_tok = RIG_ROWS_MAX,
                                    .want_rows = RIG_ROWS_MAX,
                                    .threads = threads,
                                    .slots = RIG_SLOTS,
                                    .rank_max = RIG_RANK_MAX,
                                    .adapter_bytes = 1 << 24};
    str_init(&why, 1000);
    *r = (struct twin_rig){.ops = ops, .model = m, .slots = {-1, -1, -1, -1, -1, -1, -1, -1}};
    r->compute = ops->open(m, &limits, &why);
    cr_assert(r->compute, "%s", why.n ? why.at : "");
    str_fini(&why);
    for (int32_t s = 0, used = 0; s < RIG_SEQUENCES; s++) {
        for (int32_t i = 0; i < blocks; i++, used++)
            r->blocks[s][i] = used * 13 % all; /* out of order; 13 divides no number of blocks here */
        r->block_tab[s] = r->blocks[s];
    }
    r->batch = (struct batch){.ids = r->ids,
                              .pos = r->pos,
                              .seq = r->seq,
                              .n_seq = RIG_SEQUENCES,
                              .ctx_len = r->ctx_len,
                              .block_tab = r->block_tab,
                              .want = r->want,
                              .tiles = {r->tiles, 0},
                              .want_tiles = {r->want_tiles, 0}};
    r->logits = calloc(RIG_ROWS_MAX * (size_t)m->config.vocabulary, sizeof *r->logits);
}

void rig_close(struct twin_rig *r) {
    r->ops->close(r->compute);
    free(r->logits);
}

int32_t rig_token(int sequence, int pos) {
    return (sequence * 37 + pos * pos * 11 + pos * 5) % 280;
}

static void tile(struct batch_tiles *t, int32_t slot, int32_t row) {
    struct batch_tile *last = t->n ? &t->at[t->n - 1] : NULL;
    if (slot < 0)
        return;
    if (last && last->slot == slot && last->row0 + last->n == row && last->n < TILE_ROWS)
        last->n++;
    else
        t->at[t->n++] = (struct batch_tile){slot, row, 1};
}

void rig_add(struct twin_rig *r, int sequence, int from, int to, bool all_wanted) {
    struct batch *b = &r->batch;
    for (int p = from; p < to; p++) {
        tile(&b->tiles, r->slots[sequence], b->n_tok);
        if (all_wanted || p == to - 1) {
            tile(&b->want_tiles, r->slots[sequence], b->n_want);
            b->want[b->n_want++] = b->n_tok;
        }
        b->ids[b->n_tok] = rig_token(sequence, p);
        b->pos[b->n_tok] = p;
        b->seq[b->n_tok++] = sequence;
    }
    if (to > from)
        r->ctx_len[sequence] = to;
}

bool rig_run(struct twin_rig *r) {
    bool ok = r->ops->forward(r->compute, &r->batch, r->logits);
    r->batch.n_tok = r->batch.n_want = r->batch.tiles.n = r->batch.want_tiles.n = 0;
    return ok;
}

static void keep(const struct twin_rig *r, const int *from, const int *to, int length, float *all) {
    size_t n = (size_t)r->model->config.vocabulary, row = 0;
    for (int s = 0; s < RIG_SEQUENCES; s++)
        for (int p = from[s]; p < to[s]; p++)
            memcpy(all + ((size_t)s * (size_t)length + (size_t)p) * n, r->logits + row++ * n, n * sizeof *all);
}

/* Where sequence s stands after another step. */
static int next(int s, int at, int length, int decoded, int step) {
    int chunk = at < length - decoded ? 1 + (s * 7 + step * 3) % 19 : 1,
        end = at < length - decoded ? length - decoded : length;
    return at + chunk < end ? at + chunk : end;
}

float *rig_all(struct twin_rig *r, int length, int decoded, bool alone) {
    float *all = calloc((size_t)RIG_SEQUENCES * (size_t)length * (size_t)r->model->config.vocabulary, sizeof *all);
    int at[RIG_SEQUENCES] = {0}, to[RIG_SEQUENCES];
    for (int step = 0, left = 1, turn = 0; left; step++) {
        left = 0;
        for (int s = 0; s < RIG_SEQUENCES; s++) {
            to[s] = alone && s != turn ? at[s] : next(s, at[s], length, decoded, step);
            rig_add(r, s, at[s], to[s], true);
            left += to[s] < length;
        }
        turn += to[turn] == length && turn < RIG_SEQUENCES - 1;
        cr_assert(rig_run(r), "%s fails", r->ops->name);
        keep(r, at, to, length, all);
        memcpy(at, to, sizeof at);
    }
    return all;
}
