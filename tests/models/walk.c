/* The walk through the model, there and back. Forward keeps what each layer saw; backward walks the layers in reverse
 * with two gradients of the residual stream: dx behind the layer and dmid between attention and MLP. */
#include "tests/models/tiny.h"

#include <assert.h>
#include <string.h>

/* What every step of the walk needs to know. */
struct walk {
    struct tiny_work *w;
    const struct tiny_params *p;
    const struct tiny_lora *lora; /* may be NULL */
    const struct tiny_shape *s;
    struct tiny_heads heads;
    struct tiny_params *dp;  /* may be NULL */
    struct tiny_lora *dlora; /* may be NULL */
};

static struct walk walk_of(struct tiny_work *w, const struct tiny_params *p, const struct tiny_lora *lora,
                           const struct tiny_batch *b) {
    const struct tiny_shape *s = &p->shape;
    assert(b->rows > 0 && b->rows <= TINY_ROWS);
    return (struct walk){w, p, lora, s, {b->rows, s->heads, s->kv_heads, s->head_dim, b->start, w->turn}, NULL, NULL};
}

static struct tiny_line line_of(const struct walk *k, int layer, enum tiny_linear which) {
    struct tiny_line l = {.rows = k->heads.rows, .w = k->p->linear[layer][which]};
    tiny_linear_size(k->s, which, &l.out, &l.in);
    if (k->lora) {
        l.rank = k->lora->rank;
        l.scale = k->lora->scale;
        l.a = k->lora->a[layer][which];
        l.b = k->lora->b[layer][which];
    }
    return l;
}

static void line(const struct walk *k, int layer, enum tiny_linear which, float *y, const float *x) {
    struct tiny_line l = line_of(k, layer, which);
    tiny_line(y, k->w->layer[layer].t[which], x, &l);
}

static void line_back(const struct walk *k, int layer, enum tiny_linear which, float *dx, const float *dy,
                      const float *x) {
    struct tiny_line l = line_of(k, layer, which);
    struct tiny_line_grad g = {.dx = dx};
    if (k->dp)
        g.dw = k->dp->linear[layer][which];
    if (k->dlora) {
        g.da = k->dlora->a[layer][which];
        g.db = k->dlora->b[layer][which];
    }
    tiny_line_back(&g, dy, x, k->w->layer[layer].t[which], &l);
}

static void sum(float *y, const float *a, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += a[i];
}

/* Drops a share of n values and makes up for it with the rest; `kept` remembers the factors. */
static void drop(struct tiny_work *w, float *x, float *kept, size_t n) {
    uint64_t draws = 0;
    uint16_t limit = (uint16_t)(w->drop * 65536);
    for (size_t i = 0; i < n && w->drop > 0; i++, draws >>= 16) {
        draws = i % 4 ? draws : tiny_rng_next(&w->rng);
        kept[i] = (uint16_t)draws < limit ? 0 : 1 / (1 - w->drop);
        x[i] *= kept[i];
    }
}

/* The gradient of a branch before dropping. */
static const float *undrop(struct tiny_work *w, const float *dx, const float *kept, size_t n) {
    for (size_t i = 0; i < n && w->drop > 0; i++)
        w->dbranch[i] = dx[i] * kept[i];
    return w->drop > 0 ? w->dbranch : dx;
}

static void layer_forward(const struct walk *k, int i, float *next) {
    struct tiny_layer_work *l = &k->w->layer[i];
    const struct tiny_shape *s = k->s;
    int rows = k->heads.rows;
    tiny_norm(l->n1, l->inv1, l->x, k->p->norm[i][0], rows, s->hidden, s->eps);
    line(k, i, TINY_Q, l->q, l->n1);
    line(k, i, TINY_K, l->k, l->n1);
    line(k, i, TINY_V, l->v, l->n1);
    tiny_rope(l->q, &k->heads, s->heads, 1);
    tiny_rope(l->k, &k->heads, s->kv_heads, 1);
    tiny_attend(l->attended, l->probs, l->q, l->k, l->v, &k->heads);
    line(k, i, TINY_O, l->mid, l->attended);
    drop(k->w, l->mid, l->kept[0], (size_t)rows * s->hidden);
    sum(l->mid, l->x, (size_t)rows * s->hidden);
    tiny_norm(l->n2, l->inv2, l->mid, k->p->norm[i][1], rows, s->hidden, s->eps);
    line(k, i, TINY_GATE, l->gate, l->n2);
    line(k, i, TINY_UP, l->up, l->n2);
    tiny_swiglu(l->act, l->gate, l->up, (size_t)rows * s->inter);
    line(k, i, TINY_DOWN, next, l->act);
    drop(k->w, next, l->kept[1], (size_t)rows * s->hidden);
    sum(next, l->mid, (size_t)rows * s->hidden);
}

