/* adapter_config.json, and the patterns in it: the first line is a pattern and a path, the rest the file. Whatever is accepted tells
 * rank and scale of every module, or says in a sentence why not. */
#include "backends/decode/adapter_config.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask_modules(const struct adapter_config *c) {
    static const char *const paths[] = {"model.layers.0.self_attn.q_proj", "model.layers.11.mlp.down_proj", "lm_head",
                                        ""};
    struct str why;
    int64_t rank;
    float scale;
    str_init(&why, 4096);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        str_clear(&why);
        bool good = adapter_config_module(c, paths[i], &rank, &scale, &why);
        if (good ? rank <= 0 || !isfinite(scale) : why.n == 0)
            abort();
    }
    str_fini(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct span rest = span_from(size ? (const char *)data : "", size), line, key;
    struct adapter_config c;
    struct str why;
    if (!span_cut(&rest, '\n', &line))
        return 0;
    if (span_cut(&line, ' ', &key) && abs(adapter_pattern_match(key, line)) > 1)
        abort();
    str_init(&why, 4096);
    if (adapter_config_read(rest, &c, &why))
        ask_modules(&c);
    else if (why.n == 0)
        abort(); /* a refusal without a sentence */
    str_fini(&why);
    return 0;
}
