/* For ThreadSanitizer: adapters that are promoted, rolled back, removed, added and replaced on disk while runs step on them, in memory
 * that holds two of three. Each run ends well on the version that it began with, and in the end nothing is held but what is listed.
 * ADAPTER_ROUNDS of them (40): with many it is the soak, and the weights in memory stay within their limit all the time. */
#include "backends/decode/decode.h"
#include "tests/support/random_adapter.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUNS 6
#define ROUNDS 40
#define NAMES 3
#define MEMORY_BYTES 60000
#define PATH_BYTES 512

struct house {
    struct loop *loop;
    struct decode *engine;
    char folder[PATH_BYTES];
    int live, looks;
};
struct reader {
    struct house *house;
    struct decode_run *run;
};

static void on_ready(void *user) {
    struct reader *r = user;
    struct decode_piece p;
    while (r->run && decode_take(r->run, &p)) {
        if (!p.last)
            continue;
        if (p.err != ERR_NONE && p.err != ERR_NO_TARGET) /* its files were replaced before they were loaded */
            abort();
        decode_end(r->run);
        r->run = NULL;
        r->house->live--;
    }
}

static void start(struct house *h, struct reader *r, int i) {
    static const char *const names[] = {"a0", "a1", "a2", "a0@1", "a1@2", ""};
    struct decode_ask ask = {.prompt = SPAN("the thing"),
                             .max_output_tok = 4 + i % 9,
                             .temperature = 1,
                             .top_p = 1,
                             .adapter = span_of(names[i % 6]),
                             .team = span_of(i % 2 ? "x" : "y")};
    *r = (struct reader){.house = h};
    enum err e = decode_start(h->engine, &ask, on_ready, r, &r->run);
    if (e != ERR_NONE && e != ERR_MODEL)
        abort();
    h->live += e == ERR_NONE;
}

static void on_added(void *user, const char *why) {
    struct house *h = user;
    (void)why;
    h->looks--;
}

static void act(struct house *h, int i) {
    char name[8];
    struct str why;
    bool done = true;
    snprintf(name, sizeof name, "a%d", i % NAMES);
    str_init(&why, 4096);
    if (i % 5 == 0)
        done = decode_adapter_promote(h->engine, name, i % 2 ? "1" : "2", "race", "round", &why);
    else if (i % 5 == 1)
        done = decode_adapter_rollback(h->engine, name, "race", "round", &why);
    else if (i % 5 == 2)
        done = decode_adapter_remove(h->engine, span_of(name), "race", "round", &why);
    else {
        h->looks++;
        decode_adapter_add(h->engine, name, NULL, "race", on_added, h);
    }
    if (!done && !why.n)
        abort(); /* a refusal without a sentence */
    str_fini(&why);
}

/* Another content under the same version: what was listed is not what is there any more. */
static void replace(struct house *h, const struct random_model *m, struct random_adapter *a, int i) {
    char path[PATH_BYTES + 16];
    struct adapter_kind kind = adapter_plain;
    snprintf(path, sizeof path, "%s/a2/1", h->folder);
    kind.seed = 900 + (uint64_t)i;
    random_adapter_remove(a);
    random_adapter_write(a, m, &kind, path);
}

static void round_of(struct house *h, const struct random_model *m, struct random_adapter *replaced, int i) {
    struct reader readers[RUNS];
    struct decode_view v;
    for (int k = 0; k < RUNS; k++)
        start(h, &readers[k], i + k);
    act(h, i);
    if (i % 7 == 3)
        replace(h, m, replaced, i);
    while (h->live || h->looks)
        event_base_loop(loop_base(h->loop), EVLOOP_ONCE);
    decode_view(h->engine, &v);
    if (v.adapter_bytes > MEMORY_BYTES)
        abort();
}

static void write_all(struct house *h, const struct random_model *m, struct random_adapter of[NAMES * 2]) {
    char path[PATH_BYTES + 16];
    for (int i = 0; i < NAMES * 2; i++) {
        struct adapter_kind kind = adapter_plain;
        kind.seed = 100 + (uint64_t)i;
        snprintf(path, sizeof path, "%s/a%d", h->folder, i / 2);
        if (i % 2 == 0 && mkdir(path, 0700) != 0)
            abort();
        snprintf(path, sizeof path, "%s/a%d/%d", h->folder, i / 2, i % 2 + 1);
        random_adapter_write(&of[i], m, &kind, path);
    }
}

int main(void) {
    struct random_model m;
    struct random_adapter of[NAMES * 2];
    struct house h = {.folder = "/tmp/tollgate-race-XXXXXX"};
    const char *said = getenv("ADAPTER_ROUNDS");
    int rounds = said ? atoi(said) : ROUNDS;
    struct str why;
    str_init(&why, 4096);
    random_model_write(&m, &shape_small);
    if (!mkdtemp(h.folder))
        abort();
    write_all(&h, &m, of);
    struct decode_options o = {.directory = m.directory,
                               .device = "auto",
                               .dtype = "auto",
                               .max_sequences = 4,
                               .threads = 2,
                               .adapters = h.folder,
                               .adapter_memory = MEMORY_BYTES,
                               .adapter_watch_us = 20000};
    h.loop = loop_new();
    h.engine = decode_open(&o, h.loop, &why);
    if (!h.engine)
        abort();
    for (int i = 0; i < rounds; i++)
        round_of(&h, &m, &of[4], i);
    decode_close(h.engine);
    loop_free(h.loop);
    for (int i = 0; i < NAMES * 2; i++)
        random_adapter_remove(&of[i]);
    random_model_remove(&m);
    for (int i = 0; i < NAMES; i++) {
        char path[PATH_BYTES + 16];
        snprintf(path, sizeof path, "%s/a%d", h.folder, i);
        rmdir(path);
    }
    rmdir(h.folder);
    str_fini(&why);
    puts("race_adapters: done");
    return 0;
}
