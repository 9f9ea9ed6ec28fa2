/* Schemas, and texts that are held against them: the first line is a schema, the rest a text. What a form lets end is JSON. */
#include "backends/decode/automaton.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX 2000

static void walk(const struct decode_form *f, struct span text) {
    static const struct tokenizer none;
    struct vocabulary v;
    struct automata all;
    struct walker w;
    struct json json;
    bool ends = false, more = true;
    vocabulary_init(&v, &none);
    automata_init(&all, &v);
    walker_init(&w, &all, f);
    for (size_t i = 0; i < text.n && i < TEXT_MAX && more; i++) {
        walker_step(&w, span_from(text.at + i, 1));
        walker_mask(&w, &ends, &more);
        if (ends && !json_check(span_from(text.at, i + 1), JSON_DEPTH_MAX, &json, NULL))
            abort();
    }
    walker_fini(&w, &all);
    automata_fini(&all);
    vocabulary_fini(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct span rest = span_from(size ? (const char *)data : "", size), line;
    struct decode_fault fault = {{0}, {0}};
    struct json schema;
    struct arena a;
    if (!span_cut(&rest, '\n', &line) || !json_check(line, JSON_DEPTH_MAX, &schema, NULL))
        return 0;
    arena_init(&a, 4 << 20);
    const struct decode_form *f = decode_form_of_schema(schema, &a, "schema", &fault);
    if (f)
        walk(f, rest);
    else if (!fault.field[0] || !fault.text[0])
        abort();
    arena_fini(&a);
    return 0;
}
