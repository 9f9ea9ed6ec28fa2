/* What a report reads of a record is what a JSON reader reads, and broken bytes are never read past. */
#include "audit/audit.h"
#include "gateway/base/mem.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static const struct span names[] = {SPAN("kind"),     SPAN("alias"), SPAN("cost_nanousd"), SPAN("labels"),
                                    SPAN("attempts"), SPAN("usage"), SPAN("absent")};

static bool see(const struct audit_line *l, void *user) {
    struct json got[ARRAY_LEN(names)], root;
    struct json_fault fault;
    struct audit_frame frame;
    int *seen = user;
    cr_assert(json_check(l->text, JSON_DEPTH_MAX, &root, &fault));
    cr_assert(audit_frame(l->text, &frame));
    audit_pick(l->text, names, got, ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", SPAN_ARG(names[i]));
        struct json want = json_get(root, name);
        cr_assert_eq(got[i].kind, want.kind, "%s of %.*s", name, SPAN_ARG(l->text));
        cr_assert(span_equal(got[i].raw, want.raw), "%s: %.*s", name, SPAN_ARG(got[i].raw));
    }
    cr_assert(json_is(got[0], frame.kind >= 0 ? audit_kind_names[frame.kind] : ""));
    ++*seen;
    return true;
}

Test(pick, reads_what_a_json_reader_reads) {
    struct kit k;
    int seen = 0;
    kit_init(&k);
    struct audit *a = kit_open(&k, KIT_NOW);
    for (int i = 0; i < 20; i++) {
        kit_admit(a, i, 100, KIT_NOW);
        kit_settle(a, i, i, KIT_NOW, KIT_NOW);
    }
    audit_close(a, KIT_NOW);
    cr_assert(audit_read(k.directory, see, &seen, &k.why));
    cr_assert_geq(seen, 42);
    kit_fini(&k);
}

Test(pick, elements_and_members_one_after_another) {
    struct span rest = SPAN("[1,\"a\\\"]\",{\"b\":[2]},[3]]"), name;
    struct json v;
    static const char *const want[] = {"1", "\"a\\\"]\"", "{\"b\":[2]}", "[3]"};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        cr_assert(audit_next(&rest, &name, &v));
        cr_expect(span_is(v.raw, want[i]), "%.*s", SPAN_ARG(v.raw));
        cr_expect_eq(name.n, 0);
    }
    cr_assert_not(audit_next(&rest, &name, &v));
    rest = SPAN("{}");
    cr_assert_not(audit_next(&rest, &name, &v));
}

/* Each prefix of a record in a block of its own size, so that a byte read past it is seen. */
Test(pick, a_cut_record_is_never_read_past_its_end) {
    static const char line[] =
        "{\"kind\":\"settle\",\"alias\":\"a\\\\\",\"labels\":{\"x\":\"y\\\"\"},\"cost_nanousd\":-12,"
        "\"attempts\":[{\"pico\":\"1\"},[]],\"usage\":{\"in\":1}}";
    for (size_t n = 0; n < sizeof line; n++) {
        char *cut = xrealloc(NULL, n ? n : 1);
        struct json got[ARRAY_LEN(names)];
        memcpy(cut, line, n);
        audit_pick(span_from(cut, n), names, got, ARRAY_LEN(names));
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            cr_assert(got[i].kind == JSON_NONE || (got[i].raw.at >= cut && got[i].raw.at + got[i].raw.n <= cut + n));
            cr_assert(got[i].kind != JSON_STRING || (got[i].raw.n >= 2 && got[i].raw.at[got[i].raw.n - 1] == '"'));
        }
        free(cut);
    }
}
