/* Adapters from the host's memory to the device's: one stretch holds all of an adapter's matrices, in the activations' type, and
 * a row of the table says where each is. A slot's launches are sized by the adapter's own rank. */
#include "backends/decode/cuda_twin.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define ALIGN 16 /* what vectors are read from */

static int64_t aligned(int64_t n) {
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static const struct adapter_part *part_at(const struct adapter *a, int64_t i) {
    const struct adapter_part *p = &a->parts[i];
    return p->a.at ? p : NULL;
}

static int64_t matrix_bytes(const struct tensor *t, enum dtype act) {
    return aligned(t->rows * t->cols * (int64_t)dtype_bytes(act));
}

static int64_t adapter_bytes(const struct compute *c, const struct adapter *a) {
    int64_t sum = 0;
    for (int64_t i = 0; i < c->parts_a_slot; i++) {
        const struct adapter_part *p = part_at(a, i);
        if (p)
            sum += matrix_bytes(&p->a, c->weights.act) + matrix_bytes(&p->b, c->weights.act) +
                   (p->gain ? aligned(p->b.rows * 4) : 0);
    }
    return sum;
}

struct blob {
    char *here, *there; /* the same stretch, as it is filled and where it goes */
    int64_t n;
};

static const void *blob_matrix(struct blob *b, const struct tensor *t, enum dtype act) {
    char *there = b->there + b->n;
    cuda_turn(t->at, t->dtype, b->here + b->n, act, t->rows * t->cols);
    b->n += matrix_bytes(t, act);
    return there;
}

static const float *blob_floats(struct blob *b, const float *of, int64_t n) {
    char *there = b->there + b->n;
    memcpy(b->here + b->n, of, (size_t)n * 4);
    b->n += aligned(n * 4);
    return (const float *)(const void *)there;
}

static void fill(struct compute *c, struct cuda_slot *s, const struct adapter *a, struct blob *b,
                 struct cuda_lora_part *rows) {
    for (int64_t i = 0; i < c->parts_a_slot; i++) {
        const struct adapter_part *p = part_at(a, i);
        if (!p)
            continue;
        rows[i].a = blob_matrix(b, &p->a, c->weights.act);
        rows[i].b = blob_matrix(b, &p->b, c->weights.act);
        rows[i].gain = p->gain ? blob_floats(b, p->gain, p->b.rows) : NULL;
        rows[i].scale = p->scale;
        rows[i].rank = (int32_t)p->a.rows;
        s->adapted |= i < c->model->config.layers * MODULES_A_LAYER ? CUDA_ADAPTED_LAYERS : CUDA_ADAPTED_ENDS;
    }
    assert(b->n == s->bytes);
}

static void clear(struct compute *c, struct cuda_slot *s) {
    if (cuda_device_enter(&c->device))
        cuda_device_free(&c->device, s->blob);
    c->adapter_bytes -= s->bytes;
    *s = (struct cuda_slot){0};
}

/* The device's memory is short of an adapter more often than it is broken: that is an answer. */
bool cuda_place(struct compute *c, int32_t slot, const struct adapter *a) {
    struct cuda_slot *s = &c->slots[slot];
    assert(slot >= 0 && slot < c->limits.slots && (!a || a->rank_max <= c->limits.rank_max));
    if (s->blob)
        clear(c, s);
    if (!a)
        return true;
    int64_t bytes = adapter_bytes(c, a);
    if (!cuda_device_enter(&c->device) || bytes > c->limits.adapter_bytes - c->adapter_bytes)
        return false;
    void *blob = cuda_device_try(&c->device, bytes);
    if (!blob)
        return false;
    *s = (struct cuda_slot){.blob = blob, .bytes = bytes, .rank = a->rank_max};
    c->adapter_bytes += bytes;
    struct blob b = {xcalloc((size_t)bytes, 1), blob, 0};
    struct cuda_lora_part *rows = xcalloc((size_t)c->parts_a_slot, sizeof *rows);
    fill(c, s, a, &b, rows);
    cuda_device_put(&c->device, blob, b.here, bytes);
    cuda_device_put(&c->device, c->parts + slot * c->parts_a_slot, rows, c->parts_a_slot * (int64_t)sizeof *rows);
    free(b.here);
    free(rows);
    return c->device.status == CUDA_OK;
}
