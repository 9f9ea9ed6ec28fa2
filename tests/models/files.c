/* Names and files: how a tensor is called where other programs look for it (Hugging Face Llama, PEFT LoRA), how bytes
 * are written as characters in tokenizer.json, and files as one piece of memory. */
#include "tests/models/files.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

static const char *const LINEAR_NAME[TINY_LINEARS] = {
    [TINY_Q] = "self_attn.q_proj", [TINY_K] = "self_attn.k_proj", [TINY_V] = "self_attn.v_proj",
    [TINY_O] = "self_attn.o_proj", [TINY_GATE] = "mlp.gate_proj", [TINY_UP] = "mlp.up_proj",
    [TINY_DOWN] = "mlp.down_proj",
};

static struct tiny_tensor tensor(float *at, int rows, int columns) {
    return (struct tiny_tensor){.rows = rows, .columns = columns, .at = at};
}

size_t tiny_tensor_floats(const struct tiny_tensor *t) {
    return (size_t)t->rows * (t->columns ? t->columns : 1);
}

int tiny_base_tensors(const struct tiny_params *p, struct tiny_tensor out[TINY_TENSORS_MAX]) {
    static const char *const norms[2] = {"input_layernorm", "post_attention_layernorm"};
    const struct tiny_shape *s = &p->shape;
    int n = 0, rows, columns;
    out[n] = tensor(p->embed, s->vocab, s->hidden);
    snprintf(out[n++].name, sizeof out->name, "model.embed_tokens.weight");
    for (int i = 0; i < s->layers; i++) {
        for (int k = 0; k < TINY_LINEARS; k++) {
            tiny_linear_size(s, k, &rows, &columns);
            out[n] = tensor(p->linear[i][k], rows, columns);
            snprintf(out[n++].name, sizeof out->name, "model.layers.%d.%s.weight", i, LINEAR_NAME[k]);
        }
        for (int k = 0; k < 2; k++) {
            out[n] = tensor(p->norm[i][k], s->hidden, 0);
            snprintf(out[n++].name, sizeof out->name, "model.layers.%d.%s.weight", i, norms[k]);
        }
    }
    out[n] = tensor(p->norm_last, s->hidden, 0);
    snprintf(out[n++].name, sizeof out->name, "model.norm.weight");
    return n;
}

int tiny_adapter_tensors(const struct tiny_lora *l, const struct tiny_shape *s,
                         struct tiny_tensor out[TINY_TENSORS_MAX]) {
    int n = 0, rows, columns;
    for (int i = 0; i < s->layers; i++)
        for (int k = 0; k < TINY_LINEARS; k++) {
            tiny_linear_size(s, k, &rows, &columns);
            const char *format = "base_model.model.model.layers.%d.%s.lora_%c.weight";
            out[n] = tensor(l->a[i][k], l->rank, columns);
            snprintf(out[n++].name, sizeof out->name, format, i, LINEAR_NAME[k], 'A');
            out[n] = tensor(l->b[i][k], rows, l->rank);
            snprintf(out[n++].name, sizeof out->name, format, i, LINEAR_NAME[k], 'B');
        }
    return n;
}

static bool shows_itself(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* The hidden bytes are 00-20, 7F-A0 and AD: they take the characters from 256 on in that order. */
int tiny_alphabet(int byte) {
    if (shows_itself(byte))
        return byte;
    return 256 + (byte <= 0x20 ? byte : byte <= 0xa0 ? byte - 0x7f + 0x21 : 0x43);
}

void tiny_piece(const struct tiny_bpe *b, int token, struct str *out) {
    if (token < TINY_SPECIALS) {
        str_puts(out, TINY_SPECIAL_TEXT[token]);
        return;
    }
    for (int i = 0; i < b->n_bytes[token]; i++) {
        int c = tiny_alphabet((unsigned char)b->bytes[token][i]);
        if (c < 128) {
            str_putc(out, (char)c);
        } else {
            str_putc(out, (char)(0xc0 | c >> 6));
            str_putc(out, (char)(0x80 | (c & 0x3f)));
        }
    }
}

static bool complain(const char *path, const char *what) {
    fprintf(stderr, "%s: %s\n", path, what);
    return false;
}

static void make_folders(const char *dir) {
    char path[PATH_MAX];
    size_t n = strlen(dir);
    for (size_t i = 1; i <= n && n < sizeof path; i++)
        if (dir[i] == '/' || !dir[i]) {
            memcpy(path, dir, i);
            path[i] = 0;
            mkdir(path, 0777); /* one that is there stays; what is wrong shows when the file is opened */
        }
}

bool tiny_file_write(const char *dir, const char *name, struct span bytes) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    make_folders(dir);
    FILE *file = fopen(path, "wb");
    if (!file)
        return complain(path, strerror(errno));
    bool whole = fwrite(bytes.at, 1, bytes.n, file) == bytes.n;
    if (fclose(file) || !whole)
        return complain(path, "not written whole");
    return true;
}

bool tiny_file_read(const char *dir, const char *name, struct str *out) {
    char path[PATH_MAX], piece[65536];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return complain(path, strerror(errno));
    for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;)
        str_put(out, span_from(piece, n));
    fclose(file);
    return out->over ? complain(path, "too large") : true;
}

bool tiny_file_json(const char *dir, const char *name, struct str *keep, struct json *out) {
    struct json_fault fault;
    if (!tiny_file_read(dir, name, keep))
        return false;
    return json_check(str_span(keep), JSON_DEPTH_MAX, out, &fault) || complain(name, fault.what);
}
