/* The rig of flow tests. Always true here: all sockets, clients and providers included, turn on the gateway's own loop,
 * so that a story happens in the order in which it is written. */
#include "tests/support/flow.h"

#include "tests/support/late.h"

#include <assert.h>
#include <event2/event.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CONF_BYTES_MAX (64 * 1024)
#define RECORDS_MAX (64 << 20)
#define NUDGE_US 2000 /* the longest that one turn waits */

#define CHUNK(delta, finish)                                                                                           \
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"model-x\",\"choices\":[{"     \
    "\"index\":0,\"delta\":" delta ",\"finish_reason\":" finish "}]}\n\n"
#define FIRST CHUNK("{\"role\":\"assistant\",\"content\":\"Hi\"}", "null")
#define REST                                                                                                           \
    CHUNK("{\"content\":\" th\\u00e9re\"}", "null")                                                                    \
    CHUNK("{}", "\"stop\"")                                                                                            \
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"model-x\",\"choices\":[],"    \
    "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12}}\n\n"                                 \
    "data: [DONE]\n\n"
const char flow_first[] = FIRST;
const char flow_rest[] = REST;
const char flow_stream[] = FIRST REST;
const char flow_plain[] = "{\"id\":\"c1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"model-x\","
                          "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hi there\"},"
                          "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,"
                          "\"total_tokens\":12}}";

int64_t flow_true_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

/* ---- building ---- */

static void fill_in(const struct flow *f, const char *text, struct str *out) {
    char port[2][16], digest[2][SHA256_HEX_MAX];
    uint8_t bytes[SHA256_BYTES];
    snprintf(port[0], sizeof port[0], "%d", f->up.port);
    snprintf(port[1], sizeof port[1], "%d", f->low.port);
    sha256(SPAN(FLOW_KEY), bytes);
    hex_put(bytes, sizeof bytes, digest[0]);
    sha256(SPAN(FLOW_OTHER_KEY), bytes);
    hex_put(bytes, sizeof bytes, digest[1]);
    const struct {
        const char *name, *value;
    } words[] = {
        {"@DIR@", f->folder}, {"@UP@", port[0]}, {"@LOW@", port[1]}, {"@KEY@", digest[0]}, {"@OTHER@", digest[1]}};
    while (*text) {
        const char *value = NULL;
        for (size_t i = 0; i < ARRAY_LEN(words) && !value; i++)
            if (strncmp(text, words[i].name, strlen(words[i].name)) == 0) {
                value = words[i].value;
                text += strlen(words[i].name);
            }
        if (value)
            str_puts(out, value);
        else
            str_putc(out, *text++);
    }
}

void flow_conf(struct flow *f, const char *conf) {
    struct str text;
    str_init(&text, CONF_BYTES_MAX);
    fill_in(f, conf, &text);
    FILE *file = fopen(f->conf_path, "w");
    assert(file && !text.over);
    fputs(text.at, file);
    fclose(file);
    str_fini(&text);
}

