/* Finds the tensors of a model by their Hugging Face names, in one file or in the shards of an index, checks each shape
 * and accounts for every tensor. Matrices stay in the mapping; norms, which are small, become f32. */
#include "backends/decode/model.h"

#include <stdio.h>
#include <stdlib.h>

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"

struct loader {
    struct model *model;
    enum dtype want; /* DTYPE_OTHER: as stored */
    struct str *why;
};

/* Buffers that old exports carry: computed here, so they are known and not needed. */
static bool is_surplus(const struct st_tensor *t, const struct model *m) {
    static const char tail[] = ".self_attn.rotary_emb.inv_freq";
    size_t n = sizeof tail - 1;
    if (t->name.n > n && memcmp(t->name.at + t->name.n - n, tail, n) == 0)
        return true;
    return m->config.tied && json_name_is(t->name, "lm_head.weight");
}

static struct st_tensor *find(struct loader *l, const char *name, struct safetensors **in) {
    for (size_t i = 0; i < l->model->n_shards; i++) {
        struct st_tensor *t = st_find(&l->model->shards[i], name);
        *in = &l->model->shards[i];
        if (t)
            return t;
    }
    return NULL;
}

static bool check_shape(struct loader *l, const struct safetensors *in, const struct st_tensor *t, const char *name,
                        int64_t rows, int64_t cols) {
    int rank = cols ? 2 : 1;
    char got[160] = "";
    if (t->dtype == DTYPE_OTHER)
        return complain(l->why, in->file.name, "tensor %s: dtype %s is not supported; F32, F16 and BF16 are", name,
                        t->dtype_name);
    if (t->rank == rank && t->shape[0] == rows && (rank == 1 || t->shape[1] == cols))
        return true;
    for (int i = 0, n = 0; i < t->rank && n < (int)sizeof got - 24; i++)
        n += snprintf(got + n, sizeof got - (size_t)n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (rank == 1)
        return complain(l->why, in->file.name, "tensor %s: shape is [%s], config.json asks for [%lld]", name, got,
                        (long long)rows);
    return complain(l->why, in->file.name, "tensor %s: shape is [%s], config.json asks for [%lld, %lld]", name, got,
                    (long long)rows, (long long)cols);
}

static void *copy_new(struct model *m, size_t bytes) {
    m->copies = xrealloc(m->copies, (m->n_copies + 1) * sizeof *m->copies);
    return m->copies[m->n_copies++] = xcalloc(bytes ? bytes : 1, 1);
}

static const uint8_t *turn(struct loader *l, const uint8_t *at, enum dtype from, enum dtype to, int64_t n) {
    uint8_t *out = copy_new(l->model, (size_t)n * dtype_bytes(to));
    for (int64_t i = 0; i < n; i++) {
        float f = dtype_get(at, from, i);
        uint16_t h = f32_to_bf16(f);
        if (to == DTYPE_F32)
            memcpy(out + i * 4, &f, sizeof f);
        else
            memcpy(out + i * 2, &h, sizeof h);
    }
    return out;
}

static struct st_tensor *take(struct loader *l, const char *name, int64_t rows, int64_t cols, struct safetensors **in) {
    struct st_tensor *t = find(l, name, in);
    if (!t) {
        complain(l->why, l->model->n_shards == 1 ? SINGLE_FILE : INDEX_FILE, "tensor %s is missing", name);
        return NULL;
    }
    if (!check_shape(l, *in, t, name, rows, cols))
        return NULL;
    t->used = true;
    l->model->parameters += rows * (cols ? cols : 1);
    return t;
}

static bool take_matrix(struct loader *l, const char *name, int64_t rows, int64_t cols, struct tensor *out) {
    struct safetensors *in;
    const struct st_tensor *t = take(l, name, rows, cols, &in);
    if (!t)
        return false;
    enum dtype d = l->want == DTYPE_OTHER ? t->dtype : l->want;
    const uint8_t *at = in->data + t->begin;
    *out = (struct tensor){d == t->dtype ? at : turn(l, at, t->dtype, d, rows * cols), d, rows, cols, NULL};
    l->model->weight_bytes += rows * cols * (int64_t)dtype_bytes(d);
    return true;
}

static bool take_norm(struct loader *l, const char *name, int64_t n, const float **out) {
    struct safetensors *in;
    const struct st_tensor *t = take(l, name, n, 0, &in);
    if (!t)
        return false;
    *out = (const float *)(const void *)turn(l, in->data + t->begin, t->dtype, DTYPE_F32, n);
    l->model->weight_bytes += n * 4;
    return true;
}

static bool take_norms(struct loader *l, int64_t i) {
    const struct model_config *c = &l->model->config;
    struct layer *y = &l->model->layers[i];
    const struct {
        const char *name;
        bool wanted;
        int64_t n;
        const float **out;
    } rows[] = {
        {"input_layernorm", true, c->hidden, &y->attention_norm},
        {"post_attention_layernorm", true, c->hidden, &y->mlp_norm},
        {"self_attn.q_norm", c->qk_norm, c->head_dim, &y->q_norm},
        {"self_attn.k_norm", c->qk_norm, c->head_dim, &y->k_norm},
    };
    char name[ST_NAME_MAX];
    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        snprintf(name, sizeof name, "model.layers.%lld.%s.weight", (long long)i, rows[k].name);
        if (rows[k].wanted && !take_norm(l, name, rows[k].n, rows[k].out))
            return false;
    }
    return true;
}

