/* Loads tokenizer.json. The file describes a pipeline of many possible parts; each part that is understood sets a field of
 * struct tokenizer, and any other part is refused by its name. Nothing is skipped because it looks harmless. */
#include "backends/decode/tokenizer.h"

#include "backends/decode/unicode.h"

#include <stdio.h>
#include <stdlib.h>

#define TOKENIZER_FILE "tokenizer.json"
#define TEXT_BYTES_MAX (256u << 20) /* the arena of decoded pieces: a few times the file's own ceiling */
#define UNDERLINE "\xe2\x96\x81"

enum { ADDED, NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, MODEL, ROOT_N };
static const char *const root_names[] = {"added_tokens",   "normalizer", "pre_tokenizer",
                                         "post_processor", "decoder",    "model"};
enum { TYPE, DROPOUT, PREFIX, SUFFIX, FUSE, FALLBACK, IGNORE, UNK, VOCABULARY, MERGES, MODEL_N };
static const char *const model_names[] = {"type",
                                          "dropout",
                                          "continuing_subword_prefix",
                                          "end_of_word_suffix",
                                          "fuse_unk",
                                          "byte_fallback",
                                          "ignore_merges",
                                          "unk_token",
                                          "vocab",
                                          "merges"};

struct reading {
    struct tokenizer *t;
    const struct model_config *config;
    struct json root[ROOT_N], model[MODEL_N]; /* found in one pass each: the objects are large */
    struct str *why;
};

#define SHOWN(v) (int)((v).raw.n < 100 ? (v).raw.n : 100), (v).raw.at ? (v).raw.at : "nothing"

static bool wrong(struct reading *r, const char *what, struct json v) {
    return complain(r->why, TOKENIZER_FILE, "%s is %.*s, which is not supported", what, SHOWN(v));
}

static bool yes(struct json object, const char *name) {
    return json_get(object, name).kind == JSON_TRUE;
}

static struct span text_of(struct reading *r, struct json v) {
    return json_text(v, &r->t->text);
}

/* --- the vocabulary --- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* <0xHH> */
static bool is_byte(struct span piece, uint8_t *byte) {
    if (piece.n != 6 || !span_starts(piece, "<0x") || piece.at[5] != '>')
        return false;
    int high = hex_digit(piece.at[3]), low = hex_digit(piece.at[4]);
    *byte = (uint8_t)(high * 16 + low);
    return high >= 0 && low >= 0;
}

/* What a token is in running text: bytes behind their characters, spaces behind U+2581, the byte behind <0xHH>. */
static struct span plain_bytes(struct reading *r, struct span piece) {
    char *out = arena_alloc(&r->t->text, piece.n + 1);
    size_t n = 0, width;
    uint8_t byte;
    if (!out)
        return SPAN_NONE;
    if (r->t->byte_fallback && is_byte(piece, &byte)) {
        out[0] = (char)byte;
        return span_from(out, 1);
    }
    for (size_t i = 0; i < piece.n; i += width) {
        uint32_t c;
        width = utf8_next(piece.at + i, piece.n - i, &c);
        int b = r->t->byte_level ? byte_level_byte(c) : -1;
        if (r->t->byte_level && b < 0)
            return piece;
        if (b >= 0 || (r->t->spaces && c == 0x2581)) {
            out[n++] = b >= 0 ? (char)b : ' ';
            continue;
        }
        memcpy(out + n, piece.at + i, width);
        n += width;
    }
    return span_from(out, n);
}

static bool add_piece(struct reading *r, struct span piece, int64_t id) {
    struct tokenizer *t = r->t;
    if (!piece.at)
        return complain(r->why, TOKENIZER_FILE, "its pieces are too long");
    if (id < 0 || id >= r->config->vocabulary)
        return complain(r->why, TOKENIZER_FILE, "token \"%.*s\" has id %lld; config.json has vocab_size %lld",
                        (int)(piece.n < 80 ? piece.n : 80), piece.at, (long long)id, (long long)r->config->vocabulary);
    int32_t there = tokenizer_find(t, piece);
    if (there == id)
        return true;
    if (there >= 0 || t->bytes[id].at)
        return complain(r->why, TOKENIZER_FILE, "id %lld or token \"%.*s\" is there twice", (long long)id,
                        (int)(piece.n < 80 ? piece.n : 80), piece.at);
    t->bytes[id] = piece;
    map_put(&t->ids, piece, (void *)(intptr_t)(id + 1));
    return true;
}