static void map_clock(struct flow *f) {
    char path[128];
    snprintf(path, sizeof path, "%s/clock", f->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int wrong = ftruncate(fd, sizeof(int64_t));
    assert(!wrong);
    f->clock_us = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert(f->clock_us != MAP_FAILED);
    close(fd);
    setenv("TOLLGATE_CLOCK", path, 1);
}

static void on_nudge(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what, (void)arg;
}

static void make_late(struct flow *f) {
    void *store;
    f->ledger = late_ledger(f->g->budget, loop_base(f->g->loop), FLOW_DELAY_US);
    cache_free(f->g->cache);
    f->g->cache = late_cache(f->g->conf->cache.size_bytes, f->g->loop, &store);
}

void flow_open(struct flow *f, const char *conf, bool late) {
    struct str why;
    struct timeval nudge = {0, NUDGE_US};
    *f = (struct flow){.folder = "/tmp/tollgate-flow-XXXXXX", .late = late};
    const char *made = mkdtemp(f->folder);
    assert(made);
    (void)made;
    snprintf(f->conf_path, sizeof f->conf_path, "%s/tollgate.yaml", f->folder);
    map_clock(f);
    list_init(&f->callers);
    arena_init(&f->records, RECORDS_MAX);
    provider_bind(&f->up);
    provider_bind(&f->low);
    flow_conf(f, conf);
    str_init(&why, CONF_BYTES_MAX);
    f->g = gateway_open(f->conf_path, &why);
    if (!f->g)
        fprintf(stderr, "the gateway does not open: %s\n", why.at ? why.at : "");
    assert(f->g);
    str_fini(&why);
    provider_open(&f->up, loop_base(f->g->loop));
    provider_open(&f->low, loop_base(f->g->loop));
    f->nudge = event_new(loop_base(f->g->loop), -1, EV_PERSIST, on_nudge, NULL);
    event_add(f->nudge, &nudge);
    if (late)
        make_late(f);
}

/* ---- turning ---- */

bool flow_turn(struct flow *f, int64_t until_us) {
    event_base_loop(loop_base(f->g->loop), EVLOOP_ONCE);
    return flow_true_us() < until_us;
}

void flow_pump(struct flow *f, int turns) {
    while (turns-- > 0)
        event_base_loop(loop_base(f->g->loop), EVLOOP_NONBLOCK);
}

bool flow_idle(struct flow *f) {
    return f->g->by_id.n == 0 && late_ledger_waiting(f->ledger) == 0 && audit_lag(f->g->audit) == 0;
}

/* ---- clients ---- */

struct caller *flow_caller(struct flow *f) {
    const char *colon = strrchr(front_address(f->g->front, 0), ':');
    struct caller *c = caller_new(loop_base(f->g->loop), atoi(colon + 1));
    list_append(&f->callers, &c->link);
    return c;
}

struct caller *flow_call_with(struct flow *f, const char *fields, const char *body) {
    struct caller *c = flow_caller(f);
    caller_ask(c, "/v1/chat/completions", fields, body);
    return c;
}

struct caller *flow_call(struct flow *f, const char *body) {
    return flow_call_with(f, "authorization: Bearer " FLOW_KEY "\r\n", body);
}

/* ---- the log ---- */

struct log_search {
    struct arena *arena;
    const char *kind;
    size_t n, at; /* how many so far; the one that is wanted */
    struct json found;
};

static bool see_line(const struct audit_line *l, void *user) {
    struct log_search *s = user;
    struct json record;
    struct json_fault fault;
    bool good = json_check(l->text, JSON_DEPTH_MAX, &record, &fault);
    assert(good);
    if (!json_is(json_get(record, "kind"), s->kind))
        return true;
    if (s->n++ == s->at) {
        const char *copy = arena_strdup(s->arena, l->text);
        assert(copy);
        good = json_check(span_from(copy, l->text.n), JSON_DEPTH_MAX, &s->found, &fault);
        assert(good);
    }
    return true;
}

static void read_log(struct flow *f, struct log_search *s) {
    char path[128];
    struct str why;
    str_init(&why, 4096);
    snprintf(path, sizeof path, "%s/audit", f->folder);
    s->arena = &f->records;
    bool good = audit_read(path, see_line, s, &why);
    assert(good);
    str_fini(&why);
}

struct json flow_record(struct flow *f, const char *kind, size_t i) {
    struct log_search s = {.kind = kind, .at = i};
    read_log(f, &s);
    return s.found;
}

size_t flow_count(struct flow *f, const char *kind) {
    struct log_search s = {.kind = kind, .at = SIZE_MAX};
    read_log(f, &s);
    return s.n;
}

int64_t flow_i64(struct json record, const char *name) {
    int64_t v = -1;
    return json_i64(json_get(record, name), &v) ? v : -1;
}

/* ---- money ---- */

struct money_sum {
    int64_t held, settled;
    int in_flight;
};

static void see_budget(const struct budget_view *v, void *user) {
    struct money_sum *s = user;
    s->held += v->held_nanousd;
    s->in_flight += v->in_flight;
    if (v->level == LEVEL_TEAM)
        s->settled += v->settled_nanousd;
}

void flow_held(struct flow *f, int64_t *held_nanousd, int64_t *settled_nanousd) {
    struct money_sum s = {0};
    budget_each(f->g->budget, f->g->conf, clock_wall_us(), see_budget, &s);
    *held_nanousd = s.held;
    *settled_nanousd = s.settled;
}

/* ---- ending ---- */

static void run_to_rest(struct flow *f) {
    int64_t end_us = flow_true_us() + 15 * US_PER_S;
    while (!flow_idle(f) && flow_turn(f, end_us))
        ;
    for (enum state s = 0; s < STATE_N; s++)
        for (struct link *k = list_first(&f->g->by_state[s]); k; k = list_next(&f->g->by_state[s], k))
            fprintf(stderr, "left in %s: %s\n", state_names[s], container_of(k, struct request, in_state)->doing);
    assert(flow_idle(f));
}

static void check_nothing_is_lent(struct flow *f) {
    struct money_sum s = {0};
    struct cache_stats stats;
    struct gateway *g = f->g;
    budget_each(g->budget, g->conf, clock_wall_us(), see_budget, &s);
    cache_stats(g->cache, &stats);
    for (enum state at = 0; at < STATE_N; at++)
        assert(list_empty(&g->by_state[at]));
    assert(s.held == 0 && s.in_flight == 0);
    assert(g->buffered_bytes == 0);
    assert(list_empty(&g->shadows.all) && g->shadows.running == 0 && g->shadows.bytes == 0);
    assert(g->idempotent.n == 0 && list_empty(&g->ready));
    assert(stats.leads == 0);
}

struct ending {
    struct arena arena;
    struct map settled; /* request -> itself */
    struct map admitted;
    int64_t cost_nanousd; /* of all settle records */
};

static bool see_ending(const struct audit_line *l, void *user) {
    struct ending *e = user;
    struct json record;
    struct json_fault fault;
    bool good = json_check(l->text, JSON_DEPTH_MAX, &record, &fault);
    assert(good);
    struct json kind = json_get(record, "kind");
    struct span id = json_text(json_get(record, "request"), &e->arena);
    bool settle = json_is(kind, "settle"), refuse = json_is(kind, "refuse");
    if (json_is(kind, "admit")) {
        good = map_put(&e->admitted, id, e) == NULL;
        assert(good);
    }
    if (!settle && !refuse)
        return true;
    good = id.n == 0 || map_put(&e->settled, id, e) == NULL; /* exactly one a request */
    assert(good);
    assert(settle || !map_find(&e->admitted, id)); /* what was admitted is settled, not refused */
    if (settle)
        e->cost_nanousd += flow_i64(record, "cost_nanousd");
    return true;
}

/* What the log says: one settle or refuse a request, none without its admit, and in all what the ledger knows. */
static void check_log(struct flow *f, int64_t ledger_nanousd) {
    char path[128];
    struct str why;
    struct ending e = {.arena = {.max = RECORDS_MAX}};
    struct audit_verdict verdict;
    str_init(&why, 4096);
    snprintf(path, sizeof path, "%s/audit", f->folder);
    bool good = audit_read(path, see_ending, &e, &why) && audit_verify(path, NULL, &verdict, &why);
    assert(good);
    if (!verdict.clean)
        fprintf(stderr, "%s:%ld: %s\n", verdict.fault.file, (long)verdict.fault.line, verdict.fault.what);
    assert(verdict.clean && (f->gaps || verdict.open_admits == 0));
    for (struct map_entry *m = map_next(&e.admitted, NULL); m; m = map_next(&e.admitted, m))
        assert(f->gaps || map_find(&e.settled, span_of(m->key)));
    bool may_differ = f->cut || f->gaps;
    if (!may_differ && e.cost_nanousd != ledger_nanousd)
        fprintf(stderr, "the log says %ld, the ledger %ld\n", (long)e.cost_nanousd, (long)ledger_nanousd);
    assert(may_differ || e.cost_nanousd == ledger_nanousd);
    map_fini(&e.settled);
    map_fini(&e.admitted);
    arena_fini(&e.arena);
    str_fini(&why);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk) {
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static int64_t ledger_total(struct flow *f) {
    struct spend_view of_key, of_team;
    int64_t sum_nanousd = 0;
    static const char *const teams[] = {"search", "other", CONF_GATEWAY_TEAM};
    for (size_t i = 0; i < ARRAY_LEN(teams); i++) {
        budget_spend(f->g->budget, SPAN("callers1"), span_of(teams[i]), clock_wall_us(), &of_key, &of_team);
        sum_nanousd += of_team.total_nanousd;
    }
    return sum_nanousd;
}

void flow_close(struct flow *f) {
    for (struct link *k; (k = list_shift(&f->callers));)
        caller_free(container_of(k, struct caller, link));
    if (!f->cut) {
        run_to_rest(f);
        check_nothing_is_lent(f);
    }
    int64_t spent_nanousd = ledger_total(f);
    provider_close(&f->up);
    provider_close(&f->low);
    event_free(f->nudge);
    gateway_close(f->g);
    check_log(f, spent_nanousd);
    assert(http_buffered_bytes() == 0);
    arena_fini(&f->records);
    munmap((void *)(uintptr_t)f->clock_us, sizeof(int64_t));
    nftw(f->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
