/* Adapters over the admin port, by our paths and by vLLM's two. Always true: a load that cannot be served is told as a refusal with
 * its reason, a removal holds for the next run and leaves those under way alone, and each act that changed anything is an admin
 * record. */
#include "gateway/admin/admin_adapters.h"

#include "gateway/gateway.h"
#include "gateway/workers/engine_door.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#define WHY_MAX 4096
#define PATH_MAX_BYTES 4096
#define HISTORY_MAX ((size_t)4 << 20) /* of the file: what is later is not shown */

struct adapter_words { /* what a body says; empty: nothing */
    char backend[80], name[ADAPTER_TEXT_MAX], version[ADAPTER_TEXT_MAX], path[512], reason[256];
};

static void copy_text(struct json v, struct arena *a, char *out, size_t max) {
    struct span text = v.kind == JSON_STRING ? json_text(v, a) : SPAN_NONE;
    snprintf(out, max, "%.*s", SPAN_ARG(text));
}

static bool read_words(struct admin_call *c, struct adapter_words *w) {
    struct json body;
    struct arena arena;
    *w = (struct adapter_words){0};
    if (!c->body.n)
        return true;
    if (!json_check(str_span(&c->body), JSON_DEPTH_MAX, &body, NULL) || body.kind != JSON_OBJECT) {
        admin_say(c, ERR_INVALID, "The body is a JSON object.");
        return false;
    }
    arena_init(&arena, ADMIN_BODY_MAX);
    copy_text(json_get(body, "backend"), &arena, w->backend, sizeof(w->backend));
    copy_text(json_get(body, json_get(body, "lora_name").kind ? "lora_name" : "name"), &arena, w->name,
              sizeof(w->name));
    copy_text(json_get(body, "version"), &arena, w->version, sizeof(w->version));
    copy_text(json_get(body, "lora_path"), &arena, w->path, sizeof(w->path));
    copy_text(json_get(body, "reason"), &arena, w->reason, sizeof(w->reason));
    arena_fini(&arena);
    return true;
}

struct decode *admin_engine(struct admin_call *c, const char *backend) {
    struct decode *only = NULL;
    size_t n = 0;
    for (struct map_entry *e = map_next(&c->gateway->engines, NULL); e; e = map_next(&c->gateway->engines, e)) {
        if (!decode_has_adapters(e->value) || (*backend && strcmp(e->key, backend) != 0))
            continue;
        only = e->value;
        n++;
    }
    if (n == 1)
        return only;
    admin_say(c, n ? ERR_INVALID : ERR_NOT_FOUND,
              n ? "backend: several engines have adapters; say which."
                : "There is no engine with 'adapters: {directory: ...}' of that name.");
    return NULL;
}

/* ---- the list ---- */

struct adapter_list {
    struct str *out;
    const char *backend;
    bool any;
};

static void put_adapter(const struct decode_adapter *a, void *user) {
    struct adapter_list *l = user;
    char hex[SHA256_HEX_MAX];
    str_puts(l->out, l->any ? ",{" : "{");
    l->any = true;
    json_put_str(l->out, "backend", l->backend);
    json_put_str(l->out, "name", a->name);
    json_put_str(l->out, "version", a->version[0] ? a->version : NULL);
    json_put_bool(l->out, "present", a->present);
    json_put_bool(l->out, "listed", a->listed);
    json_put_str(l->out, "tier", a->tier);
    json_put_i64(l->out, "bytes", a->bytes);
    json_put_i64(l->out, "rank", a->rank);
    json_put_i64(l->out, "runs", a->runs);
    json_put_str(l->out, "sha256", a->version[0] ? hex_put(a->digest, sizeof(a->digest), hex) : NULL);
    json_put_str(l->out, "directory", a->directory);
    json_put_str(l->out, "why", a->why);
    str_puts(l->out, "}");
}

/* ---- what they cost, and what was done to them ---- */

struct costs {
    struct adapter_list *list;
    int64_t busy_us;
};

