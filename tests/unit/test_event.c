/* Packed events: nothing is lost on the way, and nothing that a store may hand back does harm. */
#include "backends/dialect.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const char DATA[] = "{\"id\":\"a\",\"model\":\"m\",\"usage\":{\"x\":1}}";

static void pack_one(struct str *out) {
    struct part parts[] = {{.kind = PART_ROLE, .text = SPAN("assistant")},
                           {.kind = PART_TOOL_OPEN, .choice = 3, .tool = 2, .id = SPAN("id"), .name = SPAN("f\0g")},
                           {.kind = PART_TEXT, .text = SPAN("t\xc3\xa9")}};
    struct event e = {
        .bits = EVENT_CONTENT | EVENT_USAGE | EVENT_NO_STORE,
        .name = SPAN("message_delta"),
        .data = span_of(DATA),
        .splices = {{SPLICE_ID, 6, 3}, {SPLICE_MODEL, 18, 3}, {SPLICE_USAGE, 30, 7}},
        .n_splices = 3,
        .parts = parts,
        .n_parts = 3,
        .text_bytes = 42,
        .finish = FINISH_TOOLS,
        .usage = {.in = 1, .out = 2, .cache_write_1h = INT64_C(1) << 40, .reasoning = 5, .reported = true},
        .usage_raw = {DATA + 30, 7},
        .err = ERR_UPSTREAM,
        .status = 529,
        .message = SPAN("m")};
    event_pack(&e, out);
}

Test(event, packing_loses_nothing) {
    struct part parts[EVENT_PARTS_MAX];
    struct str packed;
    struct event e;
    str_init(&packed, 1 << 16);
    pack_one(&packed);
    pack_one(&packed);
    struct span rest = str_span(&packed);
    cr_assert(event_unpack(&rest, &e, parts));
    cr_assert(event_unpack(&rest, &e, parts));
    cr_expect_eq(rest.n, 0);
    cr_expect_eq(e.bits, EVENT_CONTENT | EVENT_USAGE | EVENT_NO_STORE);
    cr_expect(span_is(e.name, "message_delta") && span_is(e.data, DATA) && span_is(e.message, "m"));
    cr_expect(span_is(e.usage_raw, "{\"x\":1}"));
    cr_expect(e.n_splices == 3 && e.splices[1].what == SPLICE_MODEL && e.splices[2].at == 30 && e.splices[2].n == 7);
    cr_expect(e.n_parts == 3 && parts[1].choice == 3 && parts[1].tool == 2 && parts[1].name.n == 3);
    cr_expect(span_is(parts[2].text, "t\xc3\xa9"));
    cr_expect(e.usage.cache_write_1h == INT64_C(1) << 40 && e.usage.reported && !e.usage.estimated);
    cr_expect(e.text_bytes == 42 && e.finish == FINISH_TOOLS && e.err == ERR_UPSTREAM && e.status == 529);
    str_fini(&packed);
}

Test(event, cut_or_changed_bytes_are_refused_or_harmless) {
    struct part parts[EVENT_PARTS_MAX];
    struct str packed;
    struct event e;
    str_init(&packed, 1 << 16);
    pack_one(&packed);
    for (size_t n = 0; n < packed.n; n++) {
        char *copy = malloc(n ? n : 1);
        memcpy(copy, packed.at, n);
        struct span rest = {copy, n};
        cr_expect_not(event_unpack(&rest, &e, parts), "cut at %zu", n);
        cr_expect_eq(rest.n, n, "what is refused is not taken");
        free(copy);
    }
    for (size_t i = 0; i < packed.n * 8; i++) {
        packed.at[i / 8] ^= (char)(1 << i % 8);
        struct span rest = str_span(&packed);
        if (event_unpack(&rest, &e, parts))
            for (int k = 0; k < e.n_splices; k++)
                cr_expect_leq(e.splices[k].at + e.splices[k].n, e.data.n);
        packed.at[i / 8] ^= (char)(1 << i % 8);
    }
    str_fini(&packed);
}

Test(event, too_many_parts_are_marked) {
    static struct part many[EVENT_PARTS_MAX + 1];
    struct part parts[EVENT_PARTS_MAX];
    struct event e = {.parts = many, .n_parts = EVENT_PARTS_MAX + 1};
    struct str packed;
    str_init(&packed, 1 << 20);
    event_pack(&e, &packed);
    struct span rest = str_span(&packed);
    cr_assert(event_unpack(&rest, &e, parts));
    cr_expect_eq(e.n_parts, EVENT_PARTS_MAX);
    cr_expect(e.bits & EVENT_CUT && e.bits & EVENT_NO_STORE);
    str_fini(&packed);
}
