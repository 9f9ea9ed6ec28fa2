/* Writes the model as other programs read it: safetensors in bf16, config.json, tokenizer.json, tokenizer_config.json
 * with the ChatML template, generation_config.json; adapters in PEFT layout. The files hold exactly what figures are
 * computed from: the rounding to bf16 happens here and nowhere else. */
#include "tests/models/files.h"

#define CHATML                                                                                                         \
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "  \
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

uint16_t tiny_bf16(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void put_header(struct str *out, const struct tiny_tensor *t, int n) {
    size_t at = 0;
    str_puts(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < n; i++) {
        size_t end = at + 2 * tiny_tensor_floats(&t[i]);
        json_put_name(out, t[i].name);
        str_printf(out, "{\"dtype\":\"BF16\",\"shape\":[%d", t[i].rows);
        if (t[i].columns)
            str_printf(out, ",%d", t[i].columns);
        str_printf(out, "],\"data_offsets\":[%zu,%zu]}", at, end);
        at = end;
    }
    str_putc(out, '}');
    while (out->n % 8)
        str_putc(out, ' ');
}

static void put_le(struct str *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++)
        str_putc(out, (char)(v >> (8 * i)));
}

static bool write_tensors(const char *dir, const char *name, const struct tiny_tensor *t, int n) {
    struct str header, out;
    str_init(&header, TINY_FILE_MAX), str_init(&out, TINY_FILE_MAX);
    put_header(&header, t, n);
    put_le(&out, header.n, 8);
    str_put(&out, str_span(&header));
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < tiny_tensor_floats(&t[i]); k++)
            put_le(&out, tiny_bf16(t[i].at[k]), 2);
    bool done = !out.over && !header.over && tiny_file_write(dir, name, str_span(&out));
    str_fini(&header), str_fini(&out);
    return done;
}

static bool write_text(const char *dir, const char *name, struct str *text) {
    str_putc(text, '\n');
    bool done = !text->over && tiny_file_write(dir, name, str_span(text));
    str_fini(text);
    return done;
}

static bool write_config(const char *dir, const struct tiny_shape *s) {
    struct str out;
    str_init(&out, TINY_FILE_MAX);
    str_puts(&out, "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\"");
    json_put_i64(&out, "hidden_size", s->hidden);
    json_put_i64(&out, "intermediate_size", s->inter);
    json_put_i64(&out, "num_hidden_layers", s->layers);
    json_put_i64(&out, "num_attention_heads", s->heads);
    json_put_i64(&out, "num_key_value_heads", s->kv_heads);
    json_put_i64(&out, "head_dim", s->head_dim);
    json_put_i64(&out, "vocab_size", s->vocab);
    json_put_i64(&out, "max_position_embeddings", s->context);
    str_printf(&out, ",\"rms_norm_eps\":%g,\"rope_theta\":%g", (double)s->eps, (double)s->theta);
    str_puts(&out, ",\"rope_scaling\":null,\"hidden_act\":\"silu\",\"attention_bias\":false,\"mlp_bias\":false,"
                   "\"tie_word_embeddings\":true");
    json_put_i64(&out, "bos_token_id", TINY_END_OF_TEXT);
    json_put_i64(&out, "eos_token_id", TINY_IM_END);
    json_put_i64(&out, "pad_token_id", TINY_END_OF_TEXT);
    str_puts(&out, ",\"torch_dtype\":\"bfloat16\"}");
    return write_text(dir, "config.json", &out);
}

static bool write_generation_config(const char *dir) {
    struct str out;
    str_init(&out, TINY_FILE_MAX);
    str_printf(&out, "{\"bos_token_id\":%d,\"eos_token_id\":[%d,%d],\"pad_token_id\":%d,\"do_sample\":false}",
               TINY_END_OF_TEXT, TINY_IM_END, TINY_END_OF_TEXT, TINY_END_OF_TEXT);
    return write_text(dir, "generation_config.json", &out);
}

static void put_added_tokens(struct str *out, bool as_list) {
    for (int i = 0; i < TINY_SPECIALS; i++) {
        str_puts(out, i ? "," : "");
        str_printf(out, as_list ? "{\"id\":%d," : "\"%d\":{", i);
        str_printf(out,
                   "\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                   "\"normalized\":false,\"special\":true}",
                   TINY_SPECIAL_TEXT[i]);
    }
}

