/* Puts the tensors of an adapter where they belong, by their PEFT names. A tensor without a place, half a pair, a shape, rank
 * or type that does not fit, a value that is no number: the adapter is refused, since each of them would otherwise be served
 * as text of the base under another name. */
#include "backends/decode/adapter.h"

#include "backends/decode/adapter_config.h"
#include "backends/decode/adapter_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum half { HALF_A, HALF_B, HALF_MAGNITUDE };
struct place {
    char path[ST_NAME_MAX + 1]; /* "model.layers.0.self_attn.q_proj" */
    int64_t layer;
    enum module module;
    enum half half;
};
static const struct {
    const char *name;
    size_t at; /* in struct layer */
} modules[MODULES_A_LAYER] = {
    [MODULE_Q] = {"self_attn.q_proj", offsetof(struct layer, q)},
    [MODULE_K] = {"self_attn.k_proj", offsetof(struct layer, k)},
    [MODULE_V] = {"self_attn.v_proj", offsetof(struct layer, v)},
    [MODULE_O] = {"self_attn.o_proj", offsetof(struct layer, o)},
    [MODULE_GATE] = {"mlp.gate_proj", offsetof(struct layer, gate)},
    [MODULE_UP] = {"mlp.up_proj", offsetof(struct layer, up)},
    [MODULE_DOWN] = {"mlp.down_proj", offsetof(struct layer, down)},
};
struct loader {
    struct adapter *adapter;
    const struct model *model;
    struct adapter_config config;
    struct safetensors file;
    int64_t rank_max;
    struct str *why;
};

static size_t part_index(const struct adapter *a, int64_t layer, enum module m) {
    return (size_t)(m < MODULES_A_LAYER ? layer * MODULES_A_LAYER + (int64_t)m
                                        : a->layers * MODULES_A_LAYER + (int64_t)m - MODULES_A_LAYER);
}

const struct adapter_part *adapter_part(const struct adapter *a, int64_t layer, enum module m) {
    const struct adapter_part *p = &a->parts[part_index(a, layer, m)];
    return p->a.at ? p : NULL;
}

/* The base's own matrix of a module. The embedding is looked up, so it takes a token and gives a row. */
static struct tensor base_of(const struct model *m, int64_t layer, enum module module) {
    if (module == MODULE_HEAD)
        return m->head;
    if (module == MODULE_EMBED)
        return (struct tensor){m->embed.at, m->embed.dtype, m->embed.cols, m->embed.rows, m->embed.scales};
    return *(const struct tensor *)(const void *)((const char *)&m->layers[layer] + modules[module].at);
}

/* --- names --- */

static bool cut_end(char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    if (n <= k || strcmp(text + n - k, end) != 0)
        return false;
    text[n - k] = '\0';
    return true;
}

static bool cut_half(char *path, enum half *half, bool *embedding) {
    static const struct {
        const char *end;
        enum half half;
        bool embedding;
    } ends[] = {{".lora_A", HALF_A, false},
                {".lora_B", HALF_B, false},
                {".lora_embedding_A", HALF_A, true},
                {".lora_embedding_B", HALF_B, true},
                {".lora_magnitude_vector", HALF_MAGNITUDE, false}};
    cut_end(path, ".weight");
    cut_end(path, ".default");
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (cut_end(path, ends[i].end)) {
            *half = ends[i].half;
            *embedding = ends[i].embedding;
            return true;
        }
    return false;
}

static bool find_module(const struct model *m, struct place *p) {
    static const char layers[] = "model.layers.";
    if (strcmp(p->path, "lm_head") == 0 || strcmp(p->path, "model.embed_tokens") == 0) {
        p->module = p->path[0] == 'l' ? MODULE_HEAD : MODULE_EMBED;
        return true;
    }
    if (strncmp(p->path, layers, sizeof layers - 1) != 0)
        return false;
    struct span rest = span_of(p->path + sizeof layers - 1), number;
    if (!span_cut(&rest, '.', &number) || !span_to_i64(number, &p->layer) || p->layer >= m->config.layers ||
        (number.n > 1 && number.at[0] == '0'))
        return false;
    for (enum module k = 0; k < MODULES_A_LAYER; k++)
        if (span_is(rest, modules[k].name)) {
            p->module = k;
            return true;
        }
    return false;
}

