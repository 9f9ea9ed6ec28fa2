/* A tokenizer.json, a NUL, and a text for it. Whatever loads must encode the text without ever giving a control token or an id
 * past the vocabulary, and decode what it gave. */
#include "backends/decode/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define VOCABULARY 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *directory(void) {
    static char path[64];
    if (!path[0]) {
        snprintf(path, sizeof path, "/tmp/tollgate-fuzz-%d", (int)getpid());
        mkdir(path, 0700);
    }
    return path;
}

static void save(struct span bytes) {
    char path[96];
    snprintf(path, sizeof path, "%s/tokenizer.json", directory());
    FILE *f = fopen(path, "wb");
    if (!f)
        abort();
    if (bytes.n)
        fwrite(bytes.at, 1, bytes.n, f);
    fclose(f);
}

static void check(const struct tokenizer *t, struct span text) {
    struct tokens ids = {0};
    tokenizer_encode(t, text, true, &ids);
    for (size_t i = 0; i < ids.n; i++)
        if (ids.at[i] < 0 || ids.at[i] >= VOCABULARY || t->control[ids.at[i]] || !tokenizer_bytes(t, ids.at[i]).at)
            abort();
    tokens_fini(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct model_config c = {.vocabulary = VOCABULARY, .ends = {2}, .n_ends = 1};
    const uint8_t *end = memchr(data, 0, size);
    size_t n = end ? (size_t)(end - data) : size;
    struct str why;
    str_init(&why, 4096);
    save(span_from(data, n));
    struct tokenizer *t = tokenizer_open(directory(), &c, &why);
    if (t)
        check(t, end ? span_from(end + 1, size - n - 1) : SPAN("the thing \xc3\xa9 <|im_end|> 12"));
    else if (why.n == 0)
        abort();
    tokenizer_close(t);
    str_fini(&why);
    return 0;
}
