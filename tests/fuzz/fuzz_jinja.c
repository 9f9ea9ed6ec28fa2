/* A template, a NUL, and JSON for its variable `messages`. Whatever is read must end within its limits, and mark each byte
 * that it writes. */
#include "backends/decode/jinja.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = memchr(data, 0, size);
    size_t n = end ? (size_t)(end - data) : size;
    struct json messages = {0};
    struct json_fault fault;
    struct str why;
    str_init(&why, 4096);
    struct jinja *j = jinja_parse(span_from(data, n), "fuzz", &why);
    if (!j && why.n == 0)
        abort();
    if (j) {
        struct marked out;
        marked_init(&out, 1 << 20);
        if (!end || !json_check(span_from(end + 1, size - n - 1), JSON_DEPTH_MAX, &messages, &fault))
            messages = (struct json){JSON_ARRAY, SPAN("[{\"role\":\"user\",\"content\":\"hi\"}]")};
        struct jinja_var vars[] = {{"messages", messages, true}};
        if (!jinja_render(j, vars, 1, 0, &out, &why) && why.n == 0)
            abort();
        if (!out.text.over && out.text.n != out.user.n)
            abort();
        marked_fini(&out);
    }
    jinja_free(j);
    str_fini(&why);
    return 0;
}
