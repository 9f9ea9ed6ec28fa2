/* What export writes, import reads: the same weights rounded to bf16 and the same tokens; and files that are damaged in
 * one place are refused. */
#include "tests/models/files.h"

#include "gateway/base/mem.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const struct tiny_shape SMALL = {.vocab = 272,
                                        .hidden = 16,
                                        .inter = 24,
                                        .layers = 2,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .head_dim = 8,
                                        .context = 64,
                                        .eps = 1e-5f,
                                        .theta = 10000};
static char dir[] = "/tmp/test_tiny_files.XXXXXX";
static struct tiny_params p, back;
static struct tiny_bpe bpe, bpe_back;
static struct tiny_lora lora, lora_back;

static void setup(void) {
    struct tiny_rng rng = {11};
    cr_assert(mkdtemp(dir));
    tiny_params_init(&p, &SMALL), tiny_params_init(&back, &SMALL);
    tiny_params_randomise(&p, &rng);
    tiny_bpe_init(&bpe), tiny_bpe_init(&bpe_back);
    tiny_bpe_train(&bpe, "\"quote\" \\slash\\ \"quote\" \\slash\\ the gate the gate the key\x7f\x7f\x7f \xad\xad\xad",
                   272);
    cr_assert_eq(bpe.n, 272);
    tiny_lora_init(&lora, &SMALL, 4, 8), tiny_lora_init(&lora_back, &SMALL, 4, 8);
    for (size_t i = 0; i < lora.n; i++)
        lora.at[i] = tiny_rng_normal(&rng);
    cr_assert(tiny_export_base(dir, &p, &bpe));
    cr_assert(tiny_export_adapter(dir, &lora, &SMALL));
}

static void teardown(void) {
    static const char *const names[] = {"model.safetensors",        "config.json",           "generation_config.json",
                                        "tokenizer.json",           "tokenizer_config.json", "adapter_config.json",
                                        "adapter_model.safetensors"};
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
    tiny_params_fini(&p), tiny_params_fini(&back);
    tiny_bpe_fini(&bpe), tiny_bpe_fini(&bpe_back);
    tiny_lora_fini(&lora), tiny_lora_fini(&lora_back);
}

Test(tiny_files, bf16_rounds_to_the_nearest_and_ties_to_even) {
    static const struct {
        float is;
        uint16_t wanted;
    } rows[] = {{1.0f, 0x3f80},        {-2.0f, 0xc000},       {0, 0},
                {1.00390625f, 0x3f80}, {1.01171875f, 0x3f82}, {1.0040f, 0x3f81}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_assert_eq(tiny_bf16(rows[i].is), rows[i].wanted, "row %zu: %x", i, tiny_bf16(rows[i].is));
    cr_assert_eq(tiny_from_bf16(0x3f82), 1.015625f);
}

Test(tiny_files, the_alphabet_gives_every_byte_a_character_of_its_own) {
    for (int i = 0; i < 256; i++)
        for (int k = 0; k < i; k++)
            cr_assert_neq(tiny_alphabet(i), tiny_alphabet(k));
    cr_assert_eq(tiny_alphabet(' '), 0x120);
    cr_assert_eq(tiny_alphabet('\n'), 0x10a);
    cr_assert_eq(tiny_alphabet(0x7f), 0x121);
    cr_assert_eq(tiny_alphabet(0xad), 0x143);
    cr_assert_eq(tiny_alphabet('A'), 'A');
}

Test(tiny_files, what_is_exported_is_read_back, .init = setup, .fini = teardown) {
    cr_assert(tiny_import_base(dir, &back, &bpe_back));
    cr_assert(tiny_import_adapter(dir, &lora_back, &SMALL));
    for (size_t i = 0; i < p.n; i++)
        cr_assert_eq(back.at[i], tiny_from_bf16(tiny_bf16(p.at[i])), "weight %zu", i);
    for (size_t i = 0; i < lora.n; i++)
        cr_assert_eq(lora_back.at[i], tiny_from_bf16(tiny_bf16(lora.at[i])), "adapter weight %zu", i);
    cr_assert_eq(bpe_back.n, bpe.n);
    cr_assert_arr_eq(bpe_back.left, bpe.left, sizeof bpe.left);
    cr_assert_arr_eq(bpe_back.right, bpe.right, sizeof bpe.right);
    cr_assert_arr_eq(bpe_back.bytes, bpe.bytes, sizeof bpe.bytes);
}

static void damage(const char *name, size_t at, size_t cut) {
    struct str file;
    str_init(&file, TINY_FILE_MAX);
    cr_assert(tiny_file_read(dir, name, &file));
    file.at[at] ^= 1;
    cr_assert(tiny_file_write(dir, name, span_from(file.at, file.n - cut)));
    str_fini(&file);
}

Test(tiny_files, a_damaged_header_a_short_file_and_another_shape_are_refused, .init = setup, .fini = teardown) {
    struct tiny_shape other = SMALL;
    other.inter = 32;
    cr_redirect_stderr();
    struct tiny_params wide;
    tiny_params_init(&wide, &other);
    cr_assert_not(tiny_import_base(dir, &wide, &bpe_back));
    tiny_params_fini(&wide);
    damage("adapter_model.safetensors", 0, 0);
    cr_assert_not(tiny_import_adapter(dir, &lora_back, &SMALL));
    damage("adapter_model.safetensors", 0, 2);
    cr_assert_not(tiny_import_adapter(dir, &lora_back, &SMALL));
}

Test(tiny_files, the_other_files_are_json, .init = setup, .fini = teardown) {
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer_config.json",
                                        "tokenizer.json", "adapter_config.json"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct str keep;
        struct json file;
        str_init(&keep, TINY_FILE_MAX);
        cr_assert(tiny_file_json(dir, names[i], &keep, &file), "%s", names[i]);
        cr_assert_eq(file.kind, JSON_OBJECT);
        str_fini(&keep);
    }
}
