/* Reads the header of a safetensors file and believes nothing in it: the order of checks is size, JSON, each entry alone,
 * then all entries sorted by offset, which must tile the data exactly. Data is never copied here and may be unaligned. */
#include "backends/decode/safetensors.h"

#include <stdlib.h>

const char *const dtype_names[] = {"f32", "f16", "bf16", "int8", "other"};

static const struct {
    const char *name;
    uint64_t bytes;
    enum dtype dtype;
} types[] = {
    {"F32", 4, DTYPE_F32},   {"F16", 2, DTYPE_F16},       {"BF16", 2, DTYPE_BF16},     {"BOOL", 1, DTYPE_OTHER},
    {"U8", 1, DTYPE_OTHER},  {"I8", 1, DTYPE_OTHER},      {"I16", 2, DTYPE_OTHER},     {"U16", 2, DTYPE_OTHER},
    {"I32", 4, DTYPE_OTHER}, {"U32", 4, DTYPE_OTHER},     {"F64", 8, DTYPE_OTHER},     {"I64", 8, DTYPE_OTHER},
    {"U64", 8, DTYPE_OTHER}, {"F8_E5M2", 1, DTYPE_OTHER}, {"F8_E4M3", 1, DTYPE_OTHER},
};

size_t dtype_bytes(enum dtype d) {
    static const size_t bytes[] = {4, 2, 2, 1, 0};
    return bytes[d];
}

#define NAME_SHOWN(t) (int)((t)->name.n < 120 ? (t)->name.n : 120), (t)->name.at

static bool read_type(struct safetensors *s, struct st_tensor *t, struct json v, uint64_t *bytes, struct str *why) {
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (!json_is(v, types[i].name))
            continue;
        t->dtype = types[i].dtype;
        memcpy(t->dtype_name, types[i].name, strlen(types[i].name) + 1);
        *bytes = types[i].bytes;
        return true;
    }
    return complain(why, s->file.name, "tensor %.*s: dtype %.*s is not known", NAME_SHOWN(t),
                    (int)(v.raw.n < 40 ? v.raw.n : 40), v.raw.at ? v.raw.at : "");
}

/* `bytes` comes in as bytes an element and goes out as bytes in all. */
static bool read_shape(struct safetensors *s, struct st_tensor *t, struct json v, uint64_t *bytes, struct str *why) {
    struct json_walk w;
    struct span name;
    struct json dim;
    if (v.kind != JSON_ARRAY)
        return complain(why, s->file.name, "tensor %.*s: shape must be a list", NAME_SHOWN(t));
    for (json_walk_init(&w, v); json_walk_next(&w, &name, &dim); t->rank++) {
        if (t->rank == ST_RANK_MAX)
            return complain(why, s->file.name, "tensor %.*s: shape has over %d dimensions", NAME_SHOWN(t), ST_RANK_MAX);
        int64_t d;
        if (dim.kind != JSON_NUMBER || !json_i64(dim, &d) || d < 0)
            return complain(why, s->file.name, "tensor %.*s: shape must hold whole numbers", NAME_SHOWN(t));
        if (__builtin_mul_overflow(*bytes, (uint64_t)d, bytes))
            return complain(why, s->file.name, "tensor %.*s: shape is too large to exist", NAME_SHOWN(t));
        t->shape[t->rank] = d;
    }
    return true;
}

static bool read_offsets(struct safetensors *s, struct st_tensor *t, struct json v, struct str *why) {
    int64_t begin, end;
    if (v.kind != JSON_ARRAY || json_count(v) != 2 || !json_i64(json_at(v, 0), &begin) ||
        !json_i64(json_at(v, 1), &end) || begin < 0 || end < begin)
        return complain(why, s->file.name, "tensor %.*s: data_offsets must be [begin, end] with begin <= end",
                        NAME_SHOWN(t));
    t->begin = (uint64_t)begin;
    t->end = (uint64_t)end;
    return true;
}

static bool read_tensor(struct safetensors *s, struct span name, struct json v, struct str *why) {
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    struct json got[ARRAY_LEN(names)];
    struct st_tensor *t = &s->tensors[s->n++];
    uint64_t bytes = 0;
    *t = (struct st_tensor){.name = name};
    if (name.n == 0 || name.n > ST_NAME_MAX)
        return complain(why, s->file.name, "a tensor's name has %zu bytes; 1 to %d are allowed", name.n, ST_NAME_MAX);
    const char *twice = v.kind == JSON_OBJECT ? json_pick(v, names, got, ARRAY_LEN(names)) : "entry";
    if (v.kind != JSON_OBJECT || twice || json_count(v) != ARRAY_LEN(names))
        return complain(why, s->file.name, "tensor %.*s: must be an object of exactly dtype, shape and data_offsets",
                        NAME_SHOWN(t));
    if (!read_type(s, t, got[0], &bytes, why) || !read_shape(s, t, got[1], &bytes, why) ||
        !read_offsets(s, t, got[2], why))
        return false;
    if (t->end - t->begin != bytes)
        return complain(why, s->file.name, "tensor %.*s: its shape needs %llu bytes but data_offsets give %llu",
                        NAME_SHOWN(t), (unsigned long long)bytes, (unsigned long long)(t->end - t->begin));
    return true;
}

