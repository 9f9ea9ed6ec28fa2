/* Headers that lie. Each is refused by a sentence that names the file and, where there is one, the tensor. */
#include "backends/decode/safetensors.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* A file of this header and so many bytes of data; n_said replaces the true header length when it is not 0. */
static bool read_it(const char *header, size_t data_bytes, uint64_t n_said, struct str *why) {
    size_t n = strlen(header);
    char *bytes = calloc(8 + n + data_bytes, 1);
    struct safetensors s = {.file = {.name = "model.safetensors"}};
    uint64_t said = n_said ? n_said : n;
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(said >> (8 * i));
    memcpy(bytes + 8, header, n);
    str_clear(why);
    bool ok = st_read(&s, span_from(bytes, 8 + n + data_bytes), why);
    free(s.tensors);
    free(bytes);
    return ok;
}

#define T(name, dtype, shape, offsets)                                                                                 \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *why; /* NULL: it is good */
} rows[] = {
    {"{}", 0, NULL},
    {"{" T("a", "F32", "[2,3]", "[0,24]") "}", 24, NULL},
    {"{" T("a", "F32", "[2,3]", "[0,24]") "}    ", 24, NULL},
    {"{\"__metadata__\":{\"format\":\"pt\"}," T("b", "BF16", "[]", "[4,6]") "," T("a", "F16", "[2]", "[0,4]") "}", 6,
     NULL},
    {"{" T("none", "F32", "[0,7]", "[0,0]") "}", 0, NULL},
    {"{" T("a", "I64", "[1]", "[0,8]") "}", 8, NULL},
    {"{" T("a", "F32", "[2,3]", "[0,24]") "}", 25, "has 25 bytes of data but its tensors end at 24"},
    {"{" T("a", "F32", "[2,3]", "[0,24]") "}", 23, "tensor a: ends at byte 24 of the data, which has 23"},
    {"{" T("a", "F32", "[2,3]", "[0,20]") "}", 20, "tensor a: its shape needs 24 bytes but data_offsets give 20"},
    {"{" T("a", "F32", "[1]", "[4,8]") "}", 8, "tensor a: begins at byte 4 of the data, leaving a hole before it"},
    {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[1]", "[4,8]") "}", 8,
     "tensor b: begins at byte 4 of the data, inside the tensor before it"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "tensor a: is there twice"},
    {"{" T("a", "F33", "[1]", "[0,4]") "}", 4, "tensor a: dtype \"F33\" is not known"},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "tensor a: shape must hold whole numbers"},
    {"{" T("a", "F32", "[1.5]", "[0,4]") "}", 4, "tensor a: shape must hold whole numbers"},
    {"{" T("a", "F32", "7", "[0,4]") "}", 4, "tensor a: shape must be a list"},
    {"{" T("a", "F32", "[4294967296,4294967296,4]", "[0,4]") "}", 4, "tensor a: shape is too large to exist"},
    {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "tensor a: shape has over 8 dimensions"},
    {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "tensor a: data_offsets must be [begin, end] with begin <= end"},
    {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "tensor a: data_offsets must be [begin, end] with begin <= end"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4,
     "tensor a: must be an object of exactly dtype, shape and data_offsets"},
    {"{\"a\":7}", 4, "tensor a: must be an object of exactly dtype, shape and data_offsets"},
    {"[]", 0, "its header does not begin with '{'"},
    {" {}", 0, "its header does not begin with '{'"},
    {"{\"a\":}", 0, "its header is not JSON at byte 13"},
    {"{\"\xff\":1}", 0, "its header is not JSON at byte"},
};

Test(safetensors, each_lie_has_its_sentence) {
    struct str why;
    str_init(&why, 1000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool ok = read_it(rows[i].header, rows[i].data_bytes, 0, &why);
        if (!rows[i].why) {
            cr_expect(ok, "row %zu: %s", i, why.at);
            continue;
        }
        cr_expect_not(ok, "row %zu", i);
        cr_expect(why.n && strstr(why.at, rows[i].why) && span_starts(str_span(&why), "model.safetensors: "),
                  "row %zu: %s", i, why.at);
    }
    str_fini(&why);
}

Test(safetensors, header_lengths_that_do_not_fit_are_refused) {
    static const uint64_t said[] = {1, 3, 29, 100000000, 100000001, UINT64_MAX, UINT64_MAX - 7};
    struct str why;
    str_init(&why, 1000);
    for (size_t i = 0; i < ARRAY_LEN(said); i++)
        cr_expect_not(read_it("{}", 26, said[i], &why), "%zu", i);
    str_fini(&why);
}

Test(safetensors, a_file_cut_anywhere_is_refused) {
    static const char header[] = "{" T("a", "F32", "[1]", "[0,4]") "," T("b", "BF16", "[2,2]", "[4,12]") "}";
    size_t n = 8 + sizeof header - 1 + 12;
    char *whole = calloc(n, 1);
    struct str why;
    str_init(&why, 1000);
    whole[0] = (char)(sizeof header - 1);
    memcpy(whole + 8, header, sizeof header - 1);
    for (size_t cut = 0; cut <= n; cut++) {
        struct safetensors s = {.file = {.name = "x"}};
        char *part = malloc(cut ? cut : 1); /* exactly so long, so that a read past it is seen */
        memcpy(part, whole, cut);
        str_clear(&why);
        cr_expect_eq(st_read(&s, span_from(part, cut), &why), cut == n, "cut at %zu", cut);
        cr_expect_eq(why.n == 0, cut == n);
        free(s.tensors);
        free(part);
    }
    free(whole);
    str_fini(&why);
}
