/* Names to addresses: literals at once, names by a thread, one question however many ask. */
#include "gateway/net/resolve.h"
#include "tests/support/loopback.h"

#include <criterion/criterion.h>

static struct rig rig;
static int answers;

static void on_done(struct lookup *l) {
    (void)l;
    answers++;
}

static bool all_answered(void *arg) {
    return answers == *(int *)arg;
}

Test(resolve, literal_addresses_need_no_thread) {
    struct loop *loop = loop_new();
    struct resolver *r = resolver_new(loop);
    struct lookup l = {.done = on_done};
    cr_expect(resolver_find(r, "127.0.0.1", &l) && l.found.n == 1);
    cr_expect_eq(l.found.at[0].v4.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    cr_expect(resolver_find(r, "::1", &l) && l.found.n == 1 && l.found.at[0].any.sa_family == AF_INET6);
    resolver_free(r);
    loop_free(loop);
}

Test(resolve, waiters_share_an_answer_that_is_then_kept) {
    rig_init(&rig);
    struct resolver *r = resolver_new(rig.loop);
    struct lookup a = {.done = on_done}, b = {.done = on_done}, c = {.done = on_done};
    int two = 2;
    cr_expect(!resolver_find(r, "localhost", &a));
    cr_expect(!resolver_find(r, "localhost", &b));
    cr_expect(!resolver_find(r, "localhost", &c));
    resolver_cancel(&c);
    cr_assert(rig_until(&rig, all_answered, &two, 5000));
    cr_expect(a.found.n > 0 && a.found.n == b.found.n);
    cr_expect(resolver_find(r, "localhost", &c) && c.found.n == a.found.n, "from the cache");
    resolver_free(r);
    rig_fini(&rig);
}

Test(resolve, freeing_while_a_thread_is_out_loses_nothing) {
    struct loop *loop = loop_new();
    struct resolver *r = resolver_new(loop);
    struct lookup l = {.done = on_done};
    cr_expect(!resolver_find(r, "localhost", &l));
    resolver_cancel(&l);
    resolver_free(r);
    loop_free(loop);
    cr_expect_eq(answers, 0);
}
