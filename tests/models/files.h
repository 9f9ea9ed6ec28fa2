/* What export and import share: the list of tensors with their names in the files, the alphabet of byte-level BPE, and
 * files read and written whole. */
#ifndef TOLLGATE_TESTS_MODELS_FILES_H
#define TOLLGATE_TESTS_MODELS_FILES_H

#include "gateway/base/json.h"
#include "tests/models/tiny.h"

#define TINY_TENSORS_MAX (2 * TINY_LAYERS_MAX * TINY_LINEARS + 2)
struct tiny_tensor {
    char name[96];
    int rows, columns; /* columns 0: one dimension */
    float *at;
};
int tiny_base_tensors(const struct tiny_params *p, struct tiny_tensor out[TINY_TENSORS_MAX]);
int tiny_adapter_tensors(const struct tiny_lora *l, const struct tiny_shape *s,
                         struct tiny_tensor out[TINY_TENSORS_MAX]);
size_t tiny_tensor_floats(const struct tiny_tensor *t);

int tiny_alphabet(int byte);                                           /* the character that stands for a byte */
void tiny_piece(const struct tiny_bpe *b, int token, struct str *out); /* in the alphabet, as UTF-8; specials as text */

#define TINY_FILE_MAX (16 << 20)
bool tiny_file_write(const char *dir, const char *name, struct span bytes); /* false after a sentence on stderr */
bool tiny_file_read(const char *dir, const char *name, struct str *out);    /* the same */
/* A file that is one JSON document; `keep` holds its bytes. */
bool tiny_file_json(const char *dir, const char *name, struct str *keep, struct json *out);

#endif
