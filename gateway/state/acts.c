/* The carrier of acts. Always true: at most one question is out; the cursor moves only past lines that were taken or are
 * none; and a line is in `seen` only when the stream, as it is since the last connection, holds it. */
#include "gateway/state/acts.h"

#include "gateway/base/clock.h"
#include "gateway/base/hash.h"
#include "gateway/base/log.h"
#include "gateway/base/map.h"
#include "gateway/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CURSOR_MAX 48 /* "18446744073709551615-18446744073709551615" and a bracket */
#define KEY_MAX 160
#define FIELD "act"

struct outgoing {
    struct link in_list;
    size_t n;
    char line[];
};

struct acts {
    struct redis *redis;
    const struct acts_ops *ops;
    void *user;
    struct redis_watcher watcher;
    struct redis_call call;
    char key[KEY_MAX], cursor[CURSOR_MAX];
    struct map seen; /* digests of lines that the stream holds */
    struct map own;  /* digests of lines that stand here: what comes back is not written again */
    struct list out; /* struct outgoing: ours, and not known to be in the stream */
    bool following;  /* read to the end once since the connection */
    bool adding;     /* the question that is out is an XADD of the first of `out` */
    int64_t look_us;
    struct log_gate bad;
};

/* ---- what is known ---- */

static void mark(struct map *lines, struct span line) {
    uint8_t digest[SHA256_BYTES];
    sha256(line, digest);
    map_put(lines, span_from(digest, sizeof digest), lines);
}

static bool is_marked(const struct map *lines, struct span line) {
    uint8_t digest[SHA256_BYTES];
    sha256(line, digest);
    return map_find(lines, span_from(digest, sizeof digest)) != NULL;
}

static void forget_all(struct map *lines) {
    map_fini(lines);
    map_init(lines);
}

static void drop_out(struct acts *a) {
    for (struct link *k; (k = list_shift(&a->out));)
        free(container_of(k, struct outgoing, in_list));
}

static void note_own(struct span line, void *acts) {
    mark(&((struct acts *)acts)->own, line);
}

static void see_own(struct span line, void *acts) {
    struct acts *a = acts;
    if (!line.n || is_marked(&a->seen, line))
        return;
    struct outgoing *o = xcalloc(1, sizeof *o + line.n);
    o->n = line.n;
    memcpy(o->line, line.at, line.n);
    list_append(&a->out, &o->in_list);
}

void acts_add(struct acts *a, struct span line) {
    if (!a || !a->following) /* what is not followed yet is compared as a whole later */
        return;
    note_own(line, a);
    see_own(line, a);
    a->look_us = 0;
}

/* ---- reading ---- */

/* [id, [field, value, ...]] */
static struct span line_of(const struct redis_value *entry) {
    if (entry->kind != REDIS_ARRAY || entry->n != 2 || entry->items[1].kind != REDIS_ARRAY)
        return SPAN_NONE;
    const struct redis_value *fields = &entry->items[1];
    for (size_t i = 0; i + 1 < fields->n; i += 2)
        if (span_is(fields->items[i].text, FIELD))
            return fields->items[i + 1].text;
    return SPAN_NONE;
}

static bool take_entry(struct acts *a, const struct redis_value *entry) {
    struct span line = line_of(entry), id = entry->n ? entry->items[0].text : SPAN_NONE;
    uint64_t swallowed;
    if (!id.n || id.n >= CURSOR_MAX - 1)
        return false;
    enum err e = ERR_NONE;
    if (!line.n)
        e = ERR_INVALID;
    else if (!is_marked(&a->own, line))
        e = a->ops->take(line, a->user);
    if (e == ERR_INVALID && log_gate_open(&a->bad, clock_mono_us(), &swallowed))
        log_warn("an entry of %s is no act of ours and is passed over more=%" PRIu64, a->key, swallowed);
    if (e && e != ERR_INVALID)
        return false;
    if (line.n)
        mark(&a->seen, line);
    if (!e)
        mark(&a->own, line);
    snprintf(a->cursor, sizeof a->cursor, "(%.*s", SPAN_ARG(id));
    return true;
}

