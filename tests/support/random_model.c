/* Random models for tests. The writer shares no code with the reader under test: it has its own rounding, header, names and
 * alphabet, so a mistake on one side does not cancel itself on the other. */
#include "tests/support/random_model.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const struct model_shape shape_small = {.hidden = 44,
                                        .intermediate = 92,
                                        .layers = 2,
                                        .heads = 6,
                                        .kv_heads = 2,
                                        .head_dim = 10,
                                        .vocabulary = 283,
                                        .context = 160,
                                        .tied = true,
                                        .dtype = "F32",
                                        .seed = 1};

static double uniform(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

static float normal(uint64_t *state) {
    double a = uniform(state) + 1e-12, b = uniform(state);
    return (float)(sqrt(-2 * log(a)) * cos(6.283185307179586 * b));
}

/* --- rounding to what a type can hold --- */

static uint16_t to_bf16(float f) {
    union {
        float f;
        uint32_t u;
    } v = {f};
    return (uint16_t)((v.u + 0x7fff + (v.u >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t h) {
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)h << 16};
    return v.f;
}

/* Values here are small and not tiny, so only normal numbers need care. */
static uint16_t to_f16(float f) {
    int exponent;
    float fraction = frexpf(fabsf(f), &exponent); /* [0.5, 1) */
    if (f == 0 || exponent < -13)
        return 0;
    long mantissa = lrintf(ldexpf(fraction, 11)); /* 1024..2048 */
    if (mantissa == 2048) {
        mantissa = 1024;
        exponent++;
    }
    return (uint16_t)((f < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | (mantissa - 1024));
}

static float from_f16(uint16_t h) {
    if ((h & 0x7fff) == 0)
        return 0;
    float v = ldexpf((float)(1024 + (h & 1023)), (h >> 10 & 31) - 25);
    return h & 0x8000 ? -v : v;
}

static float rounded(const char *dtype, float f) {
    return strcmp(dtype, "F32") == 0 ? f : strcmp(dtype, "F16") == 0 ? from_f16(to_f16(f)) : from_bf16(to_bf16(f));
}

/* --- weights --- */

void random_model_add(struct random_model *m, uint64_t *state, const char *name, int64_t rows, int64_t cols) {
    m->tensors = xrealloc(m->tensors, (m->n + 1) * sizeof *m->tensors);
    struct random_tensor *t = &m->tensors[m->n++];
    int64_t n = rows * (cols ? cols : 1);
    *t = (struct random_tensor){.rows = rows, .cols = cols, .at = xcalloc((size_t)n, sizeof(float))};
    snprintf(t->name, sizeof t->name, "%s", name);
    float scale = cols ? 1.0f / sqrtf((float)cols) : 0.1f;
    for (int64_t i = 0; i < n; i++)
        t->at[i] = rounded(m->shape.dtype, (cols ? 0.0f : 1.0f) + scale * normal(state));
}

static void make_weights(struct random_model *m) {
    const struct model_shape *s = &m->shape;
    uint64_t state = s->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const struct {
        const char *name;
        int64_t rows, cols;
    } rows[] = {
        {"self_attn.q_proj", q, s->hidden},
        {"self_attn.k_proj", kv, s->hidden},
        {"self_attn.v_proj", kv, s->hidden},
        {"self_attn.o_proj", s->hidden, q},
        {"mlp.gate_proj", s->intermediate, s->hidden},
        {"mlp.up_proj", s->intermediate, s->hidden},
        {"mlp.down_proj", s->hidden, s->intermediate},
        {"input_layernorm", s->hidden, 0},
        {"post_attention_layernorm", s->hidden, 0},
    };
    const struct {
        const char *name;
        bool there;
        int64_t n;
    } vectors[] = {
        {"self_attn.q_proj.bias", m->kind.qkv_bias, q},
        {"self_attn.k_proj.bias", m->kind.qkv_bias, kv},
        {"self_attn.v_proj.bias", m->kind.qkv_bias, kv},
        {"self_attn.o_proj.bias", m->kind.o_bias, s->hidden},
        {"mlp.gate_proj.bias", m->kind.mlp_bias, s->intermediate},
        {"mlp.up_proj.bias", m->kind.mlp_bias, s->intermediate},
        {"mlp.down_proj.bias", m->kind.mlp_bias, s->hidden},
        {"self_attn.q_norm.weight", m->kind.qk_norm, s->head_dim},
        {"self_attn.k_norm.weight", m->kind.qk_norm, s->head_dim},
    };
    char name[96];
    random_model_add(m, &state, "model.embed_tokens.weight", s->vocabulary, s->hidden);
    for (int64_t l = 0; l < s->layers; l++)
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            snprintf(name, sizeof name, "model.layers.%lld.%s.weight", (long long)l, rows[i].name);
            random_model_add(m, &state, name, rows[i].rows, rows[i].cols);
        }
    for (int64_t l = 0; l < s->layers; l++)
        for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
            snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)l, vectors[i].name);
            if (vectors[i].there)
                random_model_add(m, &state, name, vectors[i].n, 0);
        }
    random_model_add(m, &state, "model.norm.weight", s->hidden, 0);
    if (!s->tied)
        random_model_add(m, &state, "lm_head.weight", s->vocabulary, s->hidden);
}