void tiny_forward(struct tiny_work *w, const struct tiny_params *p, const struct tiny_lora *lora,
                  const struct tiny_batch *b) {
    struct walk k = walk_of(w, p, lora, b);
    int hidden = k.s->hidden, vocab = k.s->vocab;
    for (int r = 0; r < b->rows; r++)
        memcpy(w->layer[0].x + (size_t)r * hidden, p->embed + (size_t)b->token[r] * hidden, hidden * sizeof(float));
    for (int i = 0; i < k.s->layers; i++)
        layer_forward(&k, i, i + 1 < k.s->layers ? w->layer[i + 1].x : w->last);
    tiny_norm(w->n_last, w->inv_last, w->last, p->norm_last, b->rows, hidden, k.s->eps);
    tiny_line(w->logits, NULL, w->n_last, &(struct tiny_line){b->rows, vocab, hidden, 0, 0, p->embed, NULL, NULL});
}

double tiny_loss(struct tiny_work *w, const struct tiny_params *p, const struct tiny_batch *b, float scale) {
    double total = 0;
    int vocab = p->shape.vocab;
    for (int r = 0; r < b->rows; r++) {
        float *logits = w->logits + (size_t)r * vocab;
        if (b->weight[r] > 0)
            total += b->weight[r] * tiny_cross_entropy(logits, vocab, b->target[r], b->weight[r] * scale);
        else
            memset(logits, 0, vocab * sizeof *logits);
    }
    return total;
}

static void clear(float *x, size_t n) {
    memset(x, 0, n * sizeof *x);
}

/* dx -> dmid */
static void mlp_back(const struct walk *k, int i) {
    struct tiny_layer_work *l = &k->w->layer[i];
    struct tiny_work *w = k->w;
    size_t hidden = (size_t)k->heads.rows * k->s->hidden, inter = (size_t)k->heads.rows * k->s->inter;
    clear(w->dact, inter), clear(w->dgate, inter), clear(w->dup, inter), clear(w->dn, hidden);
    line_back(k, i, TINY_DOWN, w->dact, undrop(w, w->dx, l->kept[1], hidden), l->act);
    tiny_swiglu_back(w->dgate, w->dup, w->dact, l->gate, l->up, inter);
    line_back(k, i, TINY_GATE, w->dn, w->dgate, l->n2);
    line_back(k, i, TINY_UP, w->dn, w->dup, l->n2);
    memcpy(w->dmid, w->dx, hidden * sizeof(float));
    tiny_norm_back(w->dmid, k->dp ? k->dp->norm[i][1] : NULL, w->dn, l->mid, k->p->norm[i][1], l->inv2, k->heads.rows,
                   k->s->hidden);
}

/* dmid -> dx */
static void attention_back(const struct walk *k, int i) {
    struct tiny_layer_work *l = &k->w->layer[i];
    struct tiny_work *w = k->w;
    size_t rows = k->heads.rows, hidden = rows * k->s->hidden, q = rows * k->s->heads * k->s->head_dim;
    size_t kv = rows * k->s->kv_heads * k->s->head_dim;
    float *dattended = w->dact; /* not used here otherwise, and large enough: see work_place */
    assert((size_t)k->s->inter * rows >= q);
    clear(dattended, q), clear(w->dq, q), clear(w->dk, kv), clear(w->dv, kv), clear(w->dn, hidden);
    line_back(k, i, TINY_O, dattended, undrop(w, w->dmid, l->kept[0], hidden), l->attended);
    tiny_attend_back(w->dq, w->dk, w->dv, dattended, l->probs, l->q, l->k, l->v, &k->heads);
    tiny_rope(w->dq, &k->heads, k->s->heads, -1);
    tiny_rope(w->dk, &k->heads, k->s->kv_heads, -1);
    line_back(k, i, TINY_Q, w->dn, w->dq, l->n1);
    line_back(k, i, TINY_K, w->dn, w->dk, l->n1);
    line_back(k, i, TINY_V, w->dn, w->dv, l->n1);
    memcpy(w->dx, w->dmid, hidden * sizeof(float));
    tiny_norm_back(w->dx, k->dp ? k->dp->norm[i][0] : NULL, w->dn, l->x, k->p->norm[i][0], l->inv1, (int)rows,
                   k->s->hidden);
}

void tiny_backward(struct tiny_work *w, const struct tiny_params *p, const struct tiny_lora *lora,
                   const struct tiny_batch *b, struct tiny_params *dp, struct tiny_lora *dlora) {
    struct walk k = walk_of(w, p, lora, b);
    k.dp = dp, k.dlora = dlora;
    int hidden = k.s->hidden, vocab = k.s->vocab;
    clear(w->dn, (size_t)b->rows * hidden), clear(w->dx, (size_t)b->rows * hidden);
    tiny_line_back(&(struct tiny_line_grad){.dx = w->dn, .dw = dp ? dp->embed : NULL}, w->logits, w->n_last, NULL,
                   &(struct tiny_line){b->rows, vocab, hidden, 0, 0, p->embed, NULL, NULL});
    tiny_norm_back(w->dx, dp ? dp->norm_last : NULL, w->dn, w->last, p->norm_last, w->inv_last, b->rows, hidden);
    for (int i = k.s->layers - 1; i >= 0; i--) {
        mlp_back(&k, i);
        attention_back(&k, i);
    }
    for (int r = 0; dp && r < b->rows; r++)
        sum(dp->embed + (size_t)b->token[r] * hidden, w->dx + (size_t)r * hidden, hidden);
}
