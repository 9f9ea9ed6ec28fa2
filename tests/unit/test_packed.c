/* An entry as it lies in Redis: whole, cut at every byte, changed at every byte, under another key. */
#include "cache/store.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const uint8_t key[SHA256_BYTES] = {1, 2, 3};

static void pack(struct str *out, struct span bytes) {
    const struct cache_entry *e = entry_new(bytes, 1000, 2000, 3000);
    str_init(out, 16 << 20);
    cr_assert(packed_write(key, e, out));
    entry_drop(e);
}

static struct span text_of(size_t n, char *text) {
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i * i % 23);
    return span_from(text, n);
}

Test(packed, what_was_kept_is_what_is_read) {
    static const size_t sizes[] = {0, 1, 700, 1023, 1024, 70000};
    static char text[70000];
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct str packed;
        struct span bytes = text_of(sizes[i], text);
        pack(&packed, bytes);
        const struct cache_entry *e = packed_read(key, str_span(&packed));
        cr_assert_not_null(e, "%zu bytes", sizes[i]);
        cr_expect(span_equal(e->bytes, bytes) && e->kept_us == 1000 && e->until_us == 2000 && e->drop_us == 3000);
        cr_expect_eq(packed.n < bytes.n, sizes[i] >= 1024, "compressed from there on: %zu", sizes[i]);
        entry_drop(e);
        str_fini(&packed);
    }
}

/* C-03: what a crash or a bad disk left of a value is no answer. */
Test(packed, a_value_that_is_cut_changed_or_moved_is_nothing) {
    static char text[2000];
    for (size_t n = 100; n <= sizeof text; n += 1900) {
        struct str packed;
        pack(&packed, text_of(n, text));
        for (size_t i = 0; i < packed.n; i++) {
            cr_assert_null(packed_read(key, span_from(packed.at, i)), "cut at %zu", i);
            packed.at[i] ^= 0x10;
            cr_assert_null(packed_read(key, str_span(&packed)), "changed at %zu", i);
            packed.at[i] ^= 0x10;
        }
        const uint8_t other[SHA256_BYTES] = {1, 2, 4};
        cr_expect_null(packed_read(other, str_span(&packed)), "the value of another key");
        str_putc(&packed, 'x');
        cr_expect_null(packed_read(key, str_span(&packed)), "one byte too many");
        str_fini(&packed);
    }
}

/* A value whose digest is right, but which claims to be larger than it is allowed to be. */
Test(packed, a_size_is_believed_within_its_limit_alone) {
    struct str packed;
    static char text[3000];
    pack(&packed, text_of(sizeof text, text));
    static const uint64_t sizes[] = {0, 2999, 3001, PACKED_RAW_MAX, PACKED_RAW_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        uint8_t sum[SHA256_BYTES];
        struct sha256 *s = sha256_new();
        memcpy(packed.at + 26, &sizes[i], 8);
        sha256_add(s, span_from(key, sizeof key));
        sha256_add(s, span_from(packed.at, 34));
        sha256_add(s, span_from(packed.at + 66, packed.n - 66));
        sha256_end(s, sum);
        memcpy(packed.at + 34, sum, sizeof sum);
        cr_expect_null(packed_read(key, str_span(&packed)), "%zu", i);
    }
    str_fini(&packed);
}

Test(packed, what_is_too_large_is_not_written) {
    char *noise = malloc(PACKED_RAW_MAX + 1);
    uint64_t state = 7;
    for (size_t i = 0; i + 8 <= PACKED_RAW_MAX; i += 8) {
        uint64_t v = random_next(&state);
        memcpy(noise + i, &v, 8);
    }
    static const struct {
        size_t n;
        bool noisy, good;
    } rows[] = {{PACKED_RAW_MAX, false, true},
                {PACKED_RAW_MAX + 1, false, false},
                {PACKED_BYTES_MAX - 66, true, true},
                {PACKED_BYTES_MAX, true, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str out;
        str_init(&out, PACKED_BYTES_MAX);
        char *zeros = rows[i].noisy ? NULL : calloc(1, rows[i].n);
        const struct cache_entry *e = entry_new(span_from(zeros ? zeros : noise, rows[i].n), 1, 2, 3);
        cr_expect_eq(packed_write(key, e, &out), rows[i].good, "row %zu", i);
        entry_drop(e);
        free(zeros);
        str_fini(&out);
    }
    free(noise);
}
