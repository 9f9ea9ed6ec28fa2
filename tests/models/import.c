/* Reads back what export wrote, strictly: every tensor must be there with its own shape and place, and every piece of
 * the vocabulary must have the number it had. Figures are computed from what comes out of here. */
#include "tests/models/files.h"

float tiny_from_bf16(uint16_t v) {
    uint32_t bits = (uint32_t)v << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static bool wrong(const char *dir, const char *what) {
    fprintf(stderr, "%s: %s\n", dir, what);
    return false;
}

static bool number_is(struct json v, int64_t wanted) {
    int64_t is;
    return json_i64(v, &is) && is == wanted;
}

/* *next is where the tensor must begin: tensors lie one behind the other in the order of the list. */
static bool tensor_take(struct json header, struct span data, const struct tiny_tensor *t, size_t *next) {
    struct json entry = json_get(header, t->name), shape = json_get(entry, "shape");
    struct json place = json_get(entry, "data_offsets");
    size_t n = tiny_tensor_floats(t), from = *next;
    *next += 2 * n;
    if (!json_is(json_get(entry, "dtype"), "BF16") || json_count(shape) != (t->columns ? 2 : 1) ||
        !number_is(json_at(shape, 0), t->rows) || (t->columns && !number_is(json_at(shape, 1), t->columns)) ||
        !number_is(json_at(place, 0), (int64_t)from) || !number_is(json_at(place, 1), (int64_t)*next) || *next > data.n)
        return wrong(t->name, "missing, or not of the shape and place it should have");
    for (size_t i = 0; i < n; i++) {
        const unsigned char *at = (const unsigned char *)data.at + from + 2 * i;
        t->at[i] = tiny_from_bf16((uint16_t)(at[0] | at[1] << 8));
    }
    return true;
}

static bool tensors_take(const char *dir, struct span file, const struct tiny_tensor *t, int n) {
    uint64_t header_bytes = 0;
    struct json_fault fault;
    struct json header;
    size_t next = 0;
    for (int i = 0; file.n >= 8 && i < 8; i++)
        header_bytes |= (uint64_t)(unsigned char)file.at[i] << (8 * i);
    if (file.n < 8 || header_bytes > file.n - 8)
        return wrong(dir, "the header is longer than the file");
    if (!json_check(span_from(file.at + 8, header_bytes), JSON_DEPTH_MAX, &header, &fault))
        return wrong(dir, fault.what);
    struct span data = span_from(file.at + 8 + header_bytes, file.n - 8 - header_bytes);
    for (int i = 0; i < n; i++)
        if (!tensor_take(header, data, &t[i], &next))
            return false;
    if (next != data.n || json_count(header) != (size_t)n + 1)
        return wrong(dir, "there is more in the file than the model has");
    return true;
}

static bool tensors_read(const char *dir, const char *name, const struct tiny_tensor *t, int n) {
    struct str file;
    str_init(&file, TINY_FILE_MAX);
    bool done = tiny_file_read(dir, name, &file) && tensors_take(dir, str_span(&file), t, n);
    str_fini(&file);
    return done;
}

/* The bytes that a piece stands for; 0 when it holds a character outside the alphabet. */
static size_t bytes_of(struct span piece, char out[TINY_PIECE_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < piece.n && n < TINY_PIECE_MAX; n++) {
        int c = (unsigned char)piece.at[i++], byte = 0;
        if (c >= 128 && i < piece.n)
            c = (c & 0x1f) << 6 | (piece.at[i++] & 0x3f);
        while (byte < 256 && tiny_alphabet(byte) != c)
            byte++;
        if (byte == 256)
            return 0;
        out[n] = (char)byte;
    }
    return n;
}

/* The token of a piece; -1 when there is none. */
static int token_of(const struct tiny_bpe *b, struct span piece) {
    char bytes[TINY_PIECE_MAX];
    size_t n = bytes_of(piece, bytes);
    for (int i = TINY_SPECIALS; i < b->n && n > 0; i++)
        if (b->n_bytes[i] == (int)n && memcmp(b->bytes[i], bytes, n) == 0)
            return i;
    return -1;
}

static bool merge_take(struct tiny_bpe *b, struct json merge) {
    struct arena arena;
    arena_init(&arena, 65536);
    struct span rest = json_text(merge, &arena), left = SPAN_NONE;
    bool cut = span_cut(&rest, ' ', &left);
    int l = cut ? token_of(b, left) : -1, r = cut ? token_of(b, rest) : -1;
    arena_fini(&arena);
    if (l < 0 || r < 0 || b->n >= TINY_VOCAB_MAX)
        return false;
    tiny_bpe_add(b, l, r);
    return true;
}

/* Pieces stand in the order of their numbers. */
static bool vocab_agrees(const struct tiny_bpe *b, struct json vocab) {
    struct json_walk walk;
    struct span name;
    struct json number;
    struct str piece;
    int i = 0;
    bool agrees = true;
    str_init(&piece, 8 * TINY_PIECE_MAX);
    json_walk_init(&walk, vocab);
    for (; agrees && json_walk_next(&walk, &name, &number); i++) {
        str_clear(&piece);
        if (i < b->n)
            tiny_piece(b, i, &piece);
        agrees = i < b->n && json_name_is(name, piece.at) && number_is(number, i);
    }
    str_fini(&piece);
    return agrees && i == b->n;
}

static bool tokenizer_read(const char *dir, struct tiny_bpe *b) {
    struct str keep;
    struct json file, merge;
    struct json_walk walk;
    struct span name;
    str_init(&keep, TINY_FILE_MAX);
    bool done = tiny_file_json(dir, "tokenizer.json", &keep, &file);
    struct json model = done ? json_get(file, "model") : (struct json){0};
    json_walk_init(&walk, json_get(model, "merges"));
    while (done && json_walk_next(&walk, &name, &merge))
        done = merge_take(b, merge) || wrong(dir, "a merge of pieces that are not there");
    done = done && (vocab_agrees(b, json_get(model, "vocab")) || wrong(dir, "the vocabulary is not what merges make"));
    str_fini(&keep);
    return done;
}

static bool config_agrees(const char *dir, const char *name, const char *const *names, const int64_t *wanted, int n) {
    struct str keep;
    struct json file;
    str_init(&keep, TINY_FILE_MAX);
    bool done = tiny_file_json(dir, name, &keep, &file);
    for (int i = 0; i < n && done; i++)
        done = number_is(json_get(file, names[i]), wanted[i]) || wrong(names[i], "not the number it should be");
    str_fini(&keep);
    return done;
}

bool tiny_import_base(const char *dir, struct tiny_params *p, struct tiny_bpe *b) {
    static const char *const names[] = {"hidden_size",         "intermediate_size",   "num_hidden_layers",
                                        "num_attention_heads", "num_key_value_heads", "vocab_size"};
    const struct tiny_shape *s = &p->shape;
    const int64_t wanted[] = {s->hidden, s->inter, s->layers, s->heads, s->kv_heads, s->vocab};
    struct tiny_tensor t[TINY_TENSORS_MAX];
    int n = tiny_base_tensors(p, t);
    return config_agrees(dir, "config.json", names, wanted, ARRAY_LEN(names)) && tokenizer_read(dir, b) &&
           tensors_read(dir, "model.safetensors", t, n);
}

bool tiny_import_adapter(const char *dir, struct tiny_lora *l, const struct tiny_shape *s) {
    static const char *const names[] = {"r", "lora_alpha"};
    const int64_t wanted[] = {l->rank, (int64_t)(l->scale * (float)l->rank + 0.5f)};
    struct tiny_tensor t[TINY_TENSORS_MAX];
    int n = tiny_adapter_tensors(l, s, t);
    return config_agrees(dir, "adapter_config.json", names, wanted, ARRAY_LEN(names)) &&
           tensors_read(dir, "adapter_model.safetensors", t, n);
}
