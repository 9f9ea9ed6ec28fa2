#include "gateway/base/clock.h"
#include "tests/support/chain_kit.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

struct seen {
    size_t n, most;
    int64_t last_line;
    char last[64];
};
static bool see(const struct audit_line *l, void *user) {
    struct seen *s = user;
    s->n++;
    s->last_line = l->line;
    cr_assert(l->text.n > 10 && l->text.at[l->text.n - 1] == '}');
    memcpy(s->last, l->text.at, sizeof s->last - 1);
    return !s->most || s->n < s->most;
}

static void make_two_chains(struct kit *k) {
    k->tuning.segment_max_bytes = 4000;
    for (int chain = 0; chain < 2; chain++) {
        k->options.chain = chain ? "b.0" : "a.0";
        struct audit *a = kit_open(k, KIT_NOW);
        for (int i = 0; i < 20; i++) {
            kit_admit(a, i, 1, KIT_NOW);
            kit_settle(a, i, 1, KIT_NOW, KIT_NOW);
        }
        audit_close(a, KIT_NOW);
    }
}

Test(audit_read, files_that_end_before_an_instant_are_left_out) {
    struct kit k;
    kit_init(&k);
    make_two_chains(&k);
    struct seen all = {0}, late = {0};
    cr_assert(audit_read_since(k.directory, KIT_NOW, see, &all, &k.why));
    cr_assert_eq(all.n, kit_verify(&k).records, "of that very day");
    cr_assert(audit_read_since(k.directory, KIT_NOW + 2 * US_PER_DAY, see, &late, &k.why));
    cr_assert(late.n > 0 && late.n < all.n, "the last file of each chain may still grow: %zu of %zu", late.n, all.n);
    kit_fini(&k);
}

Test(audit_read, gives_every_record_of_every_chain_in_file_order) {
    struct kit k;
    kit_init(&k);
    make_two_chains(&k);
    struct seen s = {0};
    cr_assert(audit_read(k.directory, see, &s, &k.why));
    cr_assert_eq(s.n, kit_verify(&k).records);
    struct seen few = {.most = 5};
    cr_assert(audit_read(k.directory, see, &few, &k.why));
    cr_assert_eq(few.n, 5);
    cr_assert(!audit_read("/nowhere", see, &few, &k.why));
    kit_fini(&k);
}

Test(audit_read, tail_gives_the_last_lines_of_each_chain) {
    static const size_t counts[] = {0, 1, 3, 30, 100000};
    struct kit k;
    kit_init(&k);
    make_two_chains(&k);
    uint64_t all = kit_verify(&k).records;
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        struct seen s = {0};
        size_t expected = 2 * counts[i] < all ? 2 * counts[i] : all;
        cr_assert(audit_tail(k.directory, counts[i], false, see, &s, &k.why));
        cr_assert_eq(s.n, expected, "%zu of %zu", s.n, expected);
    }
    kit_fini(&k);
}

static void *write_more(void *user) {
    struct kit *k = user;
    usleep(50000);
    struct audit *a = kit_open(k, KIT_NOW);
    for (int i = 0; i < 30; i++)
        kit_admit(a, 100 + i, 1, KIT_NOW);
    audit_close(a, KIT_NOW);
    return NULL;
}

Test(audit_read, follow_gives_what_is_added_also_in_new_files) {
    struct kit k;
    pthread_t writer;
    kit_init(&k);
    make_two_chains(&k);
    struct seen s = {.most = 2 + 30}; /* the last of each chain, then thirty that are new */
    pthread_create(&writer, NULL, write_more, &k);
    cr_assert(audit_tail(k.directory, 1, true, see, &s, &k.why));
    pthread_join(writer, NULL);
    cr_assert_eq(s.n, 32);
    kit_fini(&k);
}