static void put_cost(const struct costs *of, const char *name, const struct decode_adapter *a, int64_t tokens,
                     int64_t us, int64_t whole_us) {
    struct adapter_list *l = of->list;
    str_puts(l->out, l->any ? ",{" : "{");
    l->any = true;
    json_put_str(l->out, "backend", l->backend);
    json_put_str(l->out, "name", name);
    json_put_str(l->out, "version", a ? a->version : NULL);
    if (a) {
        json_put_i64(l->out, "rank", a->rank);
        json_put_i64(l->out, "bytes", a->bytes);
    }
    json_put_i64(l->out, "tokens", tokens);
    json_put_i64(l->out, "device_us", us);
    json_put_i64(l->out, "us_per_token", tokens ? us / tokens : 0);
    json_put_name(l->out, "share");
    str_printf(l->out, "%.4f}", whole_us ? (double)us / (double)whole_us : 0.0);
}

static void put_adapter_cost(const struct decode_adapter *a, void *user) {
    const struct costs *of = user;
    if (a->listed || a->device_us)
        put_cost(of, a->name, a, a->tokens, a->device_us, of->busy_us);
}

/* Time in step since the start, shared by tokens in step; with the base and idle time it adds up to all of it. */
static void put_costs(struct adapter_list *l, const char *backend, struct decode *d) {
    struct decode_view v;
    struct costs of = {.list = l};
    decode_view(d, &v);
    l->backend = backend;
    of.busy_us = v.busy_us;
    decode_adapters_each(d, put_adapter_cost, &of);
    put_cost(&of, "(base)", NULL, v.base_tok, v.base_us, v.busy_us);
    put_cost(&of, "(idle)", NULL, 0, v.age_us - v.busy_us, v.age_us);
}

static void put_history(struct admin_call *c, const char *backend, struct span name) {
    char path[PATH_MAX_BYTES];
    size_t got, capacity = HISTORY_MAX + 1;
    snprintf(path, sizeof(path), "%s/adapters-%s.jsonl", c->conf->state_directory, backend);
    FILE *f = fopen(path, "r");
    char *text = xcalloc(capacity, 1);
    got = f ? fread(text, 1, capacity, f) : 0;
    struct span rest = span_from(text, got), line;
    struct json act;
    bool any = false;
    while (span_cut(&rest, '\n', &line)) {
        struct json of;
        if (!json_check(line, JSON_DEPTH_MAX, &act, NULL) || (of = json_get(act, "name")).kind != JSON_STRING ||
            !span_equal(span_from(of.raw.at + 1, of.raw.n - 2), name))
            continue;
        str_puts(&c->out, any ? "," : "");
        any = true;
        str_put(&c->out, line);
    }
    if (f)
        fclose(f);
    free(text);
}

void admin_get_adapters(struct admin_call *c) {
    struct adapter_list l = {.out = &c->out};
    str_puts(&c->out, "{\"adapters\":[");
    for (struct map_entry *e = map_next(&c->gateway->engines, NULL); e; e = map_next(&c->gateway->engines, e)) {
        l.backend = e->key;
        decode_adapters_each(e->value, put_adapter, &l);
    }
    str_puts(&c->out, "],\"cost\":[");
    l.any = false;
    for (struct map_entry *e = map_next(&c->gateway->engines, NULL); e; e = map_next(&c->gateway->engines, e))
        put_costs(&l, e->key, e->value);
    str_puts(&c->out, "]}\n");
}

/* GET /admin/adapters/NAME/history: the acts on it that last, the first one first. */
void admin_get_adapter(struct admin_call *c) {
    struct span rest = c->rest, name;
    const char *backend = NULL;
    if (!span_cut(&rest, '/', &name) || !span_is(rest, "history")) {
        admin_say(c, ERR_NOT_FOUND, "An adapter has a history.");
        return;
    }
    struct decode *engine = admin_engine(c, "");
    for (struct map_entry *e = map_next(&c->gateway->engines, NULL); e; e = map_next(&c->gateway->engines, e))
        backend = e->value == engine ? e->key : backend;
    if (!engine || !backend)
        return;
    str_puts(&c->out, "{\"history\":[");
    put_history(c, backend, name);
    str_puts(&c->out, "]}\n");
}

/* ---- loading ---- */

struct adapter_job {
    struct admin_call *call;
    char name[ADAPTER_TEXT_MAX];
};

static void on_looked(void *user, const char *why) {
    struct adapter_job *j = user;
    struct admin_call *c = j->call;
    c->gateway->adapter_jobs--;
    if (why)
        admin_say(c, ERR_INVALID, why);
    else {
        admin_record(c, "adapter added", NULL, j->name);
        engine_page_write(c->gateway);
        c->status = 201;
        str_puts(&c->out, "{");
        json_put_str(&c->out, "added", j->name);
        str_puts(&c->out, "}\n");
    }
    free(j);
    admin_finish(c);
}