static int by_begin(const void *a, const void *b) {
    const struct st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b) {
    const struct st_tensor *x = *(const struct st_tensor *const *)a, *y = *(const struct st_tensor *const *)b;
    int c = memcmp(x->name.at, y->name.at, x->name.n < y->name.n ? x->name.n : y->name.n);
    return c ? c : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}

static bool check_names(struct safetensors *s, struct str *why) {
    const struct st_tensor **order = xcalloc(s->n + 1, sizeof *order);
    for (size_t i = 0; i < s->n; i++)
        order[i] = &s->tensors[i];
    qsort(order, s->n, sizeof *order, by_name);
    bool ok = true;
    for (size_t i = 1; ok && i < s->n; i++)
        if (span_equal(order[i - 1]->name, order[i]->name))
            ok = complain(why, s->file.name, "tensor %.*s: is there twice", NAME_SHOWN(order[i]));
    free(order);
    return ok;
}

static bool check_tiling(struct safetensors *s, uint64_t data_bytes, struct str *why) {
    uint64_t at = 0;
    qsort(s->tensors, s->n, sizeof *s->tensors, by_begin);
    for (size_t i = 0; i < s->n; i++) {
        const struct st_tensor *t = &s->tensors[i];
        if (t->end > data_bytes)
            return complain(why, s->file.name, "tensor %.*s: ends at byte %llu of the data, which has %llu",
                            NAME_SHOWN(t), (unsigned long long)t->end, (unsigned long long)data_bytes);
        if (t->begin != at)
            return complain(why, s->file.name, "tensor %.*s: begins at byte %llu of the data, %s", NAME_SHOWN(t),
                            (unsigned long long)t->begin,
                            t->begin < at ? "inside the tensor before it" : "leaving a hole before it");
        at = t->end;
    }
    if (at != data_bytes)
        return complain(why, s->file.name, "has %llu bytes of data but its tensors end at %llu",
                        (unsigned long long)data_bytes, (unsigned long long)at);
    return true;
}

static bool read_entries(struct safetensors *s, struct json header, struct str *why) {
    size_t count = json_count(header);
    if (count > ST_TENSORS_MAX)
        return complain(why, s->file.name, "has %zu entries; at most %d are read", count, ST_TENSORS_MAX);
    s->tensors = xcalloc(count + 1, sizeof *s->tensors);
    struct json_walk w;
    struct span name;
    struct json v;
    for (json_walk_init(&w, header); json_walk_next(&w, &name, &v);) {
        if (json_name_is(name, "__metadata__"))
            continue;
        if (!read_tensor(s, name, v, why))
            return false;
    }
    return check_names(s, why);
}

bool st_read(struct safetensors *s, struct span bytes, struct str *why) {
    uint64_t header_bytes = 0;
    struct json header;
    struct json_fault fault;
    s->tensors = NULL;
    s->n = 0;
    if (bytes.n < 8)
        return complain(why, s->file.name, "has %zu bytes: too short for a safetensors file", bytes.n);
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | (uint8_t)bytes.at[i];
    if (header_bytes > ST_HEADER_BYTES_MAX || header_bytes > bytes.n - 8)
        return complain(why, s->file.name, "says its header has %llu bytes; the file has %zu",
                        (unsigned long long)header_bytes, bytes.n);
    struct span text = span_from(bytes.at + 8, (size_t)header_bytes);
    if (text.n == 0 || text.at[0] != '{')
        return complain(why, s->file.name, "its header does not begin with '{'");
    if (!json_check(text, JSON_DEPTH_MAX, &header, &fault))
        return complain(why, s->file.name, "its header is not JSON at byte %zu: %s", fault.at + 8, fault.what);
    s->data = (const uint8_t *)text.at + text.n;
    return read_entries(s, header, why) && check_tiling(s, bytes.n - 8 - header_bytes, why);
}

bool st_open(struct safetensors *s, const char *directory, const char *name, struct str *why) {
    *s = (struct safetensors){0};
    if (!model_file_open(&s->file, directory, name, why))
        return false;
    if (st_read(s, span_from(s->file.at, s->file.n), why))
        return true;
    st_close(s);
    return false;
}

void st_close(struct safetensors *s) {
    free(s->tensors);
    s->tensors = NULL;
    s->n = 0;
    model_file_close(&s->file);
}

struct st_tensor *st_find(const struct safetensors *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (json_name_is(s->tensors[i].name, name))
            return &s->tensors[i];
    return NULL;
}
