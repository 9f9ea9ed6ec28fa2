/* Random adapters for tests; the names, the patterns and the scaling are written down here a second time on purpose. */
#include "tests/support/random_adapter.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const struct adapter_kind adapter_plain = {.name = "plain", .rank = 4, .alpha = 8, .dtype = "F32", .seed = 11};

static bool wanted(const struct adapter_kind *k, const char *module) {
    const char *last = strrchr(module, '.') ? strrchr(module, '.') + 1 : module;
    if (!k->only)
        return strchr(module, '.') != NULL;
    const char *at = strstr(k->only, last);
    return at && (at[strlen(last)] == ',' || at[strlen(last)] == '\0');
}

static const float *add(struct random_adapter *a, uint64_t *state, const char *path, const char *end, int64_t rows,
                        int64_t cols) {
    char name[160];
    snprintf(name, sizeof name, "%s%s.%s", a->kind.prefix ? a->kind.prefix : "base_model.model.", path, end);
    if (strncmp(end, "lora_A", 6) == 0 || strncmp(end, "lora_B", 6) == 0)
        strncat(name, a->kind.infix ? a->kind.infix : "", sizeof name - strlen(name) - 1);
    if (strncmp(end, "lora_embedding", 14) != 0 && strcmp(end, "lora_magnitude_vector") != 0)
        strncat(name, ".weight", sizeof name - strlen(name) - 1);
    random_model_add(&a->files, state, name, rows, cols);
    return a->files.tensors[a->files.n - 1].at;
}

static void add_part(struct random_adapter *a, uint64_t *state, int64_t layer, const char *module, const char *path,
                     int64_t out, int64_t in) {
    const struct adapter_kind *k = &a->kind;
    bool q = strcmp(module, "self_attn.q_proj") == 0, v = strcmp(module, "self_attn.v_proj") == 0;
    bool embed = strcmp(module, "embed_tokens") == 0;
    if (!wanted(k, module) || (strchr(module, '.') && layer + 1 == k->without_layer))
        return;
    int64_t rank = q && k->q_rank ? k->q_rank : k->rank;
    double alpha = v && layer == 1 && k->v_alpha != 0 ? k->v_alpha : k->alpha;
    struct random_part p = {.layer = layer, .rank = rank};
    snprintf(p.module, sizeof p.module, "%s", module);
    p.scale = k->rslora ? alpha / sqrt((double)rank) : alpha / (double)rank;
    p.a = add(a, state, path, embed ? "lora_embedding_A" : "lora_A", rank, in);
    p.b = add(a, state, path, embed ? "lora_embedding_B" : "lora_B", out, rank);
    if (k->dora)
        p.magnitude = add(a, state, path, "lora_magnitude_vector", out, 0);
    a->parts = xrealloc(a->parts, (a->n + 1) * sizeof *a->parts);
    a->parts[a->n++] = p;
}

static void make(struct random_adapter *a, const struct random_model *m) {
    const struct model_shape *s = &m->shape;
    uint64_t state = a->kind.seed * UINT64_C(0x9e3779b97f4a7c15) + 7;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, h = s->hidden, f = s->intermediate;
    const struct {
        const char *module;
        int64_t out, in;
    } rows[] = {{"self_attn.q_proj", q, h}, {"self_attn.k_proj", kv, h}, {"self_attn.v_proj", kv, h},
                {"self_attn.o_proj", h, q}, {"mlp.gate_proj", f, h},     {"mlp.up_proj", f, h},
                {"mlp.down_proj", h, f}};
    char path[96];
    for (int64_t l = 0; l < s->layers; l++)
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            snprintf(path, sizeof path, "model.layers.%lld.%s", (long long)l, rows[i].module);
            add_part(a, &state, l, rows[i].module, path, rows[i].out, rows[i].in);
        }
    add_part(a, &state, 0, "lm_head", "lm_head", s->vocabulary, h);
    add_part(a, &state, 0, "embed_tokens", "model.embed_tokens", h, s->vocabulary);
}

static void write_config(const struct random_adapter *a) {
    const struct adapter_kind *k = &a->kind;
    struct str s;
    str_init(&s, 4096);
    str_printf(&s,
               "{\"peft_type\":\"LORA\",\"task_type\":\"CAUSAL_LM\",\"base_model_name_or_path\":null,\"r\":%lld,"
               "\"lora_alpha\":%g,\"lora_dropout\":0.05,\"bias\":\"none\",\"fan_in_fan_out\":false,"
               "\"use_rslora\":%s,\"use_dora\":%s,\"modules_to_save\":null,\"target_modules\":\"all-linear\"",
               (long long)k->rank, k->alpha, k->rslora ? "true" : "false", k->dora ? "true" : "false");
    if (k->q_rank)
        str_printf(&s, ",\"rank_pattern\":{\"q_proj\":%lld}", (long long)k->q_rank);
    if (k->v_alpha != 0)
        str_printf(&s, ",\"alpha_pattern\":{\"^model\\\\.layers\\\\.1\\\\..*v_proj\":%g}", k->v_alpha);
    str_putc(&s, '}');
    random_file_save(&a->files, "adapter_config.json", str_span(&s));
    str_fini(&s);
}

void random_adapter_write(struct random_adapter *a, const struct random_model *m, const struct adapter_kind *kind,
                          const char *directory) {
    const char *tmp = getenv("TMPDIR");
    *a = (struct random_adapter){.kind = *kind, .files = {.shape = m->shape}};
    a->files.shape.dtype = kind->dtype;
    if (directory)
        snprintf(a->files.directory, sizeof a->files.directory, "%s", directory);
    else
        snprintf(a->files.directory, sizeof a->files.directory, "%s/tollgate-adapter-XXXXXX", tmp ? tmp : "/tmp");
    bool made = directory ? mkdir(directory, 0755) == 0 : mkdtemp(a->files.directory) != NULL;
    assert(made);
    make(a, m);
    random_weights_write(&a->files, "adapter_model.safetensors");
    write_config(a);
}

void random_adapter_remove(struct random_adapter *a) {
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors", "manifest.json"};
    char path[RANDOM_MODEL_PATH_MAX + 64];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", a->files.directory, names[i]);
        unlink(path);
    }
    random_model_remove(&a->files);
    free(a->parts);
}

const struct random_part *random_adapter_find(const struct random_adapter *a, int64_t layer, const char *module) {
    for (size_t i = 0; i < a->n; i++)
        if (a->parts[i].layer == layer && strcmp(a->parts[i].module, module) == 0)
            return &a->parts[i];
    return NULL;
}