static bool write_tokenizer_config(const char *dir, const struct tiny_shape *s) {
    struct str out;
    str_init(&out, TINY_FILE_MAX);
    str_puts(&out, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_prefix_space\":false,"
                   "\"clean_up_tokenization_spaces\":false,\"added_tokens_decoder\":{");
    put_added_tokens(&out, false);
    str_puts(&out, "}");
    json_put_str(&out, "bos_token", TINY_SPECIAL_TEXT[TINY_END_OF_TEXT]);
    json_put_str(&out, "eos_token", TINY_SPECIAL_TEXT[TINY_IM_END]);
    json_put_str(&out, "pad_token", TINY_SPECIAL_TEXT[TINY_END_OF_TEXT]);
    json_put_i64(&out, "model_max_length", s->context);
    json_put_str(&out, "chat_template", CHATML);
    str_puts(&out, "}");
    return write_text(dir, "tokenizer_config.json", &out);
}

static void put_piece(struct str *out, const struct tiny_bpe *b, int token) {
    struct str piece;
    str_init(&piece, 8 * TINY_PIECE_MAX);
    tiny_piece(b, token, &piece);
    str_put(out, str_span(&piece));
    str_fini(&piece);
}

static void put_vocab(struct str *out, const struct tiny_bpe *b) {
    struct str piece;
    str_init(&piece, 8 * TINY_PIECE_MAX);
    for (int i = 0; i < b->n; i++) {
        str_clear(&piece);
        put_piece(&piece, b, i);
        str_puts(out, i ? "," : "");
        json_put_text(out, str_span(&piece));
        str_printf(out, ":%d", i);
    }
    str_fini(&piece);
}

static void put_merges(struct str *out, const struct tiny_bpe *b) {
    struct str pair;
    str_init(&pair, 16 * TINY_PIECE_MAX);
    for (int i = TINY_SPECIALS + 256; i < b->n; i++) {
        str_clear(&pair);
        put_piece(&pair, b, b->left[i]);
        str_putc(&pair, ' ');
        put_piece(&pair, b, b->right[i]);
        str_puts(out, i > TINY_SPECIALS + 256 ? "," : "");
        json_put_text(out, str_span(&pair));
    }
    str_fini(&pair);
}

static bool write_tokenizer(const char *dir, const struct tiny_bpe *b) {
    struct str out;
    str_init(&out, TINY_FILE_MAX);
    str_puts(&out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
    put_added_tokens(&out, true);
    str_puts(&out, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                   "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":"
                   "\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{"
                   "\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
                   "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,"
                   "\"vocab\":{");
    put_vocab(&out, b);
    str_puts(&out, "},\"merges\":[");
    put_merges(&out, b);
    str_puts(&out, "]}}");
    return write_text(dir, "tokenizer.json", &out);
}

bool tiny_export_base(const char *dir, const struct tiny_params *p, const struct tiny_bpe *b) {
    struct tiny_tensor t[TINY_TENSORS_MAX];
    int n = tiny_base_tensors(p, t);
    return write_tensors(dir, "model.safetensors", t, n) && write_config(dir, &p->shape) &&
           write_generation_config(dir) && write_tokenizer(dir, b) && write_tokenizer_config(dir, &p->shape);
}

bool tiny_export_adapter(const char *dir, const struct tiny_lora *l, const struct tiny_shape *s) {
    struct tiny_tensor t[TINY_TENSORS_MAX];
    int n = tiny_adapter_tensors(l, s, t);
    struct str out;
    str_init(&out, TINY_FILE_MAX);
    str_puts(&out, "{\"peft_type\":\"LORA\",\"task_type\":\"CAUSAL_LM\",\"base_model_name_or_path\":\"../../base\"");
    json_put_i64(&out, "r", l->rank);
    json_put_i64(&out, "lora_alpha", (int64_t)(l->scale * (float)l->rank + 0.5f));
    str_puts(&out, ",\"lora_dropout\":0.0,\"bias\":\"none\",\"fan_in_fan_out\":false,\"inference_mode\":true,"
                   "\"init_lora_weights\":true,\"use_rslora\":false,\"use_dora\":false,\"modules_to_save\":null,"
                   "\"rank_pattern\":{},\"alpha_pattern\":{},\"target_modules\":[\"q_proj\",\"k_proj\",\"v_proj\","
                   "\"o_proj\",\"gate_proj\",\"up_proj\",\"down_proj\"]}");
    return write_tensors(dir, "adapter_model.safetensors", t, n) && write_text(dir, "adapter_config.json", &out);
}