static bool read_vocabulary(struct reading *r) {
    struct json vocabulary = r->model[VOCABULARY], v;
    struct json_walk w;
    struct span name;
    if (vocabulary.kind != JSON_OBJECT)
        return complain(r->why, TOKENIZER_FILE, "model.vocab must be an object");
    for (json_walk_init(&w, vocabulary); json_walk_next(&w, &name, &v);) {
        int64_t id;
        struct json quoted = {JSON_STRING, span_from(name.at - 1, name.n + 2)};
        if (!json_i64(v, &id))
            return complain(r->why, TOKENIZER_FILE, "model.vocab: %.*s has no whole id", SPAN_ARG(name));
        struct span piece = text_of(r, quoted);
        if (!add_piece(r, piece, id))
            return false;
        r->t->bytes[id] = plain_bytes(r, piece);
        if (!r->t->bytes[id].at)
            return complain(r->why, TOKENIZER_FILE, "its pieces are too long");
    }
    return true;
}

static bool read_added_one(struct reading *r, struct json one) {
    struct tokenizer *t = r->t;
    struct span text = text_of(r, json_get(one, "content"));
    int64_t id;
    if (!text.n || !json_i64(json_get(one, "id"), &id))
        return complain(r->why, TOKENIZER_FILE, "added_tokens: an entry has no content or id");
    if (!add_piece(r, text, id))
        return false;
    t->bytes[id] = text; /* as it stands, in every kind of vocabulary */
    t->control[id] = yes(one, "special") || model_config_is_end(r->config, id);
    t->added[t->n_added++] = (struct added){text,
                                            (int32_t)id,
                                            yes(one, "single_word"),
                                            yes(one, "lstrip"),
                                            yes(one, "rstrip"),
                                            yes(one, "normalized") && !t->control[id]};
    return true;
}

static bool read_added(struct reading *r) {
    struct json all = r->root[ADDED], one;
    struct json_walk w;
    struct span name;
    if (json_count(all) > ADDED_TOKENS_MAX)
        return complain(r->why, TOKENIZER_FILE, "has over %d added_tokens", ADDED_TOKENS_MAX);
    r->t->added = xcalloc(json_count(all) + 1, sizeof *r->t->added);
    for (json_walk_init(&w, all); json_walk_next(&w, &name, &one);)
        if (!read_added_one(r, one))
            return false;
    for (size_t i = 0; i < r->config->n_ends; i++)
        if (r->config->ends[i] < r->t->size)
            tokenizer_set_control(r->t, (int32_t)r->config->ends[i]);
    return true;
}

/* --- merges --- */

/* "a b", or ["a", "b"] in newer files, where the halves may hold spaces. */
static bool merge_halves(struct reading *r, struct json v, struct span *left, struct span *right) {
    if (v.kind == JSON_ARRAY && json_count(v) == 2) {
        *left = text_of(r, json_at(v, 0));
        *right = text_of(r, json_at(v, 1));
        return left->n && right->n;
    }
    *right = text_of(r, v);
    return v.kind == JSON_STRING && right->at && span_cut(right, ' ', left) && left->n && right->n;
}

