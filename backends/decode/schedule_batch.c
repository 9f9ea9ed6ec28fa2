/* Makes the batch of a step. Always true: sequences stand in order of slot, the base first, so each adapter's rows are
 * neighbours; a tile has one slot and at most TILE_ROWS rows; logits are wanted of a sequence's last known token only. */
#include "backends/decode/schedule_batch.h"

#include "gateway/base/mem.h"

#include <stdlib.h>

void batch_init(struct schedule_batch *s, int64_t n_rows, int64_t n_sequences) {
    struct batch *b = &s->batch;
    size_t rows = (size_t)n_rows, sequences = (size_t)n_sequences;
    *s = (struct schedule_batch){0};
    b->ids = xcalloc(rows, sizeof *b->ids);
    b->pos = xcalloc(rows, sizeof *b->pos);
    b->seq = xcalloc(rows, sizeof *b->seq);
    b->q_start = xcalloc(sequences + 1, sizeof *b->q_start);
    b->ctx_len = xcalloc(sequences, sizeof *b->ctx_len);
    b->block_tab = xcalloc(sequences, sizeof *b->block_tab);
    b->want = xcalloc(sequences, sizeof *b->want);
    b->tiles.at = xcalloc(rows / TILE_ROWS + sequences + 1, sizeof *b->tiles.at);
    b->want_tiles.at = xcalloc(sequences / TILE_ROWS + sequences + 1, sizeof *b->want_tiles.at);
    s->runs = xcalloc(sequences, sizeof *s->runs);
}

void batch_fini(struct schedule_batch *s) {
    struct batch *b = &s->batch;
    void *all[] = {b->ids,  b->pos,      b->seq,           b->q_start,     b->ctx_len, (void *)b->block_tab,
                   b->want, b->tiles.at, b->want_tiles.at, (void *)s->runs};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
    *s = (struct schedule_batch){0};
}

void batch_clear(struct schedule_batch *s) {
    struct batch *b = &s->batch;
    b->n_tok = b->n_seq = b->n_want = b->tiles.n = b->want_tiles.n = 0;
    s->n_runs = 0;
}

void batch_add(struct schedule_batch *s, struct decode_run *r) {
    s->runs[s->n_runs++] = r;
}

/* The row that was just added belongs to a slot: to the tile before it when that is its neighbour and has room. */
static void tile(struct batch_tiles *t, int32_t slot, int32_t row) {
    struct batch_tile *last = t->n ? &t->at[t->n - 1] : NULL;
    if (slot < 0)
        return;
    if (last && last->slot == slot && last->row0 + last->n == row && last->n < TILE_ROWS)
        last->n++;
    else
        t->at[t->n++] = (struct batch_tile){slot, row, 1};
}

static void gather(struct batch *b, struct decode_run *r) {
    for (int64_t i = 0; i < r->chunk; i++) {
        tile(&b->tiles, r->slot, b->n_tok);
        b->ids[b->n_tok] = r->ids.at[r->n_cached + i];
        b->pos[b->n_tok] = (int32_t)(r->n_cached + i);
        b->seq[b->n_tok++] = b->n_seq;
    }
    r->n_cached += r->chunk;
    if (r->n_cached == (int64_t)r->ids.n) {
        tile(&b->want_tiles, r->slot, b->n_want);
        b->want[b->n_want++] = b->n_tok - 1;
    }
    b->ctx_len[b->n_seq] = (int32_t)r->n_cached;
    b->block_tab[b->n_seq++] = r->kv.blocks;
    b->q_start[b->n_seq] = b->n_tok;
}

static int by_slot(const void *a, const void *b) {
    const struct decode_run *x = *(struct decode_run *const *)a, *y = *(struct decode_run *const *)b;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    return x->admitted < y->admitted ? -1 : x->admitted > y->admitted;
}

void batch_fill(struct schedule_batch *s) {
    qsort(s->runs, (size_t)s->n_runs, sizeof(struct decode_run *), by_slot);
    for (int64_t i = 0; i < s->n_runs; i++)
        gather(&s->batch, s->runs[i]);
}
