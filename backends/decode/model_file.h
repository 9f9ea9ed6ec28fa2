/* A file of a model directory: mapped, read-only, named in every complaint. */
#ifndef TOLLGATE_DECODE_MODEL_FILE_H
#define TOLLGATE_DECODE_MODEL_FILE_H

#include "gateway/base/json.h"

#define FILE_NAME_MAX 128
#define JSON_FILE_BYTES_MAX                                                                                            \
    (64 << 20) /* against a "config" that is a disk image: tokenizer.json of 256k words has 20 MB */

struct file {
    char name[FILE_NAME_MAX]; /* inside the directory, for messages */
    const uint8_t *at;        /* mapped; NULL when the file is empty */
    size_t n;
};

/* A complaint: "NAME: sentence". Keeps the first one only. Returns false, so that a refusal is a return. */
bool complain(struct str *why, const char *name, const char *format, ...) printf_like(3, 4);

/* Maps directory/name. False with a sentence when it is not a regular file that can be read. */
must_check bool model_file_open(struct file *f, const char *directory, const char *name, struct str *why);
bool model_file_exists(const char *directory, const char *name);
void model_file_close(struct file *f);
/* Opens it and checks that it holds one JSON object. */
must_check bool model_file_open_json(struct file *f, const char *directory, const char *name, struct json *out,
                                     struct str *why);

#endif