static bool read_merges(struct reading *r) {
    struct json all = r->model[MERGES], v;
    struct json_walk w;
    struct span name, left, right;
    struct str both;
    size_t n = json_count(all);
    bool ok = all.kind == JSON_ARRAY && n <= MERGES_MAX;
    if (!ok)
        return complain(r->why, TOKENIZER_FILE, "model.merges must be a list of at most %d", MERGES_MAX);
    merges_init(&r->t->merges, n);
    str_init(&both, TEXT_BYTES_MAX);
    int32_t rank = 0;
    for (json_walk_init(&w, all); ok && json_walk_next(&w, &name, &v); rank++) {
        if (!merge_halves(r, v, &left, &right)) {
            ok = complain(r->why, TOKENIZER_FILE, "model.merges[%d] is not two pieces: %.*s", rank, SHOWN(v));
            break;
        }
        str_clear(&both);
        str_put(&both, left);
        str_put(&both, right);
        int32_t a = tokenizer_find(r->t, left), b = tokenizer_find(r->t, right),
                id = tokenizer_find(r->t, str_span(&both));
        if (a < 0 || b < 0 || id < 0)
            ok = complain(r->why, TOKENIZER_FILE, "model.merges[%d] uses a piece that model.vocab lacks: %.*s", rank,
                          SHOWN(v));
        else
            merges_put(&r->t->merges, a, b, rank, id);
    }
    str_fini(&both);
    return ok;
}

static bool read_model(struct reading *r) {
    struct tokenizer *t = r->t;
    struct json *m = r->model;
    json_pick(r->root[MODEL], model_names, m, MODEL_N);
    if (r->root[MODEL].kind != JSON_OBJECT || (m[TYPE].kind != JSON_NONE && !json_is(m[TYPE], "BPE")))
        return wrong(r, "model.type", m[TYPE]);
    for (int i = DROPOUT; i <= SUFFIX; i++)
        if (m[i].kind != JSON_NONE && m[i].kind != JSON_NULL && !json_is(m[i], "") && !json_is_zero(m[i]))
            return wrong(r, model_names[i], m[i]);
    t->fuse_unk = m[FUSE].kind == JSON_TRUE;
    t->byte_fallback = m[FALLBACK].kind == JSON_TRUE && !t->byte_level;
    t->ignore_merges = m[IGNORE].kind == JSON_TRUE;
    if (!read_vocabulary(r) || !read_added(r) || !read_merges(r))
        return false;
    t->unk = m[UNK].kind == JSON_STRING ? tokenizer_find(t, text_of(r, m[UNK])) : -1;
    if (model_config_is_end(r->config, t->unk))
        t->unk = -1; /* some vocabularies call their end token unknown; text must not become it */
    return true;
}

/* --- the parts of the pipeline --- */

/* Walks the parts of a pipeline: null, one part, or a Sequence of them under `list`. */
static bool each_part(struct reading *r, struct json v, const char *list, const char *what,
                      bool (*part)(struct reading *, struct json)) {
    struct json_walk w;
    struct span name;
    struct json one;
    if (v.kind == JSON_NONE || v.kind == JSON_NULL)
        return true;
    if (!json_is(json_get(v, "type"), "Sequence"))
        return part(r, v) || wrong(r, what, v);
    for (json_walk_init(&w, json_get(v, list)); json_walk_next(&w, &name, &one);)
        if (!part(r, one))
            return wrong(r, what, one);
    return true;
}

static bool normalizer_part(struct reading *r, struct json v) {
    struct json type = json_get(v, "type");
    if (json_is(type, "Prepend") && json_is(json_get(v, "prepend"), UNDERLINE)) {
        r->t->prefix = PREFIX_EXACT;
        return true;
    }
    if (json_is(type, "NFC"))
        return r->t->nfc = true;
    struct json pattern = json_get(json_get(v, "pattern"), "String");
    if (!json_is(type, "Replace") || !json_is(pattern, " ") || !json_is(json_get(v, "content"), UNDERLINE))
        return false;
    return r->t->spaces = true;
}

static bool metaspace(struct reading *r, struct json v) {
    static const struct {
        const char *name;
        enum prefix prefix;
    } rows[] = {{"always", PREFIX_ALWAYS}, {"first", PREFIX_FIRST}, {"never", PREFIX_NEVER}};
    struct json scheme = json_get(v, "prepend_scheme"), old = json_get(v, "add_prefix_space");
    struct json split = json_get(v, "split");
    if (!json_is(json_get(v, "replacement"), UNDERLINE))
        return false;
    r->t->spaces = true;
    r->t->split_spaces = split.kind != JSON_FALSE;
    r->t->prefix = old.kind == JSON_FALSE ? PREFIX_NEVER : PREFIX_ALWAYS;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (json_is(scheme, rows[i].name))
            r->t->prefix = rows[i].prefix;
    return true;
}