static void compare(struct acts *a) {
    a->following = true;
    drop_out(a);
    a->ops->each(see_own, a, a->user);
}

static void on_page(struct acts *a, const struct redis_value *reply) {
    if (reply->kind != REDIS_ARRAY)
        return;
    for (size_t i = 0; i < reply->n; i++)
        if (!take_entry(a, &reply->items[i]))
            return;
    if (reply->n == ACTS_PAGE)
        a->look_us = 0;
    else if (!a->following)
        compare(a);
}

static void on_added(struct acts *a, const struct redis_value *reply) {
    struct link *k = list_first(&a->out);
    if (!k || reply->kind != REDIS_TEXT)
        return;
    struct outgoing *o = container_of(k, struct outgoing, in_list);
    mark(&a->seen, span_from(o->line, o->n));
    list_remove(&a->out, k);
    free(o);
    a->look_us = 0;
}

static void on_answer(struct redis_call *call, const struct redis_value *reply) {
    struct acts *a = container_of(call, struct acts, call);
    if (!reply) /* asked again at the next tick: XRANGE changes nothing, and a line twice in the stream is one line */
        return;
    if (a->adding)
        on_added(a, reply);
    else
        on_page(a, reply);
}

static void ask_page(struct acts *a) {
    struct span argv[] = {SPAN("XRANGE"), span_of(a->key), span_of(a->cursor), SPAN("+"), SPAN("COUNT"), SPAN("100")};
    _Static_assert(ACTS_PAGE == 100, "as the command says");
    a->adding = false;
    (void)redis_send(a->redis, &a->call, ARRAY_LEN(argv), argv);
}

static void ask_add(struct acts *a) {
    struct outgoing *o = container_of(list_first(&a->out), struct outgoing, in_list);
    struct span argv[] = {SPAN("XADD"), span_of(a->key), SPAN("*"), SPAN(FIELD), span_from(o->line, o->n)};
    a->adding = true;
    (void)redis_send(a->redis, &a->call, ARRAY_LEN(argv), argv);
}

void acts_tick(struct acts *a, int64_t mono_us) {
    if (!a || a->call.open || mono_us < a->look_us)
        return;
    a->look_us = mono_us + ACTS_LOOK_US;
    a->call.until_us = 0;
    if (a->following && !list_empty(&a->out))
        ask_add(a);
    else
        ask_page(a);
}

bool acts_settled(const struct acts *a) {
    return a->following && list_empty(&a->out);
}

/* ---- life ---- */

/* It may be another Redis, or the same without its data. */
static void on_up(struct redis_watcher *w) {
    struct acts *a = container_of(w, struct acts, watcher);
    redis_forget(a->redis, &a->call);
    drop_out(a);
    forget_all(&a->seen);
    forget_all(&a->own);
    a->ops->each(note_own, a, a->user);
    a->following = false;
    snprintf(a->cursor, sizeof a->cursor, "-");
    a->look_us = 0;
}

static void on_down(struct redis_watcher *w) {
    (void)w;
}

struct acts *acts_new(struct redis *r, const struct acts_ops *ops, void *user) {
    struct acts *a = xcalloc(1, sizeof *a);
    a->redis = r;
    a->ops = ops;
    a->user = user;
    a->call.done = on_answer;
    a->watcher = (struct redis_watcher){.on_up = on_up, .on_down = on_down};
    snprintf(a->key, sizeof a->key, "%sstate", r->prefix);
    snprintf(a->cursor, sizeof a->cursor, "-");
    map_init(&a->seen);
    map_init(&a->own);
    list_init(&a->out);
    redis_watch(r, &a->watcher);
    return a;
}

void acts_free(struct acts *a) {
    if (!a)
        return;
    redis_forget(a->redis, &a->call);
    redis_unwatch(a->redis, &a->watcher);
    drop_out(a);
    map_fini(&a->seen);
    map_fini(&a->own);
    free(a);
}
