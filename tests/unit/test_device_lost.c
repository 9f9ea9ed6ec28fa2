/* An engine whose device fails under it, on a device that is played: the target is down, or the CPU goes on. */
#include "backends/decode/decode.h"
#include "gateway/base/mem.h"
#include "tests/support/fake_device.h"
#include "tests/support/random_adapter.h"
#include "tests/support/temp_folder.h"

#include <event2/event.h>
#include <stdlib.h>

#define RUNS 4

struct house {
    struct random_model model;
    struct random_adapter adapter;
    struct temp_folder folder;
    struct loop *loop;
    struct decode *engine;
    int live;
};
struct reader {
    struct house *house;
    struct decode_run *run;
    struct str text;
    struct decode_piece last;
};

static void house_open(struct house *h, const char *device, bool falls_back) {
    struct str why;
    str_init(&why, 4000);
    h->folder = temp_new();
    random_model_write(&h->model, &(struct model_shape){16, 24, 1, 2, 1, 8, 285, 64, true, "F32", 4});
    random_adapter_write(&h->adapter, &h->model, &adapter_plain, temp_name(&h->folder, "a"));
    struct decode_options o = {.directory = h->model.directory,
                               .device = device,
                               .dtype = "auto",
                               .falls_back = falls_back,
                               .max_sequences = RUNS,
                               .threads = 1,
                               .adapters = h->folder.path};
    h->live = 0;
    h->loop = loop_new();
    h->engine = decode_open(&o, h->loop, &why);
    cr_assert(h->engine, "%s", why.n ? why.at : "");
    str_fini(&why);
}

static void house_close(struct house *h) {
    decode_close(h->engine);
    loop_free(h->loop);
    random_adapter_remove(&h->adapter);
    random_model_remove(&h->model);
    temp_free(&h->folder);
}

static void on_ready(void *user) {
    struct reader *r = user;
    struct decode_piece p;
    while (r->run && decode_take(r->run, &p)) {
        str_put(&r->text, p.text);
        r->last = p;
        if (!p.last)
            continue;
        decode_end(r->run);
        r->run = NULL;
        r->house->live--;
    }
}

static enum err start(struct house *h, struct reader *r, int i) {
    struct decode_ask ask = {.prompt = SPAN("the thing"),
                             .max_output_tok = 12,
                             .temperature = i == 2 ? 0.8 : 0,
                             .top_p = 1,
                             .seeded = true,
                             .seed = 5,
                             .ignore_ends = true,
                             .adapter = i % 2 ? SPAN("a") : SPAN_NONE};
    *r = (struct reader){.house = h};
    str_init(&r->text, 1 << 16);
    enum err e = decode_start(h->engine, &ask, on_ready, r, &r->run);
    h->live += e == ERR_NONE;
    return e;
}

static void run_all(struct house *h, struct reader readers[RUNS]) {
    for (int i = 0; i < RUNS; i++)
        cr_assert_eq(start(h, &readers[i], i), ERR_NONE);
    while (h->live)
        event_base_loop(loop_base(h->loop), EVLOOP_ONCE);
}

static void forget(struct reader readers[RUNS]) {
    for (int i = 0; i < RUNS; i++)
        str_fini(&readers[i].text);
}

static struct decode_view view(const struct house *h) {
    struct decode_view v;
    decode_view(h->engine, &v);
    return v;
}

Test(device_lost, the_engine_computes_on_the_device_what_it_does_on_the_cpu) {
    struct house cpu, device;
    struct reader want[RUNS], got[RUNS];
    struct fake_cuda *f = fake_device();
    house_open(&cpu, "cpu", false);
    run_all(&cpu, want);
    cr_expect_eq(f->calls, 0);
    house_open(&device, "cuda", false);
    cr_expect_str_eq(view(&device).compute, "cuda");
    run_all(&device, got);
    for (int i = 0; i < RUNS; i++)
        cr_expect(span_equal(str_span(&want[i].text), str_span(&got[i].text)), "run %d: %s / %s", i, want[i].text.at,
                  got[i].text.at);
    cr_expect(f->graph_launches > 0);
    house_close(&cpu);
    house_close(&device);
    cr_expect(f->held == 0 && f->used == 0);
    forget(want);
    forget(got);
}

Test(device_lost, the_target_is_down_and_everybody_is_told) {
    struct house h;
    struct reader r[RUNS], late;
    struct fake_cuda *f = fake_device();
    house_open(&h, "auto", false);
    f->fail_status = 999;
    f->fail_at = f->calls + 60;
    run_all(&h, r);
    for (int i = 0; i < RUNS; i++)
        cr_expect_eq(r[i].last.err, ERR_NO_TARGET);
    while (!view(&h).lost)
        ;
    cr_expect_eq(start(&h, &late, 0), ERR_NO_TARGET, "and nobody waits for it any more");
    str_fini(&late.text);
    forget(r);
    house_close(&h);
    cr_expect(f->held == 0 && f->used == 0);
}

Test(device_lost, the_cpu_goes_on_with_the_same_text) {
    struct house cpu, h;
    struct reader want[RUNS], got[RUNS];
    struct fake_cuda *f = fake_device();
    house_open(&cpu, "cpu", false);
    run_all(&cpu, want);
    house_close(&cpu);
    house_open(&h, "cuda", true);
    f->fail_status = 700;
    f->fail_at = f->calls + 60;
    run_all(&h, got);
    for (int i = 0; i < RUNS; i++) {
        cr_expect_eq(got[i].last.err, ERR_NONE);
        cr_expect(span_equal(str_span(&want[i].text), str_span(&got[i].text)), "run %d: %s / %s", i, want[i].text.at,
                  got[i].text.at);
    }
    cr_expect(strncmp(view(&h).compute, "cpu", 3) == 0 && !view(&h).lost);
    forget(want);
    forget(got);
    house_close(&h);
    cr_expect(f->held == 0 && f->used == 0);
}