static bool place_of(const struct model *m, struct span name, struct place *p) {
    static const char prefix[] = "base_model.model.";
    bool embedding = false;
    if (span_starts(name, prefix))
        name = span_from(name.at + sizeof prefix - 1, name.n - sizeof prefix + 1);
    *p = (struct place){0};
    snprintf(p->path, sizeof p->path, "%.*s", SPAN_ARG(name));
    return cut_half(p->path, &p->half, &embedding) && find_module(m, p) && (p->module == MODULE_EMBED) == embedding;
}

/* --- tensors --- */

static bool refuse(struct loader *l, const struct st_tensor *t, const char *what) {
    return complain(l->why, ADAPTER_WEIGHTS_FILE, "tensor %.*s: %s", SPAN_ARG(t->name), what);
}

static bool all_finite(const uint8_t *at, enum dtype d, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(dtype_get(at, d, i)))
            return false;
    return true;
}

static bool check_shape(struct loader *l, const struct st_tensor *t, int64_t rows, int64_t cols) {
    bool vector = cols == 0;
    if (t->dtype == DTYPE_OTHER)
        return complain(l->why, ADAPTER_WEIGHTS_FILE, "tensor %.*s: dtype %s is not supported; F32, F16 and BF16 are",
                        SPAN_ARG(t->name), t->dtype_name);
    if (t->rank != (vector ? 1 : 2) || t->shape[0] != rows || (!vector && t->shape[1] != cols))
        return complain(l->why, ADAPTER_WEIGHTS_FILE,
                        "tensor %.*s: shape does not fit: this base and this rank ask for [%lld%s%lld]",
                        SPAN_ARG(t->name), (long long)rows, vector ? "] and not over " : ", ", (long long)cols);
    return all_finite(l->file.data + t->begin, t->dtype, rows * (vector ? 1 : cols)) ||
           refuse(l, t, "holds a value that is not a finite number");
}

static bool take_rank(struct loader *l, const struct place *p, struct adapter_part *part, int64_t *rank) {
    if (!adapter_config_module(&l->config, p->path, rank, &part->scale, l->why))
        return false;
    if (*rank > l->rank_max)
        return complain(l->why, ADAPTER_CONFIG_FILE, "rank %lld of %s is over max_adapter_rank, which is %lld",
                        (long long)*rank, p->path, (long long)l->rank_max);
    if (*rank > l->adapter->rank_max)
        l->adapter->rank_max = *rank;
    return true;
}

static bool take_magnitude(struct loader *l, const struct st_tensor *t, const struct place *p,
                           struct adapter_part *part, int64_t out) {
    if (!l->config.dora || p->module >= MODULES_A_LAYER)
        return refuse(l, t, l->config.dora ? "DoRA of this module is not supported" : "use_dora is not set");
    if (!check_shape(l, t, out, 0))
        return false;
    part->gain = xcalloc((size_t)out, sizeof *part->gain);
    for (int64_t i = 0; i < out; i++)
        part->gain[i] = dtype_get(l->file.data + t->begin, t->dtype, i);
    l->adapter->bytes += out * (int64_t)sizeof *part->gain;
    return true;
}

static bool take_tensor(struct loader *l, const struct st_tensor *t) {
    struct place p;
    int64_t rank = 0;
    if (!place_of(l->model, t->name, &p))
        return refuse(l, t, "is no part of an adapter of this base that is supported");
    struct tensor base = base_of(l->model, p.layer, p.module);
    struct adapter_part *part = &l->adapter->parts[part_index(l->adapter, p.layer, p.module)];
    if (!take_rank(l, &p, part, &rank))
        return false;
    if (p.half == HALF_MAGNITUDE)
        return part->gain ? refuse(l, t, "is there twice") : take_magnitude(l, t, &p, part, base.rows);
    struct tensor *into = p.half == HALF_A ? &part->a : &part->b;
    int64_t rows = p.half == HALF_A ? rank : base.rows, cols = p.half == HALF_A ? base.cols : rank;
    if (into->at)
        return refuse(l, t, "is there twice");
    if (!check_shape(l, t, rows, cols))
        return false;
    *into = (struct tensor){l->file.data + t->begin, t->dtype, rows, cols, NULL};
    return true;
}

/* --- DoRA: the length that a row has now becomes the length that the adapter wants --- */