static bool split_part(struct reading *r, struct json v) {
    struct json pattern = json_get(v, "pattern"), regex = json_get(pattern, "Regex");
    if (r->t->spaces && json_is(json_get(pattern, "String"), " ") &&
        json_is(json_get(v, "behavior"), "MergedWithPrevious"))
        return true; /* no space is left to split at */
    return json_is(json_get(v, "behavior"), "Isolated") && !yes(v, "invert") && r->t->style == PRETOKEN_NONE &&
           regex.kind == JSON_STRING && pretoken_style_of(text_of(r, regex), &r->t->style);
}

static bool byte_level_part(struct reading *r, struct json v) {
    struct tokenizer *t = r->t;
    bool regex = json_get(v, "use_regex").kind != JSON_FALSE, space = yes(v, "add_prefix_space");
    if (space && (t->style != PRETOKEN_NONE || t->digits))
        return false; /* it would be put before every word */
    if (regex && t->style != PRETOKEN_NONE)
        return false;
    t->byte_level = true;
    t->prefix = space ? PREFIX_ALWAYS : PREFIX_NEVER;
    if (regex)
        t->style = PRETOKEN_GPT2;
    return true;
}

static bool pre_tokenizer_part(struct reading *r, struct json v) {
    struct json type = json_get(v, "type");
    if (r->t->byte_level)
        return false;
    if (json_is(type, "ByteLevel"))
        return byte_level_part(r, v);
    if (json_is(type, "Split"))
        return split_part(r, v);
    if (json_is(type, "Metaspace"))
        return metaspace(r, v);
    if (!json_is(type, "Digits") || !yes(v, "individual_digits") || r->t->style != PRETOKEN_NONE)
        return false;
    return r->t->digits = true;
}

static bool decoder_part(struct reading *r, struct json v) {
    struct json type = json_get(v, "type");
    if (json_is(type, "ByteLevel"))
        return r->t->byte_level;
    if (r->t->byte_level)
        return false;
    if (json_is(type, "Strip") && json_is(json_get(v, "content"), " ") && json_is_zero(json_get(v, "stop")))
        return r->t->strips = true;
    if (json_is(type, "Metaspace")) {
        r->t->strips = r->t->prefix != PREFIX_NEVER;
        return r->t->spaces;
    }
    return json_is(type, "Replace") || json_is(type, "ByteFallback") || json_is(type, "Fuse");
}

/* --- the post-processor --- */

static bool frame_token(struct reading *r, struct json processor, struct json special, int32_t *to, size_t *n) {
    struct json known = json_get(processor, "special_tokens"), one = {0};
    struct span id = text_of(r, json_get(special, "id"));
    struct json_walk w;
    struct span name;
    for (json_walk_init(&w, known); json_walk_next(&w, &name, &one);)
        if (span_equal(name, id))
            break;
    for (json_walk_init(&w, json_get(one, "ids")); json_walk_next(&w, &name, &one);) {
        int64_t token;
        if (!json_i64(one, &token) || token < 0 || token >= r->t->size || *n == FRAME_TOKENS_MAX)
            return false;
        to[(*n)++] = (int32_t)token;
    }
    return *n > 0;
}

static bool post_processor_part(struct reading *r, struct json v) {
    struct tokenizer *t = r->t;
    struct json_walk w;
    struct span name;
    struct json one;
    bool text_seen = false;
    if (json_is(json_get(v, "type"), "ByteLevel"))
        return t->byte_level;
    if (!json_is(json_get(v, "type"), "TemplateProcessing"))
        return false;
    for (json_walk_init(&w, json_get(v, "single")); json_walk_next(&w, &name, &one);) {
        struct json special = json_get(one, "SpecialToken");
        if (special.kind == JSON_NONE) {
            text_seen = true;
            continue;
        }
        if (!frame_token(r, v, special, text_seen ? t->after : t->before, text_seen ? &t->n_after : &t->n_before))
            return false;
    }
    return text_seen;
}