static bool take_layer(struct loader *l, int64_t i) {
    const struct model_config *c = &l->model->config;
    struct layer *y = &l->model->layers[i];
    int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const struct {
        const char *name;
        int64_t rows, cols;
        struct tensor *out;
        bool biased;
        const float **bias;
    } rows[] = {
        {"self_attn.q_proj", q, c->hidden, &y->q, c->qkv_bias, &y->q_bias},
        {"self_attn.k_proj", kv, c->hidden, &y->k, c->qkv_bias, &y->k_bias},
        {"self_attn.v_proj", kv, c->hidden, &y->v, c->qkv_bias, &y->v_bias},
        {"self_attn.o_proj", c->hidden, q, &y->o, c->o_bias, &y->o_bias},
        {"mlp.gate_proj", c->intermediate, c->hidden, &y->gate, c->mlp_bias, &y->gate_bias},
        {"mlp.up_proj", c->intermediate, c->hidden, &y->up, c->mlp_bias, &y->up_bias},
        {"mlp.down_proj", c->hidden, c->intermediate, &y->down, c->mlp_bias, &y->down_bias},
    };
    char name[ST_NAME_MAX];
    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        snprintf(name, sizeof name, "model.layers.%lld.%s.weight", (long long)i, rows[k].name);
        if (!take_matrix(l, name, rows[k].rows, rows[k].cols, rows[k].out))
            return false;
        snprintf(name, sizeof name, "model.layers.%lld.%s.bias", (long long)i, rows[k].name);
        if (rows[k].biased && !take_norm(l, name, rows[k].rows, rows[k].bias))
            return false;
    }
    return take_norms(l, i);
}

static bool account(struct loader *l) {
    for (size_t s = 0; s < l->model->n_shards; s++) {
        const struct safetensors *in = &l->model->shards[s];
        for (size_t i = 0; i < in->n; i++)
            if (!in->tensors[i].used && !is_surplus(&in->tensors[i], l->model))
                return complain(l->why, in->file.name, "tensor %.*s: is not part of a %s of this shape",
                                SPAN_ARG(in->tensors[i].name), model_family_names[l->model->config.family]);
    }
    return true;
}

static bool take_all(struct loader *l) {
    struct model *m = l->model;
    const struct model_config *c = &m->config;
    m->layers = xcalloc((size_t)c->layers, sizeof *m->layers);
    if (!take_matrix(l, "model.embed_tokens.weight", c->vocabulary, c->hidden, &m->embed) ||
        !take_norm(l, "model.norm.weight", c->hidden, &m->norm))
        return false;
    m->head = m->embed;
    if (!c->tied && !take_matrix(l, "lm_head.weight", c->vocabulary, c->hidden, &m->head))
        return false;
    for (int64_t i = 0; i < c->layers; i++)
        if (!take_layer(l, i))
            return false;
    return account(l);
}

