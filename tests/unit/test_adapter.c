/* Adapters in numbers: every kind against a judge in double precision that adds the products, and against the base with merged
 * weights; and what is refused, by name. */
#include "backends/decode/adapter.h"
#include "backends/decode/compute.h"
#include "tests/support/judge.h"
#include "tests/support/reference_llama.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LENGTH 24
#define ROWS 4 /* sequences: two with the adapter, two without */

static const struct model_shape shape = {40, 60, 3, 4, 2, 12, 283, 64, false, "F32", 5};
static const struct adapter_kind kinds[] = {
    {.name = "plain", .rank = 4, .alpha = 8, .dtype = "F32", .seed = 1},
    {.name = "bf16, rank 5", .rank = 5, .alpha = 10, .dtype = "BF16", .seed = 2},
    {.name = "f16, .default", .rank = 3, .alpha = 3, .dtype = "F16", .infix = ".default", .seed = 3},
    {.name = "no prefix", .rank = 3, .alpha = 3, .dtype = "F32", .prefix = "", .seed = 3},
    {.name = "rslora", .rank = 9, .alpha = 4, .dtype = "F32", .rslora = true, .seed = 4},
    {.name = "rank_pattern", .rank = 2, .alpha = 4, .dtype = "F32", .q_rank = 7, .seed = 5},
    {.name = "alpha_pattern", .rank = 4, .alpha = 2, .dtype = "F32", .v_alpha = 16, .seed = 6},
    {.name = "both, rslora",
     .rank = 4,
     .alpha = 2,
     .dtype = "F32",
     .v_alpha = 6,
     .q_rank = 6,
     .rslora = true,
     .seed = 7},
    {.name = "alpha 0", .rank = 4, .alpha = 0, .dtype = "F32", .seed = 8},
    {.name = "q and v only", .rank = 4, .alpha = 8, .dtype = "F32", .only = "q_proj,v_proj", .seed = 9},
    {.name = "a layer without", .rank = 4, .alpha = 8, .dtype = "F32", .without_layer = 2, .seed = 10},
    {.name = "dora", .rank = 4, .alpha = 8, .dtype = "F32", .dora = true, .seed = 11},
    {.name = "dora, rslora, o and down",
     .rank = 3,
     .alpha = 5,
     .dtype = "F32",
     .dora = true,
     .rslora = true,
     .only = "o_proj,down_proj",
     .seed = 12},
    {.name = "head and embedding", .rank = 4, .alpha = 6, .dtype = "F32", .only = "lm_head,embed_tokens", .seed = 13},
    {.name = "head alone", .rank = 4, .alpha = 6, .dtype = "F32", .only = "lm_head", .seed = 14},
};

static const struct compute_ops *const twins[] = {
    &compute_plain,
#ifdef __x86_64__
    &compute_avx2,
#endif
};

static struct adapter *opened(const struct random_adapter *a, const struct model *m, const char *why_not) {
    struct str why;
    str_init(&why, 2000);
    struct adapter *got = adapter_open(a->files.directory, NULL, m, 16, &why);
    if (why_not)
        cr_expect(!got && why.n && strstr(why.at, why_not), "%s instead of: %s", why.n ? why.at : "", why_not);
    else
        cr_assert(got, "%s: %s", a->kind.name, why.n ? why.at : "");
    str_fini(&why);
    return got;
}

static struct model *model_of(const struct random_model *m) {
    struct str why;
    str_init(&why, 2000);
    struct model *got = model_open(m->directory, "auto", &why);
    cr_assert(got, "%s", why.n ? why.at : "");
    str_fini(&why);
    return got;
}

static int32_t token_of(int pos) {
    return (pos * pos * 11 + pos * 5 + 3) % RANDOM_MODEL_VOCABULARY_MIN;
}

/* Sequences 0 and 3 with the adapter, 1 and 2 without; the tiles of the first are cut into two. */
static void step(const struct compute_ops *ops, struct model *m, const struct adapter *a, int threads, float *logits) {
    int32_t ids[ROWS * LENGTH], pos[ROWS * LENGTH], seq[ROWS * LENGTH], want[ROWS * LENGTH], q_start[ROWS + 1] = {0};
    int32_t blocks[ROWS][2], ctx[ROWS];
    const int32_t *tab[ROWS];
    struct batch_tile tiles[] = {
        {2, 0, 16}, {2, 16, LENGTH - 16}, {2, 3 * LENGTH, 16}, {2, 3 * LENGTH + 16, LENGTH - 16}};
    struct compute_limits limits = {64, 8, ROWS * LENGTH, ROWS * LENGTH, threads, 4, 16, 0};
    struct str why;
    str_init(&why, 1000);
    for (int i = 0; i < ROWS * LENGTH; i++) {
        ids[i] = token_of(i % LENGTH);
        pos[i] = i % LENGTH;
        seq[i] = i / LENGTH;
        want[i] = i;
    }
    for (int s = 0; s < ROWS; s++) {
        blocks[s][0] = 2 * s;
        blocks[s][1] = 2 * s + 1;
        tab[s] = blocks[s];
        ctx[s] = LENGTH;
        q_start[s + 1] = (s + 1) * LENGTH;
    }
    struct batch b = {ROWS * LENGTH, ids,           pos,  seq,        ROWS,       q_start, ctx,
                      tab,           ROWS * LENGTH, want, {tiles, 4}, {tiles, 4}, NULL};
    struct compute *c = ops->open(m, &limits, &why);
    cr_assert(c && ops->place(c, 2, a));
    ops->forward(c, &b, logits);
    ops->close(c);
    str_fini(&why);
}

