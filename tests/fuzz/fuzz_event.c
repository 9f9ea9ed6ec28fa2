/* Any bytes as packed events from a store: refused, or taken whole and harmless to every writer; what is taken packs to
 * an event that unpacks to the same. First byte: endpoint and form. */
#include "backends/backends.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct event *e) {
    struct part *parts = calloc(EVENT_PARTS_MAX, sizeof *parts);
    struct event same;
    struct str packed;
    str_init(&packed, 1 << 26);
    event_pack(e, &packed);
    struct span rest = str_span(&packed);
    bool good = event_unpack(&rest, &same, parts);
    assert(good && !rest.n && same.bits == e->bits && span_equal(same.data, e->data) && same.n_parts == e->n_parts);
    str_fini(&packed);
    free(parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct part *parts = calloc(EVENT_PARTS_MAX, sizeof *parts);
    struct event e;
    struct str out;
    if (size < 1) {
        free(parts);
        return 0;
    }
    struct writer *w = writer_new(&(struct writer_options){.endpoint = (enum endpoint)((data[0] & 15) % ENDPOINT_N),
                                                           .stream = data[0] >> 4 & 1,
                                                           .include_usage = data[0] >> 5 & 1,
                                                           .fresh = data[0] >> 6 & 1,
                                                           .model = SPAN("m"),
                                                           .id = "1"});
    struct writer_extra extra = {.cost_nanousd = 7, .tollgate = "{}"};
    struct span rest = span_from(data + 1, size - 1);
    str_init(&out, 1 << 26);
    while (rest.n && event_unpack(&rest, &e, parts)) {
        check_again(&e);
        if (!writer_event(w, &e, &extra, &out))
            break;
    }
    (void)!writer_end(w, &e.usage, &extra, &out);
    writer_free(w);
    str_fini(&out);
    free(parts);
    return 0;
}