static bool open_shard(struct model *m, const char *directory, const char *name, struct str *why) {
    if (m->n_shards == MODEL_SHARDS_MAX)
        return complain(why, INDEX_FILE, "names over %d files", MODEL_SHARDS_MAX);
    m->shards = xrealloc(m->shards, (m->n_shards + 1) * sizeof *m->shards);
    if (!st_open(&m->shards[m->n_shards], directory, name, why))
        return false;
    m->n_shards++;
    return true;
}

static struct safetensors *shard_of(struct model *m, const char *name) {
    for (size_t i = 0; i < m->n_shards; i++)
        if (strcmp(m->shards[i].file.name, name) == 0)
            return &m->shards[i];
    return NULL;
}

/* One row of the index: the tensor must be in the file that the index names. */
static bool open_indexed(struct model *m, const char *directory, struct span tensor, struct json where,
                         struct str *why) {
    char name[FILE_NAME_MAX], wanted[ST_NAME_MAX + 1];
    if (where.kind != JSON_STRING || where.raw.n - 2 >= sizeof name || tensor.n > ST_NAME_MAX)
        return complain(why, INDEX_FILE, "weight_map must give a file name for each tensor");
    snprintf(name, sizeof name, "%.*s", (int)where.raw.n - 2, where.raw.at + 1);
    snprintf(wanted, sizeof wanted, "%.*s", SPAN_ARG(tensor));
    if (!shard_of(m, name) && !open_shard(m, directory, name, why))
        return false;
    return st_find(shard_of(m, name), wanted) ||
           complain(why, name, "tensor %s: %s says it is here, but it is not", wanted, INDEX_FILE);
}

static bool open_index(struct model *m, const char *directory, struct str *why) {
    struct file f;
    struct json root, where;
    struct json_walk w;
    struct span tensor;
    if (!model_file_open_json(&f, directory, INDEX_FILE, &root, why))
        return false;
    struct json map = json_get(root, "weight_map");
    bool ok = map.kind == JSON_OBJECT || complain(why, INDEX_FILE, "has no weight_map");
    for (json_walk_init(&w, map); ok && json_walk_next(&w, &tensor, &where);)
        ok = open_indexed(m, directory, tensor, where, why);
    model_file_close(&f);
    return ok;
}

static bool open_files(struct model *m, const char *directory, struct str *why) {
    if (model_file_exists(directory, SINGLE_FILE))
        return open_shard(m, directory, SINGLE_FILE, why);
    if (model_file_exists(directory, INDEX_FILE))
        return open_index(m, directory, why);
    return complain(why, SINGLE_FILE, "is not in %s, and neither is %s", directory, INDEX_FILE);
}

struct model *model_open(const char *directory, const char *dtype, struct str *why) {
    struct loader l = {.why = why, .want = DTYPE_OTHER};
    if (dtype && strcmp(dtype, "f32") == 0)
        l.want = DTYPE_F32;
    else if (dtype && strcmp(dtype, "bf16") == 0)
        l.want = DTYPE_BF16;
    else if (dtype && strcmp(dtype, "auto") != 0) {
        complain(why, "dtype", "must be auto, f32 or bf16, not %s", dtype);
        return NULL;
    }
    struct model *m = l.model = xcalloc(1, sizeof *m);
    if (model_config_read(directory, &m->config, why) && open_files(m, directory, why) && take_all(&l))
        return m;
    model_close(m);
    return NULL;
}

void model_close(struct model *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->n_shards; i++)
        st_close(&m->shards[i]);
    for (size_t i = 0; i < m->n_copies; i++)
        free(m->copies[i]);
    free(m->copies);
    free(m->shards);
    free(m->layers);
    free(m);
}
