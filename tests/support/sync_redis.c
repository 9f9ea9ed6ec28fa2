/* See sync_redis.h. Always true here: a call's `done` is called by pump alone, and never for what was forgotten. */
#include "tests/support/sync_redis.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/mem.h"

struct pending {
    struct link link;
    struct redis_call *call; /* NULL: forgotten */
    enum redis_fault fault;
    redisReply *reply; /* owned; NULL when there is a fault */
    int argc;          /* of a command that was overtaken */
    char **argv;
    size_t *lens;
};

static void pending_free(struct pending *p) {
    for (int i = 0; i < p->argc; i++)
        free(p->argv[i]);
    free(p->argv);
    free(p->lens);
    if (p->reply)
        freeReplyObject(p->reply);
    free(p);
}

/* --- values --- */

static struct redis_value value_of(const redisReply *r) {
    static const enum redis_kind kinds[] = {
        [REDIS_REPLY_STRING] = REDIS_TEXT, [REDIS_REPLY_ARRAY] = REDIS_ARRAY,   [REDIS_REPLY_INTEGER] = REDIS_INTEGER,
        [REDIS_REPLY_NIL] = REDIS_NIL,     [REDIS_REPLY_STATUS] = REDIS_STATUS, [REDIS_REPLY_ERROR] = REDIS_ERROR};
    struct redis_value v = {.kind = kinds[r->type], .number = r->integer};
    if (r->str)
        v.text = span_from(r->str, r->len);
    if (v.kind != REDIS_ARRAY || r->elements == 0)
        return v;
    struct redis_value *items = xcalloc(r->elements, sizeof *items);
    for (size_t i = 0; i < r->elements; i++)
        items[i] = value_of(r->element[i]);
    v.items = items;
    v.n = r->elements;
    return v;
}

static void value_free(struct redis_value v) {
    for (size_t i = 0; i < v.n; i++)
        value_free(v.items[i]);
    free((void *)(uintptr_t)v.items);
}

/* --- the door --- */

static struct sync_redis *of(struct redis *r) {
    return (struct sync_redis *)(void *)r;
}

static struct pending *pending_new(struct redis_call *call, size_t argc, const struct span *argv) {
    struct pending *p = xcalloc(1, sizeof *p);
    p->call = call;
    p->argc = (int)argc;
    p->argv = xcalloc(argc, sizeof *p->argv);
    p->lens = xcalloc(argc, sizeof *p->lens);
    for (size_t i = 0; i < argc; i++) {
        p->argv[i] = xstrndup(argv[i].n ? argv[i].at : "", argv[i].n);
        p->lens[i] = argv[i].n;
    }
    return p;
}

static void do_it(struct sync_redis *s, struct pending *p) {
    p->reply = redisCommandArgv(s->c, p->argc, (const char **)(uintptr_t)p->argv, p->lens);
    assert(p->reply);
}

static bool sync_send(struct redis *r, struct redis_call *call, size_t argc, const struct span *argv) {
    struct sync_redis *s = of(r);
    assert(!call->open);
    if (s->mode == SYNC_DOWN) {
        call->fault = REDIS_DOWN;
        return false;
    }
    s->sent++;
    call->open = true;
    struct pending *p = pending_new(call, argc, argv);
    p->fault = s->mode == SYNC_GOOD ? REDIS_OK : REDIS_LATE;
    if (s->mode == SYNC_GOOD || s->mode == SYNC_UNHEARD)
        do_it(s, p);
    if (s->mode == SYNC_OVERTAKEN)
        list_append(&s->held, &pending_new(NULL, argc, argv)->link);
    list_append(&s->answers, &p->link);
    return true;
}

static const struct plant *planted;

void sync_redis_plant(const struct plant *p) {
    planted = p;
}

/* The script, with a fault where one is planted in it. */
static char *text_of(const char *text) {
    const char *at = planted ? strstr(text, planted->from) : NULL;
    if (!at)
        return xstrdup(text);
    size_t n = strlen(text) + strlen(planted->to) + 1;
    char *out = xcalloc(n, 1);
    snprintf(out, n, "%.*s%s%s", (int)(at - text), text, planted->to, at + strlen(planted->from));
    return out;
}

