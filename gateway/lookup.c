/* Requests out of the log. Always true: the thread touches its own job and the log's files alone; the request stays until the
 * job has come back, since it is asking; a record is told only to the account that its key belongs to. */
#include "gateway/lookup.h"

#include "gateway/gateway.h"
#include "gateway/recent.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define WHY_MAX 4096

struct lookup {
    struct loop_job posted;
    struct link link; /* in gateway->lookups */
    pthread_t thread;
    struct request *r; /* not owned; asking */
    char id[REQUEST_ID_MAX];
    char *directory; /* owned: the conf may be another one before it ends */
    int64_t since_us, until_us;
    atomic_bool stop;
    bool late;
    struct str record; /* the one found */
};

bool lookup_is_id(struct span id) {
    static const char digits[] = "0123456789abcdef";
    if (id.n != 4 + 2 * REQUEST_ID_BYTES || !span_starts(id, "req_"))
        return false;
    for (size_t i = 4; i < id.n; i++)
        if (!strchr(digits, id.at[i]) || !id.at[i])
            return false;
    return true;
}

/* ---- on the thread ---- */

static bool see(const struct audit_line *l, void *user) {
    struct lookup *j = user;
    struct audit_frame f;
    if (clock_mono_us() > j->until_us)
        j->late = true;
    if (j->late || atomic_load(&j->stop))
        return false;
    if (!memmem(l->text.at, l->text.n, j->id, strlen(j->id)) || !audit_frame(l->text, &f))
        return true;
    if ((f.kind != AUDIT_SETTLE && f.kind != AUDIT_REFUSE) || !span_is(f.request, j->id))
        return true;
    str_put(&j->record, l->text);
    return false;
}

static void *run(void *arg) {
    struct lookup *j = arg;
    struct str why;
    str_init(&why, WHY_MAX);
    if (!audit_read_since(j->directory, j->since_us, see, j, &why))
        str_clear(&j->record);
    str_fini(&why);
    loop_post(j->r->gateway->loop, &j->posted);
    return NULL;
}

/* ---- what is told ---- */

static int64_t number_of(struct json v, const char *name) {
    int64_t n;
    return json_i64(json_get(v, name), &n) ? n : 0;
}

static void put_text(struct str *out, struct json record, const char *name) {
    struct json v = json_get(record, name);
    json_put_raw(out, name, v.kind == JSON_STRING ? v.raw : SPAN("null"));
}

static void put_ms(struct str *out, struct json v, const char *name, const char *as) {
    if (json_get(v, name).kind == JSON_NUMBER)
        json_put_i64(out, as, number_of(v, name) / US_PER_MS);
}

static void put_usage(struct str *out, struct json of) {
    struct usage u = {0};
#define X(name) u.name = number_of(of, #name);
    USAGE_LINES(X)
#undef X
    u.reasoning = number_of(of, "reasoning");
    json_put_name(out, "usage");
    str_puts(out, "{");
    json_put_i64(out, "input_tokens", usage_in_tok(&u));
    json_put_i64(out, "output_tokens", usage_out_tok(&u));
    json_put_i64(out, "cached_input_tokens", u.cache_read);
    json_put_i64(out, "reasoning_tokens", u.reasoning);
    str_puts(out, "}");
}

static void put_tries(struct str *out, struct json tries, bool targets) {
    struct json_walk walk;
    struct span name;
    struct json v;
    bool first = true;
    json_put_name(out, "attempts");
    str_puts(out, "[");
    json_walk_init(&walk, tries);
    for (; json_walk_next(&walk, &name, &v); first = false) {
        str_puts(out, first ? "{" : ",{");
        if (targets)
            put_text(out, v, "target");
        put_text(out, v, "outcome");
        json_put_i64(out, "status", number_of(v, "status"));
        put_ms(out, v, "began_us", "began_ms");
        put_ms(out, v, "ended_us", "ended_ms");
        str_puts(out, "}");
    }
    str_puts(out, "]");
}

static void put_times(struct str *out, struct json v) {
    struct arena a;
    char when[CLOCK_TEXT_MAX];
    int64_t ended_us;
    arena_init(&a, CLOCK_TEXT_MAX * 2);
    if (clock_parse(json_text(json_get(v, "time"), &a), &ended_us))
        json_put_str(out, "received", clock_text(ended_us - number_of(v, "duration_us"), when));
    arena_fini(&a);
    put_ms(out, v, "duration_us", "duration_ms");
    put_ms(out, v, "first_content_us", "first_content_ms");
}

