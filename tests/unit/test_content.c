#include "audit/content.h"

#include "gateway/base/clock.h"
#include "gateway/base/hash.h"

#include <criterion/criterion.h>

#define DAY INT64_C(20787) /* 2026-11-30 */

static const uint8_t wrap[SEAL_KEY_BYTES] = {1, 2, 3};

struct sealed {
    struct content_key key;
    struct str text, frame;
    struct audit_place place;
};

static void make(struct sealed *s) {
    struct audit_content c = {.kind = AUDIT_SETTLE,
                              .request = "req-1",
                              .team = "se-arch.x",
                              .asked = SPAN("{\"q\":\"zw\xc3\xb6lf\"}"),
                              .answered_left_out = "too large"};
    str_init(&s->text, CONTENT_KEY_FILE_MAX);
    str_init(&s->frame, 1 << 20);
    cr_assert(content_key_new(wrap, c.team, DAY, &s->key, &s->text));
    cr_assert(content_pack(&s->key, &c, &s->frame));
    s->place = (struct audit_place){.request = "req-1", .kind = "settle", .file = s->key.file};
}

static void done(struct sealed *s) {
    str_fini(&s->text);
    str_fini(&s->frame);
}

static bool opens(const struct sealed *s, const uint8_t *key, struct span frame, struct str *out) {
    struct str why;
    str_init(&why, 1024);
    str_init(out, 1 << 20);
    bool good = content_unpack(key, &s->place, frame, out, &why);
    cr_assert(good || why.n, "a fault has a sentence");
    str_fini(&why);
    return good;
}

Test(content, names_give_team_and_day_back) {
    struct sealed s;
    struct span team;
    char name[CONTENT_NAME_MAX];
    int64_t day;
    make(&s);
    cr_assert(content_name_read(s.key.file, &team, &day) && span_is(team, "se-arch.x"));
    cr_assert_eq(day, DAY);
    cr_assert(content_name(s.key.file, ".key", name) && content_name_read(name, &team, &day));
    static const char *const bad[] = {"",
                                      "audit-a.0-20261130-000001.jsonl",
                                      "content-20261130-a-01234567",
                                      "content-20261130-a.sealed",
                                      "content-20261330-a-01234567.sealed",
                                      "content-20261130-../x-01234567.sealed"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_expect(!content_name_read(bad[i], &team, &day), "%s", bad[i]);
    cr_assert(!content_key_new(wrap, "a/b", DAY, &s.key, &s.text) && !content_key_new(wrap, "", DAY, &s.key, &s.text));
    done(&s);
}

Test(content, a_frame_opens_with_its_key_alone_and_says_what_was_left_out) {
    struct sealed s;
    struct str out;
    uint8_t key[SEAL_KEY_BYTES], other[SEAL_KEY_BYTES] = {9};
    make(&s);
    cr_assert(content_key_open(wrap, s.key.file, str_span(&s.text), key));
    cr_assert_eq(memcmp(key, s.key.key, sizeof key), 0);
    cr_assert(!content_key_open(other, s.key.file, str_span(&s.text), key), "another operator's");
    cr_assert(!content_key_open(wrap, "content-20261130-b-01234567.sealed", str_span(&s.text), key), "another file's");
    cr_assert(opens(&s, s.key.key, str_span(&s.frame), &out));
    cr_assert_str_eq(out.at, "{\"request_id\":\"req-1\",\"team\":\"se-arch.x\",\"request\":{\"q\":\"zw\xc3\xb6lf\"},"
                             "\"answer_left_out\":\"too large\"}");
    str_fini(&out);
    cr_assert(!opens(&s, other, str_span(&s.frame), &out));
    str_fini(&out);
    done(&s);
}

Test(content, no_cut_no_flip_and_no_other_record_opens) {
    struct sealed s;
    struct str out;
    make(&s);
    for (size_t n = 0; n < s.frame.n; n++) {
        cr_assert(!opens(&s, s.key.key, span_from(s.frame.at, n), &out), "cut at %zu", n);
        str_fini(&out);
        s.frame.at[n] ^= 4;
        cr_assert(!opens(&s, s.key.key, str_span(&s.frame), &out), "byte %zu", n);
        str_fini(&out);
        s.frame.at[n] ^= 4;
    }
    s.place.request = "req-2";
    cr_assert(!opens(&s, s.key.key, str_span(&s.frame), &out));
    str_fini(&out);
    done(&s);
}

Test(content, no_two_frames_of_a_key_have_one_nonce) {
    struct sealed s;
    make(&s);
    struct audit_content c = {.kind = AUDIT_SETTLE, .request = "req-1", .team = "se-arch.x"};
    size_t first = s.frame.n;
    cr_assert(content_pack(&s.key, &c, &s.frame));
    cr_assert_neq(memcmp(s.frame.at + 4, s.frame.at + first + 4, SEAL_NONCE_BYTES), 0);
    done(&s);
}