const float *random_model_get(const struct random_model *m, const char *name) {
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return m->tensors[i].at;
    return NULL;
}

/* --- files --- */

static FILE *open_file(const struct random_model *m, const char *name, const char *mode) {
    char path[RANDOM_MODEL_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", m->directory, name);
    FILE *f = fopen(path, mode);
    assert(f);
    return f;
}

static void write_values(const struct random_model *m, const struct random_tensor *t, FILE *f) {
    for (int64_t k = 0; k < t->rows * (t->cols ? t->cols : 1); k++) {
        uint16_t h = strcmp(m->shape.dtype, "F16") == 0 ? to_f16(t->at[k]) : to_bf16(t->at[k]);
        if (strcmp(m->shape.dtype, "F32") == 0)
            fwrite(&t->at[k], 4, 1, f);
        else
            fwrite(&h, 2, 1, f);
    }
}

void random_weights_write(const struct random_model *m, const char *name) {
    struct str header;
    size_t size = strcmp(m->shape.dtype, "F32") == 0 ? 4 : 2, at = 0;
    str_init(&header, 1 << 24);
    str_puts(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < m->n; i++) {
        const struct random_tensor *t = &m->tensors[i];
        size_t bytes = (size_t)(t->rows * (t->cols ? t->cols : 1)) * size;
        str_printf(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", t->name, m->shape.dtype, (long long)t->rows);
        if (t->cols)
            str_printf(&header, ",%lld", (long long)t->cols);
        str_printf(&header, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    str_putc(&header, '}');
    while (header.n % 8)
        str_putc(&header, ' ');
    FILE *f = open_file(m, name, "wb");
    for (int i = 0; i < 8; i++)
        fputc((int)((uint64_t)header.n >> (8 * i) & 255), f);
    fwrite(header.at, 1, header.n, f);
    for (size_t i = 0; i < m->n; i++)
        write_values(m, &m->tensors[i], f);
    fclose(f);
    str_fini(&header);
}

static void put_rope(const struct model_kind *k, FILE *f) {
    if (!k->rope) {
        fprintf(f, "null");
        return;
    }
    fprintf(f, "{\"rope_type\":\"%s\",\"factor\":%g", k->rope, k->factor);
    if (k->low > 0)
        fprintf(f, ",\"low_freq_factor\":%g,\"high_freq_factor\":%g", k->low, k->high);
    if (k->original > 0)
        fprintf(f, ",\"original_max_position_embeddings\":%g", k->original);
    fprintf(f, "}");
}

static void write_config(const struct random_model *m) {
    const struct model_shape *s = &m->shape;
    const struct model_kind *k = &m->kind;
    FILE *f = open_file(m, "config.json", "w");
    fprintf(f,
            "{\"architectures\":[\"%s\"],\"model_type\":\"%s\",\"hidden_size\":%lld,"
            "\"intermediate_size\":%lld,\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,"
            "\"num_key_value_heads\":%lld,\"head_dim\":%lld,\"vocab_size\":%lld,\"max_position_embeddings\":%lld,"
            "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"rope_scaling\":",
            k->architecture, k->type, (long long)s->hidden, (long long)s->intermediate, (long long)s->layers,
            (long long)s->heads, (long long)s->kv_heads, (long long)s->head_dim, (long long)s->vocabulary,
            (long long)s->context);
    put_rope(k, f);
    fprintf(f,
            ",\"hidden_act\":\"silu\",\"attention_bias\":%s,\"mlp_bias\":%s,\"tie_word_embeddings\":%s,"
            "\"bos_token_id\":0,\"eos_token_id\":0,\"torch_dtype\":\"float32\"%s}\n",
            k->o_bias ? "true" : "false", k->mlp_bias ? "true" : "false", s->tied ? "true" : "false",
            k->more ? k->more : "");
    fclose(f);
    f = open_file(m, "generation_config.json", "w");
    fprintf(f, "{\"eos_token_id\":[0,2]}\n");
    fclose(f);
    f = open_file(m, "tokenizer_config.json", "w");
    fprintf(f, "{\"chat_template\":\"{%% for message in messages %%}{{'<|im_start|>' + message['role'] + '\\\\n' + "
               "message['content'] + '<|im_end|>' + '\\\\n'}}{%% endfor %%}{%% if add_generation_prompt %%}"
               "{{ '<|im_start|>assistant\\\\n' }}{%% endif %%}\"}\n");
    fclose(f);
}

/* The byte-level alphabet as GPT-2 lists it: printable bytes stand for themselves, the others count up from U+0100. */
static void put_byte_name(FILE *f, int byte) {
    int next = 256, c = 0;
    for (int b = 0; b <= byte; b++) {
        bool plain = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
        c = plain ? b : next++;
    }
    if (c == '"' || c == '\\')
        fprintf(f, "\\%c", c);
    else if (c < 128)
        fputc(c, f);
    else
        fprintf(f, "\\u%04x", (unsigned)c);
}

static const char *const merges[][2] = {
    {"h", "e"},  {"t", "he"}, {"\\u0120", "t"}, {"\\u0120", "the"}, {"i", "n"}, {"in", "g"},      {"a", "n"},
    {"an", "d"}, {"e", "r"},  {"o", "n"},       {"\\u0120", "a"},   {"l", "l"}, {"\\u0120", "w"}, {"h", "i"},
};

static void write_vocabulary(FILE *f) {
    for (int b = 0; b < 256; b++) {
        fputs(b ? ",\"" : "\"", f);
        put_byte_name(f, b);
        fprintf(f, "\":%d", b + 3);
    }
    for (size_t i = 0; i < ARRAY_LEN(merges); i++)
        fprintf(f, ",\"%s%s\":%zu", merges[i][0], merges[i][1], 259 + i);
    fprintf(f, "},\"merges\":[");
    for (size_t i = 0; i < ARRAY_LEN(merges); i++)
        fprintf(f, "%s\"%s %s\"", i ? "," : "", merges[i][0], merges[i][1]);
}

static void write_tokenizer(const struct random_model *m) {
    static const char *const specials[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    FILE *f = open_file(m, "tokenizer.json", "w");
    fprintf(f, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
    for (int i = 0; i < 3; i++)
        fprintf(f,
                "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                "\"normalized\":false,\"special\":true}",
                i ? "," : "", i, specials[i]);
    fprintf(f, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
               "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
               "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
               "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{");
    write_vocabulary(f);
    fprintf(f, "]}}\n");
    fclose(f);
}

void random_model_write(struct random_model *m, const struct model_shape *shape) {
    static const struct model_kind llama = {.type = "llama", .architecture = "LlamaForCausalLM"};
    random_model_write_kind(m, shape, &llama);
}

void random_model_write_kind(struct random_model *m, const struct model_shape *shape, const struct model_kind *kind) {
    const char *tmp = getenv("TMPDIR");
    *m = (struct random_model){.shape = *shape, .kind = *kind};
    assert(shape->vocabulary >= RANDOM_MODEL_VOCABULARY_MIN);
    snprintf(m->directory, sizeof m->directory, "%s/tollgate-model-XXXXXX", tmp ? tmp : "/tmp");
    char *made = mkdtemp(m->directory);
    assert(made);
    make_weights(m);
    random_weights_write(m, "model.safetensors");
    write_config(m);
    write_tokenizer(m);
}

void random_model_remove(struct random_model *m) {
    static const char *const names[] = {
        "config.json",           "generation_config.json", "model.safetensors",
        "tokenizer_config.json", "tokenizer.json",         "chat_template.jinja",
        "a.safetensors",         "b.safetensors",          "model.safetensors.index.json"};
    char path[RANDOM_MODEL_PATH_MAX + 64];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", m->directory, names[i]);
        unlink(path);
    }
    rmdir(m->directory);
    for (size_t i = 0; i < m->n; i++)
        free(m->tensors[i].at);
    free(m->tensors);
}

void random_file_load(const struct random_model *m, const char *name, struct str *out) {
    FILE *f = open_file(m, name, "rb");
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        str_put(out, span_from(buffer, n));
    fclose(f);
}

void random_file_save(const struct random_model *m, const char *name, struct span bytes) {
    FILE *f = open_file(m, name, "wb");
    if (bytes.n)
        fwrite(bytes.at, 1, bytes.n, f);
    fclose(f);
}

void random_file_edit(const struct random_model *m, const char *name, const char *from, const char *to) {
    struct str old, out;
    str_init(&old, 1 << 24);
    str_init(&out, 1 << 24);
    random_file_load(m, name, &old);
    const char *at = memmem(old.at, old.n, from, strlen(from));
    assert(at);
    size_t before = (size_t)(at - old.at), after = before + strlen(from);
    str_put(&out, span_from(old.at, before));
    str_puts(&out, to);
    str_put(&out, span_from(old.at + after, old.n - after));
    random_file_save(m, name, str_span(&out));
    str_fini(&old);
    str_fini(&out);
}