void adapters_stop(struct gateway *g) {
    admin_push_stop(g);
    while (g->adapter_jobs)
        event_base_loop(loop_base(g->loop), EVLOOP_ONCE);
}

/* vLLM's lora_path may say where it lies, which is where its name says: nothing outside the folder is read. */
static bool path_is(const struct adapter_words *w) {
    size_t n = strlen(w->path), k = strlen(w->name);
    return !n || strcmp(w->path, w->name) == 0 ||
           (n > k && w->path[n - k - 1] == '/' && strcmp(w->path + n - k, w->name) == 0 && !strstr(w->path, ".."));
}

void admin_post_adapters(struct admin_call *c) {
    struct adapter_words w;
    if (!read_words(c, &w))
        return;
    if (!w.name[0] || strchr(w.name, '/') || strchr(w.name, '@') || !path_is(&w)) {
        admin_say(
            c, ERR_INVALID,
            "The body is {\"name\": NAME, \"version\": VERSION}: a folder NAME or NAME/VERSION inside the backend's "
            "adapters.directory; a lora_path has to end with that name.");
        return;
    }
    struct decode *engine = admin_engine(c, w.backend);
    if (!engine)
        return;
    struct adapter_job *j = xcalloc(1, sizeof(*j));
    j->call = c;
    snprintf(j->name, sizeof(j->name), "%.64s", w.name);
    c->later = true;
    c->gateway->adapter_jobs++;
    decode_adapter_add(engine, w.name, w.version[0] ? w.version : NULL, c->who, on_looked, j);
}

/* ---- the other acts ---- */

static void acted(struct admin_call *c, bool ok, const char *what, const struct adapter_words *w, const char *of,
                  const struct str *why) {
    if (!ok) {
        admin_say(c, ERR_INVALID, why->n ? why->at : NULL);
        return;
    }
    admin_record(c, what, w->reason[0] ? w->reason : NULL, of);
    engine_page_write(c->gateway);
    str_puts(&c->out, "{\"done\":true}\n");
}

static void remove_one(struct admin_call *c, const struct adapter_words *w, struct span name) {
    struct decode *engine = admin_engine(c, w->backend);
    struct str why;
    char of[ADAPTER_TEXT_MAX];
    if (!engine)
        return;
    str_init(&why, WHY_MAX);
    snprintf(of, sizeof(of), "%.*s", (int)(name.n < sizeof(of) ? name.n : sizeof(of) - 1), name.at);
    bool ok = decode_adapter_remove(engine, name, c->who, w->reason, &why);
    acted(c, ok, "adapter removed", w, of, &why);
    str_fini(&why);
}

void admin_delete_adapter(struct admin_call *c) {
    struct adapter_words w = {0};
    remove_one(c, &w, c->rest);
}

void admin_unload_adapter(struct admin_call *c) {
    struct adapter_words w;
    if (read_words(c, &w))
        remove_one(c, &w, span_of(w.name));
}

/* POST /admin/adapters/NAME/promote, /rollback and /compare */
void admin_move_adapter(struct admin_call *c) {
    struct adapter_words w;
    struct span rest = c->rest, name;
    struct str why;
    if (!read_words(c, &w) || !span_cut(&rest, '/', &name))
        return;
    bool promote = span_is(rest, "promote"), compare = span_is(rest, "compare");
    if (!promote && !compare && !span_is(rest, "rollback")) {
        admin_say(c, ERR_NOT_FOUND, "An adapter can be promoted, rolled back or compared.");
        return;
    }
    struct decode *engine = admin_engine(c, w.backend);
    if (!engine)
        return;
    if (compare) {
        admin_compare_adapter(c, engine, name);
        return;
    }
    str_init(&why, WHY_MAX);
    snprintf(w.name, sizeof(w.name), "%.*s", (int)(name.n < 64 ? name.n : 64), name.at);
    bool ok = promote ? decode_adapter_promote(engine, w.name, w.version, c->who, w.reason, &why)
                      : decode_adapter_rollback(engine, w.name, c->who, w.reason, &why);
    acted(c, ok, promote ? "adapter promoted" : "adapter rolled back", &w, w.name, &why);
    str_fini(&why);
}
