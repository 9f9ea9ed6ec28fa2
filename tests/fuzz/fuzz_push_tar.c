/* Archives as they are pushed, in pieces of the first byte's length: the same files come out however they are cut, none of them twice,
 * and a refusal has a sentence. */
#include "backends/decode/push_tar.h"

#include "gateway/base/mem.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct taken {
    uint64_t sum[PUSH_FILES];
    int begun[PUSH_FILES];
};

static bool take(void *user, enum push_file f, struct span bytes, struct str *why) {
    struct taken *t = user;
    (void)why;
    if (f >= PUSH_FILES)
        abort();
    t->begun[f] += bytes.n == 0;
    for (size_t i = 0; i < bytes.n; i++)
        t->sum[f] = t->sum[f] * 31 + (unsigned char)bytes.at[i] + 1;
    return true;
}

static bool read_in(const uint8_t *data, size_t size, size_t step, struct taken *out) {
    struct push_tar tar;
    struct str why;
    bool good = true;
    *out = (struct taken){0};
    str_init(&why, 4096);
    push_tar_init(&tar, take, out);
    for (size_t i = 0; i < size && good; i += step)
        good = push_tar_read(&tar, span_from((const char *)data + i, size - i < step ? size - i : step), &why);
    good = good && push_tar_end(&tar, &why);
    if (!good && why.n == 0)
        abort();
    str_fini(&why);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct taken whole, cut;
    if (size < 2)
        return 0;
    bool good = read_in(data + 1, size - 1, size, &whole);
    if (read_in(data + 1, size - 1, (size_t)data[0] + 1, &cut) != good)
        abort();
    for (size_t f = 0; good && f < PUSH_FILES; f++)
        if (whole.sum[f] != cut.sum[f] || whole.begun[f] > 1)
            abort();
    return 0;
}
