/* For ThreadSanitizer: eight runs at a time, some ended while they run, some while they wait, views from the side, and an
 * engine that is closed under those that are left. Twice with different thread counts. */
#include "backends/decode/decode.h"
#include "tests/support/random_model.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#define RUNS 8
#define ROUNDS 6

struct reader {
    struct decode_run *run;
    int64_t bytes;
    int calls, end_after;
    int *live;
};

static void end(struct reader *r) {
    decode_end(r->run);
    r->run = NULL;
    --*r->live;
}

static void on_ready(void *user) {
    struct reader *r = user;
    struct decode_piece p;
    while (r->run && decode_take(r->run, &p)) {
        r->bytes += (int64_t)p.text.n;
        if (p.last)
            end(r);
    }
    if (r->run && ++r->calls == r->end_after)
        end(r);
}

static void start(struct decode *d, struct reader *r, int i, int *live) {
    struct decode_ask ask = {.prompt = SPAN("the thing and on"),
                             .max_output_tok = 20 + i * 9,
                             .temperature = 1,
                             .top_p = i % 2 ? 1 : 0.9,
                             .seeded = true,
                             .seed = (uint64_t)i};
    *r = (struct reader){.end_after = i % 3 == 0 ? i + 1 : 0, .live = live};
    if (decode_start(d, &ask, on_ready, r, &r->run) != ERR_NONE)
        abort();
    ++*live;
}

static void round_of(const struct random_model *m, int threads, bool close_under_them) {
    struct decode_options o = {.directory = m->directory,
                               .device = "auto",
                               .dtype = "auto",
                               .max_sequences = 5,
                               .batch_tokens = 64,
                               .threads = threads};
    struct loop *loop = loop_new();
    struct str why;
    struct reader readers[RUNS];
    struct decode_view view;
    int live = 0;
    str_init(&why, 4096);
    struct decode *d = decode_open(&o, loop, &why);
    if (!d)
        abort();
    for (int i = 0; i < RUNS; i++)
        start(d, &readers[i], i, &live);
    end(&readers[RUNS - 1]);
    for (int turns = 0; live && !(close_under_them && turns == 20); turns++) {
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
        decode_view(d, &view);
    }
    decode_close(d);
    while (live)
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
    loop_free(loop);
    str_fini(&why);
}

int main(void) {
    struct random_model m;
    random_model_write(&m, &shape_small);
    for (int i = 0; i < ROUNDS; i++)
        round_of(&m, 1 + i % 3, i % 2 == 1);
    random_model_remove(&m);
    puts("race_decode: done");
    return 0;
}