static bool sync_run(struct redis *r, struct redis_call *call, struct redis_script *script, size_t n_keys, size_t argc,
                     const struct span *argv) {
    char keys[8];
    struct span *all = xcalloc(argc + 3, sizeof *all);
    snprintf(keys, sizeof keys, "%zu", n_keys);
    all[0] = SPAN("EVAL");
    char *text = text_of(script->text);
    all[1] = span_of(text);
    all[2] = span_of(keys);
    memcpy(all + 3, argv, argc * sizeof *all);
    bool sent = sync_send(r, call, argc + 3, all);
    free(all);
    free(text);
    return sent;
}

static void sync_forget(struct redis *r, struct redis_call *call) {
    struct sync_redis *s = of(r);
    for (struct link *k = list_first(&s->answers); k; k = list_next(&s->answers, k)) {
        struct pending *p = container_of(k, struct pending, link);
        if (p->call == call)
            p->call = NULL;
    }
    call->open = false;
}

static void sync_watch(struct redis *r, struct redis_watcher *w) {
    list_append(&of(r)->watchers, &w->in_watchers);
}

static void sync_unwatch(struct redis *r, struct redis_watcher *w) {
    list_remove(&of(r)->watchers, &w->in_watchers);
}

static bool sync_up(const struct redis *r) {
    return ((const struct sync_redis *)(const void *)r)->mode != SYNC_DOWN;
}

static const struct redis_ops ops = {sync_send, sync_run, sync_forget, sync_watch, sync_unwatch, sync_up};

/* --- the test's side --- */

void sync_redis_open(struct sync_redis *s, const char *path, const char *prefix) {
    *s = (struct sync_redis){.redis = {&ops, prefix}, .path = path};
    list_init(&s->answers);
    list_init(&s->held);
    list_init(&s->watchers);
    s->c = redisConnectUnix(path);
    assert(s->c && !s->c->err);
}

static void drop_all(struct list *l) {
    for (struct link *k; (k = list_shift(l));)
        pending_free(container_of(k, struct pending, link));
}

void sync_redis_close(struct sync_redis *s) {
    drop_all(&s->answers);
    drop_all(&s->held);
    redisFree(s->c);
}

static void answer(struct pending *p) {
    struct redis_call *call = p->call;
    if (call) {
        struct redis_value v = {0};
        bool good = p->fault == REDIS_OK;
        if (good)
            v = value_of(p->reply);
        call->fault = p->fault;
        call->open = false;
        call->done(call, good ? &v : NULL);
        value_free(v);
    }
    pending_free(p);
}

void sync_redis_pump(struct sync_redis *s) {
    int most = 10000;
    for (struct link *k; (k = list_shift(&s->answers)) && most-- > 0;)
        answer(container_of(k, struct pending, link));
    assert(most > 0);
}

void sync_redis_catch_up(struct sync_redis *s) {
    for (struct link *k; (k = list_shift(&s->held));) {
        struct pending *p = container_of(k, struct pending, link);
        do_it(s, p);
        pending_free(p);
    }
}

static void tell_watchers(struct sync_redis *s, bool up) {
    for (struct link *k = list_first(&s->watchers), *next; k; k = next) {
        struct redis_watcher *w = container_of(k, struct redis_watcher, in_watchers);
        next = list_next(&s->watchers, k);
        if (up)
            w->on_up(w);
        else
            w->on_down(w);
    }
}

void sync_redis_break(struct sync_redis *s) {
    s->mode = SYNC_DOWN;
    for (struct link *k = list_first(&s->answers); k; k = list_next(&s->answers, k))
        container_of(k, struct pending, link)->fault = REDIS_LOST;
    tell_watchers(s, false);
    sync_redis_pump(s);
}

void sync_redis_mend(struct sync_redis *s) {
    redisFree(s->c);
    s->c = redisConnectUnix(s->path);
    assert(s->c && !s->c->err);
    s->mode = SYNC_GOOD;
    tell_watchers(s, true);
    sync_redis_pump(s);
}

static void put_reply(struct str *out, const redisReply *r) {
    if (out->n)
        str_putc(out, ' ');
    for (size_t i = 0; i < r->elements; i++)
        put_reply(out, r->element[i]);
    if (r->type == REDIS_REPLY_INTEGER)
        str_printf(out, "%lld", r->integer);
    else if (r->str)
        str_put(out, span_from(r->str, r->len));
}

const char *sync_redis_ask(struct sync_redis *s, const char *format, ...) {
    static struct str text = {.max = 1 << 20};
    va_list args;
    va_start(args, format);
    redisReply *r = redisvCommand(s->c, format, args);
    va_end(args);
    assert(r);
    str_clear(&text);
    put_reply(&text, r);
    freeReplyObject(r);
    return text.at ? text.at : "";
}