static double row_length(const struct tensor *w, const struct adapter_part *p, int64_t row, double *sum) {
    double length = 0;
    for (int64_t i = 0; i < w->cols; i++)
        sum[i] = (double)tensor_get(w, row, i);
    for (int64_t k = 0; k < p->a.rows; k++) {
        double b = (double)p->scale * (double)dtype_get(p->b.at, p->b.dtype, row * p->b.cols + k);
        for (int64_t i = 0; i < w->cols; i++)
            sum[i] += b * (double)dtype_get(p->a.at, p->a.dtype, k * w->cols + i);
    }
    for (int64_t i = 0; i < w->cols; i++)
        length += sum[i] * sum[i];
    return sqrt(length);
}

static bool make_gain(struct loader *l, struct adapter_part *p, const struct tensor *w, const char *name) {
    double *sum = xcalloc((size_t)w->cols, sizeof *sum);
    bool ok = true;
    for (int64_t r = 0; ok && r < w->rows; r++) {
        double length = row_length(w, p, r, sum);
        p->gain[r] = (float)((double)p->gain[r] / length);
        ok = isfinite(p->gain[r]) || complain(l->why, ADAPTER_WEIGHTS_FILE, "%s: a row has no length", name);
    }
    free(sum);
    return ok;
}

static bool finish_part(struct loader *l, int64_t layer, enum module m, int64_t *n) {
    static const char *const others[] = {"lm_head", "model.embed_tokens"};
    struct adapter_part *p = &l->adapter->parts[part_index(l->adapter, layer, m)];
    const char *name = m < MODULES_A_LAYER ? modules[m].name : others[m - MODULES_A_LAYER];
    struct tensor base = base_of(l->model, layer, m);
    if (!p->a.at && !p->b.at && !p->gain)
        return true;
    ++*n;
    if (!p->a.at || !p->b.at)
        return complain(l->why, ADAPTER_WEIGHTS_FILE, "layer %lld, %s: lora_%c is missing", (long long)layer, name,
                        p->a.at ? 'B' : 'A');
    if (l->config.dora && !p->gain)
        return complain(l->why, ADAPTER_WEIGHTS_FILE, "layer %lld, %s: use_dora is set, but %s", (long long)layer, name,
                        m < MODULES_A_LAYER ? "lora_magnitude_vector is missing" : "DoRA of it is not supported");
    return !p->gain || make_gain(l, p, &base, name);
}

static bool take_all(struct loader *l) {
    int64_t n = 0;
    for (size_t i = 0; i < l->file.n; i++)
        if (!take_tensor(l, &l->file.tensors[i]))
            return false;
    for (int64_t i = 0; i < l->model->config.layers; i++)
        for (enum module m = 0; m < MODULES_A_LAYER; m++)
            if (!finish_part(l, i, m, &n))
                return false;
    if (!finish_part(l, 0, MODULE_HEAD, &n) || !finish_part(l, 0, MODULE_EMBED, &n))
        return false;
    return n > 0 || complain(l->why, ADAPTER_WEIGHTS_FILE, "holds no tensor: this would be the base");
}

struct adapter *adapter_open(const char *directory, const char *root, const struct model *m, int64_t rank_max,
                             struct str *why) {
    struct adapter_files files;
    struct loader l = {.model = m, .rank_max = rank_max, .why = why};
    if (!adapter_files_read(directory, root, &files, why))
        return NULL;
    struct adapter *a = l.adapter = xcalloc(1, sizeof *a);
    a->layers = m->config.layers;
    a->parts = xcalloc((size_t)a->layers * MODULES_A_LAYER + MODULES - MODULES_A_LAYER, sizeof *a->parts);
    a->bytes = (int64_t)files.weights_bytes;
    a->data = files.weights;
    files.weights = NULL;
    memcpy(a->digest, files.digest, sizeof a->digest);
    snprintf(l.file.file.name, sizeof l.file.file.name, "%s", ADAPTER_WEIGHTS_FILE);
    bool ok = adapter_config_read(span_from(files.config, files.config_bytes), &l.config, why) &&
              st_read(&l.file, span_from(a->data, files.weights_bytes), why) && take_all(&l);
    free(l.file.tensors);
    adapter_files_free(&files);
    if (ok)
        return a;
    adapter_close(a);
    return NULL;
}

void adapter_close(struct adapter *a) {
    if (!a)
        return;
    size_t n = (size_t)a->layers * MODULES_A_LAYER + MODULES - MODULES_A_LAYER;
    for (size_t i = 0; i < n; i++)
        free(a->parts[i].gain);
    free(a->parts);
    free(a->data);
    free(a);
}