Test(adapter, every_kind_gives_the_numbers_of_a_reference_in_double_precision_and_the_base_gives_its_own) {
    struct random_model m;
    size_t n = (size_t)shape.vocabulary;
    double *base = calloc(LENGTH * n, sizeof *base), *adapted = calloc(LENGTH * n, sizeof *adapted);
    float *got = calloc(ROWS * LENGTH * n, sizeof *got), *first = calloc(ROWS * LENGTH * n, sizeof *first);
    int32_t ids[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        ids[i] = token_of(i);
    random_model_write(&m, &shape);
    struct model *model = model_of(&m);
    reference_logits(&m, ids, LENGTH, base);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        struct random_adapter a;
        random_adapter_write(&a, &m, &kinds[k], NULL);
        struct adapter *adapter = opened(&a, model, NULL);
        reference_logits_adapted(&m, &a, ids, LENGTH, adapted);
        for (size_t t = 0; t < ARRAY_LEN(twins) && twins[t]->usable(); t++) {
            step(twins[t], model, adapter, 1 + (int)t * 2, t ? got : first);
            for (int row = 0; row < ROWS * LENGTH; row++) {
                bool with = row / LENGTH == 0 || row / LENGTH == 3;
                judge((t ? got : first) + (size_t)row * n, (with ? adapted : base) + (size_t)(row % LENGTH) * n,
                      (int64_t)n, kinds[k].name);
            }
            cr_expect(t == 0 || memcmp(first, got, ROWS * LENGTH * n * sizeof *got) == 0, "%s: twins differ",
                      kinds[k].name);
        }
        adapter_close(adapter);
        random_adapter_remove(&a);
    }
    model_close(model);
    random_model_remove(&m);
    free(base);
    free(adapted);
    free(got);
    free(first);
}

/* The second witness: the same sentence by the base alone, whose matrices have the adapter's product inside. */
static void merge(const struct random_model *m, const struct random_adapter *a) {
    for (size_t i = 0; i < a->n; i++) {
        const struct random_part *p = &a->parts[i];
        char name[128];
        snprintf(name, sizeof name, "model.layers.%lld.%s.weight", (long long)p->layer, p->module);
        for (size_t k = 0; k < m->n; k++) {
            const struct random_tensor *t = &m->tensors[k];
            if (strcmp(t->name, name) != 0)
                continue;
            for (int64_t o = 0; o < t->rows; o++) {
                double length = 0;
                for (int64_t c = 0; c < t->cols; c++) {
                    double w = (double)t->at[o * t->cols + c];
                    for (int64_t r = 0; r < p->rank; r++)
                        w += p->scale * (double)p->b[o * p->rank + r] * (double)p->a[r * t->cols + c];
                    length += w * w;
                    t->at[o * t->cols + c] = (float)w;
                }
                for (int64_t c = 0; p->magnitude && c < t->cols; c++)
                    t->at[o * t->cols + c] *= (float)((double)p->magnitude[o] / sqrt(length));
            }
        }
    }
    random_weights_write(m, "model.safetensors");
}

Test(adapter, an_adapter_is_the_base_with_merged_weights) {
    size_t n = (size_t)shape.vocabulary;
    double *want = calloc(LENGTH * n, sizeof *want);
    float *got = calloc(ROWS * LENGTH * n, sizeof *got);
    int32_t ids[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        ids[i] = token_of(i);
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        struct random_model m;
        struct random_adapter a;
        if (kinds[k].only && strstr(kinds[k].only, "lm_head"))
            continue; /* judged above; the head's merge is that very product */
        random_model_write(&m, &shape);
        random_adapter_write(&a, &m, &kinds[k], NULL);
        struct model *model = model_of(&m);
        struct adapter *adapter = opened(&a, model, NULL);
        step(&compute_plain, model, adapter, 1, got);
        adapter_close(adapter);
        model_close(model);
        merge(&m, &a);
        reference_logits(&m, ids, LENGTH, want);
        for (int i = 0; i < LENGTH; i++)
            judge(got + (size_t)i * n, want + (size_t)i * n, (int64_t)n, kinds[k].name);
        random_adapter_remove(&a);
        random_model_remove(&m);
    }
    free(want);
    free(got);
}

static void spoil_values(const struct random_adapter *a) {
    struct str s;
    str_init(&s, 1 << 22);
    random_file_load(&a->files, "adapter_model.safetensors", &s);
    memcpy(s.at + s.n - 4, "\0\0\xc0\x7f", 4);
    random_file_save(&a->files, "adapter_model.safetensors", str_span(&s));
    str_fini(&s);
}

