/* The ladder digest: what changes it and what does not. */
#include "tests/support/hand_conf.h"

#include <criterion/criterion.h>

static struct hand *make(void) {
    struct hand *h = hand_new(1);
    struct conf_backend *a = hand_backend(h, "a", 2), *b = hand_backend(h, "b", 1);
    hand_target(h, 0, a, "m-*", 3);
    hand_target(h, 0, b, "n", 1);
    hand_target(h, 1, a, "o", 1);
    hand_target(h, 2, b, "p", 1);
    h->rungs[2].degraded = true;
    h->alias.pattern = true;
    return h;
}

static void digest(const struct hand *h, uint8_t out[SHA256_BYTES]) {
    routing_ladder_digest(&h->alias, SPAN("x"), &h->needs.arm, out);
}

enum change {
    WEIGHT,
    KEYS,
    TIMEOUTS,
    ORDER,
    RUNGS,
    TWICE,
    DEGRADED,
    TAGS,
    NEUTRAL_N,
    MODEL = NEUTRAL_N,
    URL,
    PROTOCOL,
    NAME,
    GONE,
    MADE_DEGRADED,
    CHANGES
};

static void change(struct hand *h, enum change what) {
    struct conf_target *t = h->targets[0], swap = t[0];
    switch (what) {
    case WEIGHT:
        t[0].weight = 99;
        break;
    case KEYS:
        h->backends[0].n_keys = 1;
        break;
    case TIMEOUTS:
        h->backends[0].total_us = 5;
        break;
    case ORDER:
        t[0] = t[1];
        t[1] = swap;
        break;
    case RUNGS:
        h->rungs[1].only_for = 0;
        break;
    case TWICE:
        hand_target(h, 1, &h->backends[1], "n", 1);
        break;
    case DEGRADED:
        h->targets[2][0].model = "q";
        break;
    case TAGS:
        h->backends[0].n_tags = 0;
        break;
    case MODEL:
        t[1].model = "n2";
        break;
    case URL:
        h->backends[1].url = "http://127.0.0.1:2/v1";
        break;
    case PROTOCOL:
        h->backends[1].protocol = PROTOCOL_ANTHROPIC;
        break;
    case NAME:
        h->backends[1].name = "b2";
        break;
    case GONE:
        h->rungs[0].n_targets = 1;
        break;
    case MADE_DEGRADED:
        h->rungs[1].degraded = true;
        break;
    default:
        cr_assert_fail("no such change");
    }
}

Test(ladder, only_what_can_change_an_answer_changes_the_digest) {
    for (enum change c = 0; c < CHANGES; c++) {
        struct hand *h = make();
        uint8_t before[SHA256_BYTES], after[SHA256_BYTES];
        digest(h, before);
        change(h, c);
        digest(h, after);
        cr_expect_eq(memcmp(before, after, SHA256_BYTES) == 0, c < NEUTRAL_N, "change %d", (int)c);
        hand_free(h);
    }
}

Test(ladder, the_capture_is_part_of_it_and_fields_do_not_run_together) {
    struct hand *h = make();
    uint8_t x[SHA256_BYTES], y[SHA256_BYTES];
    routing_ladder_digest(&h->alias, SPAN("x"), &h->needs.arm, x);
    routing_ladder_digest(&h->alias, SPAN("y"), &h->needs.arm, y);
    cr_expect_neq(memcmp(x, y, SHA256_BYTES), 0);
    h->alias.pattern = false;
    h->targets[0][0].model = "m-y";
    routing_ladder_digest(&h->alias, SPAN_NONE, &h->needs.arm, x);
    cr_expect_eq(memcmp(x, y, SHA256_BYTES), 0, "the same model, however it was named");
    h->targets[0][1].model = "n1";
    h->backends[1].url = "u";
    digest(h, x);
    h->targets[0][1].model = "1";
    h->backends[1].url = "un";
    digest(h, y);
    cr_expect_neq(memcmp(x, y, SHA256_BYTES), 0);
    hand_free(h);
}

Test(ladder, the_directory_stands_for_the_url_of_the_engine) {
    struct hand *h = make();
    uint8_t x[SHA256_BYTES], y[SHA256_BYTES];
    h->backends[0].protocol = PROTOCOL_DECODE;
    h->backends[0].url = NULL;
    h->backends[0].decode.model = "/models/one";
    digest(h, x);
    h->backends[0].decode.model = "/models/two";
    digest(h, y);
    cr_expect_neq(memcmp(x, y, SHA256_BYTES), 0);
    hand_free(h);
}