static void put_facts(struct str *out, struct json v) {
    static const char *const names[] = {"stream", "aborted"};
    json_put_bool(out, "estimated", json_get(v, "estimated").kind == JSON_TRUE);
    put_text(out, v, "cache");
    put_text(out, v, "degraded");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        json_put_bool(out, names[i], json_get(v, names[i]).kind == JSON_TRUE);
    put_text(out, v, "upstream_id");
}

bool lookup_tell(struct span record, struct lookup_discloses may, struct str *out) {
    struct json v;
    if (!json_check(record, JSON_DEPTH_MAX, &v, NULL) || v.kind != JSON_OBJECT)
        return false;
    str_puts(out, "{");
    json_put_raw(out, "id", json_get(v, "request").raw);
    json_put_str(out, "state", json_is(json_get(v, "kind"), "refuse") ? "refused" : "settled");
    put_text(out, v, "endpoint");
    put_text(out, v, "model");
    json_put_i64(out, "status", number_of(v, "status"));
    put_text(out, v, "code");
    if (may.targets)
        put_text(out, v, "target");
    if (may.tries)
        put_tries(out, json_get(v, "attempts"), may.targets);
    put_usage(out, json_get(v, "usage"));
    if (may.cost)
        money_put(out, "cost", number_of(v, "cost_nanousd"));
    put_facts(out, v);
    put_times(out, v);
    str_puts(out, "}");
    return !out->over;
}

/* ---- on the loop ---- */

/* By the account of the key that made it, which may have been rotated since. */
static bool is_own(const struct request *r, struct span record) {
    static const struct span names[] = {SPAN("key_id")};
    struct json id;
    audit_pick(record, names, &id, 1);
    if (id.kind != JSON_STRING || id.raw.n < 2)
        return false;
    struct span text = span_from(id.raw.at + 1, id.raw.n - 2);
    const struct conf_key *key = map_find(&r->conf->keys_by_id, text);
    return span_is(key ? span_of(conf_key_account(key)) : text, conf_key_account(r->key));
}

static void conclude(struct request *r, const struct lookup *j) {
    const struct conf *c = r->conf;
    struct lookup_discloses may = {c->disclose.target, c->disclose.attempts, c->disclose.cost};
    bool found = j->record.n && is_own(r, str_span(&j->record)) && lookup_tell(str_span(&j->record), may, &r->out);
    if (found) {
        r->status = 200;
        return;
    }
    str_clear(&r->out);
    r->err = j->late || atomic_load(&j->stop) ? ERR_BUSY : ERR_NOT_FOUND;
    snprintf(r->message, sizeof(r->message), "%s",
             j->late ? "The log is too long to be read now."
                     : "No request of this key in the last 24 hours has this id.");
}

static void on_end(struct loop_job *posted) {
    struct lookup *j = container_of(posted, struct lookup, posted);
    struct request *r = j->r;
    pthread_join(j->thread, NULL);
    list_remove(&r->gateway->lookups, &j->link);
    conclude(r, j);
    str_fini(&j->record);
    free(j->directory);
    free(j);
    r->asking = false;
    request_wake(r);
}

void lookup_start(struct request *r) {
    struct gateway *g = r->gateway;
    struct lookup *j = xcalloc(1, sizeof(*j));
    j->r = r;
    j->posted.run = on_end;
    j->directory = xstrdup(r->conf->audit.directory);
    j->since_us = r->began_wall_us - RECENT_US;
    j->until_us = clock_mono_us() + LOOKUP_PATIENCE_US;
    snprintf(j->id, sizeof(j->id), "%.*s", SPAN_ARG(r->rest));
    str_init(&j->record, LOOKUP_RECORD_MAX);
    if (g->lookups.n < LOOKUPS_MAX && !g->draining && pthread_create(&j->thread, NULL, run, j) == 0) {
        list_append(&g->lookups, &j->link);
        r->doing = "looking into the log";
        (void)request_asks(r);
        return;
    }
    r->err = ERR_BUSY;
    r->retry_after_us = US_PER_S;
    str_fini(&j->record);
    free(j->directory);
    free(j);
}

void lookups_stop(struct gateway *g) {
    for (struct link *k = list_first(&g->lookups); k; k = list_next(&g->lookups, k))
        atomic_store(&container_of(k, struct lookup, link)->stop, true);
}
