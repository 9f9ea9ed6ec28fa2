/* One safetensors file: named tensors in place. Whatever st_open accepts, every tensor lies inside the file, none
 * overlap, there are no holes, and its bytes are exactly its shape times its type. */
#ifndef TOLLGATE_DECODE_SAFETENSORS_H
#define TOLLGATE_DECODE_SAFETENSORS_H

#include "backends/decode/model_file.h"

#define ST_HEADER_BYTES_MAX 100000000u /* the format's own limit */
#define ST_TENSORS_MAX 100000          /* against headers that are all names */
#define ST_NAME_MAX 256
#define ST_RANK_MAX 8

enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_INT8,  /* with scales (quantize.h); made at load, never read from a file */
    DTYPE_OTHER, /* legal in the format, of no use here */
};
extern const char *const dtype_names[]; /* "f32", "f16", "bf16", "int8", "other" */
size_t dtype_bytes(enum dtype d);       /* 0 for DTYPE_OTHER */

struct st_tensor {
    struct span name; /* raw JSON, in the file */
    enum dtype dtype;
    char dtype_name[12];
    int64_t shape[ST_RANK_MAX];
    int rank;
    uint64_t begin, end; /* from the start of the data */
    bool used;           /* for the reader that must account for every tensor */
};

struct safetensors {
    struct file file;
    const uint8_t *data;
    struct st_tensor *tensors; /* owned; in order of begin */
    size_t n;
};

must_check bool st_open(struct safetensors *s, const char *directory, const char *name, struct str *why);
/* The same checks over bytes that the caller keeps; s->file.name must be set for messages. */
must_check bool st_read(struct safetensors *s, struct span bytes, struct str *why);
void st_close(struct safetensors *s);
struct st_tensor *st_find(const struct safetensors *s, const char *name); /* NULL: not there */

#endif