/* --- what follows from it all --- */

static void find_bytes(struct tokenizer *t) {
    char name[8];
    for (unsigned b = 0; b < 256; b++) {
        size_t n = utf8_put(byte_level_char((uint8_t)b), name);
        if (!t->byte_level)
            n = (size_t)snprintf(name, sizeof name, "<0x%02X>", b);
        t->byte_ids[b] = t->byte_level || t->byte_fallback ? tokenizer_find(t, span_from(name, n)) : -1;
    }
}

/* The tree in which a token is looked for; one that depends on the normal form is written in it. */
static bool plant(struct reading *r, int32_t i) {
    struct tokenizer *t = r->t;
    struct added *a = &t->added[i];
    struct str form;
    bool form_of_control = span_starts(a->text, "<|"); /* a template may make it one */
    if (!a->normalized || form_of_control || (!t->nfc && !t->spaces)) {
        added_tree_put(&t->as_written, a->text, i);
        return true;
    }
    str_init(&form, a->text.n * UNICODE_NFC_GROWTH * 3 + UTF8_BYTES_MAX);
    tokenizer_normal_form(t, a->text, &form);
    char *kept = arena_strdup(&t->text, str_span(&form));
    if (kept) {
        a->text = span_from(kept, form.n);
        added_tree_put(&t->as_normal, a->text, i);
    }
    str_fini(&form);
    return kept || complain(r->why, TOKENIZER_FILE, "its pieces are too long");
}

static bool plant_all(struct reading *r) {
    for (size_t i = 0; i < r->t->n_added; i++)
        if (!plant(r, (int32_t)i))
            return false;
    return true;
}

static bool read_all(struct reading *r) {
    return each_part(r, r->root[NORMALIZER], "normalizers", "normalizer", normalizer_part) &&
           each_part(r, r->root[PRE_TOKENIZER], "pretokenizers", "pre_tokenizer", pre_tokenizer_part) &&
           each_part(r, r->root[DECODER], "decoders", "decoder", decoder_part) && read_model(r) && plant_all(r) &&
           each_part(r, r->root[POST_PROCESSOR], "processors", "post_processor", post_processor_part);
}

static bool check_pipeline(struct reading *r) {
    const struct tokenizer *t = r->t;
    if (t->byte_level && t->spaces)
        return complain(r->why, TOKENIZER_FILE, "mixes ByteLevel with a replacement of spaces, which is not supported");
    if (t->style != PRETOKEN_NONE && !t->byte_level)
        return complain(r->why, TOKENIZER_FILE, "pre_tokenizer has a Split but no ByteLevel, which is not supported");
    return true;
}

struct tokenizer *tokenizer_open(const char *directory, const struct model_config *c, struct str *why) {
    struct tokenizer *t = xcalloc(1, sizeof *t);
    struct reading r = {.t = t, .config = c, .why = why};
    struct json root;
    t->size = c->vocabulary;
    t->bytes = xcalloc((size_t)t->size, sizeof *t->bytes);
    t->control = xcalloc((size_t)t->size, sizeof *t->control);
    arena_init(&t->text, TEXT_BYTES_MAX);
    map_init(&t->ids);
    if (!model_file_open_json(&t->file, directory, TOKENIZER_FILE, &root, why)) {
        tokenizer_close(t);
        return NULL;
    }
    json_pick(root, root_names, r.root, ROOT_N);
    if (read_all(&r) && check_pipeline(&r)) {
        find_bytes(t);
        return t;
    }
    tokenizer_close(t);
    return NULL;
}

void tokenizer_close(struct tokenizer *t) {
    if (!t)
        return;
    free(t->bytes);
    free(t->control);
    free(t->added);
    added_tree_fini(&t->as_written);
    added_tree_fini(&t->as_normal);
    merges_fini(&t->merges);
    map_fini(&t->ids);
    arena_fini(&t->text);
    model_file_close(&t->file);
    free(t);
}
