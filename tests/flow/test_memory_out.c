/* Memory that says no, at every place where code may be told so: the i-th growth of an arena or a str fails, for each i of
 * a whole call. The call is served or refused; nothing crashes, and flow_close finds nothing lent and nothing unsaid.
 * What ends the process by design (the x-functions) is not asked. */
#include "tests/support/own_memory.h"
#include "tests/support/story.h"

#include <pthread.h>

#ifdef TOLLGATE_TEST
static struct {
    pthread_t loop; /* helpers have their own memory */
    int asked, fails_at;
    bool once;
} memory;

static bool refuses(size_t size) {
    (void)size;
    if (!pthread_equal(pthread_self(), memory.loop))
        return false;
    memory.asked++;
    return memory.once ? memory.asked == memory.fails_at : memory.fails_at && memory.asked >= memory.fails_at;
}

static void answer(struct up *u) {
    if (strstr(u->body.at, "\"stream\":true")) {
        up_stream(u);
        up_event(u, span_of(flow_stream));
        up_end(u);
    } else {
        up_answer(u, 200, "request-id: up_1\r\n", flow_plain);
    }
}

/* Runs one call whose i-th growth fails; returns how many growths it had. */
static int one_call(struct flow *f, const char *body, int fails_at, bool once) {
    struct caller *c = flow_call(f, body);
    memory.loop = pthread_self();
    memory.asked = 0;
    memory.fails_at = fails_at;
    memory.once = once;
    mem_refuses = refuses;
    int64_t end_us = flow_true_us() + 10 * US_PER_S;
    while (!c->whole && !c->closed && flow_turn(f, end_us))
        ;
    int asked = memory.asked;
    mem_refuses = NULL;
    cr_assert(c->whole || c->closed, "growth %d: no answer", fails_at);
    cr_expect(c->status >= 400 || (c->status == 200 && strstr(c->body.at, "Hi")), "growth %d: status %d, %s", fails_at,
              c->status, c->body.at);
    list_remove(&f->callers, &c->link);
    caller_free(c);
    UNTIL(f, flow_idle(f));
    return asked;
}

static void every_growth_fails(const char *body, bool late, bool once) {
    struct flow f;
    flow_open(&f, FLOW_CONF "health: {samples: 100000}\n", late);
    f.up.script = answer;
    f.gaps = true;
    one_call(&f, body, 0, once);
    int n = one_call(&f, body, 0, once);
    cr_assert_gt(n, 10);
    for (int i = 1; i <= n; i++)
        one_call(&f, body, i, once);
    one_call(&f, body, 0, once);
    flow_close(&f);
}

Test(memory_out, once_at_each_growth_of_a_plain_call) {
    every_growth_fails(FLOW_CALL, false, true);
}

Test(memory_out, once_at_each_growth_of_a_stream) {
    every_growth_fails(FLOW_STREAM, false, true);
}

Test(memory_out, from_each_growth_of_a_plain_call_on) {
    every_growth_fails(FLOW_CALL, true, false);
}

Test(memory_out, from_each_growth_of_a_stream_on) {
    every_growth_fails(FLOW_STREAM, true, false);
}
#endif
