/* Everything a test makes lies in one directory under TMPDIR, which kit_fini removes. */
#include "tests/support/chain_kit.h"
#include "gateway/base/log.h"
#include <assert.h>
#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void on_settled(const struct audit_settled *s, void *user) {
    struct kit *k = user;
    k->told++;
    k->told_recovered += s->recovered;
    k->told_nanousd += s->nanousd;
}

void kit_init(struct kit *k) {
    const char *base = getenv("TMPDIR");
    *k = (struct kit){.tuning = audit_tuning_default};
    log_setup(LOG_ERROR, LOG_TEXT);
    snprintf(k->directory, sizeof k->directory, "%s/tollgate-audit-XXXXXX", base ? base : "/tmp");
    char *made = mkdtemp(k->directory);
    assert(made);
    k->loop = loop_new();
    str_init(&k->why, 4096);
    k->options =
        (struct audit_options){.directory = k->directory,
                               .chain = "node.0",
                               .interval_us = 1000,
                               .head_every = 1000,
                               .head_interval_us = INT64_C(
                                   100000000000000), /* no head by time: KIT_NOW is not the clock that the writer has */
                               .version = "test",
                               .settled = on_settled,
                               .user = k};
}

void kit_fini(struct kit *k) {
    char path[512];
    DIR *d = opendir(k->directory);
    assert(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlink(kit_path(k, e->d_name, path));
    closedir(d);
    rmdir(k->directory);
    loop_free(k->loop);
    str_fini(&k->why);
}

struct audit *kit_open(struct kit *k, int64_t now_us) {
    k->told = k->told_recovered = 0;
    k->told_nanousd = 0;
    str_clear(&k->why);
    return audit_open_tuned(&k->options, &k->tuning, k->loop, now_us, &k->why);
}

void kit_turn(struct kit *k) {
    event_base_loop(loop_base(k->loop), EVLOOP_NONBLOCK);
}

static uint64_t add(struct audit *a, struct audit_record *r, int number, int64_t now_us) {
    static const struct conf_label labels[] = {{"cost_center", "4711"}, {"feature", "se\"arch"}};
    static const char *const plan[] = {"openai/gpt", "local/base"};
    char request[32], key[16];
    snprintf(request, sizeof request, "req_%08d", number);
    snprintf(key, sizeof key, "key%05d", number % 3);
    r->request = request;
    r->key_id = key;
    r->team = number % 2 ? "search" : "legal";
    r->alias = number % 5 ? "fast" : "smart";
    r->endpoint = "/v1/chat/completions";
    r->labels = labels;
    r->n_labels = ARRAY_LEN(labels);
    r->plan = plan;
    r->n_plan = ARRAY_LEN(plan);
    return audit_add(a, r, now_us);
}

uint64_t kit_admit(struct audit *a, int number, int64_t hold_nanousd, int64_t now_us) {
    struct audit_record r = {.kind = AUDIT_ADMIT, .hold_nanousd = hold_nanousd};
    return add(a, &r, number, now_us);
}

uint64_t kit_hold(struct audit *a, int number, int64_t hold_nanousd, int64_t now_us) {
    struct audit_record r = {.kind = AUDIT_HOLD, .hold_nanousd = hold_nanousd};
    return add(a, &r, number, now_us);
}

uint64_t kit_settle(struct audit *a, int number, int64_t cost_nanousd, int64_t admitted_us, int64_t now_us) {
    struct audit_attempt tries[] = {{.target = "openai/gpt", .upstream_key = "prod", .outcome = "ok", .status = 200}};
    struct audit_record r = {.kind = AUDIT_SETTLE,
                             .status = 200,
                             .target = "openai/gpt",
                             .price_digest = "0123456789abcdef",
                             .cost_nanousd = cost_nanousd,
                             .admitted_us = admitted_us,
                             .attempts = tries,
                             .n_attempts = 1};
    r.usage.in = 10;
    r.usage.out = 5;
    return add(a, &r, number, now_us);
}

char *kit_path(struct kit *k, const char *name, char out[512]) {
    snprintf(out, 512, "%s/%s", k->directory, name);
    return out;
}

size_t kit_segments(struct kit *k) {
    struct segments all;
    bool read = segments_list(k->directory, NULL, &all, &k->why);
    assert(read);
    size_t n = all.n;
    segments_free(&all);
    return n;
}

char *kit_segment(struct kit *k, size_t nth, char out[256]) {
    struct segments all;
    bool read = segments_list(k->directory, NULL, &all, &k->why);
    assert(read && nth < all.n);
    memcpy(out, all.all[nth].name, 256);
    segments_free(&all);
    return out;
}

char *kit_read(struct kit *k, const char *name, size_t *n) {
    char path[512];
    struct stat st;
    int fd = open(kit_path(k, name, path), O_RDONLY);
    assert(fd >= 0 && fstat(fd, &st) == 0);
    *n = (size_t)st.st_size;
    char *bytes = malloc(*n + 1);
    assert(bytes && read(fd, bytes, *n) == (ssize_t)*n);
    bytes[*n] = 0;
    close(fd);
    return bytes;
}

void kit_write(struct kit *k, const char *name, const char *bytes, size_t n) {
    char path[512];
    int fd = open(kit_path(k, name, path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

struct audit_verdict kit_verify(struct kit *k) {
    struct audit_verdict v;
    bool read = audit_verify(k->directory, NULL, &v, &k->why);
    assert(read);
    return v;
}