Test(adapter, what_cannot_be_honoured_is_refused_by_name) {
    static const struct {
        const char *file, *from, *to, *why;
    } rows[] = {
        {"adapter_config.json", "\"LORA\"", "\"IA3\"", "peft_type must be \"LORA\""},
        {"adapter_config.json", "\"bias\":\"none\"", "\"bias\":\"all\"", "bias = \"all\" is not supported"},
        {"adapter_config.json", "\"modules_to_save\":null", "\"modules_to_save\":[\"lm_head\"]",
         "modules_to_save = [\"lm_head\"]"},
        {"adapter_config.json", "\"lora_dropout\"", "\"lora_surprise\"", "field lora_surprise is not known"},
        {"adapter_config.json", "\"use_dora\":false", "\"use_dora\":true", "lora_magnitude_vector is missing"},
        {"adapter_config.json", "\"r\":4", "\"r\":5", "shape does not fit"},
        {"adapter_config.json", "\"r\":4", "\"r\":17", "is over max_adapter_rank, which is 16"},
        {"adapter_config.json", "\"r\":4", "\"r\":0", "r = 0 is not supported"},
        {"adapter_config.json", "\"lora_alpha\":8", "\"lora_alpha\":\"8\"", "lora_alpha"},
        {"adapter_config.json", "\"lora_alpha\":8,", "", "lora_alpha is missing"},
        {"adapter_config.json", "\"fan_in_fan_out\":false", "\"fan_in_fan_out\":true", "fan_in_fan_out"},
        {"adapter_config.json", "\"use_rslora\":false", "\"rank_pattern\":{\"q(?=x)\":4}",
         "this pattern is not supported"},
        {"adapter_config.json", "{\"peft", "[\"peft", "is not JSON"},
        {"adapter_model.safetensors", "base_model.model.model.layers.0.self_attn.q_proj.lora_A",
         "base_model.model.model.layers.7.self_attn.q_proj.lora_A", "is no part of an adapter"},
        {"adapter_model.safetensors", "base_model.model.model.layers.0.self_attn.q_proj.lora_A",
         "base_model.model.model.layers.0.self_attn.q_prox.lora_A", "is no part of an adapter"},
        {"adapter_model.safetensors", "layers.0.self_attn.q_proj.lora_A", "layers.0.self_attn.q_proj.lora_Z",
         "is no part of an adapter"},
    };
    struct random_model m;
    struct random_adapter a;
    random_model_write(&m, &shape);
    struct model *model = model_of(&m);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        random_adapter_write(&a, &m, &adapter_plain, NULL);
        random_file_edit(&a.files, rows[i].file, rows[i].from, rows[i].to);
        adapter_close(opened(&a, model, rows[i].why));
        random_adapter_remove(&a);
    }
    random_adapter_write(&a, &m, &adapter_plain, NULL);
    spoil_values(&a);
    adapter_close(opened(&a, model, "holds a value that is not a finite number"));
    random_file_save(&a.files, "adapter_model.safetensors", SPAN("\2\0\0\0\0\0\0\0{}"));
    adapter_close(opened(&a, model, "holds no tensor"));
    random_file_save(&a.files, "adapter_model.safetensors", SPAN(""));
    adapter_close(opened(&a, model, "too short for a safetensors file"));
    random_adapter_remove(&a);
    adapter_close(opened(&(struct random_adapter){.files.directory = "/nonexistent"}, model,
                         "adapter_config.json: is not in /nonexistent"));
    model_close(model);
    random_model_remove(&m);
}

Test(adapter, the_digest_is_of_the_content_and_half_a_pair_is_no_adapter) {
    struct random_model m;
    struct random_adapter a, b;
    struct adapter_kind other = adapter_plain;
    other.seed++;
    random_model_write(&m, &shape);
    struct model *model = model_of(&m);
    random_adapter_write(&a, &m, &adapter_plain, NULL);
    random_adapter_write(&b, &m, &adapter_plain, NULL);
    struct adapter *x = opened(&a, model, NULL), *y = opened(&b, model, NULL);
    cr_expect(memcmp(x->digest, y->digest, SHA256_BYTES) == 0, "the same content under two paths");
    adapter_close(y);
    random_file_edit(&b.files, "adapter_config.json", "\"lora_alpha\":8", "\"lora_alpha\":9");
    y = opened(&b, model, NULL);
    cr_expect(memcmp(x->digest, y->digest, SHA256_BYTES) != 0, "another scale is another adapter");
    adapter_close(y);
    adapter_close(x);
    b.files.n--; /* the last tensor is a lora_B */
    random_weights_write(&b.files, "adapter_model.safetensors");
    adapter_close(opened(&b, model, "lora_B is missing"));
    b.files.n++;
    random_adapter_remove(&a);
    random_adapter_remove(&b);
    model_close(model);
    random_model_remove(&m);
}
